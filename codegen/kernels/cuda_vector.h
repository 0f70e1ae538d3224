// SPDX-License-Identifier: Apache-2.0
// Foundation of the kernel templates in CUDA C++, as vector.h is on a CPU. A thread works on
// scalars, so a value is always a scalar T and sl::Wide<T, 1> is T; Mask and Packed are declared
// for overloads that mention them and have no objects. Read by NVRTC with --std=c++20 and
// --device-as-default-execution-space.
#ifndef STRAIGHTLINE_KERNELS_CUDA_VECTOR_H
#define STRAIGHTLINE_KERNELS_CUDA_VECTOR_H

#include "straightline/abi/entry.h"
#include "straightline/abi/kernel.h"

#define SL_INLINE static __device__ __forceinline__
#define SL_INLINE_MEMBER __device__ __forceinline__
/// Nothing: a lambda inside a device function is a device function.
#define SL_LAMBDA
#define SL_NOINLINE static __device__ __noinline__
#define SL_RESTRICT __restrict__
#define SL_LIKELY(x) __builtin_expect(!!(x), 1)
#define SL_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define SL_UNROLL _Pragma("unroll")
#define SL_NO_UNROLL _Pragma("unroll 1")
/// Emitted text spells infinities and NaNs as GCC and clang do.
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000)
/// An emitted kernel with at most `threads` threads a block.
#define SL_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
/// The same with so few registers that `blocks` blocks fit on one multiprocessor.
#define SL_RESIDENT_KERNEL(threads, blocks) \
  extern "C" __global__ void __launch_bounds__(threads, blocks)
/// The same for clusters of `blocks` neighbouring blocks (sm_90 and later).
#define SL_CLUSTER_KERNEL(threads, blocks) \
  extern "C" __global__ void __cluster_dims__(blocks) __launch_bounds__(threads)

#include "straightline/kernels/cuda_previous.h"

namespace sl {

/// Ends the kernel as a failed assertion does if `holds` is false: calls of the driver then return
/// an error, which the runtime reports as SL_DEVICE_ERROR.
SL_INLINE void failUnless(bool holds, const char* what) {
  if (SL_UNLIKELY(!holds)) {
    __assertfail(what, __FILE__, __LINE__, "straightline", 1);
  }
}

// ---- types ----

struct bfloat16 {
  uint16_t bits;
};
struct half {
  uint16_t bits;
};

template <bool B, class X, class Y>
struct Conditional {
  using type = X;
};
template <class X, class Y>
struct Conditional<false, X, Y> {
  using type = Y;
};

template <class T>
struct RemoveReference {
  using type = T;
};
template <class T>
struct RemoveReference<T&> {
  using type = T;
};
template <class T>
struct RemoveReference<T&&> {
  using type = T;
};

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;

/// The signed and the unsigned integer of `Bytes` bytes.
template <int Bytes>
struct SignedOfSize;
template <int Bytes>
struct UnsignedOfSize;
#define SL_INTEGER_OF_SIZE(bytes, name) \
  template <>                           \
  struct SignedOfSize<bytes> {          \
    using type = name;                  \
  };                                    \
  template <>                           \
  struct UnsignedOfSize<bytes> {        \
    using type = u##name;               \
  };
SL_INTEGER_OF_SIZE(1, int8_t)
SL_INTEGER_OF_SIZE(2, int16_t)
SL_INTEGER_OF_SIZE(4, int32_t)
SL_INTEGER_OF_SIZE(8, int64_t)
#undef SL_INTEGER_OF_SIZE

template <class B, int N>
struct Mask;
template <class T, int N>
struct Packed;
template <class T, int N>
struct VecType;
template <class T, int N>
using vec = typename VecType<T, N>::type;

/// No type is a vector.
template <class T>
concept Vector = false;

template <class V>
using Element = V;
template <class V>
inline constexpr int kLanes = 1;

template <class T, int N>
struct WideType;
template <class T>
struct WideType<T, 1> {
  using type = T;
};
template <class T, int N>
using Wide = typename WideType<T, N>::type;

template <class T>
inline constexpr bool kFloating = kSame<T, float> || kSame<T, double>;
template <class T>
inline constexpr bool kSignedInteger =
    kSame<T, int8_t> || kSame<T, int16_t> || kSame<T, int32_t> || kSame<T, int64_t>;
template <class T>
inline constexpr bool kUnsignedInteger =
    kSame<T, uint8_t> || kSame<T, uint16_t> || kSame<T, uint32_t> || kSame<T, uint64_t>;
template <class T>
inline constexpr bool kInteger = kSignedInteger<T> || kUnsignedInteger<T>;

template <class V>
using IntegerLike = typename SignedOfSize<sizeof(V)>::type;
template <class V>
using UnsignedLike = typename UnsignedOfSize<sizeof(V)>::type;
template <class T, class V>
using Like = T;

// ---- values ----

template <class To, class From>
SL_INLINE To bitcast(From x) {
  return __builtin_bit_cast(To, x);
}
template <class V>
SL_INLINE V splat(V x) {
  return x;
}
template <class To, class V>
SL_INLINE To convert(V v) {
  return To(v);
}
/// The value itself: faults of LLVM for AVX-512 (vector.h) do not concern a device.
template <class V>
SL_INLINE V forgotten(V v) {
  return v;
}

/// a && b, a || b, a != b without a branch.
SL_INLINE bool both(bool a, bool b) { return (int(a) & int(b)) != 0; }
SL_INLINE bool either(bool a, bool b) { return (int(a) | int(b)) != 0; }
SL_INLINE bool differ(bool a, bool b) { return a != b; }
SL_INLINE bool anyLane(bool m) { return m; }

template <class V>
SL_INLINE V select(bool c, V a, V b) {
  return c ? a : b;
}

/// a * b + c in one rounding.
template <class V>
SL_INLINE V fma(V a, V b, V c) {
  if constexpr (kSame<V, float>) {
    return __fmaf_rn(a, b, c);
  } else if constexpr (kSame<V, double>) {
    return __fma_rn(a, b, c);
  } else {
    return a * b + c;
  }
}

/// Calls f(integral constant I) for I in [0, N): a loop whose index is a compile-time constant.
template <int I>
struct Index {
  static constexpr int value = I;
  SL_INLINE_MEMBER constexpr operator int() const { return I; }
};
template <int N, int I = 0, class F>
SL_INLINE void unrolled(F&& f) {
  if constexpr (I < N) {
    f(Index<I>{});
    unrolled<N, I + 1>(f);
  }
}

SL_INLINE int64_t minOf(int64_t a, int64_t b) { return a < b ? a : b; }
SL_INLINE int64_t maxOf(int64_t a, int64_t b) { return a > b ? a : b; }
SL_INLINE int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// x is not 0.
SL_INLINE int leadingZeros(uint64_t x) { return __clzll(int64_t(x)); }

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_VECTOR_H
