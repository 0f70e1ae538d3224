// SPDX-License-Identifier: Apache-2.0
// Fixed-width names without any system header: emitted text is freestanding, and the same header is
// read by clang in process, by plain g++/clang++, and by NVRTC. The typedefs name the compiler's
// own types, so including <stdint.h> as well is harmless (a typedef may be repeated with the same
// type).
#ifndef STRAIGHTLINE_ABI_TYPES_H
#define STRAIGHTLINE_ABI_TYPES_H

#if defined( \
    __CUDACC_RTC__)  // it has no such names, but its widths are fixed and size_t is built in
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#else
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
#endif

#endif  // STRAIGHTLINE_ABI_TYPES_H
