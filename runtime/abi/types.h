// SPDX-License-Identifier: Apache-2.0
// Fixed-width names without any system header: emitted text is freestanding, and the same header is read by clang in
// process, by plain g++/clang++, and later by NVRTC. The typedefs name the compiler's own types, so including <stdint.h>
// as well is harmless (a typedef may be repeated with the same type).
#ifndef STRAIGHTLINE_ABI_TYPES_H
#define STRAIGHTLINE_ABI_TYPES_H

typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;

#endif  // STRAIGHTLINE_ABI_TYPES_H
