// SPDX-License-Identifier: Apache-2.0
// Structure and storage ops: builders, assembly and verifiers.
#include "dialect/kernel/kernel_dialect.h"
#include "dialect/kernel/kernel_syntax.h"
#include "llvm/ADT/StringSet.h"
#include "mlir/IR/Builders.h"

namespace straightline::kernel {

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::SmallVectorImpl;
using llvm::StringRef;
using mlir::Attribute;
using mlir::LogicalResult;
using mlir::OpAsmParser;
using mlir::OpAsmPrinter;
using mlir::OpBuilder;
using mlir::OperationState;
using mlir::ParseResult;
using mlir::StringAttr;
using mlir::Type;
using mlir::TypeAttr;
using mlir::TypeRange;

//===- program -------------------------------------------------------------===//

void ProgramOp::build(OpBuilder& builder, OperationState& state, StringRef name,
                      TargetAttr target) {
  state.getOrAddProperties<Properties>().sym_name = builder.getStringAttr(name);
  state.getOrAddProperties<Properties>().target = target;
  state.addRegion()->emplaceBlock();
}

PrepareOp ProgramOp::getPrepareOp() {
  auto ops = getBodyBlock()->getOps<PrepareOp>();
  return ops.empty() ? PrepareOp() : *ops.begin();
}

RunOp ProgramOp::getRunOp() {
  auto ops = getBodyBlock()->getOps<RunOp>();
  return ops.empty() ? RunOp() : *ops.begin();
}

bool ProgramOp::isComputed(mlir::StringAttr extent) {
  auto extents = getBodyBlock()->getOps<ExtentOp>();
  return llvm::any_of(
      extents, [&](ExtentOp op) { return op.getSymNameAttr() == extent && op.getBoundAttr(); });
}

symbolic::BoundsMap ProgramOp::getExtentBounds() {
  symbolic::BoundsMap bounds;
  for (ExtentOp extent : getBodyBlock()->getOps<ExtentOp>()) {
    bounds[extent.getSymNameAttr()] = {static_cast<int64_t>(extent.getMin()),
                                       static_cast<int64_t>(extent.getMax())};
  }
  return bounds;
}

LogicalResult ProgramOp::verifyRegions() {
  int64_t prepares = 0;
  int64_t runs = 0;
  bool firstQueue = true;
  for (mlir::Operation& op : *getBodyBlock()) {
    if (auto queue = llvm::dyn_cast<QueueOp>(op)) {
      if (firstQueue && !queue.isTeam()) {
        return queue.emitOpError()
               << "is the first queue but its backend is \"" << queue.getBackend()
               << "\", expected \"" << kHostBackend << "\" (program_c1)";
      }
      firstQueue = false;
      continue;
    }
    prepares += llvm::isa<PrepareOp>(op);
    runs += llvm::isa<RunOp>(op);
    if (!llvm::isa<ExtentOp, ParameterOp, StateOp, PreparedOp, HandleOp, ConstantOp, PrepareOp,
                   RunOp>(op)) {
      return op.emitOpError() << "may not stand in the body of a kernel.program (program_c2)";
    }
    if (llvm::isa<PrepareOp>(op) && runs > 0) {
      return op.emitOpError() << "stands after kernel.run, expected before it (program_c3)";
    }
  }
  if (firstQueue) {
    return emitOpError() << "declares no queue, expected the caller's team first (program_c1)";
  }
  if (prepares > 1 || runs != 1) {
    return emitOpError() << "has " << prepares << " kernel.prepare and " << runs
                         << " kernel.run, expected at most one and exactly one (program_c3)";
  }
  return mlir::success();
}

LogicalResult ExtentOp::verify() {
  const int64_t lowest = getMin();
  const int64_t highest = getMax();
  if (lowest < 0 || lowest > highest) {
    return emitOpError() << "has min " << lowest << " and max " << highest
                         << ", expected 0 <= min <= max (extent_c1)";
  }
  auto program = llvm::cast<ProgramOp>((*this)->getParentOp());
  for (mlir::StringAttr name :
       getBoundAttr() ? getBoundAttr().getNames() : ArrayRef<mlir::StringAttr>()) {
    auto extents = program.getBodyBlock()->getOps<ExtentOp>();
    const bool known = llvm::any_of(extents, [&](ExtentOp other) {
      return other.getSymNameAttr() == name && !other.getBoundAttr();
    });
    if (!known) {
      return emitOpError() << "has a bound over " << name
                           << ", which is no extent of the program that a caller gives (extent_c2)";
    }
  }
  return mlir::success();
}

LogicalResult ConstantOp::verify() {
  auto type = llvm::cast<BufferType>(getBuffer().getType());
  mlir::ShapedType shaped = getValue().getShapedType();
  if (!type.isStatic() || !type.isContiguous() || type.hasBorder() || type.getSpace() != "host") {
    return emitOpError()
           << "has type " << type
           << ", expected a static row-major host buffer without a border (constant_c1)";
  }
  if (shaped.getElementType() != type.getElementType() ||
      shaped.getShape() != ArrayRef<int64_t>(type.getStaticExtents())) {
    return emitOpError() << "has a value of type " << shaped << " but a buffer of type " << type
                         << " (constant_c2)";
  }
  return mlir::success();
}

//===- prepare, run --------------------------------------------------------===//

void PrepareOp::build(OpBuilder&, OperationState& state) { state.addRegion()->emplaceBlock(); }

void RunOp::build(OpBuilder& builder, OperationState& state, ArrayRef<StringRef> inputNames,
                  TypeRange inputTypes, ArrayRef<StringRef> outputNames, TypeRange outputTypes,
                  ArrayRef<bool> mutatedInputs) {
  state.getOrAddProperties<Properties>().input_names = builder.getStrArrayAttr(inputNames);
  state.getOrAddProperties<Properties>().output_names = builder.getStrArrayAttr(outputNames);
  SmallVector<bool> mutated(mutatedInputs);
  mutated.resize(inputNames.size(), false);
  state.getOrAddProperties<Properties>().mutated_inputs = builder.getDenseBoolArrayAttr(mutated);
  mlir::Block& block = state.addRegion()->emplaceBlock();
  for (TypeRange types : {inputTypes, outputTypes}) {
    for (Type type : types) {
      block.addArgument(type, state.location);
    }
  }
}

ReturnOp RunOp::getReturn() { return llvm::cast<ReturnOp>(getBody().front().back()); }

ParseResult RunOp::parse(OpAsmParser& parser, OperationState& state) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Attribute> names[2];
  SmallVector<bool> mutated;
  for (int list = 0; list < 2; ++list) {
    auto parseOne = [&]() -> ParseResult {
      OpAsmParser::Argument& argument = arguments.emplace_back();
      std::string name;
      if (failed(parser.parseArgument(argument)) || failed(parser.parseString(&name))) {
        return mlir::failure();
      }
      if (list == 0) {
        mutated.push_back(succeeded(parser.parseOptionalKeyword("readwrite")));
      }
      if (failed(parser.parseColonType(argument.type))) {
        return mlir::failure();
      }
      names[list].push_back(parser.getBuilder().getStringAttr(name));
      return mlir::success();
    };
    if ((list == 1 && failed(parser.parseKeyword("outs"))) ||
        failed(parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseOne))) {
      return mlir::failure();
    }
  }
  state.getOrAddProperties<Properties>().input_names = parser.getBuilder().getArrayAttr(names[0]);
  state.getOrAddProperties<Properties>().output_names = parser.getBuilder().getArrayAttr(names[1]);
  state.getOrAddProperties<Properties>().mutated_inputs =
      parser.getBuilder().getDenseBoolArrayAttr(mutated);
  return mlir::failure(failed(parser.parseOptionalAttrDictWithKeyword(state.attributes)) ||
                       failed(parser.parseRegion(*state.addRegion(), arguments)));
}

