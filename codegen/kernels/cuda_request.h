// SPDX-License-Identifier: Apache-2.0
// Loads that are issued early and used late.
#ifndef STRAIGHTLINE_KERNELS_CUDA_REQUEST_H
#define STRAIGHTLINE_KERNELS_CUDA_REQUEST_H

#include "straightline/kernels/cuda_epilogue.h"

namespace sl {

/// 16 bytes that have been asked for; the compiler neither moves the request nor looks at them
/// before pin().
struct Piece16 {
  unsigned word[4];

  SL_INLINE_MEMBER void request(const void* p) {
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "l"(p));
  }
  /// Stays what it is where nothing is wanted; `p` is not looked at then.
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
