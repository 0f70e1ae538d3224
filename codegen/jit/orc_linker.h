// SPDX-License-Identifier: Apache-2.0
// Links objects into running code: a thin layer over LLVM's ORC. Each unit of a program gets a
// JITDylib of its own. The units of one program see each other, and of the process only the symbols
// that are named here or by the caller's resolver.
#ifndef STRAIGHTLINE_CODEGEN_JIT_ORC_LINKER_H
#define STRAIGHTLINE_CODEGEN_JIT_ORC_LINKER_H

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace straightline::jit {

/// Address of an extern "C" symbol that units may refer to, NULL when unknown. Called while
/// linking, on the linking thread.
using SymbolResolver = std::function<void*(const std::string& name)>;

/// An ELF relocatable file; `name` is for messages.
struct Object {
  std::string name;
  std::string bytes;
};

/// Code in memory. Destroying it unmaps the code: no thread may be in it, nothing may keep its
/// addresses.
class LinkedProgram {
 public:
  virtual ~LinkedProgram() = default;
  /// Address of an extern "C" symbol of a unit, NULL with a message when no unit defines it.
  /// Thread-safe.
  virtual void* lookup(const std::string& symbol, std::string* error) = 0;
};

/// Links `objects` and resolves all that `symbols` reach. NULL with a message that names the
/// missing symbols. Thread-safe. Hooks for debuggers and profilers are chosen by
/// $STRAIGHTLINE_JIT_HOOKS ("gdb", "perf" or "gdb,perf"), read once.
std::unique_ptr<LinkedProgram> linkProgram(std::vector<Object> objects,
                                           const SymbolResolver& resolver,
                                           const std::vector<std::string>& symbols,
                                           std::string* error);

/// True when gdb is to see compiled code: the caller then wants line tables.
bool debuggerHookWanted();

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_ORC_LINKER_H