void RunOp::print(OpAsmPrinter& printer) {
  auto printList = [&](mlir::Block::BlockArgListType arguments, mlir::ArrayAttr names,
                       ArrayRef<bool> mutated) {
    printer << "(";
    llvm::interleaveComma(llvm::enumerate(arguments), printer, [&](auto argument) {
      const bool readWrite = !mutated.empty() && mutated[argument.index()];
      printer << argument.value() << " " << names[argument.index()]
              << (readWrite ? " readwrite" : "") << ": " << argument.value().getType();
    });
    printer << ")";
  };
  printer << " ";
  printList(getInputs(), getInputNames(), getMutatedInputs());
  printer << " outs";
  printList(getOutputs(), getOutputNames(), {});
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {"input_names", "output_names", "mutated_inputs"});
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult RunOp::verifyRegions() {
  const size_t names = getInputNames().size() + getOutputNames().size();
  if (getBody().getNumArguments() != names) {
    return emitOpError() << "has " << getBody().getNumArguments() << " arguments but " << names
                         << " names (run_c1)";
  }
  if (getMutatedInputs().size() != getInputNames().size()) {
    return emitOpError() << "has " << getInputNames().size() << " inputs but says of "
                         << getMutatedInputs().size() << " whether they are mutated (run_c1)";
  }
  for (mlir::BlockArgument argument : getBody().getArguments()) {
    if (!llvm::isa<BufferType>(argument.getType())) {
      return emitOpError() << "has an argument of type " << argument.getType()
                           << ", expected a buffer (run_c2)";
    }
  }
  mlir::Block& block = getBody().front();
  if (block.empty() || !llvm::isa<ReturnOp>(block.back())) {
    return emitOpError() << "does not end in kernel.return (run_c3)";
  }
  // A result that is no fresh output must outlive the call.
  for (auto [position, result] : llvm::enumerate(getReturn().getResults())) {
    mlir::Value root = storageRoot(result);
    auto argument = llvm::dyn_cast<mlir::BlockArgument>(root);
    const bool whole = argument && argument.getOwner() == &block &&
                       (argument.getArgNumber() < getInputNames().size() || root == result);
    if (!whole && !root.getDefiningOp<ParameterOp>() && !root.getDefiningOp<StateOp>()) {
      return getReturn().emitOpError()
             << "result " << position
             << " is neither a fresh output nor rooted at an input, parameter or state (run_c4)";
    }
  }
  return mlir::success();
}

