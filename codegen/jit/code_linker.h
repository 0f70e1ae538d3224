// SPDX-License-Identifier: Apache-2.0
// Links the objects of a program into a shared object that stands alone: what an artifact holds.
// The objects are those that the JIT links (orc_linker.h), as they are.
#ifndef STRAIGHTLINE_CODEGEN_JIT_CODE_LINKER_H
#define STRAIGHTLINE_CODEGEN_JIT_CODE_LINKER_H

#include <map>
#include <string>
#include <vector>

#include "codegen/jit/compile_program.h"
#include "codegen/jit/orc_linker.h"

namespace straightline::jit {

/// A program's objects and what its text leaves to the loader.
struct CodeRequest {
  std::vector<Object> objects;
  std::string program;                        ///< symbol of its sl_program_desc
  std::map<std::string, std::string> images;  ///< symbol of an sl_device_image, and its unit
};

/// Compiles the unit that holds the sl_code (runtime/abi/code.h) of these objects: a jump through a
/// slot for each symbol that they lack, and the images. `arguments` are clang's. False with a
/// message otherwise.
bool addCodeTable(CodeRequest* request, const std::vector<std::string>& arguments,
                  std::string* error);

/// A shared object for Linux that exports SL_CODE_SYMBOL alone and needs no library. `request` has
/// its table. False with the linker's message. Thread-safe: one link at a time (lld keeps its state
/// in globals), others wait.
bool linkSharedObject(const CodeRequest& request, std::string* library, std::string* error);

/// What a model's library is.
enum class LibraryKind {
  shared,  ///< a shared object
  archive  ///< a static library of one object
};

/// Codes (with their tables) and an artifact without code as one library that exports
/// `sl_model_<name>` alone, an sl_linked_model (runtime/abi/model.h); every other symbol is local,
/// so that any number of models link into one program. `arguments` are clang's. False with the
/// linker's message. Thread-safe, as linkSharedObject.
bool linkModel(const std::string& name, const std::vector<CodeRequest>& codes,
               const std::string& artifact, LibraryKind kind,
               const std::vector<std::string>& arguments, std::string* library, std::string* error);

/// What a model's library has beside the model: C++ text over runtime/abi/exported.h, the symbols
/// of it that are exported, and the runtime's own shared object, which the text finds as the bytes
/// `sl_runtime_data`.
struct ExportedText {
  std::string text;
  std::vector<std::string> exports;
  std::string runtime;
};

/// The same as a shared object that stands alone, with functions for other systems. What it lacks
/// are functions of libc, which the process that opens it has. It stays open until the process
/// ends, as does what its functions were registered with.
bool linkExportedModel(const std::string& name, const std::vector<CodeRequest>& codes,
                       const std::string& artifact, const ExportedText& exported,
                       const std::vector<std::string>& arguments, std::string* library,
                       std::string* error);

/// C++ text for this machine as a shared object that exports these symbols and needs no library:
/// functions of libc, which it declares, are those of the process.
bool linkText(const std::string& name, const std::string& text,
              const std::vector<std::string>& exports, std::string* library, std::string* error);

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_CODE_LINKER_H
