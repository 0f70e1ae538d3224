// SPDX-License-Identifier: Apache-2.0
// State of the lowering from `op` (values) to `kernel` (buffers and statements). One class, its
// members grouped by file: lowering.cpp (names, buffers, launches, the walk), pointwise.cpp,
// row_reduction.cpp, contraction.cpp, product_group.cpp, structure.cpp, control.cpp, topk.cpp.
// Every op value is bound to one kernel buffer; views become kernel.view and cost nothing.
#ifndef STRAIGHTLINE_PASSES_LOWERING_LOWERING_H
#define STRAIGHTLINE_PASSES_LOWERING_LOWERING_H

#include <functional>
#include <map>
#include <string>

#include "dialect/kernel/kernel_dialect.h"
#include "dialect/op/op_dialect.h"
#include "dialect/symbolic/symbolic.h"
#include "llvm/ADT/StringSet.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/kernel_choice.h"

namespace straightline::lowering {

using Exprs = llvm::SmallVector<mlir::AffineExpr>;

/// One scalar region of a kernel: its arguments and how its body is built (returns what is
/// yielded).
struct Body {
  std::string name;
  llvm::SmallVector<mlir::Type> arguments;
  std::function<llvm::SmallVector<mlir::Value>(mlir::OpBuilder&, mlir::ValueRange)> build;
};

/// A kernel to be launched: family, schedule, buffers, scalar regions.
struct KernelSpec {
  std::string name;  ///< wished symbol; made unique
  std::string family;
  llvm::SmallVector<mlir::NamedAttribute> shape;
  llvm::SmallVector<mlir::NamedAttribute> tune;
  llvm::SmallVector<mlir::Value> inputs;
  llvm::SmallVector<mlir::Value> outputs;
  llvm::SmallVector<mlir::Value> workspace;
  llvm::SmallVector<kernel::Tie> ties;
  llvm::SmallVector<Body> bodies;
  bool canFail = false;
  bool updates = false;  ///< the outputs hold values that the kernel reads or leaves
  bool wholeTeam = true;
  std::optional<bool> alone;  ///< a measured choice about the team; nullopt: by the cost
  /// key under which it was or can be measured; empty: nothing to choose
  std::string choice;
  double costUs = 0;  ///< estimated, on one thread of a CPU unless `ownCost`
  /// a kernel's own estimate: for the team, or for the device that it runs on
  bool ownCost = false;
  std::string op;   ///< ops it came from, "linear, relu"
  std::string why;  ///< why this kernel, for `explain`
};

/// How a body value is indexed: iteration dims -> dims of the value.
using AccessMap = mlir::AffineMap;

/// Operand of a fusion read through a map.
struct Access {
  unsigned operand;
  AccessMap map;
  bool operator==(const Access&) const = default;
};

/// Evaluates a fusion's body for one element of the iteration space. `leaf` gives the scalar of an
/// operand read through a map; `known` values (results of reductions) are taken as they are.
class ScalarEvaluator {
 public:
  using Leaf = std::function<mlir::Value(unsigned operand, AccessMap map)>;
  ScalarEvaluator(op::FusionOp fusion, mlir::OpBuilder& builder, Leaf leaf)
      : fusion_(fusion), builder_(builder), leaf_(std::move(leaf)) {}
  void define(mlir::Value value, mlir::Value scalar) { known_[value] = scalar; }
  /// Fails with a diagnostic on an op that has no scalar meaning.
  mlir::FailureOr<mlir::Value> evaluate(mlir::Value value, AccessMap map);

 private:
  op::FusionOp fusion_;
  mlir::OpBuilder& builder_;
  Leaf leaf_;
  llvm::DenseMap<mlir::Value, mlir::Value> known_;
  std::vector<std::pair<std::pair<mlir::Value, AccessMap>, mlir::Value>> memo_;
};

/// The map of `expand`'s, `permute`'s or a unit-dim `reshape`'s operand, given the map of its
/// result; null otherwise.
AccessMap operandMap(mlir::Operation* view, AccessMap resultMap);

using op::scalarType;
/// The scalar of a `full` or a literal with equal elements, through views; null otherwise (and for
/// null).
mlir::TypedAttr splatOf(mlir::Operation* op);
/// A literal (f64, i64 or bool attribute of an op) as a scalar of `type`.
mlir::TypedAttr scalarAttribute(mlir::Attribute value, mlir::Type type);

class Lowering {
 public:
  Lowering(mlir::ModuleOp module, mlir::func::FuncOp function, kernel::TargetAttr target);
  mlir::LogicalResult run();