//===- func ----------------------------------------------------------------===//

void FuncOp::build(OpBuilder& builder, OperationState& state, StringRef name, TypeRange inputs,
                   TypeRange outputs, TypeRange workspace, ScheduleAttr schedule,
                   ArrayRef<StringRef> regionNames, ArrayRef<Tie> ties, bool canFail) {
  auto typeArray = [&](TypeRange types) {
    return builder.getTypeArrayAttr(llvm::map_to_vector(types, [](Type type) -> Type {
      auto buffer = llvm::dyn_cast<BufferType>(type);
      return buffer ? buffer.withoutSizes() : type;  // the verifier reports what is no buffer
    }));
  };
  SmallVector<StringRef> roles(outputs.size(), "write");
  SmallVector<int64_t> pairs;
  for (Tie tie : ties) {
    pairs.append({tie.input, tie.output});
  }
  auto& properties = state.getOrAddProperties<Properties>();
  properties.sym_name = builder.getStringAttr(name);
  properties.inputs = typeArray(inputs);
  properties.outputs = typeArray(outputs);
  properties.output_roles = builder.getStrArrayAttr(roles);
  properties.workspace = typeArray(workspace);
  properties.schedule = schedule;
  properties.ties = builder.getDenseI64ArrayAttr(pairs);
  properties.can_fail = canFail ? builder.getUnitAttr() : mlir::UnitAttr();
  properties.region_names = builder.getStrArrayAttr(regionNames);
  for (size_t i = 0; i < regionNames.size(); ++i) {
    state.addRegion()->emplaceBlock();
  }
}

mlir::Region* FuncOp::getBodyNamed(StringRef name) {
  for (auto [position, region] : llvm::enumerate(getBodies())) {
    if (llvm::cast<StringAttr>(getRegionNames()[position]).getValue() == name) {
      return &region;
    }
  }
  return nullptr;
}

/// Names of the extents in `value` and what it holds are added to `names`, each once.
static void addExtentNames(Attribute value, SmallVectorImpl<StringAttr>& names) {
  if (auto array = llvm::dyn_cast<mlir::ArrayAttr>(value)) {
    llvm::for_each(array, [&](Attribute item) { addExtentNames(item, names); });
  }
  if (auto extent = llvm::dyn_cast<ExtentAttr>(value)) {
    for (StringAttr name : extent.getNames()) {
      if (!llvm::is_contained(names, name)) {
        names.push_back(name);
      }
    }
  }
}

