// SPDX-License-Identifier: Apache-2.0
// Every one-argument function of scalar.h over the float32 inputs, against double: the bounds that
// elementary.h states.
//
// By default every 61st bit pattern from a random one on, and all of them near points where
// something changes. STRAIGHTLINE_EVERY_FLOAT=1 (`make every-float`) takes all 2^32 of them;
// minutes a processor.
#include <gtest/gtest.h>
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "straightline/kernels/scalar.h"

// Of glibc's libmvec: four doubles, within 4 ulp of double. What they say is only used where it is
// far from a bound, and never about zeros, infinities and NaN.
#if defined(__AVX2__) && defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
#define SL_MVEC 1
extern "C" {
__m256d _ZGVdN4v_exp(__m256d);
__m256d _ZGVdN4v_exp2(__m256d);
__m256d _ZGVdN4v_expm1(__m256d);
__m256d _ZGVdN4v_log(__m256d);
__m256d _ZGVdN4v_log1p(__m256d);
__m256d _ZGVdN4v_log2(__m256d);
__m256d _ZGVdN4v_sin(__m256d);
__m256d _ZGVdN4v_cos(__m256d);
__m256d _ZGVdN4v_tan(__m256d);
__m256d _ZGVdN4v_tanh(__m256d);
__m256d _ZGVdN4v_erf(__m256d);
}
#define SL_FAST(name) _ZGVdN4v_##name
#else
using Four = double __attribute__((vector_size(32)));
#define SL_FAST(name) nullptr
#endif

