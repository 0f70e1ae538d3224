// SPDX-License-Identifier: Apache-2.0
// Foundation of the kernel templates: short vectors, masks, storage types, and the team of threads.
// Freestanding: no STL, no system header. Read by clang in process, clang++ and g++ with
// -std=c++20.
//
// A *value* in a kernel is either a scalar T or its wide form sl::Wide<T, N> (N lanes):
//   float, double, intX, uintX   vec<T, N>, a native vector (operators work, also with a scalar on
//   one side) bool                         Mask<intX, N>: lanes are 0 or -1; X follows the type
//   that was compared bfloat16, half               Packed<T, N>: storage bits, to be cast before
//   any arithmetic
#ifndef STRAIGHTLINE_KERNELS_VECTOR_H
#define STRAIGHTLINE_KERNELS_VECTOR_H

#if defined(__CUDACC__)
#include "straightline/kernels/cuda_vector.h"
#else

#include "straightline/abi/entry.h"
#include "straightline/abi/kernel.h"

#define SL_INLINE __attribute__((always_inline)) static inline
/// For members, which cannot be `static` in this sense.
#define SL_INLINE_MEMBER __attribute__((always_inline)) inline
/// On a lambda, after its parameters: `[](auto x, auto& y) SL_LAMBDA { ... }`. Emitted lambdas
/// carry it: a call with vectors as arguments would go through memory.
#define SL_LAMBDA __attribute__((always_inline))
#define SL_NOINLINE __attribute__((noinline, unused)) static
#define SL_RESTRICT __restrict__
#define SL_LIKELY(x) __builtin_expect(!!(x), 1)
#define SL_UNLIKELY(x) __builtin_expect(!!(x), 0)
/// Fetches the cache line of `address` for reading into all levels.
#define SL_PREFETCH(address) __builtin_prefetch((address), 0, 3)

#if defined(__clang__)
#define SL_UNROLL _Pragma("clang loop unroll(full)")
#define SL_NO_UNROLL _Pragma("clang loop unroll(disable) vectorize(disable) interleave(disable)")
#else
#define SL_UNROLL _Pragma("GCC unroll 64")
#define SL_NO_UNROLL _Pragma("GCC unroll 1")
#endif