SmallVector<StringAttr> FuncOp::getScalarNames() {
  SmallVector<StringAttr> names;
  for (mlir::NamedAttribute value : getSchedule().getShape()) {
    addExtentNames(value.getValue(), names);
  }
  return names;
}

ParseResult FuncOp::parse(OpAsmParser& parser, OperationState& state) {
  auto& properties = state.getOrAddProperties<Properties>();
  mlir::Builder& builder = parser.getBuilder();
  if (failed(parser.parseSymbolName(properties.sym_name)) ||
      failed(parseSignature(parser, properties.inputs, nullptr, properties.outputs,
                            properties.output_roles, properties.workspace)) ||
      failed(parser.parseKeyword("schedule")) || failed(parser.parseLParen()) ||
      failed(parser.parseCustomAttributeWithFallback(properties.schedule, Type())) ||
      failed(parser.parseRParen()) || failed(parseTies(parser, properties.ties))) {
    return mlir::failure();
  }
  if (succeeded(parser.parseOptionalKeyword("can_fail"))) {
    properties.can_fail = builder.getUnitAttr();
  }
  if (failed(parser.parseOptionalAttrDictWithKeyword(state.attributes))) {
    return mlir::failure();
  }
  SmallVector<Attribute> names;
  while (succeeded(parser.parseOptionalKeyword("lambda"))) {
    StringRef name;
    if (failed(parser.parseKeyword(&name))) {
      return mlir::failure();
    }
    names.push_back(builder.getStringAttr(name));
    SmallVector<OpAsmParser::Argument> arguments;
    if (failed(parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren,
                                        /*allowType=*/true)) ||
        failed(parser.parseRegion(*state.addRegion(), arguments))) {
      return mlir::failure();
    }
  }
  properties.region_names = builder.getArrayAttr(names);
  return mlir::success();
}

void FuncOp::print(OpAsmPrinter& printer) {
  printer << " ";
  printer.printSymbolName(getSymName());
  printSignature(printer, getInputs(), {}, getOutputs(), getOutputRoles(), getWorkspace());
  printer.increaseIndent();
  printer.printNewline();
  printer << "schedule(";
  printer.printStrippedAttrOrType(getSchedule());
  printer << ") ";
  printTies(printer, getTies());
  printer << (getCanFail() ? " can_fail" : "");
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {"sym_name", "inputs", "outputs", "output_roles", "workspace",
                            "schedule", "ties", "can_fail", "region_names"});
  for (auto [name, region] : llvm::zip(getRegionNames(), getBodies())) {
    printer.printNewline();
    printer << "lambda " << llvm::cast<StringAttr>(name).getValue() << "(";
    llvm::interleaveComma(region.getArguments(), printer, [&](mlir::BlockArgument argument) {
      printer.printRegionArgument(argument);
    });
    printer << ") ";
    printer.printRegion(region, /*printEntryBlockArgs=*/false);
  }
  printer.decreaseIndent();
}

