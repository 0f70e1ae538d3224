// SPDX-License-Identifier: Apache-2.0
// Numbers and names that the program's text and its tables have in common: buffers, statements,
// queues, spaces, extents.
#ifndef STRAIGHTLINE_CODEGEN_PROGRAM_INDEX_H
#define STRAIGHTLINE_CODEGEN_PROGRAM_INDEX_H

#include <string>
#include <vector>

#include "codegen/entry_points.h"
#include "codegen/names.h"
#include "dialect/kernel/kernel_dialect.h"
#include "straightline/abi/entry.h"

namespace straightline::codegen {

/// One line of the statement table. `op` may appear in several lines (if, else, end).
struct StatementLine {
  sl_statement_kind kind;
  mlir::Operation* op;
  int phase;  ///< 0 prepare, 1 run
};

/// One line of the buffer table.
struct BufferLine {
  mlir::Value value;  ///< of a buffer or handle type
  sl_role role;
  int index;           ///< position within its role, -1 where it has none
  std::string source;  ///< framework name, or ""
  bool scratch;        ///< lives in the arena of prepare
};

/// Built by one walk over a program; everything is in the order of the text.
class ProgramIndex {
 public:
  explicit ProgramIndex(kernel::ProgramOp program);

  const std::vector<BufferLine>& buffers() const { return buffers_; }
  const std::vector<StatementLine>& statements() const { return statements_; }
  const std::vector<std::string>& spaces() const { return spaces_; }
  const std::vector<kernel::QueueOp>& queues() const { return queues_; }
  const std::vector<kernel::ExtentOp>& extents() const { return extents_; }

  int bufferNumber(mlir::Value value) const { return bufferNumbers_.lookup(value); }
  /// Number of the line that starts `op`.
  int statementNumber(mlir::Operation* op) const { return statementNumbers_.lookup(op); }
  int spaceNumber(llvm::StringRef space) const;
  int queueNumber(mlir::FlatSymbolRefAttr queue) const;
  int extentNumber(mlir::StringAttr name) const;
  /// Identifier of a buffer, handle, event, counter or scalar in the text.
  std::string name(mlir::Value value) const { return names_.lookup(value); }
  std::string extentName(mlir::StringAttr name) const { return extentNames_.lookup(name); }
  int count(sl_role role) const;
  const EntryPoints& entries() const { return entries_; }

 private:
  void addBuffer(mlir::Value value, sl_role role, int index, llvm::StringRef source,
                 llvm::StringRef preferred, bool scratch = false);
  void addStorage(kernel::ProgramOp program);
  void addStatements(mlir::Block& block, int phase);
  void addLine(sl_statement_kind kind, mlir::Operation* op, int phase, bool first = true);

  NameTable table_;
  EntryPoints entries_;
  std::vector<BufferLine> buffers_;
  std::vector<StatementLine> statements_;
  std::vector<std::string> spaces_;
  std::vector<kernel::QueueOp> queues_;
  std::vector<kernel::ExtentOp> extents_;
  llvm::DenseMap<mlir::Value, int> bufferNumbers_;
  llvm::DenseMap<mlir::Operation*, int> statementNumbers_;
  llvm::DenseMap<mlir::Value, std::string> names_;
  llvm::DenseMap<mlir::StringAttr, std::string> extentNames_;
};

/// A view whose offset holds index values: it has a line in the table and is computed at its place.
bool isDynamicView(mlir::Operation* op);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_PROGRAM_INDEX_H
