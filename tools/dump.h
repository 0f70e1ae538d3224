// SPDX-License-Identifier: Apache-2.0
// The levels of one compilation as numbered files in a folder of its own.
#ifndef STRAIGHTLINE_TOOLS_DUMP_H
#define STRAIGHTLINE_TOOLS_DUMP_H

#include <string>

#include "tools/failure.h"

namespace straightline {

/// STRAIGHTLINE_DUMP=FOLDER: FOLDER/compile-0001/01-captured.mlir, 02-simplified.mlir and so on;
/// the next compilation, also of another process, takes the next number. Without a folder nothing
/// is written.
class Dump {
 public:
  /// Makes FOLDER and the folder of this compilation.
  Failure open(const std::string& folder);
  bool isOpen() const { return !path_.empty(); }
  /// Writes NN-name. The first failure is kept and later texts are dropped.
  void write(const std::string& name, const std::string& text);
  /// The next text gets number `count + 1`, in place of what had it.
  void goBack(int count) { count_ = count; }
  /// The user's error when something could not be written.
  Failure finish() const { return failure_; }

 private:
  std::string path_;
  int count_ = 0;
  Failure failure_;
};

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_DUMP_H
