// SPDX-License-Identifier: Apache-2.0
// What the rules of the lowering share (rules.h): buffers of values, places where values are to be
// written, statements, regions. Every op value is bound to one kernel buffer; views become
// kernel.view and cost nothing.
#ifndef STRAIGHTLINE_PASSES_LOWERING_CONTEXT_H
#define STRAIGHTLINE_PASSES_LOWERING_CONTEXT_H

#include <map>
#include <string>

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/kernel_choice.h"
#include "passes/lowering/kernel_spec.h"
#include "passes/lowering/rules.h"
#include "passes/lowering/sizes.h"

namespace straightline::lowering {

/// The program that is being made: its statements are those of `prepare` and of `run`.
struct ProgramParts {
  mlir::ModuleOp module;
  kernel::ProgramOp program;
  kernel::PrepareOp prepare;
  kernel::RunOp run;
};

class LoweringContext : public Sizes {
 public:
  LoweringContext(const Sizes& sizes, const RuleSet& rules, const ProgramParts& parts,
                  kernel::TargetAttr target);

  kernel::TargetAttr target() const { return target_; }
  const TargetFacts& facts() const { return facts_; }
  mlir::ModuleOp module() const { return parts_.module; }
  /// Where the next statement goes.
  mlir::OpBuilder& builder() { return builder_; }
  /// Whether the statements are those of prepare.
  bool inPrepare() const { return inPrepare_; }

  // --- buffers (buffers.cpp)

  /// The buffer of a value; declared now where its op has a rule for that.
  mlir::Value bufferOf(mlir::Value tensor);
  void bind(mlir::Value tensor, mlir::Value buffer) { buffers_[tensor] = buffer; }
  void unbind(mlir::Value tensor) { buffers_.erase(tensor); }
  /// The buffer that a value is bound to; null when it is not yet.
  mlir::Value boundTo(mlir::Value tensor) const { return buffers_.lookup(tensor); }
  /// New scratch memory.
  mlir::Value slot(kernel::BufferType type);
  mlir::Value view(mlir::Location loc, mlir::Value base, kernel::BufferType type,
                   mlir::AffineExpr offset,
                   llvm::ArrayRef<std::pair<std::string, mlir::Value>> indices = {});
  /// The part of `base` that begins at an index computed at run time along `dim`, with the extents
  /// of `part`.
  mlir::FailureOr<mlir::Value> viewAtIndex(mlir::Location loc, mlir::Value base, mlir::Value index,
                                           int64_t dim, mlir::Value part);
  /// The strided buffer under other extents without moving anything; null when strides forbid it.
  mlir::Value tryReshape(mlir::Location loc, mlir::Value buffer, const Exprs& extents);
  /// Row-major copy when it is not row-major already.
  mlir::Value contiguous(mlir::Location loc, mlir::Value buffer, llvm::StringRef why);
  /// Storage owner of a buffer, through views.
  static mlir::Value root(mlir::Value buffer);
  /// Whether `buffer` has every element where `place` has it: both over one storage, from one
  /// offset on, with strides that differ where there is one element only.
  bool isSamePlace(mlir::Value buffer, mlir::Value place) const;

  // --- storage of prepare (buffers.cpp)

  /// New storage that prepare fills and run reads. A name that ends with a point or was given
  /// before gets a number.
  mlir::Value preparedBuffer(mlir::Location loc, kernel::BufferType type, llvm::StringRef name);
  /// Statements that `make` creates while run is being lowered stand at the end of prepare.
  void atEndOfPrepare(llvm::function_ref<void()> make);
  /// A buffer of prepare seen through views that stand in run, as prepare sees it.
  mlir::Value viewInPrepare(mlir::Value buffer);
  /// Whether the storage of `buffer` exists before the first run.
  bool isFromPrepare(mlir::Value buffer) const;
  /// Whether no kernel of a run writes `buffer`, which holds `tensor`: the tensor is fixed
  /// (isFixedInRun), and the buffer is no copy of it that the run makes.
  bool isFixedInRun(mlir::Value tensor, mlir::Value buffer);
  /// MatmulTune::early of a kernel for `operation`: 1: its blocks get ready, in their workspace,
  /// before the kernel ahead has ended; 2: they request elements of its weights, which are fixed in
  /// the run, then, too. 0 in prepare and in the body of a loop, whose next turn writes the same
  /// workspace.
  int64_t earliness(mlir::Operation* operation, bool hasFixedWeights) const {
    const bool once = llvm::isa<mlir::func::FuncOp>(operation->getParentOp());
    return !once || inPrepare_ ? 0 : hasFixedWeights ? 2 : 1;
  }
  /// Memory of so many bytes for a kernel's own use.
  mlir::Value workspace(int64_t bytes) {
    return slot(contiguousType({constant(bytes)}, mlir::IntegerType::get(context(), 8)));
  }
  /// The value that all callers with the same key share (packed weights); null at the first call.
  mlir::Value& shared(llvm::StringRef key) { return shared_[key.str()]; }