namespace {

constexpr int kBlock = 4096;

struct Function {
  const char* name;
  double bound;                            ///< ulps of the exact result, which elementary.h states
  void (*ours)(const float* x, float* y);  ///< kBlock values, as vectors
  float (*scalar)(float);
  double (*exact)(double);
#ifdef SL_MVEC
  __m256d (*fast)(__m256d);  ///< nullable
#else
  void* fast;
#endif
};

template <class F>
void inVectors(const float* x, float* y, F f) {
  for (int i = 0; i < kBlock; i += 16) {
    sl::store(y + i, f(sl::load<16>(x + i)));
  }
}

#define SL_FUNCTION(name, bound, reference, fast)                                               \
  Function {                                                                                    \
    #name, bound,                                                                               \
        [](const float* x, float* y) { inVectors(x, y, [](auto v) { return sl::name(v); }); },  \
        [](float x) { return sl::name(x); }, [](double x) -> double { return reference; }, fast \
  }

// The bounds are what all 2^32 inputs gave, rounded up; elementary.h has the list.
const Function kFunctions[] = {
    SL_FUNCTION(exp, 1.1, std::exp(x), SL_FAST(exp)),
    SL_FUNCTION(exp2, 1.1, std::exp2(x), SL_FAST(exp2)),
    SL_FUNCTION(expm1, 1.8, std::expm1(x), SL_FAST(expm1)),
    SL_FUNCTION(log, 1.0, std::log(x), SL_FAST(log)),
    SL_FUNCTION(log1p, 1.8, std::log1p(x), SL_FAST(log1p)),
    SL_FUNCTION(log2, 0.51, std::log2(x), SL_FAST(log2)),
    SL_FUNCTION(sin, 1.0, std::sin(x), SL_FAST(sin)),
    SL_FUNCTION(cos, 1.0, std::cos(x), SL_FAST(cos)),
    SL_FUNCTION(tan, 0.51, std::tan(x), SL_FAST(tan)),
    SL_FUNCTION(tanh, 1.4, std::tanh(x), SL_FAST(tanh)),
    SL_FUNCTION(erf, 1.4, std::erf(x), SL_FAST(erf)),
    SL_FUNCTION(sqrt, 0.5, std::sqrt(x), nullptr),
    SL_FUNCTION(rsqrt, 1.5, 1.0 / std::sqrt(x), nullptr),
    SL_FUNCTION(floor, 0.0, std::floor(x), nullptr),
    SL_FUNCTION(ceil, 0.0, std::ceil(x), nullptr),
    SL_FUNCTION(trunc, 0.0, std::trunc(x), nullptr),
    SL_FUNCTION(round_even, 0.0, std::rint(x), nullptr),
    SL_FUNCTION(abs, 0.0, std::fabs(x), nullptr),
    SL_FUNCTION(negate, 0.0, -x, nullptr),
};

/// 2^-k for the unit in the last place 2^k of a float result `exact`, denormals included.
double perUlp(double exact) {
  const auto exponent = int64_t((std::bit_cast<uint64_t>(exact) >> 52) & 2047) - 1023;
  return std::bit_cast<double>(uint64_t(1023 + 23 - std::max<int64_t>(exponent, -126)) << 52);
}

/// |got - exact| in ulps; anything for what is wrong at zero, infinity or NaN is huge.
double ulps(float got, double exact) {
  if (std::isnan(exact) || std::isnan(got)) {
    return std::isnan(exact) && std::isnan(got) ? 0.0 : 1e30;
  }
  if (got == 0 && std::signbit(got) != std::signbit(exact)) {
    return 1e30;
  }
  const float rounded = float(exact);
  if (std::isinf(got) || std::isinf(exact)) {
    const bool nearby = std::fabs(exact) > std::numeric_limits<float>::max() * (1 - 0x1p-23);
    return rounded == got                                                             ? 0.0
           : nearby && !std::isinf(exact) && std::signbit(got) == std::signbit(exact) ? 1.0
                                                                                      : 1e30;
  }
  return std::fabs(double(got) - exact) * perUlp(exact);
}

struct Worst {
  double ulps = 0;
  float at = 0;
};

/// Inputs that no worker has taken yet: `step` apart, in blocks.
struct Range {
  uint64_t first, end, step;
  std::atomic<uint64_t> next{0};
};

void checkBlock(const Function& f, const float* x, bool scalarToo, Worst* worst) {
  alignas(64) float y[kBlock];
  alignas(64) double exact[kBlock];
  f.ours(x, y);
#ifdef SL_MVEC
  if (f.fast) {
    for (int i = 0; i < kBlock; i += 4) {
      _mm256_store_pd(exact + i, f.fast(_mm256_cvtps_pd(_mm_load_ps(x + i))));
    }
  } else
#endif
  {
    for (int i = 0; i < kBlock; ++i) {
      exact[i] = f.exact(x[i]);
    }
  }
  for (int i = 0; i < kBlock; ++i) {
    const bool bothNan = y[i] != y[i] && exact[i] != exact[i];
    // False for NaN, and what the fast reference is not trusted with.
    const bool fine =
        std::fabs(double(y[i]) - exact[i]) * perUlp(exact[i]) <= worst->ulps && y[i] != 0;
    if (!fine && !bothNan) {
      const double error = ulps(y[i], f.exact(x[i]));
      if (error > worst->ulps) {
        *worst = {error, x[i]};
      }
    }
  }
  for (int i = 0; scalarToo && i < kBlock; ++i) {
    const float one = f.scalar(x[i]);
    if (std::bit_cast<uint32_t>(one) != std::bit_cast<uint32_t>(y[i]) &&
        !(one != one && y[i] != y[i])) {
      *worst = {2e30, x[i]};  // a scalar and a vector disagree
    }
  }
}

Worst checkRange(const Function& f, Range* range) {
  Worst whole;
  std::mutex mutex;
  const auto work = [&] {
    Worst worst;
    alignas(64) float x[kBlock];
    const uint64_t bytes = kBlock * range->step;
    for (uint64_t at = range->next.fetch_add(bytes); range->first + at < range->end;
         at = range->next.fetch_add(bytes)) {
      for (uint64_t i = 0; i < kBlock; ++i) {
        x[i] = std::bit_cast<float>(
            uint32_t(std::min(range->first + at + i * range->step, range->end - 1)));
      }
      checkBlock(f, x, at / bytes % 64 == 0, &worst);
    }
    const std::lock_guard<std::mutex> lock(mutex);
    whole = worst.ulps > whole.ulps ? worst : whole;
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) {
    thread.join();
  }
  return whole;
}

/// Where some function changes: special values, borders between the pieces of our approximations,
/// multiples of pi/2, powers of two.
std::vector<float> turningPoints() {
  std::vector<float> points = {0.0f,
                               0x1p-149f,
                               0x1p-126f,
                               0x1p-54f,
                               0x1p-24f,
                               0x1p-12f,
                               0.34657359f,
                               0.5f,
                               0.625f,
                               0.6666667f,
                               0.70710678f,
                               0.925f,
                               0.92f,
                               1.0f,
                               1.3333334f,
                               1.4142135f,
                               1.5f,
                               2.5f,
                               4.0f,
                               9.0f,
                               10.0f,
                               22.0f,
                               40.0f,
                               87.33654f,
                               88.0f,
                               88.722839f,
                               89.0f,
                               103.278929f,
                               103.97208f,
                               104.0f,
                               126.0f,
                               127.0f,
                               128.0f,
                               149.0f,
                               150.0f,
                               151.0f,
                               0x1p20f,
                               0x1p22f,
                               0x1p23f,
                               0x1p24f,
                               0x1p31f,
                               0x1p63f,
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
  for (int i = 1; i <= 64; ++i) {
    points.push_back(float(i * 1.57079632679489661923));
    points.push_back(float((i - 0.5) * 0.69314718055994530942));
  }
  for (int i = -148; i < 128; ++i) {
    points.push_back(std::ldexp(1.0f, i));
  }
  const size_t positive = points.size();
  for (size_t i = 0; i < positive; ++i) {
    points.push_back(-points[i]);
  }
  return points;
}

class EveryFloat : public ::testing::TestWithParam<Function> {};

TEST_P(EveryFloat, IsWithinItsBound) {
  const Function& f = GetParam();
  const char* all = std::getenv("STRAIGHTLINE_EVERY_FLOAT");
  const bool every = all != nullptr && std::string(all) == "1";
  const uint64_t first = every ? 0 : std::random_device{}() % 61;
  Range wide{first, uint64_t(1) << 32, every ? uint64_t(1) : 61};
  Worst worst = checkRange(f, &wide);
  for (float point : turningPoints()) {
    const auto bits = uint64_t(std::bit_cast<uint32_t>(point));
    Range near{bits < 2048 ? 0 : bits - 2048, std::min(bits + 2048, uint64_t(1) << 32), 1};
    const Worst here = every ? Worst{} : checkRange(f, &near);
    worst = here.ulps > worst.ulps ? here : worst;
  }
  printf("%s: %.4f ulp at %a (%s)\n", f.name, worst.ulps, double(worst.at),
         every ? "all inputs" : ("every 61st from " + std::to_string(first)).c_str());
  EXPECT_LE(worst.ulps, f.bound) << f.name << " at " << std::hexfloat << worst.at << ": ours "
                                 << f.scalar(worst.at) << ", exact " << f.exact(worst.at);
}

INSTANTIATE_TEST_SUITE_P(Functions, EveryFloat, ::testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
