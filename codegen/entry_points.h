// SPDX-License-Identifier: Apache-2.0
// What the statements of a program call: kernels, external entries, plans, scalar operations. The
// three printers and the tables use the same names for them.
#ifndef STRAIGHTLINE_CODEGEN_ENTRY_POINTS_H
#define STRAIGHTLINE_CODEGEN_ENTRY_POINTS_H

#include <string>
#include <vector>

#include "codegen/names.h"
#include "dialect/kernel/kernel_dialect.h"
#include "straightline/abi/entry.h"

namespace straightline::codegen {

struct EntryPoint {
  sl_entry_kind kind;
  mlir::Operation* op;  ///< kernel.func, kernel.decl, or the first scalar operation of its kind
  std::string name;
  std::string backend;
  double costUs;  ///< of the slowest call, 0 when unknown
  /// Of a kernel.func, by input, output, workspace: the buffer that all its launches give, or null
  /// where they differ (the function knows element types and spaces alone).
  llvm::SmallVector<mlir::Type> launched;
};

/// In order of first use, each once.
class EntryPoints {
 public:
  /// Records what `statement` calls; ignores statements that call nothing.
  void add(mlir::Operation* statement, NameTable& names);

  const std::vector<EntryPoint>& all() const { return entries_; }
  /// Null for a statement that calls nothing.
  const EntryPoint* of(mlir::Operation* statement) const;
  /// Position in `all`; `entry` is one of them.
  size_t number(const EntryPoint& entry) const {
    return static_cast<size_t>(&entry - entries_.data());
  }

 private:
  void add(mlir::Operation* statement, EntryPoint entry, const std::string& key,
           llvm::StringRef preferred, NameTable* names);

  std::vector<EntryPoint> entries_;
  llvm::StringMap<int> numbers_;  ///< by key: one per kind and symbol
  llvm::DenseMap<mlir::Operation*, int> ofStatement_;
};

/// One argument of an entry. `type` is a buffer, a handle (null) or a scalar.
struct EntryArgument {
  std::string name;
  sl_argument_role role;
  mlir::Type type;
  bool anySizes =
      false;  ///< a buffer of a kernel whose statements give it buffers of several sizes
};

/// Arguments in the order of the thunk's pointers; for a scalar operation its result, then its
/// operands.
llvm::SmallVector<EntryArgument> argumentsOf(const EntryPoint& entry);
/// Names of the run-time scalars of a kernel or an external entry.
llvm::SmallVector<mlir::StringAttr> scalarNamesOf(const EntryPoint& entry);
/// What a launch or call gives for them, over the named extents of the program.
llvm::SmallVector<kernel::ExtentAttr> scalarValuesOf(mlir::Operation* statement);
bool canFail(const EntryPoint& entry);
/// Whether its work is never part of a graph (kernel.outside_graph).
bool isOutsideGraph(const EntryPoint& entry);
/// Symbol of the machine code of a kernel that runs on a device (an sl_device_image).
std::string imageName(const EntryPoint& entry);

/// "native" for a kernel.func (the device's where it runs on one), "onednn" for a kernel.decl
/// whose run symbol is sl_onednn_..., "" otherwise.
std::string backendOf(mlir::Operation* entry);

/// Appends to the text of printProblem: `static void thunk_k(sl_ctx*, sl_team, void* const*
/// pointers, const int64_t* scalars)`.
mlir::FailureOr<std::string> printThunk(const EntryPoint& entry);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_ENTRY_POINTS_H
