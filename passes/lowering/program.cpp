// SPDX-License-Identifier: Apache-2.0
// The program as a whole: what it is made of, and what it returns.
#include "passes/lowering/program.h"

#include "dialect/kernel/size_advice.h"
#include "dialect/op/recorded.h"
#include "dialect/op/size_advice.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "passes/lowering/computed_extents.h"
#include "passes/lowering/context.h"

namespace straightline::lowering {

using mlir::Attribute;
using mlir::failure;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

bool isAlias(Value tensor) {
  while (Operation* op = tensor.getDefiningOp()) {
    if (!op->hasTrait<op::View>()) {
      return llvm::isa<op::ParameterOp, op::StateOp>(op);
    }
    tensor = op->getOperand(0);
  }
  return true;
}

/// Declares states that no op reads any more: their op has been erased, so they are declared again
/// from the attributes of the result that overwrites them.
void declareUnreadStates(mlir::func::FuncOp function) {
  llvm::StringSet<> known;
  function.walk([&](op::StateOp state) { known.insert(state.getName()); });
  Operation* terminator = function.getBody().front().getTerminator();
  mlir::OpBuilder builder(function.getContext());
  builder.setInsertionPointToStart(&function.getBody().front());
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    const std::optional<op::Tie> tie = op::tieOf(function, i);
    if (!tie || !tie->isState || !known.insert(tie->name).second) {
      continue;
    }
    auto state = op::StateOp::create(builder, function.getLoc(), value.getType(), tie->name);
    if (const op::DimsAttr strides = op::stridesOfResult(function, i)) {
      op::setStrides(state, strides);
    }
  }
}

Exprs argumentStrides(const Sizes& sizes, mlir::func::FuncOp function, unsigned i,
                      const Exprs& extents) {
  const op::DimsAttr dims = op::stridesOfArgument(function, i);
  return dims ? sizes.rebased(dims) : sizes.rowMajor(extents);
}

/// Inputs or outputs of run.
struct Buffers {
  llvm::SmallVector<std::string> names;
  llvm::SmallVector<mlir::Type> types;

  llvm::SmallVector<llvm::StringRef> namesOf() const {
    return llvm::SmallVector<llvm::StringRef>(names.begin(), names.end());
  }
};

/// Lowers one function: makes the program, has its ops lowered, and returns what it returns.
class ProgramLowering {
 public:
  ProgramLowering(mlir::ModuleOp module, mlir::func::FuncOp function, kernel::TargetAttr target,
                  const RuleSet& rules)
      : function_(function),
        sizes_(module),
        parts_(declare(module, target)),
        context_(sizes_, rules, parts_, target) {
    for (auto [argument, buffer] : llvm::zip(function_.getArguments(), parts_.run.getInputs())) {
      context_.bind(argument, buffer);
    }
    for (auto [result, argument] : outputOfResult_) {
      context_.setOutput(result, parts_.run.getBody().getArgument(argument));
    }
  }

  LogicalResult lower();

 private:
  ProgramParts declare(mlir::ModuleOp module, kernel::TargetAttr target);
  Buffers inputs();
  Buffers outputs(size_t inputs);
  LogicalResult placeTies();
  Value storageOfTie(const op::Tie& tie);
  void demotePrepared();
  LogicalResult finishReturn();
  /// Sets the results that are neither tied nor views of a tied result.
  void finishOwn(llvm::MutableArrayRef<Value> results);
  Value viewOfTied(Value tensor, std::pair<Value, Value> tied);
  std::pair<Value, Value> tiedTo(unsigned result);
  Value freshResult(unsigned i, Value buffer);
  Operation* terminator() { return function_.getBody().front().getTerminator(); }

  mlir::func::FuncOp function_;
  Sizes sizes_;
  llvm::DenseMap<unsigned, unsigned> outputOfResult_;  ///< -> argument of run
  llvm::DenseMap<unsigned, Value> storageOfResult_;    ///< of tied ones
  ProgramParts parts_;
  LoweringContext context_;
};

