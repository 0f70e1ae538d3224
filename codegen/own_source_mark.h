// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_CODEGEN_OWN_SOURCE_MARK_H
#define STRAIGHTLINE_CODEGEN_OWN_SOURCE_MARK_H

namespace straightline {

/// The first words of a user's CUDA text in a unit, before the name of its kernel: what does not
/// compile there is the user's error.
inline constexpr char kOwnSourceMark[] = "// The kernel of a user: ";

}  // namespace straightline

#endif  // STRAIGHTLINE_CODEGEN_OWN_SOURCE_MARK_H
