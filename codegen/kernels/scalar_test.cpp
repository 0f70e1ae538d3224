// SPDX-License-Identifier: Apache-2.0
// Elementary functions against libm: float against double, double against 80-bit long double.
// Bounds are in ulps of the exact result (0.5 is the best possible).
#include "straightline/kernels/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace {

constexpr double kBound = 2.0;

template <class T>
using Wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;

/// |got - exact| in units of the last place of T at `exact`; 0 when both are NaN or the same
/// infinity.
template <class T>
double ulps(T got, Wider<T> exact) {
  if (std::isnan(exact)) {
    return std::isnan(got) ? 0.0 : 1e30;
  }
  if (T(exact) == got) {
    return 0.0;
  }
  // An exact value just below the overflow threshold may round to infinity or the largest finite.
  if (!std::isfinite(got)) {
    return std::fabs(exact) >
                       std::numeric_limits<T>::max() * (1 - std::numeric_limits<T>::epsilon()) &&
                   std::signbit(got) == std::signbit(exact) && !std::isnan(got)
               ? 1.0
               : 1e30;
  }
  if (std::isinf(exact)) {
    return 1e30;
  }
  int exponent = 0;
  std::frexp(exact, &exponent);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
  Wider<T> ulp = std::ldexp(Wider<T>(1), exponent - std::numeric_limits<T>::digits);
  return double(std::fabs(Wider<T>(got) - exact) / ulp);
}

template <class T>
struct Unary {
  const char* name;
  std::function<void(const T*, T*)> run;  ///< 8 values, as a vector
  T (*scalar)(T);
  Wider<T> (*exact)(Wider<T>);
};

template <class T>
std::vector<Unary<T>> unaryFunctions() {
  using W = Wider<T>;
#define SL_UNARY(name, reference)                                            \
  Unary<T> {                                                                 \
    #name, [](const T* x, T* y) { sl::store(y, sl::name(sl::load<8>(x))); }, \
        [](T x) { return sl::name(x); }, [](W x) -> W { return reference; }  \
  }
  return {SL_UNARY(exp, std::exp(x)),         SL_UNARY(exp2, std::exp2(x)),
          SL_UNARY(expm1, std::expm1(x)),     SL_UNARY(log, std::log(x)),
          SL_UNARY(log1p, std::log1p(x)),     SL_UNARY(log2, std::log2(x)),
          SL_UNARY(sqrt, std::sqrt(x)),       SL_UNARY(rsqrt, W(1) / std::sqrt(x)),
          SL_UNARY(sin, std::sin(x)),         SL_UNARY(cos, std::cos(x)),
          SL_UNARY(tan, std::tan(x)),         SL_UNARY(tanh, std::tanh(x)),
          SL_UNARY(erf, std::erf(x)),         SL_UNARY(floor, std::floor(x)),
          SL_UNARY(ceil, std::ceil(x)),       SL_UNARY(trunc, std::trunc(x)),
          SL_UNARY(round_even, std::rint(x)), SL_UNARY(abs, std::fabs(x))};
#undef SL_UNARY
}

template <class T>
void checkUnary(const std::vector<T>& inputs) {
  for (const Unary<T>& f : unaryFunctions<T>()) {
    double worst = 0.0;
    T worstAt = 0;
    for (size_t i = 0; i + 8 <= inputs.size(); i += 8) {
      T y[8];
      f.run(&inputs[i], y);
      for (int j = 0; j < 8; ++j) {
        T x = inputs[i + j];
        Wider<T> exact = f.exact(x);
        double error = std::max(ulps(y[j], exact), ulps(f.scalar(x), exact));
        if (exact == 0 && !std::isnan(y[j])) {
          EXPECT_EQ(std::signbit(exact), std::signbit(y[j])) << f.name << "(" << x << ")";
        }
        if (error > worst) {
          worst = error;
          worstAt = x;
        }
      }
    }
    EXPECT_LE(worst, kBound) << f.name << "(" << std::hexfloat << worstAt << ")";
    ::testing::Test::RecordProperty(f.name, std::to_string(worst));
    printf("%s %s: %.3f ulp at %a\n", sizeof(T) == 4 ? "float" : "double", f.name, worst,
           double(worstAt));
  }
}

