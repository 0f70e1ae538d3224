// SPDX-License-Identifier: Apache-2.0
// Family `pack_gemm`: its template stands in pack.h with the other packings.
#ifndef STRAIGHTLINE_KERNELS_PACK_GEMM_H
#define STRAIGHTLINE_KERNELS_PACK_GEMM_H

#include "straightline/kernels/pack.h"

#endif  // STRAIGHTLINE_KERNELS_PACK_GEMM_H
