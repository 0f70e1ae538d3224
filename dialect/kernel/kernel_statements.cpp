// SPDX-License-Identifier: Apache-2.0
// Statements: builders, assembly and verifiers.
#include "dialect/kernel/kernel_dialect.h"
#include "dialect/kernel/kernel_syntax.h"
#include "llvm/ADT/StringSet.h"
#include "mlir/IR/Builders.h"

#define GET_OP_CLASSES
#include "dialect/kernel/kernel_ops.cpp.inc"

namespace straightline::kernel {

using llvm::SmallVector;
using llvm::SmallVectorImpl;
using llvm::StringRef;
using mlir::Attribute;
using mlir::FlatSymbolRefAttr;
using mlir::LogicalResult;
using mlir::OpAsmParser;
using mlir::OpAsmPrinter;
using mlir::OpBuilder;
using mlir::Operation;
using mlir::OperationState;
using mlir::ParseResult;
using mlir::StringAttr;
using mlir::SymbolTableCollection;
using mlir::Type;
using mlir::TypeAttr;
using mlir::Value;

namespace {

/// The program around a statement, or an error.
ProgramOp programOf(Operation* op) {
  auto program = op->getParentOfType<ProgramOp>();
  if (!program || op->getParentOp() == program.getOperation()) {
    op->emitOpError() << "stands outside of kernel.prepare and kernel.run (statement_c1)";
    return {};
  }
  return program;
}

LogicalResult verifyQueue(Operation* op, FlatSymbolRefAttr queue, SymbolTableCollection& tables) {
  ProgramOp program = programOf(op);
  if (!program) {
    return mlir::failure();
  }
  if (!tables.lookupSymbolIn<QueueOp>(program, queue.getAttr())) {
    return op->emitOpError() << "names the queue " << queue << ", which the program @"
                             << program.getSymName() << " does not declare (statement_c2)";
  }
  return mlir::success();
}

LogicalResult verifyExtentNames(Operation* op, llvm::ArrayRef<StringAttr> names,
                                mlir::ArrayAttr bound, SymbolTableCollection& tables) {
  ProgramOp program = programOf(op);
  if (!program) {
    return mlir::failure();
  }
  for (StringAttr name : names) {
    if (!llvm::is_contained(bound, Attribute(name)) &&
        !tables.lookupSymbolIn<ExtentOp>(program, name)) {
      return op->emitOpError() << "uses the extent " << name << ", which the program @"
                               << program.getSymName() << " does not declare (statement_c3)";
    }
  }
  return mlir::success();
}

/// Precondition: the queue is declared.
QueueOp queueOf(Operation* op, FlatSymbolRefAttr queue, SymbolTableCollection& tables) {
  return tables.lookupSymbolIn<QueueOp>(op->getParentOfType<ProgramOp>(), queue.getAttr());
}

/// Refuses writes to what must not change in this phase.
LogicalResult verifyWritten(Operation* op, Value buffer) {
  Value root = storageRoot(buffer);
  const bool inPrepare = op->getParentOfType<PrepareOp>() != nullptr;
  Operation* owner = root.getDefiningOp();
  if (auto parameter = llvm::dyn_cast_or_null<ParameterOp>(owner)) {
    return op->emitOpError() << "writes the parameter " << parameter.getNameAttr()
                             << ", which is read only (write_c1)";
  }
  if (llvm::isa_and_nonnull<ConstantOp>(owner)) {
    return op->emitOpError() << "writes a kernel.constant, which is read only (write_c2)";
  }
  auto prepared = llvm::dyn_cast_or_null<PreparedOp>(owner);
  if (prepared && !inPrepare) {
    return op->emitOpError() << "writes the prepared buffer " << prepared.getNameAttr()
                             << " in kernel.run, expected only in kernel.prepare (write_c3)";
  }
  auto state = llvm::dyn_cast_or_null<StateOp>(owner);
  if (state && inPrepare) {
    return op->emitOpError() << "writes the state " << state.getNameAttr()
                             << " in kernel.prepare, expected only in kernel.run (write_c4)";
  }
  auto argument = llvm::dyn_cast<mlir::BlockArgument>(root);
  auto run = argument ? llvm::dyn_cast<RunOp>(argument.getOwner()->getParentOp()) : RunOp();
  if (run && argument.getArgNumber() < run.getInputNames().size() &&
      !run.getMutatedInputs()[argument.getArgNumber()]) {
    return op->emitOpError() << "writes the input " << run.getInputNames()[argument.getArgNumber()]
                             << ", which is not marked readwrite (write_c5)";
  }
  return mlir::success();
}

/// Of a buffer the element type and the space.
Type withoutSizes(Type type) {
  auto buffer = llvm::dyn_cast<BufferType>(type);
  return buffer ? buffer.withoutSizes() : type;
}

/// `anySizes`: the callee's types say element type and space alone.
LogicalResult verifyOperands(Operation* op, StringRef constraint, StringRef what,
                             mlir::OperandRange operands, mlir::ArrayAttr types,
                             FlatSymbolRefAttr callee, bool anySizes) {
  if (operands.size() != types.size()) {
    return op->emitOpError() << "has " << operands.size() << " " << what << " operands but "
                             << callee << " has " << types.size() << " (" << constraint << ")";
  }
  for (auto [position, operand] : llvm::enumerate(operands)) {
    Type expected = llvm::cast<TypeAttr>(types[position]).getValue();
    if (anySizes ? withoutSizes(operand.getType()) != withoutSizes(expected)
                 : operand.getType() != expected) {
      return op->emitOpError() << what << " " << position << " has type " << operand.getType()
                               << " but " << callee << " has " << expected << " (" << constraint
                               << ")";
    }
  }
  return mlir::success();
}

template <typename EntryOp, typename StatementOp>
LogicalResult verifyStatement(StatementOp op, StringRef name, SymbolTableCollection& tables) {
  const std::string typesConstraint = (name + "_c1").str();
  if (failed(verifyQueue(op, op.getQueueAttr(), tables))) {
    return mlir::failure();
  }
  Operation* found = tables.lookupNearestSymbolFrom(
      op->template getParentOfType<ProgramOp>()->getParentOp(), op.getCalleeAttr().getAttr());
  auto entry = llvm::dyn_cast_or_null<EntryOp>(found);
  if (!entry) {
    return op.emitOpError() << "names " << op.getCalleeAttr() << ", which is no "
                            << EntryOp::getOperationName() << " of this module (" << name << "_c2)";
  }
  const bool anySizes = std::is_same_v<EntryOp, FuncOp>;
  if (failed(verifyOperands(op, typesConstraint, "input", op.getInputs(), entry.getInputs(),
                            op.getCalleeAttr(), anySizes)) ||
      failed(verifyOperands(op, typesConstraint, "output", op.getOutputs(), entry.getOutputs(),
                            op.getCalleeAttr(), anySizes)) ||
      failed(verifyOperands(op, typesConstraint, "workspace", op.getWorkspace(),
                            entry.getWorkspace(), op.getCalleeAttr(), anySizes))) {
    return mlir::failure();
  }
  if (op.getTeamAttr() && *op.getTeam() != 1) {
    return op.emitOpError() << "has team = " << *op.getTeam() << ", expected 1 or none (" << name
                            << "_c3)";
  }
  for (mlir::OperandRange written : {op.getOutputs(), op.getWorkspace()}) {
    for (Value buffer : written) {
      if (failed(verifyWritten(op, buffer))) {
        return mlir::failure();
      }
    }
  }
  return mlir::success();
}

using Effects = SmallVectorImpl<mlir::SideEffects::EffectInstance<mlir::MemoryEffects::Effect>>;

template <typename StatementOp>
void callEffects(StatementOp op, Effects& effects) {
  for (mlir::OpOperand& operand : op.getInputsMutable()) {
    effects.emplace_back(mlir::MemoryEffects::Read::get(), &operand);
  }
  for (auto [position, operand] : llvm::enumerate(op.getOutputsMutable())) {
    effects.emplace_back(mlir::MemoryEffects::Write::get(), &operand);
    if (op.isOutputRead(position)) {
      effects.emplace_back(mlir::MemoryEffects::Read::get(), &operand);
    }
  }
  for (mlir::OpOperand& operand : op.getWorkspaceMutable()) {
    effects.emplace_back(mlir::MemoryEffects::Write::get(), &operand);
  }
}

}  // namespace

//===- launch, call, plan --------------------------------------------------===//

FlatSymbolRefAttr LaunchOp::getEntry() { return getCalleeAttr(); }
FlatSymbolRefAttr LaunchOp::getQueueSymbol() { return getQueueAttr(); }
int64_t LaunchOp::getTeamSize() { return getTeam().value_or(0); }
Value LaunchOp::getHandleOrNull() { return {}; }

void LaunchOp::build(OpBuilder&, OperationState& state, FlatSymbolRefAttr callee,
                     mlir::ValueRange inputs, mlir::ValueRange outputs, mlir::ValueRange workspace,
                     FlatSymbolRefAttr queue, mlir::IntegerAttr team, StringAttr op,
                     StringAttr why) {
  for (mlir::ValueRange operands : {inputs, outputs, workspace}) {
    state.addOperands(operands);
  }
  auto& properties = state.getOrAddProperties<Properties>();
  properties.operandSegmentSizes = {static_cast<int32_t>(inputs.size()),
                                    static_cast<int32_t>(outputs.size()),
                                    static_cast<int32_t>(workspace.size())};
  properties.callee = callee;
  properties.queue = queue;
  properties.team = team;
  properties.op = op;
  properties.why = why;
}

SmallVector<ExtentAttr> LaunchOp::getScalarValues() {
  if (mlir::ArrayAttr sizes = getSizesAttr()) {
    return llvm::to_vector(sizes.getAsRange<ExtentAttr>());
  }
  auto function = llvm::cast<FuncOp>(lookupEntry(*this, getCalleeAttr()));
  return llvm::map_to_vector(function.getScalarNames(), [&](StringAttr name) {
    return ExtentAttr::get(getContext(), {name}, mlir::getAffineSymbolExpr(0, getContext()));
  });
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection& tables) {
  if (failed(verifyStatement<FuncOp>(*this, "launch", tables))) {
    return mlir::failure();
  }
  auto function = llvm::cast<FuncOp>(lookupEntry(*this, getCalleeAttr()));
  const SmallVector<StringAttr> names = function.getScalarNames();
  mlir::ArrayAttr sizes = getSizesAttr();
  if (sizes && sizes.size() != names.size()) {
    return emitOpError() << "has " << sizes.size() << " sizes but " << getCalleeAttr() << " has "
                         << names.size() << " run-time scalars (launch_c4)";
  }
  if (sizes && runsOnDevice(function)) {
    return emitOpError()
           << "has sizes but " << getCalleeAttr()
           << " runs on a device, whose grid is counted from named extents (launch_c5)";
  }
  for (ExtentAttr size : getScalarValues()) {
    if (failed(verifyExtentNames(*this, size.getNames(), mlir::ArrayAttr::get(getContext(), {}),
                                 tables))) {
      return mlir::failure();
    }
  }
  return mlir::success();
}
void LaunchOp::getEffects(Effects& effects) { callEffects(*this, effects); }

FlatSymbolRefAttr CallOp::getEntry() { return getCalleeAttr(); }
FlatSymbolRefAttr CallOp::getQueueSymbol() { return getQueueAttr(); }
int64_t CallOp::getTeamSize() { return getTeam().value_or(0); }
Value CallOp::getHandleOrNull() { return getHandle(); }
void CallOp::getEffects(Effects& effects) { callEffects(*this, effects); }

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection& tables) {
  if (failed(verifyStatement<DeclOp>(*this, "call", tables))) {
    return mlir::failure();
  }
  auto decl = llvm::cast<DeclOp>(lookupEntry(*this, getCalleeAttr()));
  if (decl.getPlanAttr() && !getHandle()) {
    return emitOpError() << "has no handle but " << getCalleeAttr() << " has plan "
                         << decl.getPlanAttr() << " (call_c4)";
  }
  if (!decl.getPlanAttr() && getHandle()) {
    return emitOpError() << "has a handle but " << getCalleeAttr() << " has no plan (call_c4)";
  }
  return mlir::success();
}

