// SPDX-License-Identifier: Apache-2.0
// Linked code in memory: from the bytes of a shared object to an sl_code whose slots are filled.
#ifndef STRAIGHTLINE_RUNTIME_ARTIFACT_CODE_H
#define STRAIGHTLINE_RUNTIME_ARTIFACT_CODE_H

#include <string>
#include <string_view>

#include "straightline/abi/code.h"
#include "straightline/abi/straightline.h"

namespace straightline {

/// A shared object that was opened from memory. Nothing of it is on the disk: its bytes go into a
/// file that has no name (memfd_create).
class MappedCode {
 public:
  MappedCode() = default;
  MappedCode(const MappedCode&) = delete;
  MappedCode& operator=(const MappedCode&) = delete;
  ~MappedCode();

  /// `bytes` are trusted: their digest was compared. `name` is for messages and for debuggers.
  int32_t open(std::string_view bytes, const char* name, sl_message* message);
  const sl_code* table() const { return table_; }

 private:
  void* library_ = nullptr;
  int descriptor_ = -1;
  const sl_code* table_ = nullptr;
};

/// Writes a shared object into a file as above; `path` is how dlopen finds it while the descriptor,
/// which is returned, is open. Below 0 with errno: there is no memory for it.
int codeFile(std::string_view bytes, const char* name, std::string* path);

/// Checks the table's versions and writes the addresses that it wants. SL_UNSUPPORTED names all
/// that this runtime, and the backends installed beside it, lack.
int32_t fillImports(const sl_code& code, const char* name, sl_message* message);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_ARTIFACT_CODE_H