std::mt19937_64 freshGenerator() {
  uint64_t seed = std::random_device{}();
  printf("seed %lu\n", seed);
  return std::mt19937_64(seed);
}

template <class T>
std::vector<T> specialValues() {
  using L = std::numeric_limits<T>;
  std::vector<T> v = {0,
                      T(-0.0),
                      1,
                      -1,
                      T(0.5),
                      T(-0.5),
                      T(1.5),
                      T(2.5),
                      2,
                      -2,
                      3,
                      4,
                      8,
                      T(0.1),
                      T(1e-3),
                      L::infinity(),
                      -L::infinity(),
                      L::quiet_NaN(),
                      L::max(),
                      L::lowest(),
                      L::min(),
                      L::denorm_min(),
                      -L::denorm_min(),
                      L::min() / 2,
                      L::epsilon(),
                      T(89),
                      T(-104),
                      T(709.9),
                      T(-745.2),
                      T(1e6),
                      T(3.14159265358979),
                      T(1e22)};
  while (v.size() % 8 != 0) {
    v.push_back(T(0.75));
  }
  return v;
}

TEST(Scalar, FloatSweep) {
  std::vector<float> inputs;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 4099) {
    inputs.push_back(std::bit_cast<float>(uint32_t(bits)));
  }
  checkUnary(inputs);
}
TEST(Scalar, FloatNearOne) {
  std::mt19937_64 random = freshGenerator();
  std::vector<float> inputs(1 << 18);
  std::uniform_real_distribution<float> range(-12, 12);
  for (float& x : inputs) {
    x = range(random);
  }
  checkUnary(inputs);
}
TEST(Scalar, DoubleSweep) {
  std::mt19937_64 random = freshGenerator();
  std::vector<double> inputs(1 << 18);
  std::uniform_real_distribution<double> range(-20, 20);
  std::uniform_real_distribution<double> wide(-800, 800);
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = i % 3 == 0   ? std::bit_cast<double>(random())
                : i % 3 == 1 ? range(random)
                             : wide(random);
  }
  checkUnary(inputs);
}
TEST(Scalar, Special) {
  checkUnary(specialValues<float>());
  checkUnary(specialValues<double>());
}
/// Doubles and floats that lie closest to a multiple of pi/2.
TEST(Scalar, HardRangeReduction) {
  checkUnary<double>({6381956970095103.0 * std::ldexp(1.0, 797), 5.31937264832654e255,
                      1048575.9999999999, 1048577.0, 355.0, 103993.0, 52174.0, 1e300});
  checkUnary<float>({16367173.0f * std::ldexp(1.0f, 72), 1.6367173e29f, 3.4e38f, 1e10f, 355.0f,
                     103993.0f, 1048577.0f, 11.0f});
}

template <class T>
void checkBinary(const char* name, T (*scalar)(T, T), void (*vector)(const T*, const T*, T*),
                 Wider<T> (*exact)(Wider<T>, Wider<T>), double bound) {
  std::mt19937_64 random = freshGenerator();
  std::vector<T> a = specialValues<T>();
  std::vector<T> x;
  std::vector<T> y;
  for (T u : a) {
    for (T v : a) {
      x.push_back(u);
      y.push_back(v);
    }
  }
  std::uniform_real_distribution<T> range(-30, 30);
  for (int i = 0; i < 1 << 20; ++i) {
    x.push_back(i % 2 == 0
                    ? range(random)
                    : std::bit_cast<T>(typename sl::UnsignedOfSize<sizeof(T)>::type(random())));
    y.push_back(i % 4 < 2    ? range(random)
                : i % 4 == 2 ? std::nearbyint(range(random))
                             : x[x.size() - 2]);
  }
  double worst = 0.0;
  for (size_t i = 0; i + 8 <= x.size(); i += 8) {
    T r[8];
    vector(&x[i], &y[i], r);
    for (int j = 0; j < 8; ++j) {
      Wider<T> e = exact(x[i + j], y[i + j]);
      double error = std::max(ulps(r[j], e), ulps(scalar(x[i + j], y[i + j]), e));
      EXPECT_LE(error, bound) << name << "(" << std::hexfloat << x[i + j] << ", " << y[i + j]
                              << ") = " << r[j] << " for " << e;
      worst = std::max(worst, error);
    }
  }
  printf("%s %s: %.3f ulp\n", sizeof(T) == 4 ? "float" : "double", name, worst);
}

