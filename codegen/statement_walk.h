// SPDX-License-Identifier: Apache-2.0
// The one walk over the statements of a program: a case per kind of statement, no decisions, no
// text. Printers of program text (C++, Python) say how each kind is spelled.
#ifndef STRAIGHTLINE_CODEGEN_STATEMENT_WALK_H
#define STRAIGHTLINE_CODEGEN_STATEMENT_WALK_H

#include <string>

#include "codegen/program_index.h"

namespace straightline::codegen {

/// The queue of a statement.
struct QueueUse {
  int number;
  bool isTeam;  ///< the caller's team, not a device's
};

/// A launch, call or plan.
struct EntryCall {
  mlir::Operation* op;
  const EntryPoint& entry;
  QueueUse queue;
  bool alone;          ///< thread 0 alone takes part
  mlir::Value handle;  ///< null where there is none; what a plan makes
  llvm::SmallVector<mlir::Value> inputs, outputs, workspace;
  llvm::SmallVector<kernel::ExtentAttr> scalars;  ///< run-time scalars, over the program's extents
};

/// `statement` is the number in the table. What a `begin` opens, an `end` closes.
class StatementPrinter {
 public:
  virtual ~StatementPrinter() = default;

  virtual void comment(const std::string& text) = 0;
  virtual void profile(int statement, bool begins) = 0;
  /// A step begins here, behind the steps `after` (kernel.step). Whoever runs the order of the text
  /// has nothing to say.
  virtual void step(QueueUse, int64_t /*number*/, llvm::ArrayRef<int64_t> /*after*/) {}
  virtual void call(const EntryCall& call) = 0;
  /// The program ends here when the statement before has failed. `inLibrary`: thread 0 alone was in
  /// a library there.
  virtual void stopIfFailed(int statement, bool inLibrary) = 0;
  virtual void copy(kernel::CopyOp copy, QueueUse queue) = 0;
  virtual void barrier() = 0;
  virtual void record(kernel::RecordOp record, QueueUse queue) = 0;
  virtual void wait(kernel::WaitOp wait, QueueUse queue) = 0;
  virtual void check(kernel::CheckOp check, int statement) = 0;
  virtual void alloc(kernel::AllocOp alloc) = 0;
  virtual void view(kernel::ViewOp view) = 0;
  virtual void size(kernel::SizeOp size) = 0;
  virtual void load(kernel::LoadOp load) = 0;
  virtual void setExtent(kernel::SetExtentOp set, int statement) = 0;
  virtual mlir::LogicalResult scalar(mlir::Operation* op, const EntryPoint& entry) = 0;
  virtual void beginIf(kernel::IfOp op) = 0;
  virtual void beginElse() = 0;
  virtual void endIf() = 0;
  virtual void beginFor(kernel::ForOp loop) = 0;
  virtual void beginWhile() = 0;
  virtual void condition(kernel::ConditionOp condition) = 0;
  /// The back edge of a loop: all threads leave at the same iteration, and none starts the next
  /// before all have ended this one.
  virtual void endLoop(int statement) = 0;
  /// Memory that `block` allocated goes here.
  virtual void endBlock(mlir::Block& block) = 0;
};

/// Tells `printer` the statements of prepare or run. `profile`: also where each begins and ends.
mlir::LogicalResult walkStatements(mlir::Region& region, const ProgramIndex& index, bool profile,
                                   StatementPrinter& printer);

}  // namespace straightline::codegen

#endif  // STRAIGHTLINE_CODEGEN_STATEMENT_WALK_H
