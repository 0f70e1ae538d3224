// SPDX-License-Identifier: Apache-2.0
// What the kernel tests share: a team of std::threads, buffers whose every unwritten element is
// checked, random data.
#ifndef STRAIGHTLINE_KERNELS_KERNEL_TESTING_H
#define STRAIGHTLINE_KERNELS_KERNEL_TESTING_H

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "straightline/kernels/team_for_tests.h"
#include "straightline/kernels/vector.h"

namespace sl::testing {

/// One seed per process, printed so that a failure can be repeated (SL_TEST_SEED=...).
inline uint64_t seed() {
  static const uint64_t value = [] {
    const char* given = std::getenv("SL_TEST_SEED");
    const uint64_t s = given != nullptr ? std::stoull(given) : std::random_device{}();
    std::cout << "SL_TEST_SEED=" << s << std::endl;
    return s;
  }();
  return value;
}

inline std::mt19937_64& generator() {
  static std::mt19937_64 engine(seed());
  return engine;
}

inline int64_t pick(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(generator());
}

template <class T>
std::vector<T> randomVector(int64_t count, T low = T(-1), T high = T(1)) {
  std::uniform_real_distribution<T> distribution(low, high);
  std::vector<T> v(static_cast<size_t>(count));
  for (T& x : v) {
    x = distribution(generator());
  }
  return v;
}

template <class M>
double numberOf(M x) {
  return double(x);
}
inline double numberOf(bfloat16 x) {
  return double(__builtin_bit_cast(float, uint32_t(x.bits) << 16));
}

/// Elements of M, which are random numbers of T, of bfloat16 without their last bits.
template <class M, class T>
std::vector<M> randomMatrix(int64_t count) {
  const std::vector<T> numbers = randomVector<T>(count);
  std::vector<M> matrix(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    if constexpr (kSame<M, bfloat16>) {
      matrix[i] = bfloat16{uint16_t(__builtin_bit_cast(uint32_t, numbers[i]) >> 16)};
    } else {
      matrix[i] = numbers[i];
    }
  }
  return matrix;
}

/// Runs f(ctx, team) on every thread of a team of `size`; it must succeed.
template <class F>
void runTeam(int size, const F& f) {
  EXPECT_EQ(::runTeam(size, f), SL_OK);
}

/// An output with `margin` elements on both sides, filled with a signalling pattern. Every element
/// that `expect` was not called for must be untouched.
template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t count, int64_t margin = 96)
      : margin_(margin),
        data_(static_cast<size_t>(count + 2 * margin)),
        seen_(data_.size(), false) {
    std::memset(static_cast<void*>(data_.data()), 0xFB, data_.size() * sizeof(T));
  }
  T* data() { return data_.data() + margin_; }
  T at(int64_t i) const { return data_[static_cast<size_t>(i + margin_)]; }

  /// |element - expected| <= bound; false stops the caller from printing thousands of lines.
  bool expect(int64_t i, double expected, double bound, const std::string& where) {
    const auto index = static_cast<size_t>(i + margin_);
    seen_[index] = true;
    const double got = static_cast<double>(data_[index]);
    const bool good = std::isnan(expected) ? std::isnan(got) : std::abs(got - expected) <= bound;
    EXPECT_TRUE(good) << where << ": element " << i << " is " << got << ", expected " << expected
                      << " +- " << bound;
    return good;
  }
  void expectRestUntouched(const std::string& where) const {
    T pattern;
    std::memset(static_cast<void*>(&pattern), 0xFB, sizeof(T));
    for (size_t i = 0; i < data_.size(); ++i) {
      if (!seen_[i] && std::memcmp(&data_[i], &pattern, sizeof(T)) != 0) {
        ADD_FAILURE() << where << ": element " << static_cast<int64_t>(i) - margin_
                      << " was written outside the logical output";
        return;
      }
    }
  }

 private:
  int64_t margin_;
  std::vector<T> data_;
  std::vector<bool> seen_;
};

/// 64-byte aligned workspace filled with NaN patterns, with a guard behind it.
class Workspace {
 public:
  explicit Workspace(int64_t bytes) : bytes_(bytes), data_(static_cast<size_t>(bytes) + 256) {
    std::memset(data_.data(), 0xFB, data_.size());
  }
  char* data() { return data_.data() + (64 - reinterpret_cast<uintptr_t>(data_.data()) % 64) % 64; }
  void expectIntact(const std::string& where) {
    for (int64_t i = 0; i < 64; ++i) {
      ASSERT_EQ(static_cast<unsigned char>(data()[bytes_ + i]), 0xFB)
          << where << ": workspace overrun at byte " << bytes_ + i << " of " << bytes_;
    }
  }

 private:
  int64_t bytes_;
  std::vector<char> data_;
};

template <class T>
inline constexpr double kEpsilon = std::numeric_limits<T>::epsilon();

}  // namespace sl::testing

#endif  // STRAIGHTLINE_KERNELS_KERNEL_TESTING_H
