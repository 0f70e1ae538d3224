// SPDX-License-Identifier: Apache-2.0
// Writes softmax, log_softmax, layer_norm, rms_norm, mean and var as sums, maxima and elementwise
// ops, so that the lowering of a row_reduction fusion knows plain reductions only. Works inside
// fusions: what belongs together is decided already.
//
//   softmax(x)    -> m = amax(x); e = exp(x - m); e / sum(e)
//   layer_norm(x) -> d = x - sum(x) / n; d * rsqrt(sum(d * d) / n + eps) * weight + bias
//
// Refuses (unsupported): a mean over a row whose length is not known while compiling.
#include "passes/decompose_reductions.h"

#include "dialect/error_kind.h"
#include "dialect/op/op_dialect.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/PatternMatch.h"
#include "passes/passes.h"
#include "passes/refusals.h"

namespace straightline::passes {

#define GEN_PASS_DEF_DECOMPOSEREDUCTIONS
#include "passes/passes.h.inc"

namespace {

using mlir::Location;
using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;

RankedTensorType typeOf(Value value) { return llvm::cast<RankedTensorType>(value.getType()); }

/// Builds the parts of one composite reduction.
class RowBuilder {
 public:
  RowBuilder(mlir::OpBuilder& builder, Location loc, Value x, llvm::ArrayRef<int64_t> dims)
      : builder_(builder), loc_(loc), type_(typeOf(x)), dims_(dims) {
    symbolic::ExprList extents = op::extentsOf(type_);
    for (int64_t dim : dims) {
      extents.exprs[dim] = mlir::getAffineConstantExpr(1, builder.getContext());
    }
    rowType_ =
        op::tensorType(type_.getElementType(), symbolic::canonical(extents.names, extents.exprs));
  }

  /// Elements of a row; nullopt when symbolic.
  std::optional<int64_t> count() const {
    int64_t product = 1;
    for (int64_t dim : dims_) {
      if (type_.isDynamicDim(dim)) {
        return std::nullopt;
      }
      product *= type_.getDimSize(dim);
    }
    return product;
  }

  template <class Reduction>
  Value reduce(Value x) {
    return Reduction::create(builder_, loc_, rowType_, x, builder_.getDenseI64ArrayAttr(dims_),
                             builder_.getBoolAttr(true));
  }
  Value expand(Value x) {
    return typeOf(x) == type_ ? x : op::ExpandOp::create(builder_, loc_, type_, x).getResult();
  }
  template <class Unary>
  Value unary(Value x) {
    return Unary::create(builder_, loc_, x.getType(), x);
  }
  template <class Binary>
  Value binary(Value x, Value y) {
    return Binary::create(builder_, loc_, x.getType(), x, y);
  }
  Value full(RankedTensorType type, double value) {
    return op::FullOp::create(builder_, loc_, type, builder_.getF64FloatAttr(value));
  }
  Value mean(Value x, int64_t n) {
    return binary<op::DivOp>(reduce<op::SumOp>(x), full(rowType_, static_cast<double>(n)));
  }
  RankedTensorType rowType() const { return rowType_; }

