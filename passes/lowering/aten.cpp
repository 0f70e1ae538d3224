// SPDX-License-Identifier: Apache-2.0
// Ops of the framework (op.aten): one handle, made in prepare, that holds the op's name and
// arguments, and one call over buffers. Calls with equal text and operand types share the handle.
#include "dialect/error_kind.h"
#include "dialect/kernel/recorded.h"
#include "passes/kernel_choice.h"
#include "passes/lowering/context.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

/// What an op of the framework reads and writes.
struct Operands {
  llvm::SmallVector<Value> inputs, outputs;
  llvm::SmallVector<llvm::StringRef> roles;  ///< of the outputs
  llvm::SmallVector<mlir::Attribute> sizes;  ///< that are known when the program runs

  llvm::SmallVector<Value> all() const {
    return llvm::to_vector(llvm::concat<const Value>(inputs, outputs));
  }
};

/// The seven lines that runtime/backends/aten/call_text.h describes.
std::string callText(op::AtenOp aten) {
  const auto [name, overload] = aten.getName().rsplit('.');
  std::string text = name.str() + "\n" + (overload == "default" ? "" : overload.str());
  for (llvm::StringRef line : {aten.getTorch(), aten.getDoor(), aten.getSchema(),
                               aten.getArguments(), aten.getOutcome()}) {
    text += "\n" + line.str();
  }
  return text;
}

/// Operands that the op updates and does not read besides stand last (call_text.h): they are given
/// as outputs alone.
void dropUpdated(op::AtenOp aten, llvm::ArrayRef<int64_t> updates, Operands& operands) {
  const auto isRead = [&](size_t number) {
    const std::string name = "%" + std::to_string(number);
    llvm::StringRef text = aten.getArguments();
    for (size_t at = text.find(name); at != llvm::StringRef::npos; at = text.find(name, at + 1)) {
      const llvm::StringRef rest = text.substr(at + name.size());
      if (rest.empty() || rest.front() < '0' || rest.front() > '9') {
        return true;
      }
    }
    return false;
  };
  const auto isUpdated = [&](size_t number) {
    for (size_t i = 1; i < updates.size(); i += 2) {
      if (updates[i] == static_cast<int64_t>(number)) {
        return true;
      }
    }
    return false;
  };
  while (!operands.inputs.empty() && isUpdated(operands.inputs.size() - 1) &&
         !isRead(operands.inputs.size() - 1)) {
    operands.inputs.pop_back();
  }
}

Operands bindOperands(op::AtenOp aten, LoweringContext& context) {
  const mlir::Location loc = aten.getLoc();
  Operands operands;
  // A complex tensor is a real one whose last dim holds both parts side by side.
  const bool complex = aten.getArguments().contains(":complex");
  for (Value operand : aten.getInputs()) {
    Value buffer = context.bufferOf(operand);
    operands.inputs.push_back(
        complex ? context.contiguous(loc, buffer, "the parts of complex numbers lie side by side")
                : buffer);
  }
  const llvm::ArrayRef<int64_t> updates = aten.getUpdates().value_or(llvm::ArrayRef<int64_t>());
  llvm::SmallVector<Value> updated(aten.getNumResults());
  for (size_t i = 0; i < updates.size(); i += 2) {
    updated[updates[i]] = aten.getOperand(updates[i + 1]);
  }
  for (auto [result, operand] : llvm::zip(aten.getResults(), updated)) {
    operands.outputs.push_back(operand && !complex ? context.updatedPlace(result, operand)
                                                   : context.destination(result));
  }
  operands.roles.assign(operands.outputs.size(), "write");
  for (size_t i = 0; i < updates.size(); i += 2) {
    operands.roles[updates[i]] = "readwrite";
    Value from = operands.inputs[updates[i + 1]], to = operands.outputs[updates[i]];
    if (!context.isSamePlace(from, to)) {
      context.copy(loc, from, to, "copy", "the op updates it, and its old value is read later");
    }
  }
  dropUpdated(aten, updates, operands);
  return operands;
}

/// Notes the sizes that are not constants in `operands`.
Problem describe(op::AtenOp aten, Operands& operands, LoweringContext& context) {
  Problem problem("aten", context.target());
  for (Value operand : operands.all()) {
    const Exprs extents = context.extentsOf(typeOf(operand));
    const Exprs strides = context.stridesOf(typeOf(operand));
    problem.addOperand(typeOf(operand).getElementType(), staticOrDynamic(extents),
                       staticOrDynamic(strides), false);
    for (AffineExpr expr : llvm::concat<const AffineExpr>(extents, strides)) {
      if (!symbolic::constantValue(expr)) {
        operands.sizes.push_back(context.number(expr));
      }
    }
  }
  if (op::DimsAttr named = aten.getSizesAttr()) {
    for (AffineExpr expr : context.rebased(named)) {
      operands.sizes.push_back(kernel::ExtentAttr::get(context.context(), context.names(), expr));
    }
  }
  problem.setInputs(static_cast<int32_t>(operands.inputs.size()));
  problem.setText(callText(aten), static_cast<int32_t>(operands.sizes.size()));
  return problem;
}