LogicalResult PlanOp::verifySymbolUses(SymbolTableCollection& tables) {
  if (failed(verifyQueue(*this, getQueueAttr(), tables))) {
    return mlir::failure();
  }
  if (!(*this)->getParentOfType<PrepareOp>()) {
    return emitOpError() << "stands outside of kernel.prepare (plan_c1)";
  }
  auto decl = llvm::dyn_cast_or_null<DeclOp>(lookupEntry(*this, getCalleeAttr()));
  if (!decl || !decl.getPlanAttr()) {
    return emitOpError() << "names " << getCalleeAttr()
                         << ", which is no kernel.decl with a plan of this module (plan_c2)";
  }
  SmallVector<Type> expected;
  for (auto [type, constant] : llvm::zip(decl.getInputs(), decl.getConstants())) {
    if (constant) {
      expected.push_back(llvm::cast<TypeAttr>(type).getValue());
    }
  }
  if (llvm::to_vector(getConstants().getTypes()) != expected) {
    return emitOpError() << "has constants of types (" << getConstants().getTypes() << ") but "
                         << getCalleeAttr() << " has (" << expected << ") (plan_c3)";
  }
  return mlir::success();
}

//===- view, copy, queues, scalars -----------------------------------------===//

LogicalResult ViewOp::verify() {
  if (getIndexNames().size() != getIndices().size()) {
    return emitOpError() << "has " << getIndices().size() << " index values but "
                         << getIndexNames().size() << " names for them (view_c1)";
  }
  auto base = llvm::cast<BufferType>(getBase().getType());
  auto result = llvm::cast<BufferType>(getResult().getType());
  if (base.getSpace() != result.getSpace()) {
    return emitOpError() << "has a base in space \"" << base.getSpace() << "\" but a result in \""
                         << result.getSpace() << "\" (view_c2)";
  }
  if (base.elementBytes() != result.elementBytes()) {
    return emitOpError() << "has a base of " << base.elementBytes()
                         << "-byte elements but a result of " << result.elementBytes()
                         << "-byte elements (view_c3)";
  }
  return mlir::success();
}

