// SPDX-License-Identifier: Apache-2.0
// The operations that emitted lambdas are written in. Each is overloaded on float, double, the
// integers, bool and the wide forms of these (vector.h), so that one lambda serves scalars and
// vectors. No library call.
//
// How the expression printer spells MLIR ops (a, b, c: values; T: element type of the result):
//
//   arith.constant                  sl::constant(like, v)        element type and lanes of `like`
//                                   sl::constantAs<T>(like, v)   element type T, lanes of `like`
//                                   T(v)                         scalars only
//   arith.addf subf mulf divf negf  a + b, a - b, a * b, a / b, -a
//   arith.addi subi muli            sl::add, sl::subtract, sl::multiply(a, b); they wrap around
//                                   (0 - a: sl::negate(a))
//   arith.divsi floordivsi          sl::trunc_divide(a, b), sl::floor_divide(a, b); 0 when b is 0
//   arith.remsi                     sl::fmod(a, b), sign of a
//   (Python's %, on floats too)     sl::remainder_floor(a, b), sign of b
//   (torch.floor_divide on floats)  sl::floor_divide(a, b)
//   arith.divui remui               the same on sl::unsigned_of(a), sl::unsigned_of(b)
//   arith.maximumf minimumf         sl::maximum(a, b), sl::minimum(a, b); NaN wins
//   arith.maxnumf minnumf           sl::maximum_number(a, b), sl::minimum_number(a, b); NaN loses
//   arith.maxsi minsi               sl::maximum, sl::minimum; maxui, minui on sl::unsigned_of
//   arith.andi ori xori             sl::bitwise_and, sl::bitwise_or, sl::bitwise_xor (bool too)
//   (not)                           sl::bitwise_not(a), sl::logical_not(a)
//   arith.shli shrsi                sl::shift_left, sl::shift_right(a, b); shrui on unsigned_of
//   arith.cmpf cmpi                 sl::lt le gt ge eq ne(a, b); with a NaN only ne holds:
//                                   olt ole ogt oge oeq une
//     ult ule ugt uge               sl::logical_not(sl::ge(a, b)) and so on
//     one, ueq, uno, ord            sl::either(sl::lt(a, b), sl::gt(a, b)); its logical_not;
//                                   sl::either(sl::isnan(a), sl::isnan(b)); its logical_not
//     cmpi ult ...                  the same names on sl::unsigned_of
//   arith.select                    sl::select(c, a, b)
//   arith.sitofp uitofp fptosi fptoui extf truncf extsi extui trunci index_cast
//                                   sl::cast<T>(a); a bool becomes 0 or 1; cast<bool> is a != 0
//     trunci to i1                  sl::cast<bool>(sl::bitwise_and(a, sl::constant(a, 1)))
//     extui, uitofp from i8..i64    sl::cast<T>(sl::unsigned_of(a))
//     extsi from i1                 sl::negate(sl::cast<T>(a))
//   math.absf absi                  sl::abs(a)
//   math.exp exp2 expm1 log log2 log1p sqrt rsqrt sin cos tan tanh erf
//                                   sl::<same name>(a)
//   math.floor ceil trunc           sl::floor(a), sl::ceil(a), sl::trunc(a)
//   math.roundeven                  sl::round_even(a)
//   math.powf ipowi                 sl::pow(a, b), equal types
//   math.atan2 copysign fma         sl::atan2(y, x), sl::copysign(a, b), sl::fma(a, b, c)
//   math.isnan isinf isfinite       sl::isnan(a), sl::isinf(a), sl::isfinite(a)
//   arith.remf                      sl::fmod(a, b)
//   math.clampf                     sl::minimum(high, sl::maximum(low, x))
//
// ui8 is i8 in the IR: an argument of a lambda that is i8 has the type of its buffer, uint8_t or
// int8_t, and is read as sl::signed_of(a); every other number of 8 bits is int8_t. So are integers
// of 16 to 64 bits in a kernel some of whose buffers hold unsigned ones.
//
// An integer divisor that may be zero: checked_trunc_divide, checked_floor_divide,
// checked_remainder_floor and checked_fmod(ctx, a, b) report SL_ZERO_DIVISION; the lambda is then
// printed `[ctx](...)`. Both operands of an operation have equal types and lanes. Storage types
// (sl::bfloat16, sl::half) take part only in load, store, select and cast. Lambdas carry SL_LAMBDA.
#ifndef STRAIGHTLINE_KERNELS_SCALAR_H
#define STRAIGHTLINE_KERNELS_SCALAR_H