  // --- names and sizes (lowering.cpp)
  mlir::MLIRContext* context() const { return context_; }
  mlir::AffineExpr constant(int64_t value) const {
    return mlir::getAffineConstantExpr(value, context_);
  }
  Exprs extentsOf(mlir::Value tensor);
  Exprs extentsOf(kernel::BufferType type);
  Exprs stridesOf(kernel::BufferType type);
  /// Strides of a buffer along the iteration dims of the map that reads it; 0 where it is
  /// broadcast.
  Exprs stridesThrough(mlir::Value buffer, AccessMap map);
  Exprs rowMajor(const Exprs& extents) const;
  mlir::AffineExpr product(llvm::ArrayRef<mlir::AffineExpr> extents) const;
  /// Largest value over the bounds of the named extents; a large number when unbounded.
  int64_t upperBound(mlir::AffineExpr expr) const;
  /// i64 when static, #kernel.extent otherwise.
  mlir::Attribute number(mlir::AffineExpr expr) const;
  mlir::Attribute number(int64_t value) const;
  mlir::Attribute numbers(llvm::ArrayRef<mlir::AffineExpr> exprs) const;
  mlir::NamedAttribute named(llvm::StringRef key, mlir::Attribute value) const;

  // --- buffers (buffers.cpp)
  static kernel::BufferType typeOf(mlir::Value buffer) {
    return llvm::cast<kernel::BufferType>(buffer.getType());
  }
  kernel::BufferType type(const Exprs& extents, mlir::Type element, const Exprs& strides,
                          llvm::ArrayRef<int64_t> border = {}) const;
  kernel::BufferType contiguousType(const Exprs& extents, mlir::Type element) const;
  mlir::Value slot(kernel::BufferType type);
  mlir::Value view(mlir::Location loc, mlir::Value base, kernel::BufferType type,
                   mlir::AffineExpr offset,
                   llvm::ArrayRef<std::pair<std::string, mlir::Value>> indices = {});
  mlir::Value bufferOf(mlir::Value tensor);
  void bind(mlir::Value tensor, mlir::Value buffer) { buffers_[tensor] = buffer; }
  /// Where a fresh value is to be written: the place its user wants (an output, a tied buffer, a
  /// part of a concatenation), else a slot with the layout that assign_layouts chose.
  mlir::Value destination(mlir::Value tensor);
  /// Storage owner of a buffer, through views.
  static mlir::Value root(mlir::Value buffer);
  /// The strided buffer under other extents without moving anything; null when strides forbid it.
  mlir::Value tryReshape(mlir::Location loc, mlir::Value buffer, const Exprs& extents);
  /// Row-major copy when it is not row-major already.
  mlir::Value contiguous(mlir::Location loc, mlir::Value buffer, llvm::StringRef why);

  // --- statements (lowering.cpp)
  mlir::OpBuilder& builder() { return builder_; }
  kernel::LaunchOp launch(mlir::Location loc, KernelSpec& spec);
  /// Elementwise copy between buffers of equal extents and any strides.
  void copy(mlir::Location loc, mlir::Value from, mlir::Value to, llvm::StringRef op,
            llvm::StringRef why);
  /// A library's kernel as it was chosen: its declaration, its plan in prepare, and the call. The
  /// last inputs are `constants`, which the plan reads; `attributes` is what it is told.
  struct LibraryKernel {
    const sl_kernel_desc& kernel;
    const Problem& problem;
    const KernelSpec& spec;
  };
  void callLibrary(mlir::Location loc, const LibraryKernel& chosen,
                   llvm::ArrayRef<mlir::Value> inputs, llvm::ArrayRef<mlir::Value> constants,
                   mlir::Value out, llvm::ArrayRef<mlir::NamedAttribute> attributes);
  void zeroBorder(mlir::Location loc, mlir::Value buffer);
  bool inPrepare() const { return inPrepare_; }
  /// Symbol of the caller's queue. Extents share its name space, and a user may have called one
  /// "team".
  llvm::StringRef teamQueue() const {
    return llvm::any_of(names_, [](mlir::StringAttr name) { return name.getValue() == "team"; })
               ? "caller.team"
               : "team";
  }
  kernel::TargetAttr target() const { return target_; }
  bool isStatic(const Exprs& exprs) const;