 private:
  mlir::OpBuilder& builder_;
  Location loc_;
  RankedTensorType type_;
  llvm::SmallVector<int64_t> dims_;
  RankedTensorType rowType_;
};

/// x normalised by its variance around `centre` (or around zero), then weight and bias.
Value normalise(RowBuilder& rows, Value centred, int64_t n, double eps, Value weight, Value bias) {
  Value variance = rows.mean(rows.binary<op::MulOp>(centred, centred), n);
  Value shifted = rows.binary<op::AddOp>(variance, rows.full(rows.rowType(), eps));
  Value result = rows.binary<op::MulOp>(centred, rows.expand(rows.unary<op::RsqrtOp>(shifted)));
  if (weight) {
    result = rows.binary<op::MulOp>(result, rows.expand(weight));
  }
  if (bias) {
    result = rows.binary<op::AddOp>(result, rows.expand(bias));
  }
  return result;
}

Value shapedAs(mlir::OpBuilder& builder, Location loc, Value rows, RankedTensorType wanted) {
  return rows.getType() == wanted ? rows
                                  : op::ReshapeOp::create(builder, loc, wanted, rows).getResult();
}

}  // namespace

mlir::FailureOr<Value> writeReduction(Operation* operation, mlir::OpBuilder& builder) {
  auto reduction = llvm::dyn_cast<op::ReductionOpInterface>(operation);
  if (!reduction || llvm::isa<op::SumOp, op::AmaxOp, op::AminOp, op::ProdOp, op::AnyOp, op::AllOp,
                              op::ArgmaxOp, op::ArgminOp>(operation)) {
    return Value();
  }
  const Location loc = operation->getLoc();
  Value x = operation->getOperand(0);
  RowBuilder rows(builder, loc, x, reduction.getReducedDims());
  if (llvm::isa<op::SoftmaxOp, op::LogSoftmaxOp>(operation)) {
    Value shifted = rows.binary<op::SubOp>(x, rows.expand(rows.reduce<op::AmaxOp>(x)));
    Value powers = rows.unary<op::ExpOp>(shifted);
    Value sum = rows.reduce<op::SumOp>(powers);
    return llvm::isa<op::SoftmaxOp>(operation)
               ? rows.binary<op::DivOp>(powers, rows.expand(sum))
               : rows.binary<op::SubOp>(shifted, rows.expand(rows.unary<op::LogOp>(sum)));
  }
  const std::optional<int64_t> n = rows.count();
  if (!n) {
    emitUnsupported(operation) << operation->getName().stripDialect()
                               << " averages over a named extent; the nearest supported form "
                                  "averages over static dims";
    return mlir::failure();
  }
  auto result = llvm::cast<RankedTensorType>(operation->getResult(0).getType());
  if (llvm::isa<op::MeanOp>(operation)) {
    return shapedAs(builder, loc, rows.mean(x, *n), result);
  }
  if (auto norm = llvm::dyn_cast<op::LayerNormOp>(operation)) {
    Value centred = rows.binary<op::SubOp>(x, rows.expand(rows.mean(x, *n)));
    return normalise(rows, centred, *n, norm.getEps().convertToDouble(), norm.getWeight(),
                     norm.getBias());
  }
  if (auto norm = llvm::dyn_cast<op::RmsNormOp>(operation)) {
    return normalise(rows, x, *n, norm.getEps().convertToDouble(), norm.getWeight(), {});
  }
  auto variance = llvm::cast<op::VarOp>(operation);
  Value centred = rows.binary<op::SubOp>(x, rows.expand(rows.mean(x, *n)));
  Value squares = rows.reduce<op::SumOp>(rows.binary<op::MulOp>(centred, centred));
  const double over =
      std::max(0.0, static_cast<double>(*n) - variance.getCorrection().convertToDouble());
  return shapedAs(builder, loc, rows.binary<op::DivOp>(squares, rows.full(rows.rowType(), over)),
                  result);
}

namespace {

struct DecomposeReductionsPass : impl::DecomposeReductionsBase<DecomposeReductionsPass> {
  void runOnOperation() override {
    bool failedHere = false;
    getOperation().walk([&](op::FusionOp fusion) {
      for (Operation& operation :
           llvm::make_early_inc_range(fusion.getBody().front().without_terminator())) {
        mlir::OpBuilder builder(&operation);
        mlir::FailureOr<Value> replacement = writeReduction(&operation, builder);
        failedHere |= failed(replacement);
        if (succeeded(replacement) && *replacement) {
          keepRefusals(&operation, *replacement);
          operation.getResult(0).replaceAllUsesWith(*replacement);
          operation.erase();
        }
      }
    });
    if (failedHere) {
      signalPassFailure();
    }
  }
};

}  // namespace

}  // namespace straightline::passes