namespace sl {

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
inline constexpr bool kSame = __is_same(A, B);

template <class T, int N>
struct VecType {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
};
/// N lanes of T; N is a power of two. May be wider than a register: the compiler splits it.
template <class T, int N>
using vec = typename VecType<T, N>::type;

/// The signed integer of `Bytes` bytes.
template <int Bytes>
struct SignedOfSize;
template <>
struct SignedOfSize<1> {
  using type = int8_t;
};
template <>
struct SignedOfSize<2> {
  using type = int16_t;
};
template <>
struct SignedOfSize<4> {
  using type = int32_t;
};
template <>
struct SignedOfSize<8> {
  using type = int64_t;
};

/// The unsigned integer of `Bytes` bytes.
template <int Bytes>
struct UnsignedOfSize;
template <>
struct UnsignedOfSize<1> {
  using type = uint8_t;
};
template <>
struct UnsignedOfSize<2> {
  using type = uint16_t;
};
template <>
struct UnsignedOfSize<4> {
  using type = uint32_t;
};
template <>
struct UnsignedOfSize<8> {
  using type = uint64_t;
};

template <class B, int N>
struct Mask {
  vec<B, N> bits;  ///< 0 or -1 in each lane
  Mask() = default;
  SL_INLINE_MEMBER explicit Mask(vec<B, N> b) : bits(b) {}
  template <class B2>
  SL_INLINE_MEMBER Mask(Mask<B2, N> other) : bits(__builtin_convertvector(other.bits, vec<B, N>)) {}
};

template <class T, int N>
struct Packed {
  vec<uint16_t, N> bits;
};

/// A native vector: can be indexed and added (which a pointer cannot).
template <class T>
concept Vector = requires(T v) {
  v[0];
  v + v;
};

template <class T>
struct Traits {
  using Element = T;
  static constexpr int kLanes = 1;
};
template <Vector T>
struct Traits<T> {
  using Element = typename RemoveReference<decltype(T()[0])>::type;
  static constexpr int kLanes = sizeof(T) / sizeof(Element);
};
template <class B, int N>
struct Traits<Mask<B, N> > {
  using Element = bool;
  static constexpr int kLanes = N;
};
template <class T, int N>
struct Traits<Packed<T, N> > {
  using Element = T;
  static constexpr int kLanes = N;
};
/// Scalar type of a value, and its number of lanes (1 for a scalar).
template <class V>
using Element = typename Traits<V>::Element;
template <class V>
inline constexpr int kLanes = Traits<V>::kLanes;

template <class T, int N>
struct WideType {
  using type = vec<T, N>;
};
template <class T>
struct WideType<T, 1> {
  using type = T;
};
template <int N>
  requires(N > 1)
struct WideType<bool, N> {
  using type = Mask<int8_t, N>;
};
template <int N>
  requires(N > 1)
struct WideType<bfloat16, N> {
  using type = Packed<bfloat16, N>;
};
template <int N>
  requires(N > 1)
struct WideType<half, N> {
  using type = Packed<half, N>;
};
/// The value type that holds N lanes of T; Wide<T, 1> is T.
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

/// Value of signed integers as wide as V's elements, with V's lanes.
template <class V>
using IntegerLike = Wide<typename SignedOfSize<sizeof(Element<V>)>::type, kLanes<V> >;
template <class V>
using UnsignedLike = Wide<typename UnsignedOfSize<sizeof(Element<V>)>::type, kLanes<V> >;
/// Same lanes as V, other element.
template <class T, class V>
using Like = Wide<T, kLanes<V> >;

/// Bytes of the widest vector register of the target.
#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif
template <class T>
inline constexpr int kNativeLanes = kVectorBytes / int(sizeof(T));
#if defined(__AVX512F__)
inline constexpr int kVectorRegisters = 32;
#else
inline constexpr int kVectorRegisters = 16;
#endif

// ---- moving values ----

template <class To, class From>
SL_INLINE To bitcast(From x) {
  return __builtin_bit_cast(To, x);
}

template <class V>
SL_INLINE V splat(Element<V> x) {
  if constexpr (kLanes<V> == 1) {
    return x;
  } else if constexpr (kSame<Element<V>, bool>) {
    V m;
    m.bits = decltype(m.bits){} - Element<decltype(m.bits)>(x);
    return m;
  } else if constexpr (Vector<V>) {
    // Not `V{} + x`, which would turn -0.0 into 0.0.
    if constexpr (kFloating<Element<V> >) {
      return x - V{};
    } else {
      return x + V{};
    }
  } else {
    return V{splat<decltype(V{}.bits)>(x.bits)};
  }
}

/// Lanes from `p` (aligned for T only). Bool bytes are 0 or 1, any other byte counts as true.
template <int N, class T>
SL_INLINE Wide<T, N> load(const T* p) {
  if constexpr (N == 1) {
    return *p;
  } else if constexpr (kSame<T, bool>) {
    vec<int8_t, N> b;
    __builtin_memcpy(&b, p, N);
    return Mask<int8_t, N>(b != 0);
  } else {
    Wide<T, N> v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
  }
}

template <class T, class V>
SL_INLINE void store(T* p, V v) {
  if constexpr (kLanes<V> == 1) {
    *p = v;
  } else if constexpr (kSame<T, bool>) {
    vec<int8_t, kLanes<V> > b = Mask<int8_t, kLanes<V> >(v).bits & int8_t(1);
    __builtin_memcpy(p, &b, sizeof(b));
  } else {
    __builtin_memcpy(p, &v, sizeof(v));
  }
}

/// Stores a native vector to an address that is a multiple of its size, past the caches where the
/// target can: for data that is not read soon. Whole cache lines should be written at a time.
/// Another thread sees it after finishStoresPastCaches() and what else orders the two.
template <class T, class V>
SL_INLINE void storePastCaches(T* p, V v) {
#if defined(__clang__)
  __builtin_nontemporal_store(v, reinterpret_cast<V*>(p));
#else
  store(p, v);
#endif
}
SL_INLINE void finishStoresPastCaches() {
#if defined(__clang__) && defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

/// Lanes p[0], p[stride], p[2 * stride], ...; `stride` in elements.
template <int N, class T>
SL_INLINE Wide<T, N> loadStrided(const T* p, int64_t stride) {
  if constexpr (N == 1) {
    return *p;
  } else if constexpr (Vector<Wide<T, N> >) {
    Wide<T, N> v{};  // g++ would take the insertions below for a use
    SL_UNROLL
    for (int i = 0; i < N; ++i) {
      v[i] = p[i * stride];
    }
    return v;
  } else {
    T buffer[N];
    for (int i = 0; i < N; ++i) {
      buffer[i] = p[i * stride];
    }
    return load<N>(buffer);
  }
}

/// All lanes *p.
template <int N, class T>
SL_INLINE Wide<T, N> loadSplat(const T* p) {
  return splat<Wide<T, N> >(*p);
}

/// The same lanes, hidden from the optimizer, which then does not know how they were computed: this
/// works around faults of LLVM's instruction selection for AVX-512. It costs no instruction where
/// the lanes are in registers anyway.
template <class V>
SL_INLINE V forgotten(V v) {
#if defined(__clang__) && defined(__AVX512F__)
  if constexpr (Vector<V> && sizeof(V) > 64) {
    struct Halves {
      vec<Element<V>, kLanes<V> / 2> low, high;
    };
    Halves halves = __builtin_bit_cast(Halves, v);
    halves.low = forgotten(halves.low);
    halves.high = forgotten(halves.high);
    return __builtin_bit_cast(V, halves);
  } else if constexpr (Vector<V> && sizeof(V) >= 16) {
    asm("" : "+v"(v));
  }
#endif
  return v;
}

/// Lane `i` as a scalar.
template <class V>
SL_INLINE Element<V> lane(V v, int i) {
  if constexpr (kLanes<V> == 1) {
    return v;
  } else if constexpr (kSame<Element<V>, bool>) {
    return v.bits[i] != 0;
  } else if constexpr (Vector<V>) {
    return v[i];
  } else {
    return Element<V>{v.bits[i]};
  }
}

/// Conversion of numbers lane by lane, as a C++ cast converts; sl::cast also handles floats that
/// are out of range.
template <class To, class V>
SL_INLINE Like<To, V> convert(V v) {
  if constexpr (kLanes<V> == 1) {
    return To(v);
  } else {
    return __builtin_convertvector(v, Like<To, V>);
  }
}

// ---- masks ----

template <class B, class C, int N>
SL_INLINE Mask<B, N> operator&(Mask<B, N> a, Mask<C, N> b) {
  return Mask<B, N>(a.bits & Mask<B, N>(b).bits);
}
template <class B, class C, int N>
SL_INLINE Mask<B, N> operator|(Mask<B, N> a, Mask<C, N> b) {
  return Mask<B, N>(a.bits | Mask<B, N>(b).bits);
}
template <class B, class C, int N>
SL_INLINE Mask<B, N> operator^(Mask<B, N> a, Mask<C, N> b) {
  return Mask<B, N>(a.bits ^ Mask<B, N>(b).bits);
}
template <class B, int N>
SL_INLINE Mask<B, N> operator!(Mask<B, N> a) {
  return Mask<B, N>(~a.bits);
}

/// a && b, a || b, a != b for bool and masks, without a branch.
SL_INLINE bool both(bool a, bool b) { return (int(a) & int(b)) != 0; }
SL_INLINE bool either(bool a, bool b) { return (int(a) | int(b)) != 0; }
SL_INLINE bool differ(bool a, bool b) { return a != b; }
template <class B, class C, int N>
SL_INLINE Mask<B, N> both(Mask<B, N> a, Mask<C, N> b) {
  return a & b;
}
template <class B, class C, int N>
SL_INLINE Mask<B, N> either(Mask<B, N> a, Mask<C, N> b) {
  return a | b;
}
template <class B, class C, int N>
SL_INLINE Mask<B, N> differ(Mask<B, N> a, Mask<C, N> b) {
  return a ^ b;
}

SL_INLINE bool anyLane(bool m) { return m; }
template <class B, int N>
SL_INLINE bool anyLane(Mask<B, N> m) {
  B r = 0;
  for (int i = 0; i < N; ++i) {
    r = B(r | m.bits[i]);
  }
  return r != 0;
}

/// c ? a : b lane by lane; no branch. `c` is a bool or a Mask of any width.
template <class V>
SL_INLINE V select(bool c, V a, V b) {
  return c ? a : b;
}
template <class B, int N, class V>
SL_INLINE V select(Mask<B, N> c, V a, V b) {
  if constexpr (Vector<V>) {
    using I = typename SignedOfSize<sizeof(Element<V>)>::type;
    return Mask<I, N>(c).bits ? a : b;
  } else if constexpr (kSame<Element<V>, bool>) {
    V m(c);
    return V((m.bits & a.bits) | (~m.bits & b.bits));
  } else {
    return V{Mask<int16_t, N>(c).bits ? a.bits : b.bits};
  }
}
/// Masks that come from elements of different widths.
template <class B, class C, int N>
  requires(!kSame<B, C>)
SL_INLINE Mask<B, N> select(bool c, Mask<B, N> a, Mask<C, N> b) {
  return c ? a : Mask<B, N>(b);
}
template <class A, class B, class C, int N>
  requires(!kSame<B, C>)
SL_INLINE Mask<B, N> select(Mask<A, N> c, Mask<B, N> a, Mask<C, N> b) {
  return select(c, a, Mask<B, N>(b));
}

// ---- arithmetic the language has no operator for ----

/// a * b + c, in one rounding where the target has such an instruction (no library call where it
/// has not).
template <class V>
SL_INLINE V fma(V a, V b, V c) {
#if defined(__clang__) && (defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__))
  return __builtin_elementwise_fma(a, b, c);
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  if constexpr (kSame<V, float>) {
    return __builtin_fmaf(a, b, c);
  } else if constexpr (kSame<V, double>) {
    return __builtin_fma(a, b, c);
  } else {
    return a * b + c;  // g++ contracts this (-ffp-contract=fast is its default)
  }
#else
  return a * b + c;
#endif
}

/// Half of the lanes of a vector, from lane `FIRST` on.
template <int FIRST, class V>
SL_INLINE auto halfFrom(V v) {
  constexpr int kHalf = kLanes<V> / 2;
  if constexpr (kHalf == 1) {
    return lane(v, FIRST);
  } else if constexpr (kSame<Element<V>, bool>) {
    using B = typename RemoveReference<decltype(v.bits)>::type;
    return Mask<Element<B>, kHalf>(halfFrom<FIRST>(v.bits));
  } else {
    Wide<Element<V>, kHalf> r;
    __builtin_memcpy(&r, reinterpret_cast<const char*>(&v) + FIRST * int(sizeof(v)) / kLanes<V>,
                     sizeof(r));
    return r;
  }
}
template <class V>
SL_INLINE auto lowHalf(V v) {
  return halfFrom<0>(v);
}
template <class V>
SL_INLINE auto highHalf(V v) {
  return halfFrom<kLanes<V> / 2>(v);
}

/// Folds the lanes pairwise with f(a, b): a fixed tree, so results do not depend on the compiler.
template <class V, class F>
SL_INLINE Element<V> foldLanes(V v, F f) {
  if constexpr (kLanes<V> == 1) {
    return v;
  } else {
    return foldLanes(f(lowHalf(v), highHalf(v)), f);
  }
}
template <class V>
SL_INLINE Element<V> horizontalSum(V v) {
  return foldLanes(v, [](auto a, auto b) { return decltype(a)(a + b); });
}
/// Largest and smallest lane; a NaN lane gives an unspecified one of the others (sl::maximum
/// propagates NaN).
template <class V>
SL_INLINE Element<V> horizontalMax(V v) {
  return foldLanes(v, [](auto a, auto b) { return decltype(a)(a > b ? a : b); });
}
template <class V>
SL_INLINE Element<V> horizontalMin(V v) {
  return foldLanes(v, [](auto a, auto b) { return decltype(a)(a < b ? a : b); });
}

/// Calls f(integral constant I) for I in [0, N): a loop whose index is a compile-time constant.
template <int I>
struct Index {
  static constexpr int value = I;
  constexpr operator int() const { return I; }
};
template <int N, int I = 0, class F>
SL_INLINE void unrolled(F&& f) {
  if constexpr (I < N) {
    f(Index<I>{});
    unrolled<N, I + 1>(f);
  }
}

SL_INLINE constexpr int64_t minOf(int64_t a, int64_t b) { return a < b ? a : b; }
SL_INLINE constexpr int64_t maxOf(int64_t a, int64_t b) { return a > b ? a : b; }
SL_INLINE constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
SL_INLINE int64_t roundUp(int64_t a, int64_t b) { return ceilDiv(a, b) * b; }
/// x is not 0.
SL_INLINE int leadingZeros(uint64_t x) { return __builtin_clzll(x); }

// ---- the team ----

struct Range {
  int64_t begin;
  int64_t end;
};

/// This thread's share of [0, n), in whole grains (the last grain may be short). Threads beyond the
/// number of grains get an empty range. Shares differ by at most one grain.
SL_INLINE Range split(int64_t n, sl_team team, int64_t grain) {
  if (team.size <= 1) {
    return {0, n};
  }
  int64_t grains = ceilDiv(n, grain);
  int64_t each = grains / team.size;
  int64_t extra = grains % team.size;
  int64_t first = each * team.index + minOf(team.index, extra);
  int64_t last = first + each + (team.index < extra ? 1 : 0);
  return {minOf(first * grain, n), minOf(last * grain, n)};
}

}  // namespace sl

SL_INLINE void sl_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/// The barrier of a team of several threads. Counters only grow (wrapping), and no thread can be
/// more than one barrier ahead, so a signed difference tells who has arrived. It is called, not
/// inline: programs have hundreds of barriers, and a loop for each takes clang several times as
/// long as all else in them.
SL_NOINLINE void sl_await_team(sl_team team) {
  uint32_t* arrive = team.shared->arrive;
  uint32_t mine = __atomic_load_n(&arrive[team.index * 32], __ATOMIC_RELAXED) + 1;
  __atomic_store_n(&arrive[team.index * 32], mine, __ATOMIC_RELEASE);
  for (int32_t other = 0; other < team.size; ++other) {
    int rounds = 0;
    while (int32_t(__atomic_load_n(&arrive[other * 32], __ATOMIC_ACQUIRE) - mine) < 0) {
      if (++rounds < 2000) {
        sl_pause();
      } else {
        team.shared->yield();
      }
    }
  }
}

/// Every thread of the team waits until all have arrived. What a thread wrote before is seen by all
/// after.
SL_INLINE void sl_barrier(sl_team team) {
  if (team.size > 1) {
    sl_await_team(team);
  }
}

/// Records a failure; the first one wins. Kernels use this, so that they need no library. `status`
/// is published by the compare-exchange, `detail` by the barrier that every reader passes first.
SL_INLINE void sl_fail_at(sl_ctx* ctx, int32_t status, int64_t a, int64_t b, int64_t c) {
  int32_t none = SL_OK;
  if (__atomic_compare_exchange_n(&ctx->status, &none, status, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_RELAXED)) {
    ctx->detail[0] = a;
    ctx->detail[1] = b;
    ctx->detail[2] = c;
  }
}

/// Whether a statement has failed; all threads get the same answer. The second barrier keeps a fast
/// thread from failing in the next statement before a slow one has read the status of this one.
SL_INLINE bool sl_failed(sl_ctx* ctx, sl_team team) {
  sl_barrier(team);
  bool failed = __atomic_load_n(&ctx->status, __ATOMIC_ACQUIRE) != SL_OK;
  sl_barrier(team);
  return failed;
}

#endif  // __CUDACC__
#endif  // STRAIGHTLINE_KERNELS_VECTOR_H