#include "straightline/kernels/elementary.h"
#include "straightline/kernels/powers.h"
#include "straightline/kernels/trigonometry.h"
#include "straightline/kernels/vector.h"

namespace sl {

// ---- conversions ----

SL_INLINE float toFloat(bfloat16 x) { return bitcast<float>(uint32_t(x.bits) << 16); }
#if defined(__CUDA_ARCH__)
SL_INLINE float toFloat(half x) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits));
  return r;
}
#else
SL_INLINE float toFloat(half x) { return float(bitcast<_Float16>(x.bits)); }
#endif
/// Round to nearest, ties to even; NaN becomes a quiet NaN (0x7fc0; on a device 0x7fff).
SL_INLINE bfloat16 toBfloat16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t r;  // the form for two is the fast one
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(0.0f), "f"(x));
  return {uint16_t(r)};
#else
  uint32_t u = bitcast<uint32_t>(x);
  uint32_t r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return {uint16_t((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : r)};
#endif
}
#if defined(__CUDA_ARCH__)
SL_INLINE half toHalf(float x) {
  half r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
  return r;
}
#else
SL_INLINE half toHalf(float x) { return {bitcast<uint16_t>(_Float16(x))}; }
#endif

#if !defined(__CUDACC__)
template <int N>
SL_INLINE vec<float, N> toFloat(Packed<bfloat16, N> x) {
  return bitcast<vec<float, N>>(
      vec<uint32_t, N>(__builtin_convertvector(x.bits, vec<uint32_t, N>) << 16u));
}
template <int N>
SL_INLINE vec<float, N> toFloat(Packed<half, N> x) {
#if defined(__clang__)
  return __builtin_convertvector(bitcast<vec<_Float16, N>>(x.bits), vec<float, N>);
#else
  vec<float, N> r;
  for (int i = 0; i < N; ++i) {
    r[i] = toFloat(half{x.bits[i]});
  }
  return r;
#endif
}
/// Of a vector of float.
template <class T, class V>
SL_INLINE auto packFloat(V x) {
  constexpr int N = kLanes<V>;
  Packed<T, N> r;
  if constexpr (kSame<T, bfloat16>) {
    auto u = bitcast<vec<uint32_t, N>>(x);
    vec<uint32_t, N> rounded = (u + 0x7fffu + ((u >> 16u) & 1u)) >> 16u;
    vec<uint32_t, N> nan = rounded - rounded + 0x7fc0u;
    r.bits = __builtin_convertvector(x != x ? nan : rounded, vec<uint16_t, N>);
  } else {
#if defined(__clang__)
    r.bits = bitcast<vec<uint16_t, N>>(__builtin_convertvector(x, vec<_Float16, N>));
#else
    for (int i = 0; i < N; ++i) {
      r.bits[i] = toHalf(x[i]).bits;
    }
#endif
  }
  return r;
}
#endif  // __CUDACC__

template <class T>
inline constexpr bool kPacked16 = kSame<T, bfloat16> || kSame<T, half>;

/// Float to integer as x86 does it, without undefined behaviour: out of range and NaN give the
/// smallest integer of the 32 (or 64) bits that the conversion goes through; narrower types take
/// its low bits.
template <class To, class V>
SL_INLINE Like<To, V> floatToInteger(V x) {
  using F = Element<V>;
  if constexpr (sizeof(To) < 4) {
    return convert<To>(floatToInteger<int32_t>(x));
  } else if constexpr (kSame<To, uint32_t>) {
    return convert<uint32_t>(floatToInteger<int64_t>(x));
  } else if constexpr (kSame<To, uint64_t>) {
    constexpr F kHalf = F(9223372036854775808.0);
    auto large = elementary::mask(x >= kHalf);
    auto low = floatToInteger<int64_t>(select(large, V(x - kHalf), x));
    auto bits = bitcast<Like<uint64_t, V>>(low);
    return select(large, Like<uint64_t, V>(bits + (uint64_t(1) << 63)), bits);
  } else {
    constexpr F kEnd = sizeof(To) == 4 ? F(2147483648.0) : F(9223372036854775808.0);
    constexpr F kBelow = sizeof(To) == 4 && sizeof(F) == 8 ? -kEnd - F(1) : -kEnd;
    auto inside = both(elementary::mask(x > kBelow), elementary::mask(x < kEnd));
    return convert<To>(select(inside, x, splat<V>(-kEnd)));
  }
}