/// Dividends at, just below and just above multiples of the divisor, where a rounded quotient is
/// one too large.
template <class T>
void checkRemaindersNearMultiples() {
  std::mt19937_64 random = freshGenerator();
  std::uniform_real_distribution<T> range(0.001, 30);
  for (int i = 0; i < 1 << 17; ++i) {
    T x[8];
    T y[8];
    T r[8];
    for (int j = 0; j < 8; ++j) {
      y[j] = random() % 2 == 0 ? range(random) : -range(random);
      const T multiple = T(int64_t(random() >> (42 + random() % 22))) * y[j];
      x[j] = j % 3 == 0 ? multiple : std::nextafter(multiple, T(j % 3 == 1 ? 1e30 : -1e30));
    }
    sl::store(r, sl::fmod(sl::load<8>(x), sl::load<8>(y)));
    for (int j = 0; j < 8; ++j) {
      EXPECT_EQ(r[j], std::fmod(x[j], y[j])) << std::hexfloat << x[j] << " " << y[j];
      EXPECT_EQ(std::signbit(r[j]), std::signbit(x[j])) << std::hexfloat << x[j] << " " << y[j];
      EXPECT_EQ(sl::fmod(x[j], y[j]), r[j]);
    }
  }
}
TEST(Scalar, RemaindersNearMultiples) {
  checkRemaindersNearMultiples<float>();
  checkRemaindersNearMultiples<double>();
}

template <class T>
void checkBinaryFunctions() {
  using W = Wider<T>;
#define SL_BINARY(name, bound, reference)                       \
  checkBinary<T>(                                               \
      #name, [](T x, T y) { return sl::name(x, y); },           \
      [](const T* x, const T* y, T* r) {                        \
        sl::store(r, sl::name(sl::load<8>(x), sl::load<8>(y))); \
      },                                                        \
      [](W x, W y) -> W { return reference; }, bound)
  SL_BINARY(pow, kBound, std::pow(x, y));
  SL_BINARY(atan2, kBound, std::atan2(x, y));
  SL_BINARY(fmod, 0.0, std::fmod(x, y));
  SL_BINARY(copysign, 0.0, std::copysign(x, y));
  SL_BINARY(maximum, 0.0, std::isnan(x) || std::isnan(y) ? W(NAN) : std::fmax(x, y));
  SL_BINARY(minimum, 0.0, std::isnan(x) || std::isnan(y) ? W(NAN) : std::fmin(x, y));
  SL_BINARY(remainder_floor, kBound, [](T a, T b) -> W {
    T r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }(T(x), T(y)));
  // torch's definition (c10::div_floor_floating).
  SL_BINARY(floor_divide, 0.0, [](T a, T b) -> W {
    if (b == 0) {
      return a / b;
    }
    T mod = std::fmod(a, b);
    T div = (a - mod) / b;
    if (mod != 0 && (b < 0) != (mod < 0)) {
      div -= T(1);
    }
    if (div == 0) {
      return std::copysign(T(0), a / b);
    }
    T whole = std::floor(div);
    return div - whole > T(0.5) ? whole + T(1) : whole;
  }(T(x), T(y)));
#undef SL_BINARY
}
TEST(Scalar, BinaryFloat) { checkBinaryFunctions<float>(); }
TEST(Scalar, BinaryDouble) { checkBinaryFunctions<double>(); }