LogicalResult ViewOp::verifySymbolUses(SymbolTableCollection& tables) {
  if (failed(verifyExtentNames(*this, getOffset().getNames(), getIndexNames(), tables))) {
    return mlir::failure();
  }
  for (auto name : getIndexNames().getAsRange<StringAttr>()) {
    if (tables.lookupSymbolIn<ExtentOp>((*this)->getParentOfType<ProgramOp>(), name)) {
      return emitOpError() << "binds the index name " << name
                           << ", which is also a named extent (view_c4)";
    }
  }
  return mlir::success();
}

LogicalResult SetExtentOp::verify() {
  mlir::Operation* around = (*this)->getParentOp();
  while (llvm::isa<IfOp, ForOp, WhileOp>(around)) {
    around = around->getParentOp();
  }
  if (!llvm::isa<RunOp>(around)) {
    return emitOpError() << "stands in " << around->getName()
                         << ", expected kernel.run, or a branch or a loop there (set_extent_c1)";
  }
  return mlir::success();
}

LogicalResult SetExtentOp::verifySymbolUses(SymbolTableCollection& tables) {
  ProgramOp program = programOf(*this);
  auto extent =
      program ? tables.lookupSymbolIn<ExtentOp>(program, getExtentAttr().getAttr()) : ExtentOp();
  if (!extent || !extent.getBoundAttr()) {
    return emitOpError() << "sets " << getExtentAttr()
                         << ", which the program does not declare with a bound (set_extent_c2)";
  }
  const auto again = program.getRunOp().walk([&](SetExtentOp other) {
    return other != *this && other.getExtentAttr() == getExtentAttr()
               ? mlir::WalkResult::interrupt()
               : mlir::WalkResult::advance();
  });
  if (again.wasInterrupted()) {
    return emitOpError() << "sets " << getExtentAttr() << " a second time (set_extent_c3)";
  }
  return mlir::success();
}