/// `x` as a value with elements To and as many lanes: truncates floats, bool is x != 0, rounds to
/// nearest even.
template <class To, class V>
SL_INLINE Like<To, V> cast(V x) {
  using From = Element<V>;
  if constexpr (kSame<To, From>) {
    return x;
  } else if constexpr (kPacked16<From>) {
    return cast<To>(toFloat(x));
  } else if constexpr (kSame<To, bool>) {
    if constexpr (kLanes<V> == 1) {
      return x != From(0);
    } else {
      return elementary::mask(x != From(0));
    }
  } else if constexpr (kPacked16<To>) {
    if constexpr (kLanes<V> != 1) {
      return packFloat<To>(cast<float>(x));
    } else if constexpr (kSame<To, bfloat16>) {
      return toBfloat16(cast<float>(x));
    } else {
      return toHalf(cast<float>(x));
    }
  } else if constexpr (kSame<From, bool> && kLanes<V> != 1) {
    using I = typename SignedOfSize<sizeof(To)>::type;
    return convert<To>(vec<I, kLanes<V>>(Mask<I, kLanes<V>>(x).bits & I(1)));
  } else if constexpr (kFloating<From> && kInteger<To>) {
    return floatToInteger<To>(x);
  } else {
    return convert<To>(x);
  }
}

/// A constant with the elements and lanes of `like`, whose value is not read.
template <class L, class T>
SL_INLINE L constant(const L&, T value) {
  return splat<L>(cast<Element<L>>(value));
}
/// A constant with elements T and the lanes of `like`.
template <class T, class L, class U>
SL_INLINE Like<T, L> constantAs(const L&, U value) {
  return splat<Like<T, L>>(cast<T>(value));
}

// ---- comparisons: bool for scalars, Mask for vectors ----

#define SL_COMPARISON(name, op)                      \
  template <class V>                                 \
  SL_INLINE auto name(V a, V b) {                    \
    if constexpr (kSame<Element<V>, bool>) {         \
      return name(cast<int8_t>(a), cast<int8_t>(b)); \
    } else {                                         \
      return elementary::mask(a op b);               \
    }                                                \
  }                                                  \
  template <class B, class C, int N>                 \
    requires(!kSame<B, C>)                           \
  SL_INLINE auto name(Mask<B, N> a, Mask<C, N> b) {  \
    return name(cast<int8_t>(a), cast<int8_t>(b));   \
  }
SL_COMPARISON(lt, <)
SL_COMPARISON(le, <=)
SL_COMPARISON(gt, >)
SL_COMPARISON(ge, >=)
SL_COMPARISON(eq, ==)
SL_COMPARISON(ne, !=)
#undef SL_COMPARISON

template <class V>
SL_INLINE auto isnan(V x) {
  return elementary::mask(x != x);
}
template <class V>
SL_INLINE auto isinf(V x) {
  return elementary::mask(elementary::absolute(x) == elementary::Fmt<V>::kInfinity);
}
template <class V>
SL_INLINE auto isfinite(V x) {
  return elementary::mask(elementary::absolute(x) < elementary::Fmt<V>::kInfinity);
}

// ---- bool and bits ----

// `forgotten` as in elementary::copySign: bitwise ops of users can form the combination that LLVM
// gets wrong there.
#define SL_BITWISE(name, op)                              \
  template <class V>                                      \
  SL_INLINE V name(V a, V b) {                            \
    if constexpr (kSame<V, bool>) {                       \
      return bool(int(a) op int(b));                      \
    } else {                                              \
      return forgotten(V(a op b));                        \
    }                                                     \
  }                                                       \
  template <class B, class C, int N>                      \
  SL_INLINE Mask<B, N> name(Mask<B, N> a, Mask<C, N> b) { \
    return a op b;                                        \
  }                                                       \
  template <class B, int N>                               \
  SL_INLINE Mask<B, N> name(Mask<B, N> a, Mask<B, N> b) { \
    return a op b;                                        \
  }