namespace {

LogicalResult verifyTypes(mlir::Operation* op, mlir::ArrayAttr types, StringRef what,
                          StringRef constraint) {
  for (auto [position, type] : llvm::enumerate(types.getAsValueRange<TypeAttr>())) {
    if (!llvm::isa<BufferType>(type)) {
      return op->emitOpError() << what << " " << position << " has type " << type
                               << ", expected a buffer (" << constraint << ")";
    }
  }
  return mlir::success();
}

LogicalResult verifyRoles(mlir::Operation* op, mlir::ArrayAttr outputs, mlir::ArrayAttr roles,
                          StringRef constraint) {
  if (outputs.size() != roles.size()) {
    return op->emitOpError() << "has " << outputs.size() << " outputs but " << roles.size()
                             << " roles (" << constraint << ")";
  }
  for (Attribute role : roles) {
    StringRef text = llvm::cast<StringAttr>(role).getValue();
    if (text != "write" && text != "readwrite") {
      return op->emitOpError() << "has the role \"" << text
                               << "\", expected \"write\" or \"readwrite\" (" << constraint << ")";
    }
  }
  return mlir::success();
}

LogicalResult verifyTies(FuncOp func) {
  if (func.getTies().size() % 2 != 0) {
    return func.emitOpError() << "has ties of " << func.getTies().size()
                              << " numbers, expected pairs (func_c3)";
  }
  const int64_t inputs = func.getInputs().size();
  const int64_t outputs = func.getOutputs().size();
  for (Tie tie : getTies(func)) {
    if (tie.input < 0 || tie.input >= inputs || tie.output < 0 || tie.output >= outputs) {
      return func.emitOpError() << "ties input " << tie.input << " to output " << tie.output
                                << " but has " << inputs << " inputs and " << outputs
                                << " outputs (func_c3)";
    }
    Type in = llvm::cast<TypeAttr>(func.getInputs()[tie.input]).getValue();
    Type out = llvm::cast<TypeAttr>(func.getOutputs()[tie.output]).getValue();
    auto inBuffer = llvm::cast<BufferType>(in);
    auto outBuffer = llvm::cast<BufferType>(out);
    if (inBuffer.elementBytes() != outBuffer.elementBytes() ||
        inBuffer.getSpace() != outBuffer.getSpace()) {
      return func.emitOpError() << "ties input " << tie.input << " of type " << in << " to output "
                                << tie.output << " of type " << out
                                << ", expected equal element sizes and spaces (func_c4)";
    }
  }
  return mlir::success();
}

}  // namespace

LogicalResult FuncOp::verify() {
  if (failed(verifyTypes(*this, getInputs(), "input", "func_c1")) ||
      failed(verifyTypes(*this, getOutputs(), "output", "func_c1")) ||
      failed(verifyTypes(*this, getWorkspace(), "workspace", "func_c1")) ||
      failed(verifyRoles(*this, getOutputs(), getOutputRoles(), "func_c2")) ||
      failed(verifyTies(*this))) {
    return mlir::failure();
  }
  if (getRegionNames().size() != getBodies().size()) {
    return emitOpError() << "has " << getBodies().size() << " regions but "
                         << getRegionNames().size() << " region names (func_c5)";
  }
  llvm::StringSet<> seen;
  for (Attribute name : getRegionNames()) {
    if (!seen.insert(llvm::cast<StringAttr>(name).getValue()).second) {
      return emitOpError() << "has two regions named " << name << " (func_c5)";
    }
  }
  return mlir::success();
}

LogicalResult FuncOp::verifyRegions() {
  for (mlir::Region& region : getBodies()) {
    for (Type type : region.getArgumentTypes()) {
      if (!type.isIntOrIndexOrFloat()) {
        return emitOpError() << "has a region argument of type " << type
                             << ", expected a scalar (func_c6)";
      }
    }
    if (region.front().empty() || !llvm::isa<YieldOp>(region.front().back())) {
      return emitOpError() << "has a region that does not end in kernel.yield (func_c7)";
    }
    for (mlir::Operation& op : region.front()) {
      // op.scalar_special: a call of a function of the kernels' library.
      StringRef dialect = op.getName().getDialectNamespace();
      const bool computes = dialect == "arith" || dialect == "math" || llvm::isa<YieldOp>(op) ||
                            op.getName().getStringRef() == "op.scalar_special";
      const bool scalar =
          llvm::all_of(op.getResultTypes(), [](Type type) { return type.isIntOrIndexOrFloat(); });
      if (!computes || !scalar) {
        return op.emitOpError()
               << "may not stand in a region of a kernel.func, expected arith, math and "
                  "op.scalar_special on scalars (func_c8)";
      }
    }
  }
  return mlir::success();
}

//===- decl ----------------------------------------------------------------===//

