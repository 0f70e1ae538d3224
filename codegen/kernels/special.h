// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_KERNELS_SPECIAL_H
#define STRAIGHTLINE_KERNELS_SPECIAL_H

#include "straightline/kernels/scalar.h"

#endif  // STRAIGHTLINE_KERNELS_SPECIAL_H