Buffers ProgramLowering::inputs() {
  Buffers made;
  for (auto [i, argument] : llvm::enumerate(function_.getArguments())) {
    const mlir::StringAttr name = op::nameOfArgument(function_, i);
    made.names.push_back(name ? name.str() : "input" + std::to_string(i));
    const Exprs extents = sizes_.extentsOf(argument);
    made.types.push_back(sizes_.type(extents, elementType(argument),
                                     argumentStrides(sizes_, function_, i, extents)));
  }
  return made;
}

/// `inputs`: how many arguments of run stand before them.
Buffers ProgramLowering::outputs(size_t inputs) {
  Buffers made;
  llvm::DenseSet<Value> fresh;
  for (auto [i, value] : llvm::enumerate(terminator()->getOperands())) {
    if (op::tieOf(function_, i) || op::isAliasOfTied(function_, i) || isAlias(value)) {
      continue;
    }
    if (!fresh.insert(value).second) {
      continue;  // the same value twice is one output
    }
    const mlir::StringAttr name = op::nameOfResult(function_, i);
    outputOfResult_[i] = inputs + made.names.size();
    made.names.push_back(name ? name.str() : "output" + std::to_string(i));
    made.types.push_back(sizes_.contiguousType(sizes_.extentsOf(value), elementType(value)));
  }
  return made;
}

ProgramParts ProgramLowering::declare(mlir::ModuleOp module, kernel::TargetAttr target) {
  const mlir::Location loc = function_.getLoc();
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(module.getBody());
  ProgramParts parts;
  parts.module = module;
  parts.program = kernel::ProgramOp::create(builder, loc, function_.getSymName(), target);
  if (mlir::ArrayAttr advice = op::sizeAdviceOf(function_)) {
    kernel::setSizeAdvice(parts.program, advice);
  }
  builder.setInsertionPointToEnd(parts.program.getBodyBlock());
  kernel::QueueOp::create(builder, loc, sizes_.teamQueue(), kernel::kHostBackend);
  for (mlir::StringAttr name : sizes_.names()) {
    const symbolic::Bounds bounds = sizes_.boundsOf(name);
    kernel::ExtentAttr bound;
    function_.walk([&](op::SetExtentOp set) {
      if (set.getExtentAttr() == name) {
        bound = kernel::ExtentAttr::get(module.getContext(), set.getBound().getNames(),
                                        set.getBound().getExprs().front());
      }
    });
    kernel::ExtentOp::create(builder, loc, name, bounds.lowest, bounds.highest, bound);
  }
  parts.prepare = kernel::PrepareOp::create(builder, loc);
  const Buffers in = inputs();
  const Buffers out = outputs(in.names.size());
  llvm::SmallVector<bool> mutated(in.names.size(), false);
  for (unsigned i = 0; i < terminator()->getNumOperands(); ++i) {
    const std::optional<op::Tie> tie = op::tieOf(function_, i);
    for (size_t j = 0; tie && !tie->isState && j < in.names.size(); ++j) {
      mutated[j] = mutated[j] || tie->name == in.names[j];
    }
  }
  parts.run = kernel::RunOp::create(builder, loc, in.namesOf(), in.types, out.namesOf(), out.types,
                                    mutated);
  return parts;
}

/// The buffer of the argument or state that a tied result is the new value of; null if the function
/// has no argument or state of that name.
Value ProgramLowering::storageOfTie(const op::Tie& tie) {
  Value storage;
  if (!tie.isState) {
    for (auto [j, argument] : llvm::enumerate(function_.getArguments())) {
      const mlir::StringAttr name = op::nameOfArgument(function_, j);
      storage = name && name.getValue() == tie.name ? context_.bufferOf(argument) : storage;
    }
  } else {
    function_.walk([&](op::StateOp state) {
      storage = state.getName() == tie.name ? context_.bufferOf(state.getResult()) : storage;
    });
  }
  return storage;
}