LogicalResult AllocOp::verify() {
  auto cell = llvm::cast<BufferType>(getCell().getType());
  if (!cell.getElementType().isInteger(64) || cell.getSpace() != "host" ||
      symbolic::constantValue(cell.numElements()) != 1) {
    return emitOpError() << "has a cell of type " << cell
                         << ", expected one i64 in host memory (alloc_c1)";
  }
  return mlir::success();
}

LogicalResult CopyOp::verify() {
  auto source = llvm::cast<BufferType>(getSource().getType());
  auto destination = llvm::cast<BufferType>(getDestination().getType());
  if (source.getElementType() != destination.getElementType() ||
      source.numElements() != destination.numElements() ||
      source.getNames() != destination.getNames()) {
    return emitOpError() << "copies " << source << " to " << destination
                         << ", expected equal element types and counts (copy_c1)";
  }
  for (BufferType type : {source, destination}) {
    if (!type.isContiguous() || type.hasBorder()) {
      return emitOpError() << "copies a buffer of type " << type
                           << ", expected row-major buffers without a border (copy_c2)";
    }
  }
  return mlir::success();
}

LogicalResult CopyOp::verifySymbolUses(SymbolTableCollection& tables) {
  if (failed(verifyQueue(*this, getQueueAttr(), tables)) ||
      failed(verifyWritten(*this, getDestination()))) {
    return mlir::failure();
  }
  auto source = llvm::cast<BufferType>(getSource().getType());
  auto destination = llvm::cast<BufferType>(getDestination().getType());
  const bool host = source.getSpace() == "host" && destination.getSpace() == "host";
  if (queueOf(*this, getQueueAttr(), tables).isTeam() && !host) {
    return emitOpError() << "copies from space \"" << source.getSpace() << "\" to \""
                         << destination.getSpace()
                         << "\" on a cpu queue, expected the queue of a device (copy_c3)";
  }
  return mlir::success();
}