template <class T>
void checkIntegers() {
  std::mt19937_64 random = freshGenerator();
  using L = std::numeric_limits<T>;
  std::vector<T> values = {0, 1, 2, 3, 7, L::max(), L::min(), T(-1), T(-2), T(-7)};
  for (int i = 0; i < 30; ++i) {
    values.push_back(T(random() >> (random() % 64)));
  }
  for (T a : values) {
    for (T b : values) {
      __int128 wideA = a;
      __int128 wideB = b;
      EXPECT_EQ(sl::add(a, b), T(wideA + wideB));
      EXPECT_EQ(sl::subtract(a, b), T(wideA - wideB));
      EXPECT_EQ(sl::multiply(a, b), T(uint64_t(a) * uint64_t(b)));
      sl_ctx ctx{};
      T floored = sl::checked_floor_divide(&ctx, a, b);
      T modulo = sl::checked_remainder_floor(&ctx, a, b);
      if (b == 0) {
        EXPECT_EQ(ctx.status, SL_ZERO_DIVISION);
        continue;
      }
      EXPECT_EQ(ctx.status, SL_OK);
      __int128 q = wideA / wideB;
      __int128 r = wideA % wideB;
      EXPECT_EQ(sl::trunc_divide(a, b), T(q));
      EXPECT_EQ(sl::fmod(a, b), T(r));
      if (r != 0 && (r < 0) != (wideB < 0)) {
        --q;
        r += wideB;
      }
      EXPECT_EQ(floored, T(q)) << int64_t(a) << " " << int64_t(b);
      EXPECT_EQ(modulo, T(r)) << int64_t(a) << " " << int64_t(b);
      T va[8] = {a, a, b, b, a, b, a, b};
      T vb[8] = {b, b, a, b, b, b, b, b};
      T vq[8];
      if (a != 0) {
        sl::store(vq, sl::checked_floor_divide(&ctx, sl::load<8>(va), sl::load<8>(vb)));
        EXPECT_EQ(ctx.status, SL_OK);
        EXPECT_EQ(vq[0], T(q));
        EXPECT_EQ(vq[5], T(1));
      }
      sl::store(vq, sl::maximum(sl::load<8>(va), sl::load<8>(vb)));
      EXPECT_EQ(vq[1], std::max(a, b));
      EXPECT_EQ(sl::minimum(a, b), std::min(a, b));
    }
    EXPECT_EQ(sl::abs(a), a < 0 ? T(-uint64_t(a)) : a);
  }
  EXPECT_EQ(sl::pow(T(3), T(4)), T(81));
}
TEST(Scalar, Integers) {
  checkIntegers<int8_t>();
  checkIntegers<int16_t>();
  checkIntegers<int32_t>();
  checkIntegers<int64_t>();
  checkIntegers<uint8_t>();
  EXPECT_EQ(sl::pow(int32_t(-1), int32_t(-3)), -1);
  EXPECT_EQ(sl::pow(int32_t(2), int32_t(-1)), 0);
  EXPECT_EQ(sl::shift_right(int8_t(-8), int8_t(1)), -4);
  EXPECT_EQ(sl::shift_right(sl::unsigned_of(int8_t(-8)), uint8_t(1)), 124);
}

