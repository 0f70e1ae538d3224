// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_CODEGEN_OWN_SOURCE_MARK_H
#define STRAIGHTLINE_CODEGEN_OWN_SOURCE_MARK_H

namespace straightline {

/// The first words of a user's CUDA text in a unit, before the name of its kernel: what does not
/// compile there is the user's error.
inline constexpr char kOwnSourceMark[] = "// The kernel of a user: ";

/// Begins a unit that is machine code of a user: the name of the kernel follows, then lines for
/// people, then a line that ends with kOwnImageBegin and lines of base64 in quotes.
inline constexpr char kOwnImageMark[] = "// The machine code of a user: ";
inline constexpr char kOwnImageBegin[] = " =\n";

}  // namespace straightline

#endif  // STRAIGHTLINE_CODEGEN_OWN_SOURCE_MARK_H
