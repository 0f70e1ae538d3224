// SPDX-License-Identifier: Apache-2.0
// Libraries of users' own kernels that a saved program calls: held by the artifact, or named by it.
#ifndef STRAIGHTLINE_RUNTIME_ARTIFACT_OWN_LIBRARIES_H
#define STRAIGHTLINE_RUNTIME_ARTIFACT_OWN_LIBRARIES_H

#include "artifact/artifact.h"

namespace straightline {

/// Opens the functions of a variant. Where one cannot be: SL_INVALID_ARGUMENT with the artifact,
/// the library, and what is wrong, both digests where it is another library than the one that the
/// model was saved with.
int32_t openOwnKernels(sl_artifact* artifact, const Variant& variant, sl_message* message);

/// XXH3-128 in 32 hexadecimal digits.
std::string digestOf(std::string_view data);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_ARTIFACT_OWN_LIBRARIES_H
