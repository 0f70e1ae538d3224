// SPDX-License-Identifier: Apache-2.0
// Forests and boosted trees: tree_ensemble.
#include "passes/lowering/context.h"

namespace straightline::lowering {

using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

/// Microseconds of a step, of which many go on at once, and what a tree costs besides.
constexpr double kStepUs = 0.0005, kTreeUs = 0.0006;
/// Steps of a way in trees whose depth is not said.
constexpr int64_t kUsualDepth = 12;
/// The family looks at its steps one by one in deeper trees (kFixed, tree_ensemble.h), so that
/// their depth need not make other code.
constexpr int64_t kMostSaid = 8;

llvm::StringRef decisionOf(llvm::StringRef name) { return name == "at_most" ? "atMost" : name; }

LogicalResult lowerTreeEnsemble(op::TreeEnsembleOp ensemble, LoweringContext& context) {
  const mlir::Location loc = ensemble.getLoc();
  Value x = context.bufferOf(ensemble.getX());
  if (context.stridesOf(typeOf(x))[1] != context.constant(1)) {
    x = context.contiguous(loc, x, "features of a row are read side by side");
  }
  Value nodes = context.contiguous(loc, context.bufferOf(ensemble.getNodes()), "nodes are pairs");
  Value weights = context.contiguous(loc, context.bufferOf(ensemble.getWeights()),
                                     "weights of a leaf are read side by side");
  Value to = context.destination(ensemble.getResult());
  const Exprs out = context.extentsOf(ensemble.getResult());
  const Exprs outStrides = context.stridesOf(typeOf(to));
  const auto trees = static_cast<int64_t>(ensemble.getTrees());
  const auto depth = static_cast<int64_t>(ensemble.getDepth());
  KernelSpec spec;
  spec.op = "tree_ensemble";
  spec.name = spec.op + "_" + std::to_string(trees);
  spec.family = "tree_ensemble";
  auto tune = [&](llvm::StringRef key, int64_t value) {
    spec.tune.push_back(context.named(key, context.number(value)));
  };
  auto text = [&](llvm::StringRef key, llvm::StringRef value) {
    spec.tune.push_back(context.named(key, context.builder().getStringAttr(value)));
  };
  text("decision", decisionOf(ensemble.getDecision()));
  text("aggregate", ensemble.getAggregate());
  tune("featureBits", static_cast<int64_t>(ensemble.getFeatureBits()));
  tune("missing", ensemble.getMissing() ? 1 : 0);
  tune("perTree", ensemble.getColumns() ? 1 : 0);
  tune("depth", depth <= kMostSaid ? depth : 0);
  auto put = [&](llvm::StringRef key, mlir::AffineExpr value) {
    spec.shape.push_back(context.named(key, context.number(value)));
  };
  put("rows", out[0]);
  put("columns", out[1]);
  put("trees", context.constant(trees));
  put("inRow", context.stridesOf(typeOf(x))[0]);
  put("outRow", outStrides[0]);
  put("outColumn", outStrides[1]);
  spec.inputs = {x, nodes, weights};
  if (Value columns = ensemble.getColumns()) {
    spec.inputs.push_back(
        context.contiguous(loc, context.bufferOf(columns), "columns are read one by one"));
  }
  spec.outputs = {to};
  spec.why = "emitted.tree_ensemble: several ways through the trees at once";
  const int64_t steps = depth > 0 ? depth : kUsualDepth;
  spec.costUs = static_cast<double>(context.upperBound(out[0]) * trees) *
                (kTreeUs + kStepUs * static_cast<double>(steps));
  context.launch(loc, spec);
  return success();
}

}  // namespace

void registerTreeEnsembleRules(RuleSet& rules) { rules.add(lowerTreeEnsemble); }

}  // namespace straightline::lowering