LogicalResult ProgramLowering::placeTies() {
  for (auto [i, value] : llvm::enumerate(terminator()->getOperands())) {
    const std::optional<op::Tie> tie = op::tieOf(function_, i);
    if (!tie) {
      continue;
    }
    Value storage = storageOfTie(*tie);
    if (!storage) {
      return function_.emitError() << "result " << i << " is tied to '" << tie->text
                                   << "', which the function does not have";
    }
    if (context_.placeOf(value)) {
      context_.addPlace(value, storage);  // of two states, say
    } else {
      context_.setPlace(value, storage);
    }
    storageOfResult_[i] = storage;
  }
  return success();
}

LogicalResult ProgramLowering::lower() {
  mlir::Block& block = function_.getBody().front();
  orderBehindExtents(block);
  bool prepared = true;
  context_.atEndOfPrepare([&] {
    for (Operation& op : block.without_terminator()) {
      prepared = prepared && (!op::isPrepared(&op) || succeeded(context_.lowerOp(&op)));
    }
  });
  context_.builder().setInsertionPointToEnd(&parts_.run.getBody().front());
  if (!prepared || failed(placeTies()) || failed(context_.lowerBlock(block)) ||
      failed(finishReturn()) || failed(context_.removeRowPlaces())) {
    return failure();
  }
  demotePrepared();
  if (parts_.prepare.getBody().front().empty()) {
    parts_.prepare.erase();
  }
  function_.erase();
  for (op::SymbolOp symbol : llvm::make_early_inc_range(parts_.module.getOps<op::SymbolOp>())) {
    symbol.erase();
  }
  return success();
}

/// Prepared storage that only prepare reads (a folded weight that was then packed) becomes scratch
/// of prepare.
void ProgramLowering::demotePrepared() {
  for (auto prepared :
       llvm::make_early_inc_range(parts_.program.getBodyBlock()->getOps<kernel::PreparedOp>())) {
    llvm::SmallVector<Value> worklist = {prepared.getBuffer()};
    bool readByRun = false;
    while (!worklist.empty()) {
      for (Operation* user : worklist.pop_back_val().getUsers()) {
        readByRun |= parts_.run->isAncestor(user);
        if (auto view = llvm::dyn_cast<kernel::ViewOp>(user)) {
          worklist.push_back(view.getResult());
        }
      }
    }
    if (!readByRun) {
      auto builder = mlir::OpBuilder::atBlockBegin(&parts_.prepare.getBody().front());
      auto scratch =
          kernel::SlotOp::create(builder, prepared.getLoc(), typeOf(prepared.getBuffer()));
      prepared.getBuffer().replaceAllUsesWith(scratch.getBuffer());
      prepared.erase();
    }
  }
}

/// The tied result that alias `result` names, and its storage: two inputs that are given equal
/// values have one value here. Null where it names none.
std::pair<Value, Value> ProgramLowering::tiedTo(unsigned result) {
  const llvm::StringRef name = op::aliasedTie(function_, result);
  for (auto [i, value] : llvm::enumerate(terminator()->getOperands())) {
    const std::optional<op::Tie> tie = op::tieOf(function_, i);
    if (tie && tie->text == name) {
      return {value, storageOfResult_.lookup(i)};
    }
  }
  return {};
}

/// `tensor` is a tied result or a view of one. Returns the same view of the storage that the result
/// is tied to, though the result may have been computed elsewhere and copied there. Null when
/// `tensor` is neither, or when the strides of that storage do not allow the view.
/// `tied`: a value that several results are tied to, and the storage of the one that is meant.
Value ProgramLowering::viewOfTied(Value tensor, std::pair<Value, Value> tied) {
  if (Value storage = tensor == tied.first ? tied.second : context_.placeOf(tensor)) {
    context_.bind(tensor, storage);
    return storage;
  }
  Operation* op = tensor.getDefiningOp();
  Value base = op && op->hasTrait<op::View>() ? viewOfTied(op->getOperand(0), tied) : Value();
  if (!base) {
    return {};
  }
  if (Value made = context_.boundTo(tensor); made && context_.root(made) == context_.root(base)) {
    return made;
  }
  context_.unbind(tensor);
  if (failed(context_.lowerOp(op))) {
    return {};
  }
  Value made = context_.bufferOf(tensor);
  return context_.root(made) == context_.root(base) ? made : Value();
}

