// SPDX-License-Identifier: Apache-2.0
// Ops of the framework (op.aten): one handle, made in prepare, that holds the op's name and
// arguments, and one call over buffers. Calls with equal text and operand types share the handle.
#include "passes/kernel_choice.h"
#include "passes/lowering/lowering.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

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

int64_t staticOrDynamic(AffineExpr expr) {
  return symbolic::constantValue(expr).value_or(SL_DYNAMIC);
}

}  // namespace

LogicalResult Lowering::lowerAten(op::AtenOp aten) {
  const mlir::Location loc = aten.getLoc();
  llvm::SmallVector<Value> inputs, outputs;
  // A complex tensor is a real one whose last dim holds both parts side by side.
  const bool complex = aten.getArguments().contains(":complex");
  for (Value operand : aten.getInputs()) {
    Value buffer = bufferOf(operand);
    inputs.push_back(complex
                         ? contiguous(loc, buffer, "the parts of complex numbers lie side by side")
                         : buffer);
  }
  for (Value result : aten.getResults()) {
    outputs.push_back(destination(result));
  }
  llvm::SmallVector<llvm::StringRef> roles(outputs.size(), "write");
  const llvm::ArrayRef<int64_t> updates = aten.getUpdates().value_or(llvm::ArrayRef<int64_t>());
  for (size_t i = 0; i < updates.size(); i += 2) {
    roles[updates[i]] = "readwrite";
    copy(loc, inputs[updates[i + 1]], outputs[updates[i]], "copy", "the op updates it in place");
  }
  for (Value operand : llvm::concat<Value>(inputs, outputs)) {
    if (typeOf(operand).getRank() > SL_MAX_RANK) {
      return aten.emitOpError() << "has an operand of rank " << typeOf(operand).getRank()
                                << "; unsupported: the nearest supported form has rank "
                                << SL_MAX_RANK;
    }
  }

  Problem problem("aten", target_);
  llvm::SmallVector<mlir::Attribute> sizes;
  for (Value operand : llvm::concat<Value>(inputs, outputs)) {
    const Exprs extents = extentsOf(typeOf(operand));
    const Exprs strides = stridesOf(typeOf(operand));
    problem.addOperand(typeOf(operand).getElementType(),
                       llvm::map_to_vector(extents, staticOrDynamic),
                       llvm::map_to_vector(strides, staticOrDynamic), false);
    for (AffineExpr expr : llvm::concat<const AffineExpr>(extents, strides)) {
      if (!symbolic::constantValue(expr)) {
        sizes.push_back(number(expr));
      }
    }
  }
  if (op::DimsAttr named = aten.getSizesAttr()) {
    for (AffineExpr expr : named.getExprs()) {
      sizes.push_back(kernel::ExtentAttr::get(context_, names_, rebased(expr, named.getNames())));
    }
  }
  problem.setInputs(static_cast<int32_t>(inputs.size()));
  problem.setText(callText(aten), static_cast<int32_t>(sizes.size()));
  const KernelChoice choice = chooseKernel(problem);
  if (!choice.kernel) {
    return aten.emitOpError() << aten.getName() << " has no kernel; unsupported: " << choice.why;
  }

  std::string name = aten.getName().str();
  name.replace(name.find("::"), 2, ".");
  const std::string symbol =
      "aten_" + llvm::StringRef(name).split('.').second.split('.').first.str();
  auto [callee, handle] =
      planAten(loc, symbol, *choice.kernel, problem, inputs, outputs, roles, sizes);
  auto call = kernel::CallOp::create(
      builder_, loc, callee, inputs, outputs, handle, mlir::ValueRange(),
      mlir::FlatSymbolRefAttr::get(context_, teamQueue()), builder_.getI64IntegerAttr(1),
      builder_.getStringAttr(name), builder_.getStringAttr(aten.getWhy()));
  call->setAttr("kernel.cost_us", builder_.getF64FloatAttr(choice.costUs));
  return success();
}

std::pair<mlir::FlatSymbolRefAttr, Value> Lowering::planAten(
    mlir::Location loc, const std::string& symbol, const sl_kernel_desc& kernel,
    const Problem& problem, llvm::ArrayRef<Value> inputs, llvm::ArrayRef<Value> outputs,
    llvm::ArrayRef<llvm::StringRef> roles, llvm::ArrayRef<mlir::Attribute> sizes) {
  mlir::OpBuilder builder(context_);
  auto types = [&](llvm::ArrayRef<Value> values) {
    return builder.getTypeArrayAttr(
        llvm::map_to_vector(values, [](Value value) { return value.getType(); }));
  };
  llvm::SmallVector<mlir::NamedAttribute> attributes = {
      named("text", builder.getStringAttr(problem.view().text))};
  if (!sizes.empty()) {
    attributes.push_back(named("sizes", builder.getArrayAttr(sizes)));
  }
  builder.setInsertionPointToEnd(module_.getBody());
  const std::string destroy = std::string(kernel.plan_symbol) + "_destroy";
  auto decl = kernel::DeclOp::create(
      builder, builder.getUnknownLoc(), builder.getStringAttr("aten"), types(inputs),
      mlir::DenseBoolArrayAttr::get(context_, llvm::SmallVector<bool>(inputs.size(), false)),
      types(outputs), builder.getStrArrayAttr(roles), types({}), builder.getStringAttr(kernel.op),
      builder.getDictionaryAttr(attributes), builder.getStringAttr(kernel.run_symbol),
      builder.getStringAttr(kernel.plan_symbol), builder.getStringAttr(destroy),
      builder.getUnitAttr());
  if (target_.getBackend() != "cpu") {
    decl->setAttr(kernel::kRunsOnAttr, builder.getStringAttr(target_.getBackend()));
  }
  std::string text;
  llvm::raw_string_ostream(text) << decl;
  auto [found, inserted] = atenHandles_.try_emplace(text);
  if (!inserted) {
    decl.erase();
    return found->second;
  }
  const unsigned count = usedNames_[symbol]++;
  const std::string name = symbol + (count ? "_" + std::to_string(count + 1) : "");
  decl.setSymName(name);
  const auto callee = mlir::FlatSymbolRefAttr::get(context_, name);
  builder.setInsertionPoint(prepare_);
  Value handle =
      kernel::HandleOp::create(builder, loc, kernel::HandleType::get(context_),
                               builder.getStringAttr(name), builder.getStringAttr(destroy));
  builder.setInsertionPointToEnd(&prepare_.getBody().front());
  kernel::PlanOp::create(builder, loc, callee, mlir::ValueRange(), handle,
                         mlir::FlatSymbolRefAttr::get(context_, teamQueue()));
  found->second = {callee, handle};
  return found->second;
}

}  // namespace straightline::lowering