  // --- families
  mlir::LogicalResult lowerBlock(mlir::Block& block);
  mlir::LogicalResult lowerOp(mlir::Operation* op);
  mlir::LogicalResult lowerPointwise(op::FusionOp fusion);
  mlir::LogicalResult lowerRowReduction(op::FusionOp fusion);
  mlir::LogicalResult lowerContraction(op::FusionOp fusion);
  mlir::LogicalResult lowerProductGroup(op::FusionOp fusion);
  mlir::LogicalResult lowerStructure(mlir::Operation* op);
  mlir::LogicalResult lowerControl(mlir::Operation* op);
  /// Launches an elementwise kernel over `extents` whose operands have the given strides per
  /// iteration dim.
  void launchPointwise(mlir::Location loc, KernelSpec& spec, const Exprs& extents,
                       llvm::ArrayRef<Exprs> strides);
  /// Names of the ops in a fusion, in order: "linear, relu".
  static std::string opNames(op::FusionOp fusion);
  /// A loop counter or other 0-d integer tensor as an index value.
  mlir::FailureOr<mlir::Value> indexValue(mlir::Location loc, mlir::Value tensor);

 private:
  friend class ContractionLowering;
  mlir::LogicalResult declareProgram();
  mlir::LogicalResult finishReturn();
  mlir::Value freshResult(unsigned i, mlir::Value buffer);
  bool isSamePlace(mlir::Value buffer, mlir::Value place);
  mlir::Value viewOfTied(mlir::Value tensor);
  void demotePrepared();
  /// A buffer of prepare seen through views that stand in run, as prepare sees it.
  mlir::Value viewInPrepare(mlir::Value buffer);
  /// Likewise a view of prepare that run reads; the same one each time.
  mlir::Value viewInRun(mlir::Value buffer);
  /// New storage that prepare fills and run reads. A name that ends with a point or was given
  /// before gets a number.
  mlir::Value preparedBuffer(mlir::Location loc, kernel::BufferType type, llvm::StringRef name);
  /// Statements that `make` creates while run is being lowered stand at the end of prepare.
  void atEndOfPrepare(llvm::function_ref<void()> make);
  /// Row-major copy of `base` in its old shape, seen with `extents`; made by prepare when `base` is
  /// prepare's.
  mlir::Value reshapedCopy(mlir::Operation* op, mlir::Value base, const Exprs& extents);
  mlir::Value wantedDestination(mlir::Value tensor);
  bool safeInPlace(mlir::Value tensor, mlir::Value storage);
  mlir::Value outputArgument(unsigned result);
  mlir::AffineExpr rebased(mlir::AffineExpr expr, llvm::ArrayRef<mlir::StringAttr> from);
  Exprs argumentStrides(mlir::func::FuncOp function, unsigned i, const Exprs& extents);
  mlir::Value allocatePlain(mlir::Value tensor);
  mlir::AffineExpr sliceStart(int64_t start, mlir::AffineExpr extent) const;
  mlir::LogicalResult lowerView(mlir::Operation* op);
  mlir::LogicalResult lowerCat(op::CatOp op);
  /// Whether attention, its only user, reads the two parts of its keys and of its values where they
  /// are.
  bool isReadInParts(op::CatOp op);
  mlir::LogicalResult lowerPad(op::ConstantPadNdOp op);
  mlir::LogicalResult lowerSliceScatter(op::SliceScatterOp op);
  mlir::LogicalResult lowerDynamic(mlir::Operation* op);
  mlir::LogicalResult lowerPool(mlir::Operation* op);
  mlir::LogicalResult lowerGatherRows(mlir::Operation* op, mlir::Value table, int64_t dim,
                                      mlir::Value indices);
  mlir::LogicalResult lowerScatterRows(mlir::Operation* op);
  mlir::LogicalResult lowerIndexing(mlir::Operation* op);
  mlir::LogicalResult lowerTopk(op::TopkOp topk);
  mlir::LogicalResult lowerAttention(op::ScaledDotProductAttentionOp op);
  mlir::LogicalResult lowerSequence(op::LstmSequenceOp sequence);
  mlir::LogicalResult lowerSequence(op::GruSequenceOp sequence);
  mlir::LogicalResult lowerSequence(op::RnnSequenceOp sequence);
  struct SequenceParts;
  mlir::LogicalResult lowerSequence(mlir::Operation* op, const SequenceParts& parts);
  mlir::LogicalResult lowerAten(op::AtenOp aten);
  /// The declaration and the handle of one op with its arguments; made when there is none yet.
  std::pair<mlir::FlatSymbolRefAttr, mlir::Value> planAten(
      mlir::Location loc, const std::string& symbol, const sl_kernel_desc& kernel,
      const Problem& problem, llvm::ArrayRef<mlir::Value> inputs,
      llvm::ArrayRef<mlir::Value> outputs, llvm::ArrayRef<llvm::StringRef> roles,
      llvm::ArrayRef<mlir::Attribute> sizes);
  mlir::LogicalResult lowerConstant(mlir::Operation* op);
  mlir::LogicalResult lowerGenerated(mlir::Operation* op, mlir::Value place);
  /// Whether a full has no storage: each loop that begins with it writes it where it carries it.
  static bool isWrittenByLoops(mlir::Value tensor);
  /// The update of one row of what a loop carries as `carried`, where its rounds together replace
  /// every row and read none; else null.
  op::DynamicUpdateSliceOp rowUpdate(mlir::BlockArgument carried);
  /// The row that `tensor` replaces in what a loop carries, seen with its extents, for the op that
  /// makes `tensor` to write: the update then has nothing to do. Null where there is no such row,
  /// or it was given out before.
  mlir::Value takeRow(mlir::Value tensor);
  /// The part of `base` that begins at an index computed at run time along `dim`, with the extents
  /// of `part`.
  mlir::FailureOr<mlir::Value> dynamicPart(mlir::Location loc, mlir::Value base, mlir::Value index,
                                           int64_t dim, mlir::Value part);
  mlir::LogicalResult lowerIf(op::IfOp op);
  mlir::LogicalResult lowerFor(op::ForOp op);
  mlir::LogicalResult lowerWhile(op::WhileOp op);
  mlir::LogicalResult lowerRegion(mlir::Block& block, llvm::ArrayRef<mlir::Value> places);
  mlir::FailureOr<mlir::Value> scalarIndex(mlir::Location loc, mlir::Value tensor);
  void yieldInto(mlir::Location loc, mlir::Operation* terminator,
                 llvm::ArrayRef<mlir::Value> places);