void ProgramLowering::finishOwn(llvm::MutableArrayRef<Value> results) {
  const auto outlives = [&](Value buffer) {
    Value owner = context_.root(buffer);
    return llvm::is_contained(parts_.run.getInputs(), owner) ||
           (owner.getDefiningOp() &&
            llvm::isa<kernel::ParameterOp, kernel::StateOp>(owner.getDefiningOp()));
  };
  for (auto [i, value] : llvm::enumerate(terminator()->getOperands())) {
    if (op::tieOf(function_, i) || op::isAliasOfTied(function_, i)) {
      continue;
    }
    Value buffer = context_.bufferOf(value);
    if (isAlias(value) && outlives(buffer)) {
      results[i] = buffer;
      continue;
    }
    // A value that comes twice was computed twice by the model: two results, which the caller may
    // overwrite one by one. (What the model returns twice, the front end gives once.)
    results[i] = freshResult(i, buffer);
  }
}

LogicalResult ProgramLowering::finishReturn() {
  // Results with storage of their own come first: writing a tied result may overwrite the storage
  // that they are views of.
  llvm::SmallVector<Value> results(terminator()->getNumOperands());
  finishOwn(results);
  for (auto [i, value] : llvm::enumerate(terminator()->getOperands())) {
    if (!op::tieOf(function_, i)) {
      continue;
    }
    Value buffer = context_.bufferOf(value);
    const Value storage = storageOfResult_.lookup(i);
    const bool isOwn = storage == context_.placeOf(value);
    if (isOwn ? buffer != storage : context_.isMissing(value, storage)) {
      context_.copy(terminator()->getLoc(), buffer, storage, "copy",
                    "the old value is still read after the new one is made");
    }
  }
  for (auto [i, value] : llvm::enumerate(terminator()->getOperands())) {
    if (op::isAliasOfTied(function_, i)) {
      Value made = viewOfTied(value, tiedTo(i));
      results[i] = made ? made : freshResult(i, context_.bufferOf(value));
    }
  }
  llvm::erase(results, Value());  // tied results are not returned to the user
  kernel::ReturnOp::create(context_.builder(), terminator()->getLoc(), results);
  return success();
}

/// The output argument of result `i`, into which `buffer` is copied if it lies elsewhere.
Value ProgramLowering::freshResult(unsigned i, Value buffer) {
  Value place;
  if (auto found = outputOfResult_.find(i); found != outputOfResult_.end()) {
    place = parts_.run.getBody().getArgument(found->second);
  } else {
    // A result that should have been a view, but the strides of its base do not allow one: it gets
    // a new output, added at the end.
    llvm::SmallVector<Attribute> outputNames(parts_.run.getOutputNames().getValue());
    outputNames.push_back(context_.builder().getStringAttr("output" + std::to_string(i)));
    parts_.run.setOutputNamesAttr(context_.builder().getArrayAttr(outputNames));
    place =
        parts_.run.getBody().addArgument(context_.contiguousType(context_.extentsOf(typeOf(buffer)),
                                                                 typeOf(buffer).getElementType()),
                                         parts_.run.getLoc());
  }
  if (!context_.isSamePlace(buffer, place)) {
    context_.copy(parts_.run.getLoc(), buffer, place, "copy", "a result has storage of its own");
  }
  return place;
}

}  // namespace

LogicalResult lowerProgram(mlir::ModuleOp module, mlir::func::FuncOp function,
                           kernel::TargetAttr target, const RuleSet& rules) {
  if (!rules.refused().empty()) {
    return function.emitError() << rules.refused().front();
  }
  declareUnreadStates(function);
  return ProgramLowering(module, function, target, rules).lower();
}

}  // namespace straightline::lowering