SL_BITWISE(bitwise_and, &)
SL_BITWISE(bitwise_or, |)
SL_BITWISE(bitwise_xor, ^)
#undef SL_BITWISE

template <class V>
SL_INLINE V bitwise_not(V a) {
  if constexpr (kSame<Element<V>, bool>) {
    return !a;
  } else {
    return V(~a);
  }
}
/// Logical operations take any element type: nonzero is true.
template <class V>
SL_INLINE auto logical_not(V a) {
  return !cast<bool>(a);
}
template <class V, class W>
SL_INLINE auto logical_and(V a, W b) {
  return bitwise_and(cast<bool>(a), cast<bool>(b));
}
template <class V, class W>
SL_INLINE auto logical_or(V a, W b) {
  return bitwise_or(cast<bool>(a), cast<bool>(b));
}
template <class V, class W>
SL_INLINE auto logical_xor(V a, W b) {
  return bitwise_xor(cast<bool>(a), cast<bool>(b));
}

template <class V>
SL_INLINE UnsignedLike<V> unsigned_of(V a) {
  return bitcast<UnsignedLike<V>>(a);
}
template <class V>
SL_INLINE IntegerLike<V> signed_of(V a) {
  return bitcast<IntegerLike<V>>(a);
}
/// Counts are taken modulo the width.
template <class V>
SL_INLINE V shift_left(V a, V b) {
  using U = UnsignedLike<V>;
  constexpr int kBits = sizeof(Element<V>) * 8;
  return bitcast<V>(U(bitcast<U>(a) << (bitcast<U>(b) & Element<U>(kBits - 1))));
}
template <class V>
SL_INLINE V shift_right(V a, V b) {
  return V(a >> (b & Element<V>(sizeof(Element<V>) * 8 - 1)));
}

// ---- integer arithmetic: wraps around; narrow types stay narrow ----

/// The type that `op` is computed in, where overflow is defined.
template <class V>
using Wrapping = Conditional<(sizeof(Element<V>) < 4 && kLanes<V> == 1), uint32_t, UnsignedLike<V>>;

#define SL_WRAPPING(name, op)                               \
  template <class V>                                        \
  SL_INLINE V name(V a, V b) {                              \
    if constexpr (kFloating<Element<V>>) {                  \
      return a op b;                                        \
    } else if constexpr (kLanes<V> == 1) {                  \
      using U = typename Wrapping<V>::type;                 \
      return V(U(a) op U(b));                               \
    } else {                                                \
      using U = UnsignedLike<V>;                            \
      return bitcast<V>(U(bitcast<U>(a) op bitcast<U>(b))); \
    }                                                       \
  }
SL_WRAPPING(add, +)
SL_WRAPPING(subtract, -)
SL_WRAPPING(multiply, *)
#undef SL_WRAPPING

template <class V>
SL_INLINE V negate(V a) {
  if constexpr (kFloating<Element<V>>) {
    return -a;
  } else {
    return subtract(V{}, a);
  }
}

template <class V>
SL_INLINE V abs(V x) {
  if constexpr (kFloating<Element<V>>) {
    return elementary::absolute(x);
  } else if constexpr (kUnsignedInteger<Element<V>>) {
    return x;
  } else {
    return select(lt(x, V{}), negate(x), x);
  }
}

// ---- largest and smallest ----

/// As torch: NaN when either is NaN; of two zeros b. One instruction on x86 where a is a constant:
/// it is no NaN then.
template <class V>
SL_INLINE V maximum(V a, V b) {
  if constexpr (kSame<Element<V>, bool>) {
    return bitwise_or(a, b);
  } else if constexpr (kFloating<Element<V>>) {
    V larger = select(elementary::mask(a > b), a, b);  // b where a is NaN
    return select(elementary::mask(a != a), a, larger);
  } else {
    return select(gt(a, b), a, b);
  }
}
template <class V>
SL_INLINE V minimum(V a, V b) {
  if constexpr (kSame<Element<V>, bool>) {
    return bitwise_and(a, b);
  } else if constexpr (kFloating<Element<V>>) {
    V smaller = select(elementary::mask(a < b), a, b);
    return select(elementary::mask(a != a), a, smaller);
  } else {
    return select(lt(a, b), a, b);
  }
}
/// The number when the other is NaN.
template <class V>
SL_INLINE V maximum_number(V a, V b) {
  return select(either(elementary::mask(a > b), elementary::mask(b != b)), a, b);
}
template <class V>
SL_INLINE V minimum_number(V a, V b) {
  return select(either(elementary::mask(a < b), elementary::mask(b != b)), a, b);
}