  mlir::ModuleOp module_;
  mlir::func::FuncOp function_;
  kernel::TargetAttr target_;
  mlir::MLIRContext* context_;
  mlir::OpBuilder builder_;
  llvm::SmallVector<mlir::StringAttr> names_;
  symbolic::BoundsMap bounds_;
  kernel::ProgramOp program_;
  kernel::PrepareOp prepare_;
  kernel::RunOp run_;
  bool inPrepare_ = false;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers_;
  llvm::DenseMap<mlir::Value, mlir::Value> viewsInRun_;  ///< of views that prepare made
  /// loop index tensors -> index values
  llvm::DenseMap<mlir::Value, mlir::Value> counters_;
  /// values yielded by the region being lowered -> place
  llvm::DenseMap<mlir::Value, mlir::Value> placeOfYield_;
  /// function result -> output argument
  llvm::DenseMap<unsigned, unsigned> outputOfResult_;
  /// A concatenation and one of its parts -> the part's place in it; a value may be a part of
  /// several.
  llvm::DenseMap<std::pair<mlir::Operation*, mlir::Value>, mlir::Value> catPlace_;
  /// updates whose row is written by what makes it
  llvm::DenseSet<mlir::Operation*> taken_;
  std::map<std::string, kernel::FuncOp> functions_;  ///< text without name -> function
  llvm::StringMap<unsigned> usedNames_;
  llvm::StringSet<> takenNames_;  ///< of kernels
  /// Text of a kernel.decl without its name -> the declaration and its handle.
  std::map<std::string, std::pair<mlir::FlatSymbolRefAttr, mlir::Value>> atenHandles_;
  std::map<std::string, mlir::Value> packs_;  ///< shared packed weights
};

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_LOWERING_H
