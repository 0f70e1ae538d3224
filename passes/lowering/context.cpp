// SPDX-License-Identifier: Apache-2.0
// Ops and regions: each op by its rule.
#include "passes/lowering/context.h"

#include "dialect/error_kind.h"
#include "dialect/kernel/recorded.h"
#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/SaveAndRestore.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/lowering/scalar_evaluator.h"

namespace straightline::lowering {

using mlir::failure;
using mlir::FailureOr;
using mlir::Location;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

LoweringContext::LoweringContext(const Sizes& sizes, const RuleSet& rules,
                                 const ProgramParts& parts, kernel::TargetAttr target)
    : Sizes(sizes),
      rules_(rules),
      parts_(parts),
      target_(target),
      facts_(factsOf(target)),
      builder_(sizes.context()) {
  for (auto extent : parts_.program.getBodyBlock()->getOps<kernel::ExtentOp>()) {
    if (extent.getBoundAttr()) {
      unknownExtents_.insert(extent.getSymNameAttr());
    }
  }
}

mlir::OpBuilder LoweringContext::endOfModule() const {
  return mlir::OpBuilder::atBlockEnd(module().getBody());
}

mlir::OpBuilder LoweringContext::declarations() const { return mlir::OpBuilder(parts_.prepare); }

mlir::OpBuilder LoweringContext::endOfPrepare() const {
  kernel::PrepareOp prepare = parts_.prepare;
  return mlir::OpBuilder::atBlockEnd(&prepare.getBody().front());
}

LogicalResult LoweringContext::lowerOp(Operation* op) {
  if (isDone(op)) {
    return success();
  }
  const llvm::SaveAndRestore current(current_, op);
  // Nothing is computed for results without elements; kernels and their costs are made for at
  // least one.
  if (llvm::isa<op::FusionOp, op::ExternalOp>(op) &&
      llvm::all_of(op->getResults(), [&](Value result) {
        return llvm::is_contained(extentsOf(result), constant(0));
      })) {
    for (Value result : op->getResults()) {
      destination(result);
    }
    return success();
  }
  if (const Rule* rule = rules_.find(op)) {
    mlir::Block* block = builder_.getInsertionBlock();
    const auto end = builder_.getInsertionPoint();
    Operation* before = end == block->begin() ? nullptr : &*std::prev(end);
    if (rule->lower && failed(rule->lower(op, *this))) {
      return failure();
    }
    tellRefusals(op, before);
    return success();
  }
  if (llvm::isa<op::ElementwiseOpInterface>(op)) {
    if (!extentsOf(op->getResult(0)).empty()) {
      return op->emitOpError("stands outside a fusion: fuse_pointwise must come before");
    }
    return success();  // index arithmetic: scalar statements, made where the index is used
  }
  auto fusion = llvm::dyn_cast<op::FusionOp>(op);
  const std::string name =
      fusion ? "fusions of family " + fusion.getFamily().str() : op->getName().getStringRef().str();
  return emitUnsupported(op) << op->getName().stripDialect()
                             << " has no lowering to kernels; decompose_ops or a fusion pass "
                                "probably lacks a case; no rule is registered for "
                             << name;
}

/// Copies the reasons for which external kernels refused the op, or ops of the fusion, to the last
/// kernel that computes it. `before` is the statement before its own; null: there was none.
void LoweringContext::tellRefusals(Operation* op, Operation* before) {
  std::string refusals;
  llvm::SmallVector<mlir::Attribute> alternatives;
  op->walk([&](Operation* part) {
    const mlir::ArrayAttr said = op::refusalsOf(part);
    for (mlir::Attribute each : said ? said.getValue() : llvm::ArrayRef<mlir::Attribute>()) {
      auto row = llvm::cast<mlir::DictionaryAttr>(each);
      refusals += "; " + row.getAs<mlir::StringAttr>("kernel").str() + ": " +
                  row.getAs<mlir::StringAttr>("said").str();
      alternatives.push_back(row);
    }
  });
  if (refusals.empty()) {
    return;
  }
  const auto end = builder_.getInsertionPoint();
  const auto begin =
      before ? std::next(before->getIterator()) : builder_.getInsertionBlock()->begin();
  kernel::LaunchOp last;
  for (auto statement = begin; statement != end; ++statement) {
    if (auto launch = llvm::dyn_cast<kernel::LaunchOp>(*statement)) {
      last = launch;
    }
  }
  if (last) {
    last.setWhyAttr(builder_.getStringAttr(last.getWhy().value_or("") + refusals));
    if (const mlir::ArrayAttr own = kernel::alternativesOf(last)) {
      alternatives.insert(alternatives.begin(), own.begin(), own.end());
    }
    kernel::setAlternatives(last, builder_.getArrayAttr(alternatives));
  }
}

LogicalResult LoweringContext::lowerBlock(mlir::Block& block) {
  for (Operation& op : block.without_terminator()) {
    if (!op::isPrepared(&op) && failed(lowerOp(&op))) {
      return failure();
    }
  }
  return success();
}

LogicalResult LoweringContext::lowerRegion(mlir::Block& block, llvm::ArrayRef<Value> places) {
  Operation* terminator = block.getTerminator();
  for (auto [value, place] : llvm::zip(terminator->getOperands(), places)) {
    if (value.getParentBlock() == &block && value.getDefiningOp()) {
      setPlace(value, place);
    }
  }
  if (failed(lowerBlock(block))) {
    return failure();
  }
  yieldInto(terminator, places);
  return success();
}

void LoweringContext::yieldInto(Operation* terminator, llvm::ArrayRef<Value> places) {
  const Location loc = terminator->getLoc();
  llvm::SmallVector<std::pair<Value, Value>> copies;
  for (auto [value, place] : llvm::zip(terminator->getOperands(), places)) {
    Value from = bufferOf(value);
    if (from != place) {
      copies.push_back({from, place});
    }
  }
  // A value that lives in a place which another copy overwrites goes through memory of its own
  // first.
  for (auto& [from, place] : copies) {
    const bool overwritten = llvm::any_of(copies, [&](const auto& other) {
      return &other.first != &from && root(other.second) == root(from);
    });
    if (overwritten) {
      Value saved = slot(contiguousType(extentsOf(typeOf(from)), typeOf(from).getElementType()));
      copy(loc, from, saved, "yield", "carried values change places");
      from = saved;
    }
  }
  for (auto& [from, place] : copies) {
    copy(loc, from, place, "yield", "the carried value has storage of its own");
  }
}

FailureOr<Value> LoweringContext::indexValue(Location loc, Value tensor) {
  if (Value counter = counters_.lookup(tensor)) {
    return counter;
  }
  FailureOr<Value> number = scalarIndex(loc, tensor);
  if (failed(number)) {
    return failure();
  }
  return mlir::arith::IndexCastOp::create(builder_, loc, builder_.getIndexType(), *number)
      .getResult();
}

/// A 0-d integer tensor as a scalar: arithmetic on loop counters (a reversed sequence) never
/// becomes a kernel; anything else is loaded from its buffer.
FailureOr<Value> LoweringContext::scalarIndex(Location loc, Value tensor) {
  if (Value counter = counters_.lookup(tensor)) {
    return mlir::arith::IndexCastOp::create(builder_, loc, builder_.getI64Type(), counter)
        .getResult();
  }
  Operation* op = tensor.getDefiningOp();
  if (mlir::TypedAttr splat = splatOf(op)) {
    return mlir::arith::ConstantOp::create(builder_, loc, splat).getResult();
  }
  if (auto elementwise = llvm::dyn_cast_if_present<op::ElementwiseOpInterface>(op)) {
    llvm::SmallVector<Value> scalars;
    for (Value operand : op->getOperands()) {
      FailureOr<Value> scalar = scalarIndex(loc, operand);
      if (failed(scalar)) {
        return failure();
      }
      scalars.push_back(*scalar);
    }
    return elementwise.buildScalar(builder_, loc, scalars);
  }
  Value buffer = bufferOf(tensor);
  return kernel::LoadOp::create(builder_, loc, scalarType(typeOf(buffer).getElementType()), buffer,
                                mlir::ValueRange())
      .getResult();
}

}  // namespace straightline::lowering
