// SPDX-License-Identifier: Apache-2.0
// Saved models in C (docs/guides/artifacts.md). Link with libstraightline_runtime.
#ifndef STRAIGHTLINE_MODEL_H
#define STRAIGHTLINE_MODEL_H

#include "straightline/abi/model.h"

#endif  // STRAIGHTLINE_MODEL_H