void CopyOp::getEffects(Effects& effects) {
  effects.emplace_back(mlir::MemoryEffects::Read::get(), &getSourceMutable());
  effects.emplace_back(mlir::MemoryEffects::Write::get(), &getDestinationMutable());
}

LogicalResult BarrierOp::verifySymbolUses(SymbolTableCollection& tables) {
  if (failed(verifyQueue(*this, getQueueAttr(), tables))) {
    return mlir::failure();
  }
  QueueOp queue = queueOf(*this, getQueueAttr(), tables);
  if (!queue.isTeam()) {
    return emitOpError() << "stands on " << getQueueAttr() << " with backend \""
                         << queue.getBackend() << "\", expected \"" << kHostBackend
                         << "\": a device's queue is in order (barrier_c1)";
  }
  return mlir::success();
}
LogicalResult RecordOp::verifySymbolUses(SymbolTableCollection& tables) {
  return verifyQueue(*this, getQueueAttr(), tables);
}
LogicalResult WaitOp::verifySymbolUses(SymbolTableCollection& tables) {
  return verifyQueue(*this, getQueueAttr(), tables);
}
LogicalResult SizeOp::verifySymbolUses(SymbolTableCollection& tables) {
  return verifyExtentNames(*this, getValue().getNames(), mlir::ArrayAttr::get(getContext(), {}),
                           tables);
}