// ---- elementary functions (float and double) ----

/// f is computed in double for float, too: its float form is rarely worth the code.
template <class V, class F>
SL_INLINE V throughDouble(V x, F f) {
  return convert<Element<V>>(f(convert<double>(x)));
}
template <class V>
SL_INLINE V exp(V x) {
  return elementary::exponential(x);
}
template <class V>
SL_INLINE V exp2(V x) {
  return elementary::exponential2(x);
}
template <class V>
SL_INLINE V expm1(V x) {
  if constexpr (kSame<Element<V>, float>) {
    return elementary::exponentialMinus1Float(x);
  } else {
    return elementary::exponentialMinus1(x);
  }
}
template <class V>
SL_INLINE V log(V x) {
  return elementary::logarithm(x);
}
template <class V>
SL_INLINE V log1p(V x) {
  if constexpr (kSame<Element<V>, float>) {
    return elementary::logarithm1PlusFloat(x);
  } else {
    return elementary::logarithm1Plus(x);
  }
}
template <class V>
SL_INLINE V log2(V x) {
  return throughDouble(x, [](auto d) { return elementary::logarithm2(d); });
}
template <class V>
SL_INLINE V sqrt(V x) {
  return elementary::squareRoot(x);
}
/// x / y, on a device to within two units in the last place.
template <class V>
SL_INLINE V ratio(V x, V y) {
#if defined(__CUDA_ARCH__)
  if constexpr (kSame<V, float>) {
    float quotient;
    asm("div.full.f32 %0, %1, %2;" : "=f"(quotient) : "f"(x), "f"(y));
    return quotient;
  }
#endif
  return x / y;
}
template <class V>
SL_INLINE V rsqrt(V x) {
  return Element<V>(1) / elementary::squareRoot(x);
}
template <class V>
SL_INLINE V sineOrCosine(V x, double turn) {
#if defined(__FMA__)
  if constexpr (kSame<Element<V>, float>) {
    return elementary::sineOrCosineFloat(x, turn);
  }
#endif
  return elementary::sineOrCosine(x, turn);
}
template <class V>
SL_INLINE V sin(V x) {
  return sineOrCosine(x, 0.0);
}
template <class V>
SL_INLINE V cos(V x) {
  return sineOrCosine(x, 1.0);
}
template <class V>
SL_INLINE V tan(V x) {
  return elementary::tangent(x);
}
template <class V>
SL_INLINE V tanh(V x) {
  return elementary::hyperbolicTangent(x);
}
template <class V>
SL_INLINE V erf(V x) {
  if constexpr (kSame<Element<V>, float>) {
    return elementary::errorFunctionFloat(x);
  } else {
    return elementary::lanewise(x, [](double d) { return elementary::errorFunctionDouble(d); });
  }
}
template <class V>
SL_INLINE V atan2(V y, V x) {
  return convert<Element<V>>(elementary::angle(convert<double>(y), convert<double>(x)));
}
template <class V>
SL_INLINE V copysign(V magnitude, V sign) {
  return elementary::copySign(magnitude, sign);
}

template <class V>
SL_INLINE V floor(V x) {
  return elementary::floorOf(x);
}
template <class V>
SL_INLINE V ceil(V x) {
  return elementary::ceilOf(x);
}
template <class V>
SL_INLINE V trunc(V x) {
  return elementary::truncate(x);
}
template <class V>
SL_INLINE V round_even(V x) {
  return elementary::roundEven(x);
}

