// SPDX-License-Identifier: Apache-2.0
// Clusters: neighbouring blocks that read and write each other's shared memory (from sm_90 on).
#ifndef STRAIGHTLINE_KERNELS_CUDA_CLUSTER_H
#define STRAIGHTLINE_KERNELS_CUDA_CLUSTER_H

#include "straightline/kernels/operands.h"

namespace sl::cluster {

/// The number of this block in its cluster.
SL_INLINE int rank() {
  uint32_t number;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(number));
  return int(number);
}

/// A barrier of all threads of the cluster in two halves: wait() returns when every thread has
/// called arrive(). What a thread wrote to shared memory before arrive() is visible to all of them
/// after wait().
SL_INLINE void arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
/// The same without making earlier writes visible: for a block that has written nothing to shared
/// memory yet, except by expect(), which has a fence of its own.
SL_INLINE void arriveFirst() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
SL_INLINE void wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
SL_INLINE void sync() {
  arrive();
  wait();
}

/// Initializes `barrier`, which counts the bytes that blocks of the cluster send() to this block,
/// and expects `bytes` of them. One thread calls it, once for a barrier, before arrive() or
/// arriveFirst().
SL_INLINE void expect(uint64_t* barrier, int bytes) {
  const uint32_t place = uint32_t(__cvta_generic_to_shared(barrier));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(place) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place), "r"(bytes)
               : "memory");
}
/// Expects `bytes` more. One thread calls it after awaitSent() has returned for those expected
/// before.
SL_INLINE void expectAgain(uint64_t* barrier, int bytes) {
  const uint32_t place = uint32_t(__cvta_generic_to_shared(barrier));
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place), "r"(bytes)
               : "memory");
}
/// Writes `value` to the shared memory of block `number`, at the address that `p` has in this
/// block, and counts its bytes at that block's `barrier`. Called after wait(). With TOGETHER false
/// there is one block and no barrier.
template <bool TOGETHER, class T>
SL_INLINE void send(int number, T* p, T value, uint64_t* barrier) {
  if constexpr (!TOGETHER) {
    *p = value;
  } else {
    uint32_t place, there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(place)
                 : "r"(uint32_t(__cvta_generic_to_shared(p))), "r"(number));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there)
                 : "r"(uint32_t(__cvta_generic_to_shared(barrier))), "r"(number));
    if constexpr (sizeof(T) == 4) {
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(place),
          "r"(bitcast<uint32_t>(value)), "r"(there)
          : "memory");
    } else {
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.u64 [%0], %1, [%2];" ::"r"(place),
          "l"(bitcast<uint64_t>(value)), "r"(there)
          : "memory");
    }
  }
}
/// Waits until all expected bytes have arrived; every thread that reads them calls it. `parity` is
/// 0 for those of expect(), then 1, 0, 1, ... for those of each expectAgain().
SL_INLINE void awaitSent(uint64_t* barrier, int parity = 0) {
  const uint32_t place = uint32_t(__cvta_generic_to_shared(barrier));
  asm volatile(
      "{\n\t.reg .pred "
      "done;\nagain_%=:\n\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], "
      "%1;\n\t"
      "@!done bra again_%=;\n\t}" ::"r"(place),
      "r"(parity)
      : "memory");
}

/// Loads 16 bytes of the shared memory of block `number`, from the address that `p` has in this
/// block.
template <class T, int N>
SL_INLINE void loadFrom(int number, T (&to)[N], const T* p) {
  static_assert(sizeof(T) * N == 16);
  uint32_t place;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(place)
               : "r"(uint32_t(__cvta_generic_to_shared(p))), "r"(number));
  uint32_t words[4];
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(place)
               : "memory");
  if constexpr (sizeof(T) == 4) {
    SL_UNROLL
    for (int i = 0; i < N; ++i) {
      to[i] = bitcast<T>(words[i]);
    }
  } else {
    SL_UNROLL
    for (int i = 0; i < N; ++i) {
      to[i] = bitcast<T>(uint64_t(words[2 * i]) | uint64_t(words[2 * i + 1]) << 32);
    }
  }
}

/// The value that block `number` has at `p`, which is an address in shared memory; with TOGETHER
/// false there is one block.
template <bool TOGETHER, class T>
SL_INLINE T oneFrom(int number, const T* p) {
  if constexpr (!TOGETHER) {
    return *p;
  } else {
    uint32_t place;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(place)
                 : "r"(uint32_t(__cvta_generic_to_shared(p))), "r"(number));
    if constexpr (sizeof(T) == 4) {
      uint32_t word;
      asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(word) : "r"(place) : "memory");
      return bitcast<T>(word);
    } else {
      uint64_t word;
      asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(word) : "r"(place) : "memory");
      return bitcast<T>(word);
    }
  }
}
/// The same for N neighbouring values, which are 16 bytes where TOGETHER.
template <bool TOGETHER, class T, int N>
SL_INLINE void someFrom(int number, T (&to)[N], const T* p) {
  if constexpr (TOGETHER) {
    loadFrom(number, to, p);
  } else {
    loadPieces<N>(to, p);
  }
}

}  // namespace sl::cluster

#endif  // STRAIGHTLINE_KERNELS_CUDA_CLUSTER_H