  // --- places (places.cpp)

  /// Where a fresh value is to be written: the place its user wants (an output, a tied buffer, a
  /// part of a concatenation), else a slot with the layout that assign_layouts chose.
  mlir::Value destination(mlir::Value tensor);
  /// The same for a value that is `operand` with some elements replaced: where no user has a place
  /// for it, the operand's own memory, if nothing else reads that.
  mlir::Value updatedPlace(mlir::Value tensor, mlir::Value operand);
  /// The place that a user of the value wants it in; null when none does.
  mlir::Value wantedPlace(mlir::Value tensor);
  /// Where the region's yield, or the tie of the function's result, wants `tensor`.
  void setPlace(mlir::Value tensor, mlir::Value place) { places_[tensor] = place; }
  mlir::Value placeOf(mlir::Value tensor) const { return places_.lookup(tensor); }
  /// Another place that is to hold `tensor`: a value may be that of several states.
  void addPlace(mlir::Value tensor, mlir::Value place) { morePlaces_[tensor].push_back(place); }
  /// Those that what makes `tensor` may write as well; whoever takes them does so.
  llvm::SmallVector<mlir::Value> takePlaces(mlir::Value tensor);
  /// Whether `tensor` has still to be copied to that place.
  bool isMissing(mlir::Value tensor, mlir::Value place) const {
    return llvm::is_contained(morePlaces_.lookup(tensor), place);
  }
  /// The output argument of result `i` of the function.
  void setOutput(unsigned i, mlir::Value argument) { outputs_[i] = argument; }
  /// The place that `user` keeps for one of its operands; several users may keep places for the
  /// same value.
  mlir::Value& keptPlace(mlir::Operation* user, mlir::Value operand) {
    return keptPlaces_[{user, operand}];
  }
  /// `op` needs no statement of its own any more: the op that computes its operand has its effect.
  void setDone(mlir::Operation* op) { done_.insert(op); }
  bool isDone(mlir::Operation* op) const { return done_.contains(op); }

  // --- rows that kernels find when they run (row_places.cpp)

  /// The rows of `whole` of which the kernels of a device write the one that `index` names.
  struct IndexedRows {
    mlir::Value whole, index;
    int64_t extent, stride;  ///< how many rows there are, and how far apart
    bool wraps;              ///< a number below 0 counts from the end
  };
  /// A place of that type for the row: what rules of `writesRows` are given as a destination, and
  /// may slice like any other. It stands for row 0; launch() has the kernel find the row.
  mlir::Value rowPlace(kernel::BufferType type, const IndexedRows& rows);
  /// The rows of which `buffer` is one, or a part of one; null where it is no place for a row.
  const IndexedRows* rowsOf(mlir::Value buffer) const;
  /// Removes the places. Fails where something was to read or write one in another way.
  mlir::LogicalResult removeRowPlaces();

  // --- statements (statements.cpp, library_call.cpp)

  kernel::LaunchOp launch(mlir::Location loc, KernelSpec& spec);
  /// Records on a statement why it has its kernel: choice, alternatives, rule of routes.
  void recordChoice(mlir::Operation* statement, const KernelSpec& spec);
  /// Launches an elementwise kernel over `extents` whose operands have the given strides per
  /// iteration dim.
  void launchPointwise(mlir::Location loc, KernelSpec& spec, const Exprs& extents,
                       llvm::ArrayRef<Exprs> strides);
  /// Elementwise copy between buffers of equal extents and any strides.
  void copy(mlir::Location loc, mlir::Value from, mlir::Value to, llvm::StringRef op,
            llvm::StringRef why);
  /// Writes one value to each element of `buffer`.
  void fill(mlir::Location loc, mlir::Value buffer, mlir::TypedAttr value, llvm::StringRef op,
            llvm::StringRef why);
  void zeroBorder(mlir::Location loc, mlir::Value buffer);
  /// A library's kernel as it was chosen: its declaration, its plan in prepare, and the call.
  /// `attributes` is what it is told.
  struct LibraryKernel {
    const sl_kernel_desc& kernel;
    const Problem& problem;
    const KernelSpec& spec;
  };
  /// Buffers in the order of the kernel's problem.
  struct LibraryOperands {
    llvm::ArrayRef<mlir::Value> inputs;
    llvm::ArrayRef<bool> isPlanned;  ///< of each input: whether the plan reads it, too
    llvm::ArrayRef<mlir::Value> outputs;
  };
  void callLibrary(mlir::Location loc, const LibraryKernel& chosen, const LibraryOperands& operands,
                   llvm::ArrayRef<mlir::NamedAttribute> attributes);
  /// The same with one output, where the last inputs are `constants`, which the plan reads.
  void callLibrary(mlir::Location loc, const LibraryKernel& chosen,
                   llvm::ArrayRef<mlir::Value> inputs, llvm::ArrayRef<mlir::Value> constants,
                   mlir::Value out, llvm::ArrayRef<mlir::NamedAttribute> attributes);
  /// How many times `key` was asked for before: for names that are numbered.
  unsigned nextNumber(llvm::StringRef key) { return usedNames_[key]++; }
  /// For kernels and declarations.
  mlir::OpBuilder endOfModule() const;
  /// For parameters, literals, handles: before prepare.
  mlir::OpBuilder declarations() const;
  /// For statements of prepare that no rule makes (plans of libraries).
  mlir::OpBuilder endOfPrepare() const;