LogicalResult LoadOp::verify() {
  auto type = llvm::cast<BufferType>(getBuffer().getType());
  if (static_cast<int64_t>(getIndices().size()) != type.getRank()) {
    return emitOpError() << "has " << getIndices().size() << " indices but a buffer of rank "
                         << type.getRank() << " (load_c1)";
  }
  if (getResult().getType() != type.getElementType() && !getResult().getType().isIndex()) {
    return emitOpError() << "gives " << getResult().getType() << " but the buffer holds "
                         << type.getElementType() << " (load_c2)";
  }
  if (getResult().getType().isIndex() && !type.getElementType().isInteger(64)) {
    return emitOpError() << "gives index but the buffer holds " << type.getElementType()
                         << ", expected i64 (load_c2)";
  }
  if (type.getSpace() != "host") {
    return emitOpError() << "reads a buffer in space \"" << type.getSpace()
                         << "\", expected \"host\" (load_c3)";
  }
  return mlir::success();
}

void LoadOp::getEffects(Effects& effects) {
  effects.emplace_back(mlir::MemoryEffects::Read::get(), &getBufferMutable());
}

//===- if, for, while ------------------------------------------------------===//

void IfOp::build(OpBuilder&, OperationState& state, Value condition, bool withElse) {
  state.addOperands(condition);
  state.addRegion()->emplaceBlock();
  mlir::Region* otherwise = state.addRegion();
  if (withElse) {
    otherwise->emplaceBlock();
  }
}

void ForOp::build(OpBuilder& builder, OperationState& state, Value lower, Value upper, Value step) {
  state.addOperands({lower, upper, step});
  state.addRegion()->emplaceBlock().addArgument(builder.getIndexType(), state.location);
}

ParseResult ForOp::parse(OpAsmParser& parser, OperationState& state) {
  OpAsmParser::Argument counter;
  OpAsmParser::UnresolvedOperand lower, upper, step;
  Type index = parser.getBuilder().getIndexType();
  counter.type = index;
  return mlir::failure(failed(parser.parseArgument(counter)) || failed(parser.parseEqual()) ||
                       failed(parser.parseOperand(lower)) || failed(parser.parseKeyword("to")) ||
                       failed(parser.parseOperand(upper)) || failed(parser.parseKeyword("step")) ||
                       failed(parser.parseOperand(step)) ||
                       failed(parser.resolveOperand(lower, index, state.operands)) ||
                       failed(parser.resolveOperand(upper, index, state.operands)) ||
                       failed(parser.resolveOperand(step, index, state.operands)) ||
                       failed(parser.parseOptionalAttrDictWithKeyword(state.attributes)) ||
                       failed(parser.parseRegion(*state.addRegion(), counter)));
}

void ForOp::print(OpAsmPrinter& printer) {
  printer << " " << getCounter() << " = " << getLower() << " to " << getUpper() << " step "
          << getStep();
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs());
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult ForOp::verifyRegions() {
  if (getBody().getNumArguments() != 1 || !getBody().getArgument(0).getType().isIndex()) {
    return emitOpError() << "has a body with " << getBody().getNumArguments()
                         << " arguments, expected one index (for_c1)";
  }
  return mlir::success();
}

void WhileOp::build(OpBuilder&, OperationState& state) {
  state.addRegion()->emplaceBlock();
  state.addRegion()->emplaceBlock();
}

ConditionOp WhileOp::getConditionOp() {
  return llvm::cast<ConditionOp>(getBefore().front().back());
}

LogicalResult WhileOp::verifyRegions() {
  mlir::Block& before = getBefore().front();
  if (before.empty() || !llvm::isa<ConditionOp>(before.back())) {
    return emitOpError() << "has a first region that does not end in kernel.condition (while_c1)";
  }
  for (Operation& op : getBody().front()) {
    if (llvm::isa<ConditionOp>(op)) {
      return op.emitOpError()
             << "stands in the second region of a kernel.while, expected the first (while_c2)";
    }
  }
  return mlir::success();
}

}  // namespace straightline::kernel