TEST(Scalar, Storage) {
  // Every bfloat16 and half survives the way to float and back; ties go to even.
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    sl::bfloat16 b{uint16_t(bits)};
    float f = sl::cast<float>(b);
    uint16_t back = sl::cast<sl::bfloat16>(f).bits;
    EXPECT_EQ(back, std::isnan(f) ? 0x7fc0 : bits);
    float h = sl::cast<float>(sl::half{uint16_t(bits)});
    if (!std::isnan(h)) {
      EXPECT_EQ(sl::cast<sl::half>(h).bits, bits);
    }
  }
  EXPECT_EQ(sl::cast<sl::bfloat16>(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);
  EXPECT_EQ(sl::cast<sl::bfloat16>(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);
  EXPECT_EQ(sl::cast<sl::bfloat16>(std::bit_cast<float>(0x3f808001u)).bits, 0x3f81);
  std::mt19937_64 random = freshGenerator();
  for (int i = 0; i < 10000; ++i) {
    float x[8];
    for (float& v : x) {
      v = std::bit_cast<float>(uint32_t(random()));
    }
    sl::bfloat16 b[8];
    sl::half h[8];
    float back[8];
    sl::store(b, sl::cast<sl::bfloat16>(sl::load<8>(x)));
    sl::store(h, sl::cast<sl::half>(sl::load<8>(x)));
    sl::store(back, sl::cast<float>(sl::load<8>(b)));
    for (int j = 0; j < 8; ++j) {
      EXPECT_EQ(b[j].bits, sl::cast<sl::bfloat16>(x[j]).bits);
      EXPECT_EQ(h[j].bits, sl::cast<sl::half>(x[j]).bits);
      EXPECT_EQ(std::bit_cast<uint32_t>(back[j]), uint32_t(b[j].bits) << 16);
    }
  }
}

TEST(Scalar, CastsAndMasks) {
  float x[8] = {1.9f, -1.9f, 0.0f, -0.0f, NAN, 3e9f, -3e9f, 300.0f};
  int32_t i[8];
  uint8_t u[8];
  bool b[8];
  int64_t l[8];
  sl::store(i, sl::cast<int32_t>(sl::load<8>(x)));
  sl::store(u, sl::cast<uint8_t>(sl::load<8>(x)));
  sl::store(b, sl::cast<bool>(sl::load<8>(x)));
  sl::store(l, sl::cast<int64_t>(sl::load<8>(x)));
  const int32_t wantI[8] = {1, -1, 0, 0, INT32_MIN, INT32_MIN, INT32_MIN, 300};
  const uint8_t wantU[8] = {1, 255, 0, 0, 0, 0, 0, 44};
  const bool wantB[8] = {true, true, false, false, true, true, true, true};
  const int64_t wantL[8] = {1, -1, 0, 0, INT64_MIN, 3000000000, -3000000000, 300};
  for (int j = 0; j < 8; ++j) {
    EXPECT_EQ(i[j], wantI[j]);
    EXPECT_EQ(u[j], wantU[j]);
    EXPECT_EQ(b[j], wantB[j]);
    EXPECT_EQ(l[j], wantL[j]);
    EXPECT_EQ(sl::cast<int32_t>(x[j]), wantI[j]);
    EXPECT_EQ(sl::cast<uint8_t>(x[j]), wantU[j]);
    EXPECT_EQ(sl::cast<bool>(x[j]), wantB[j]);
    EXPECT_EQ(sl::cast<int64_t>(x[j]), wantL[j]);
  }
  EXPECT_EQ(sl::cast<int32_t>(2147483647.9), 2147483647);
  EXPECT_EQ(sl::cast<int32_t>(-2147483648.9), INT32_MIN);
  // A mask of floats selects doubles and bytes, and becomes a number.
  auto v = sl::load<8>(x);
  auto m = sl::logical_and(sl::gt(v, sl::constant(v, 0)), sl::logical_not(sl::isnan(v)));
  double d[8];
  sl::store(d, sl::select(m, sl::constantAs<double>(v, 2.0), sl::constantAs<double>(v, -0.0)));
  uint8_t n[8];
  sl::store(n, sl::cast<uint8_t>(m));
  for (int j = 0; j < 8; ++j) {
    EXPECT_EQ(d[j], x[j] > 0 ? 2.0 : 0.0);
    EXPECT_EQ(std::signbit(d[j]), !(x[j] > 0));
    EXPECT_EQ(n[j], x[j] > 0 ? 1 : 0);
  }
  // Masks of elements of different widths are compared and selected as bools.
  const auto bytes = sl::load<8>(b);
  bool same[8];
  bool chosen[8];
  sl::store(same, sl::eq(m, bytes));
  sl::store(chosen, sl::select(bytes, m, sl::logical_not(bytes)));
  for (int j = 0; j < 8; ++j) {
    EXPECT_EQ(same[j], (x[j] > 0) == b[j]);
    EXPECT_EQ(chosen[j], b[j] ? x[j] > 0 : !b[j]);
  }
  EXPECT_TRUE(sl::ne(NAN, NAN));
  EXPECT_FALSE(sl::eq(NAN, NAN));
  EXPECT_FALSE(sl::le(NAN, 1.0f));
}

}  // namespace