  // --- ops and regions (context.cpp)

  /// Null where there is none.
  const Rule* ruleOf(mlir::Operation* op) const { return rules_.find(op); }
  mlir::LogicalResult lowerOp(mlir::Operation* op);
  /// The op of `block` that is being lowered, or in which one is; null: there is none.
  mlir::Operation* currentIn(mlir::Block* block) const {
    return current_ ? block->findAncestorOpInBlock(*current_) : nullptr;
  }
  /// The ops of a block but its terminator and what prepare has.
  mlir::LogicalResult lowerBlock(mlir::Block& block);
  /// Lowers a region whose yields go to `places`.
  mlir::LogicalResult lowerRegion(mlir::Block& block, llvm::ArrayRef<mlir::Value> places);
  void setCounter(mlir::Value tensor, mlir::Value index) { counters_[tensor] = index; }
  /// A loop counter or other 0-d integer tensor as an index value.
  mlir::FailureOr<mlir::Value> indexValue(mlir::Location loc, mlir::Value tensor);
  /// The same as a scalar of the tensor's own type.
  mlir::FailureOr<mlir::Value> scalarIndex(mlir::Location loc, mlir::Value tensor);

  // --- extents that the graph computes (computed_extents.cpp)

  /// The extent has its value in all statements that follow.
  void setKnown(mlir::StringAttr extent) { unknownExtents_.erase(extent); }

 private:
  mlir::Value viewInRun(mlir::Value buffer);
  mlir::Operation* firstWriter(mlir::Value tensor) const;
  bool isSafeInPlace(mlir::Value tensor, mlir::Value storage);
  mlir::Value allocate(mlir::Value tensor);
  kernel::FuncOp kernelOf(const KernelSpec& spec);
  void findRows(mlir::Location loc, KernelSpec& spec);
  bool mayWriteRow(mlir::Value tensor, mlir::Operation* user) const;
  void tellRefusals(mlir::Operation* op, mlir::Operation* before);
  void yieldInto(mlir::Operation* terminator, llvm::ArrayRef<mlir::Value> places);
  bool makesUnknown(mlir::Operation* op) const;

  const RuleSet& rules_;
  ProgramParts parts_;
  kernel::TargetAttr target_;
  TargetFacts facts_;
  mlir::OpBuilder builder_;
  bool inPrepare_ = false;
  mlir::Operation* current_ = nullptr;  ///< being lowered; the innermost one
  llvm::DenseMap<mlir::Value, mlir::Value> buffers_;
  llvm::DenseMap<mlir::Value, mlir::Value> viewsInRun_;  ///< of views that prepare made
  std::map<std::string, mlir::Value> shared_;
  llvm::DenseMap<mlir::Value, mlir::Value> places_;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> morePlaces_;
  llvm::DenseMap<unsigned, mlir::Value> outputs_;
  llvm::DenseMap<std::pair<mlir::Operation*, mlir::Value>, mlir::Value> keptPlaces_;
  llvm::MapVector<mlir::Value, IndexedRows> rowPlaces_;  ///< by the slot that stands for the row
  llvm::DenseSet<mlir::Operation*> done_;
  /// loop index tensors -> index values
  llvm::DenseMap<mlir::Value, mlir::Value> counters_;
  llvm::DenseSet<mlir::StringAttr> unknownExtents_;  ///< computed ones, until their statement
  std::map<std::string, kernel::FuncOp> functions_;  ///< text without name -> function
  llvm::StringMap<unsigned> usedNames_;
  llvm::StringSet<> takenNames_;  ///< of kernels
};

/// A size or stride as a Problem takes it: SL_DYNAMIC where it is not static.
int64_t staticOrDynamic(mlir::AffineExpr expr);
llvm::SmallVector<int64_t> staticOrDynamic(llvm::ArrayRef<mlir::AffineExpr> exprs);

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_CONTEXT_H