/// Integers: wraps; a negative exponent gives 0, 1 or -1 (as torch on tensors).
template <class T>
SL_INLINE T powerInteger(T a, T b) {
  if constexpr (kSignedInteger<T>) {
    if (b < 0) {
      return a == 1 ? T(1) : a == -1 ? T((b & 1) != 0 ? -1 : 1) : T(0);
    }
  }
  T r = 1;
  for (uint64_t n = uint64_t(b); n != 0; n >>= 1) {
    r = (n & 1) != 0 ? multiply(r, a) : r;
    a = multiply(a, a);
  }
  return r;
}
template <class V>
SL_INLINE V pow(V a, V b) {
  if constexpr (kSame<Element<V>, float>) {
    return elementary::powerFloat(a, b);
  } else if constexpr (kSame<Element<V>, double>) {
    return elementary::powerDouble(a, b);
  } else {
    return elementary::lanewise(a, b, [](auto x, auto y) { return powerInteger(x, y); });
  }
}

// ---- division ----

/// Integer quotient towards zero and its remainder; a divisor of 0 gives 0 and the overflowing pair
/// wraps.
template <class T>
SL_INLINE T quotient(T a, T b) {
  if constexpr (kSignedInteger<T>) {
    if (b == T(-1)) {
      return negate(a);
    }
  }
  return b == 0 ? T(0) : T(a / b);
}
template <class T>
SL_INLINE T rest(T a, T b) {
  return subtract(a, multiply(quotient(a, b), b));
}

template <class V>
SL_INLINE V trunc_divide(V a, V b) {
  if constexpr (kFloating<Element<V>>) {
    return elementary::truncate(V(a / b));
  } else {
    return elementary::lanewise(a, b, [](auto x, auto y) { return quotient(x, y); });
  }
}
/// Sign of `a`.
template <class V>
SL_INLINE V fmod(V a, V b) {
  if constexpr (kFloating<Element<V>>) {
    return elementary::remainder(a, b);
  } else {
    return elementary::lanewise(a, b, [](auto x, auto y) { return rest(x, y); });
  }
}
/// Sign of `b`, as Python's %.
template <class V>
SL_INLINE V remainder_floor(V a, V b) {
  V r = fmod(a, b);
  auto wrong = both(ne(r, V{}), differ(lt(r, V{}), lt(b, V{})));
  return select(wrong, add(r, b), r);
}
/// As torch.floor_divide: for floats (a - remainder) / b rounded to the nearest integer, which
/// differs from floor(a / b) where the quotient rounds up.
template <class V>
SL_INLINE V floor_divide(V a, V b) {
  using T = Element<V>;
  if constexpr (kFloating<T>) {
    V r = fmod(a, b);
    V q = (a - r) / b;
    q = select(both(ne(r, V{}), differ(lt(r, V{}), lt(b, V{}))), V(q - T(1)), q);
    V whole = elementary::floorOf(q);
    whole = select(elementary::mask(q - whole > T(0.5)), V(whole + T(1)), whole);
    whole = select(eq(q, V{}), elementary::copySign(V{}, V(a / b)), whole);
    return select(eq(b, V{}), V(a / b), whole);
  } else {
    V q = trunc_divide(a, b);
    V r = subtract(a, multiply(q, b));
    return select(both(ne(r, V{}), differ(lt(r, V{}), lt(b, V{}))), subtract(q, splat<V>(T(1))), q);
  }
}

/// Reports a zero among the divisors (SL_ZERO_DIVISION); the result of that lane is 0 or `a` and
/// does not matter.
template <class V>
SL_INLINE void checkDivisor(sl_ctx* ctx, V b) {
  if constexpr (kInteger<Element<V>>) {
    if (SL_UNLIKELY(anyLane(eq(b, V{})))) {
      sl_fail_at(ctx, SL_ZERO_DIVISION, 0, 0, 0);
    }
  }
}
template <class V>
SL_INLINE V checked_trunc_divide(sl_ctx* ctx, V a, V b) {
  checkDivisor(ctx, b);
  return trunc_divide(a, b);
}
template <class V>
SL_INLINE V checked_floor_divide(sl_ctx* ctx, V a, V b) {
  checkDivisor(ctx, b);
  return floor_divide(a, b);
}
template <class V>
SL_INLINE V checked_remainder_floor(sl_ctx* ctx, V a, V b) {
  checkDivisor(ctx, b);
  return remainder_floor(a, b);
}
template <class V>
SL_INLINE V checked_fmod(sl_ctx* ctx, V a, V b) {
  checkDivisor(ctx, b);
  return fmod(a, b);
}

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_SCALAR_H
