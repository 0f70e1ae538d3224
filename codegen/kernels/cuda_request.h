// SPDX-License-Identifier: Apache-2.0
// Loads of 16 bytes that a thread issues long before it uses the bytes.
#ifndef STRAIGHTLINE_KERNELS_CUDA_REQUEST_H
#define STRAIGHTLINE_KERNELS_CUDA_REQUEST_H

#include "straightline/kernels/cuda_epilogue.h"

namespace sl {

/// 16 bytes in registers, loaded by request(). The load is a volatile asm statement, which the
/// compiler does not move. A caller calls pin() before its first use of the bytes: no instruction
/// that uses them can then stand before pin().
struct Piece16 {
  unsigned word[4];

  SL_INLINE_MEMBER void request(const void* p) {
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "l"(p));
  }
  /// The same where `wanted` is true; else the bytes keep their value and nothing is read from `p`.
  SL_INLINE_MEMBER void requestIf(bool wanted, const void* p) {
    asm volatile(
        "{\n\t.reg .pred wanted;\n\tsetp.ne.s32 wanted, %5, 0;\n\t"
        "@wanted ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
        : "+r"(word[0]), "+r"(word[1]), "+r"(word[2]), "+r"(word[3])
        : "l"(p), "r"(int(wanted)));
  }
  SL_INLINE_MEMBER void pin() {
    asm volatile("" : "+r"(word[0]), "+r"(word[1]), "+r"(word[2]), "+r"(word[3]));
  }
  template <class T>
  SL_INLINE_MEMBER Piece<T, kWholePiece<T>> as() const {
    return __builtin_bit_cast(Piece<T, kWholePiece<T>>, *this);
  }
};

}  // namespace sl

#endif  // STRAIGHTLINE_KERNELS_CUDA_REQUEST_H
