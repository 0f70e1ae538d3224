// SPDX-License-Identifier: Apache-2.0
// The call of a library's kernel, with its declaration and its plan.
#include <algorithm>

#include "dialect/kernel/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "passes/kernel_facts.h"
#include "passes/lowering/context.h"

namespace straightline::lowering {

using mlir::Value;

void LoweringContext::callLibrary(mlir::Location loc, const LibraryKernel& chosen,
                                  llvm::ArrayRef<Value> inputs, llvm::ArrayRef<Value> constants,
                                  Value out, llvm::ArrayRef<mlir::NamedAttribute> attributes) {
  llvm::SmallVector<bool> isPlanned(inputs.size(), true);
  std::fill(isPlanned.begin(), isPlanned.end() - constants.size(), false);
  callLibrary(loc, chosen, {inputs, isPlanned, out}, attributes);
}

void LoweringContext::callLibrary(mlir::Location loc, const LibraryKernel& chosen,
                                  const LibraryOperands& operands,
                                  llvm::ArrayRef<mlir::NamedAttribute> attributes) {
  const sl_kernel_desc& kernel = chosen.kernel;
  mlir::OpBuilder builder(context());
  const mlir::StringAttr plan =
      kernel.plan_symbol ? builder.getStringAttr(kernel.plan_symbol) : mlir::StringAttr();
  const mlir::StringAttr destroy =
      plan ? builder.getStringAttr(plan.getValue() + "_destroy") : mlir::StringAttr();
  builder.setInsertionPointToEnd(module().getBody());
  auto types = [&](llvm::ArrayRef<Value> values) {
    return builder.getTypeArrayAttr(
        llvm::map_to_vector(values, [](Value value) { return value.getType(); }));
  };
  const sl_problem asked = chosen.problem.view();
  llvm::SmallVector<Value> workspace;
  if (const int64_t bytes = kernel.workspace ? kernel.workspace(&asked) : 0; bytes > 0) {
    workspace.push_back(slot(contiguousType({constant(bytes)}, builder.getI8Type())));
  }
  std::string name = llvm::StringRef(kernel.name).str();
  std::replace(name.begin(), name.end(), '.', '_');
  name += "_" + std::to_string(nextNumber("decl." + name));
  mlir::NamedAttrList described(attributes);
  if (asked.variant != 0) {
    described.set("variant", builder.getI64IntegerAttr(asked.variant));
  }
  auto decl = kernel::DeclOp::create(
      builder, loc, builder.getStringAttr(name), types(operands.inputs),
      mlir::DenseBoolArrayAttr::get(context(), operands.isPlanned), types(operands.outputs),
      builder.getStrArrayAttr(llvm::SmallVector<llvm::StringRef>(operands.outputs.size(), "write")),
      types(workspace), builder.getStringAttr(kernel.op), described.getDictionary(context()),
      builder.getStringAttr(kernel.run_symbol), plan, destroy,
      // further handles are planned in a run, which fails where plan does
      kernel.can_fail || has(kernel, SL_KERNEL_EXCLUSIVE_HANDLE) ? builder.getUnitAttr()
                                                                 : mlir::UnitAttr());
  if (targetNamedBy(target_).hasQueue() && chosen.spec.family.empty() &&
      deviceOf(kernel.backend) == target_.getBackend()) {
    decl->setAttr(kernel::kRunsOnAttr, builder.getStringAttr(target_.getBackend()));
  }
  auto queue = mlir::FlatSymbolRefAttr::get(context(), teamQueue());
  auto callee = mlir::FlatSymbolRefAttr::get(context(), name);
  Value handle;
  if (plan) {
    builder.setInsertionPoint(parts_.prepare);
    if (has(kernel, SL_KERNEL_EXCLUSIVE_HANDLE)) {
      kernel::setExclusiveHandle(decl);
    }
    handle = kernel::HandleOp::create(builder, loc, kernel::HandleType::get(context()),
                                      builder.getStringAttr(name), destroy);
    llvm::SmallVector<Value> early;
    for (auto [input, isPlanned] : llvm::zip(operands.inputs, operands.isPlanned)) {
      if (isPlanned) {
        early.push_back(viewInPrepare(input));
      }
    }
    builder.setInsertionPointToEnd(&parts_.prepare.getBody().front());
    kernel::PlanOp::create(builder, loc, callee, early, handle, queue);
  }
  auto call = kernel::CallOp::create(
      builder_, loc, callee, operands.inputs, operands.outputs, handle, workspace, queue,
      kernel.whole_team ? mlir::IntegerAttr() : builder.getI64IntegerAttr(1),
      builder.getStringAttr(chosen.spec.op), builder.getStringAttr(chosen.spec.why));
  kernel::setCostUs(call, chosen.spec.costUs);
  recordChoice(call, chosen.spec);
}

}  // namespace straightline::lowering
