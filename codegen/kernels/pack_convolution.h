// SPDX-License-Identifier: Apache-2.0
// Family `pack_convolution`: its template stands in pack.h with the other packings.
#ifndef STRAIGHTLINE_KERNELS_PACK_CONVOLUTION_H
#define STRAIGHTLINE_KERNELS_PACK_CONVOLUTION_H

#include "straightline/kernels/pack.h"

#endif  // STRAIGHTLINE_KERNELS_PACK_CONVOLUTION_H
