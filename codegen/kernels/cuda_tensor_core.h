// SPDX-License-Identifier: Apache-2.0
// Instructions of NVIDIA's tensor cores and of the copies that feed them: sm_80 and later. On sm_75
// only products of half exist, over fewer steps of the reduction, and copies are waited for.
#ifndef STRAIGHTLINE_KERNELS_CUDA_TENSOR_CORE_H
#define STRAIGHTLINE_KERNELS_CUDA_TENSOR_CORE_H

#include "straightline/kernels/cuda_epilogue.h"

namespace sl::tensor_core {

SL_INLINE uint32_t sharedAddress(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

/// Copies 16 bytes to shared memory without waiting for them; writes zeros if `exists` is false.
SL_INLINE void copyLater(void* to, const void* from, bool exists) {
#if __CUDA_ARCH__ < 800
  Piece<uint32_t, 4> piece;
  loadPiecesOrZeros<4>(piece.at, exists ? static_cast<const uint32_t*>(from) : nullptr);
  *static_cast<Piece<uint32_t, 4>*>(to) = piece;
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(to)), "l"(from),
               "r"(exists ? 16 : 0)
               : "memory");
#endif
}
/// Makes a group of the copies that this thread has started since the last group.
SL_INLINE void closeGroup() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits until at most N of this thread's groups of copies are unfinished.
template <int N>
SL_INLINE void waitForGroups() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

/// Loads four parts of 8 x 8 elements of 16 bits from shared memory, distributed over the lanes as
/// mma takes them. Lane i gives the address of line i % 8 of part i / 8. TRANSPOSED: a line is a
/// step of the reduction.
template <bool TRANSPOSED>
SL_INLINE void loadParts(uint32_t (&to)[4], const void* line) {
  if constexpr (TRANSPOSED) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(sharedAddress(line))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(sharedAddress(line))
                 : "memory");
  }
}

/// Rounds floats to TF32, 10 bits of mantissa, to nearest.
template <int M, int N>
SL_INLINE void roundFactors(uint32_t (&factors)[M][N]) {
  SL_UNROLL
  for (int i = 0; i < M; ++i) {
    SL_UNROLL
    for (int j = 0; j < N; ++j) {
      asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(factors[i][j]) : "f"(__uint_as_float(factors[i][j])));
    }
  }
}

#if __CUDA_ARCH__ < 800
/// products of half take 8 steps of the reduction at once, not 16
inline constexpr bool kHalfParts = true;
#else
inline constexpr bool kHalfParts = false;
#endif

/// sums[16][8] += a[16][D] * b[D][8], where D elements are 32 bytes. A lane has sums of rows lane /
/// 4 and lane / 4 + 8, columns lane % 4 * 2 and the next.
template <class T>
SL_INLINE void multiply(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (kSame<T, bfloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else if constexpr (kSame<T, float>) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else if constexpr (kHalfParts) {
    SL_UNROLL
    for (int part = 0; part < 2; ++part) {
      asm volatile(
          "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, "
          "%1, %2, %3};"
          : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
          : "r"(a[2 * part]), "r"(a[2 * part + 1]), "r"(b[part]));
    }
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

}  // namespace sl::tensor_core

#endif  // STRAIGHTLINE_KERNELS_CUDA_TENSOR_CORE_H