/// The handle of one op with its arguments, whose name is that of the declaration; made when there
/// is none yet.
Value plan(mlir::Location loc, const std::string& symbol, const sl_kernel_desc& kernel,
           const Problem& problem, const Operands& operands, LoweringContext& context) {
  mlir::OpBuilder builder = context.endOfModule();
  auto types = [&](llvm::ArrayRef<Value> values) {
    return builder.getTypeArrayAttr(
        llvm::map_to_vector(values, [](Value value) { return value.getType(); }));
  };
  llvm::SmallVector<mlir::NamedAttribute> attributes = {
      context.named("text", builder.getStringAttr(problem.view().text))};
  if (!operands.sizes.empty()) {
    attributes.push_back(context.named("sizes", builder.getArrayAttr(operands.sizes)));
  }
  const std::string destroy = std::string(kernel.plan_symbol) + "_destroy";
  const llvm::SmallVector<bool> isConstant(operands.inputs.size(), false);
  auto decl = kernel::DeclOp::create(
      builder, builder.getUnknownLoc(), builder.getStringAttr("aten"), types(operands.inputs),
      builder.getDenseBoolArrayAttr(isConstant), types(operands.outputs),
      builder.getStrArrayAttr(operands.roles), types({}), builder.getStringAttr(kernel.op),
      builder.getDictionaryAttr(attributes), builder.getStringAttr(kernel.run_symbol),
      builder.getStringAttr(kernel.plan_symbol), builder.getStringAttr(destroy),
      builder.getUnitAttr());
  if (targetNamedBy(context.target()).hasQueue()) {
    decl->setAttr(kernel::kRunsOnAttr, builder.getStringAttr(context.target().getBackend()));
    kernel::setOutsideGraph(decl);  // torch may allocate in it, or wait
  }
  std::string text;
  llvm::raw_string_ostream(text) << decl;
  Value& handle = context.shared("aten," + text);
  if (handle) {
    decl.erase();
    return handle;
  }
  const unsigned count = context.nextNumber(symbol);
  const std::string name = symbol + (count ? "_" + std::to_string(count + 1) : "");
  decl.setSymName(name);
  mlir::OpBuilder declarations = context.declarations();
  handle = kernel::HandleOp::create(declarations, loc, kernel::HandleType::get(context.context()),
                                    builder.getStringAttr(name), builder.getStringAttr(destroy));
  mlir::OpBuilder prepare = context.endOfPrepare();
  kernel::PlanOp::create(prepare, loc, mlir::FlatSymbolRefAttr::get(context.context(), name),
                         mlir::ValueRange(), handle,
                         mlir::FlatSymbolRefAttr::get(context.context(), context.teamQueue()));
  return handle;
}

LogicalResult lowerAten(op::AtenOp aten, LoweringContext& context) {
  Operands operands = bindOperands(aten, context);
  for (Value operand : operands.all()) {
    if (typeOf(operand).getRank() > SL_MAX_RANK) {
      return emitUnsupported(aten) << "aten has an operand of rank " << typeOf(operand).getRank()
                                   << "; the nearest supported form has rank " << SL_MAX_RANK;
    }
  }
  const Problem problem = describe(aten, operands, context);
  const KernelChoice choice = chooseKernel(problem);
  if (!choice.kernel) {
    return emitUnsupported(aten) << "aten " << aten.getName() << " has no kernel; " << choice.why;
  }
  std::string name = aten.getName().str();
  name.replace(name.find("::"), 2, ".");
  const std::string symbol =
      "aten_" + llvm::StringRef(name).split('.').second.split('.').first.str();
  Value handle = plan(aten.getLoc(), symbol, *choice.kernel, problem, operands, context);
  auto callee = mlir::FlatSymbolRefAttr::get(context.context(),
                                             handle.getDefiningOp<kernel::HandleOp>().getName());
  mlir::OpBuilder& builder = context.builder();
  auto call = kernel::CallOp::create(
      builder, aten.getLoc(), callee, operands.inputs, operands.outputs, handle, mlir::ValueRange(),
      mlir::FlatSymbolRefAttr::get(context.context(), context.teamQueue()),
      builder.getI64IntegerAttr(1), builder.getStringAttr(name),
      builder.getStringAttr(aten.getWhy()));
  kernel::setCostUs(call, choice.costUs);
  return success();
}

}  // namespace

void registerAtenRules(RuleSet& rules) {
  rules.add(lowerAten).updated = [](mlir::OpOperand& use) -> Value {
    auto aten = llvm::cast<op::AtenOp>(use.getOwner());
    const llvm::ArrayRef<int64_t> updates = aten.getUpdates().value_or(llvm::ArrayRef<int64_t>());
    for (size_t i = 0; i < updates.size(); i += 2) {
      if (updates[i + 1] == static_cast<int64_t>(use.getOperandNumber())) {
        return aten.getResult(updates[i]);
      }
    }
    return {};
  };
}

}  // namespace straightline::lowering