ParseResult DeclOp::parse(OpAsmParser& parser, OperationState& state) {
  auto& properties = state.getOrAddProperties<Properties>();
  auto parseText = [&](StringAttr& text) {
    return mlir::ParseResult(mlir::failure(failed(parser.parseLParen()) ||
                                           failed(parser.parseAttribute(text)) ||
                                           failed(parser.parseRParen())));
  };
  if (failed(parser.parseSymbolName(properties.sym_name)) ||
      failed(parseSignature(parser, properties.inputs, &properties.constants, properties.outputs,
                            properties.output_roles, properties.workspace)) ||
      failed(parser.parseKeyword("problem")) || failed(parser.parseLParen()) ||
      failed(parser.parseAttribute(properties.op)) || failed(parser.parseComma()) ||
      failed(parser.parseAttribute(properties.problem)) || failed(parser.parseRParen()) ||
      failed(parser.parseKeyword("run")) || failed(parseText(properties.run)) ||
      (succeeded(parser.parseOptionalKeyword("plan")) && failed(parseText(properties.plan))) ||
      (succeeded(parser.parseOptionalKeyword("destroy")) &&
       failed(parseText(properties.destroy)))) {
    return mlir::failure();
  }
  if (succeeded(parser.parseOptionalKeyword("can_fail"))) {
    properties.can_fail = parser.getBuilder().getUnitAttr();
  }
  return parser.parseOptionalAttrDictWithKeyword(state.attributes);
}

void DeclOp::print(OpAsmPrinter& printer) {
  printer << " ";
  printer.printSymbolName(getSymName());
  printSignature(printer, getInputs(), getConstants(), getOutputs(), getOutputRoles(),
                 getWorkspace());
  printer.increaseIndent();
  printer.printNewline();
  printer << "problem(" << getOpAttr() << ", " << getProblem() << ") run(" << getRunAttr() << ")";
  if (getPlanAttr()) {
    printer << " plan(" << getPlanAttr() << ")";
  }
  if (getDestroyAttr()) {
    printer << " destroy(" << getDestroyAttr() << ")";
  }
  printer << (getCanFail() ? " can_fail" : "");
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {"sym_name", "inputs", "constants", "outputs", "output_roles",
                            "workspace", "op", "problem", "run", "plan", "destroy", "can_fail"});
  printer.decreaseIndent();
}

SmallVector<ExtentAttr> DeclOp::getSizes() {
  auto sizes = getProblem().getAs<mlir::ArrayAttr>("sizes");
  return sizes ? llvm::to_vector(sizes.getAsRange<ExtentAttr>()) : SmallVector<ExtentAttr>();
}

int64_t DeclOp::getVariant() {
  auto variant = getProblem().getAs<mlir::IntegerAttr>("variant");
  return variant ? variant.getInt() : 0;
}

SmallVector<StringAttr> DeclOp::getScalarNames() {
  SmallVector<StringAttr> names;
  for (ExtentAttr size : getSizes()) {
    addExtentNames(size, names);
  }
  return names;
}

LogicalResult DeclOp::verify() {
  if (failed(verifyTypes(*this, getInputs(), "input", "decl_c1")) ||
      failed(verifyTypes(*this, getOutputs(), "output", "decl_c1")) ||
      failed(verifyTypes(*this, getWorkspace(), "workspace", "decl_c1")) ||
      failed(verifyRoles(*this, getOutputs(), getOutputRoles(), "decl_c2"))) {
    return mlir::failure();
  }
  if (getConstants().size() != getInputs().size()) {
    return emitOpError() << "has " << getInputs().size() << " inputs but says of "
                         << getConstants().size() << " whether they are constant (decl_c3)";
  }
  if (getWorkspace().size() > 1) {
    return emitOpError() << "has " << getWorkspace().size()
                         << " workspace buffers, expected at most 1 (decl_c4)";
  }
  if (getDestroyAttr() && !getPlanAttr()) {
    return emitOpError() << "has destroy " << getDestroyAttr() << " but no plan (decl_c5)";
  }
  for (mlir::NamedAttribute value : getProblem()) {
    auto sizes = value.getName() == "sizes" ? llvm::dyn_cast<mlir::ArrayAttr>(value.getValue())
                                            : mlir::ArrayAttr();
    const bool areSizes = sizes && llvm::all_of(sizes, llvm::IsaPred<ExtentAttr>);
    if (!areSizes && !llvm::isa<mlir::IntegerAttr, mlir::FloatAttr, StringAttr>(value.getValue())) {
      return emitOpError()
             << "has the problem attribute " << value.getName() << " = " << value.getValue()
             << ", expected an integer, a float or a string, or #kernel.extent as sizes (decl_c6)";
    }
  }
  return mlir::success();
}

}  // namespace straightline::kernel
