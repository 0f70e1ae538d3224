// SPDX-License-Identifier: Apache-2.0
// C++ text without the parts that do not change the code; hashed into the cache key of a unit.
#ifndef STRAIGHTLINE_CODEGEN_JIT_SOURCE_NORMAL_FORM_H
#define STRAIGHTLINE_CODEGEN_JIT_SOURCE_NORMAL_FORM_H

#include <string>
#include <string_view>

namespace straightline::jit {

/// `text` with each comment replaced by a space, then each run of white space by one space, or by
/// one newline when it held one outside a comment's inside (line ends matter to preprocessor
/// lines); none at the start and end of lines. String, character and raw string literals are kept
/// byte for byte.
std::string sourceNormalForm(std::string_view text);

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_SOURCE_NORMAL_FORM_H
