// SPDX-License-Identifier: Apache-2.0
// Family `pack_winograd`: its template stands in pack.h with the other packings.
#ifndef STRAIGHTLINE_KERNELS_PACK_WINOGRAD_H
#define STRAIGHTLINE_KERNELS_PACK_WINOGRAD_H

#include "straightline/kernels/pack.h"

#endif  // STRAIGHTLINE_KERNELS_PACK_WINOGRAD_H
