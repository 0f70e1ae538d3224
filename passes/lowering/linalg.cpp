// SPDX-License-Identifier: Apache-2.0
// Factors of matrices, triangular systems, eigenvalues and singular values: cholesky, lu, geqrf,
// orgqr, triangular_solve, eigh, svd.
#include "dialect/op/linalg.h"

#include "passes/lowering/context.h"

namespace straightline::lowering {

using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

/// Microseconds of a product of two elements, and what a matrix costs besides.
constexpr double kTermUs = 0.0002, kMatrixUs = 0.02;
/// Products of a factor or of a column of a system, in parts of n * n * n or n * n.
constexpr double kCholeskyPart = 1.0 / 6, kLuPart = 1.0 / 3, kSolvePart = 0.5, kQrPart = 2.0 / 3;
/// Of rotations: sweeps, pairs of rows in one, products of a pair.
constexpr double kJacobiPart = 8.0 * 0.5 * 8;

/// What every step of the family has: the sizes, and dense operands.
class MatrixLowering {
 public:
  MatrixLowering(mlir::Operation* operation, Value matrices, llvm::StringRef step,
                 LoweringContext& context)
      : operation_(operation), context_(context) {
    const Exprs extents = context.extentsOf(matrices);
    const auto all = llvm::ArrayRef(extents);
    batch_ = context.product(all.drop_back(2));
    n_ = extents.back();
    spec_.op = operation->getName().stripDialect().str();
    spec_.family = "linalg";
    text("matrixStep", step);
    put("batch", batch_);
    put("n", n_);
  }

  void tune(llvm::StringRef key, bool value) {
    spec_.tune.push_back(context_.named(key, context_.number(static_cast<int64_t>(value))));
  }
  void put(llvm::StringRef key, mlir::AffineExpr value) {
    spec_.shape.push_back(context_.named(key, context_.number(value)));
  }
  void read(Value operand) {
    spec_.inputs.push_back(context_.contiguous(operation_->getLoc(), context_.bufferOf(operand),
                                               "elements of rows are read side by side"));
  }

  /// Writes a result in dense rows, and copies it behind where it is wanted otherwise.
  void write(Value result) {
    Value to = context_.destination(result);
    const Exprs extents = context_.extentsOf(result);
    const Exprs dense = context_.rowMajor(extents);
    if (llvm::equal(context_.stridesOf(typeOf(to)), dense)) {
      spec_.outputs.push_back(to);
      return;
    }
    Value own = context_.slot(context_.type(extents, typeOf(to).getElementType(), dense));
    spec_.outputs.push_back(own);
    copies_.emplace_back(own, to);
  }

  /// Memory of the kernel alone, of another value's type.
  void scratch(Value like) {
    const Exprs extents = context_.extentsOf(like);
    spec_.outputs.push_back(context_.slot(context_.type(
        extents, typeOf(context_.destination(like)).getElementType(), context_.rowMajor(extents))));
  }

  /// `part` of n * n * `last` products a matrix.
  void launch(double part, int64_t last) {
    const auto n = static_cast<double>(context_.upperBound(n_));
    spec_.name = spec_.op + "_" + std::to_string(context_.upperBound(n_));
    spec_.costUs = static_cast<double>(context_.upperBound(batch_)) *
                   (kMatrixUs + kTermUs * part * n * n * static_cast<double>(last));
    spec_.why = "emitted.linalg: row by row, a matrix of the batch a thread";
    context_.launch(operation_->getLoc(), spec_);
    for (const auto& [from, to] : copies_) {
      context_.copy(operation_->getLoc(), from, to, "copy",
                    "the rows are wanted in another layout than they are found in");
    }
  }

  int64_t size() { return context_.upperBound(n_); }

 private:
  void text(llvm::StringRef key, llvm::StringRef value) {
    spec_.tune.push_back(context_.named(key, context_.builder().getStringAttr(value)));
  }

  mlir::Operation* operation_;
  LoweringContext& context_;
  KernelSpec spec_;
  mlir::AffineExpr batch_, n_;
  llvm::SmallVector<std::pair<Value, Value>> copies_;
};

LogicalResult lowerCholesky(op::CholeskyOp cholesky, LoweringContext& context) {
  MatrixLowering lowering(cholesky, cholesky.getX(), "cholesky", context);
  lowering.tune("upper", cholesky.getUpper());
  lowering.read(cholesky.getX());
  lowering.write(cholesky.getFactor());
  lowering.write(cholesky.getInfo());
  lowering.launch(kCholeskyPart, lowering.size());
  return success();
}

LogicalResult lowerLu(op::LuOp lu, LoweringContext& context) {
  MatrixLowering lowering(lu, lu.getX(), "lu", context);
  lowering.read(lu.getX());
  lowering.write(lu.getFactors());
  lowering.write(lu.getPivots());
  lowering.write(lu.getPermutation());
  lowering.write(lu.getInfo());
  lowering.launch(kLuPart, lowering.size());
  return success();
}

/// Sizes that are no squares: of rows [m], and of what is found [columns].
void putSizes(MatrixLowering& lowering, LoweringContext& context, Value x, Value taus) {
  const Exprs extents = context.extentsOf(x);
  lowering.put("rows", extents[extents.size() - 2]);
  lowering.put("reflections", context.extentsOf(taus).back());
}

LogicalResult lowerGeqrf(op::GeqrfOp geqrf, LoweringContext& context) {
  MatrixLowering lowering(geqrf, geqrf.getX(), "geqrf", context);
  putSizes(lowering, context, geqrf.getX(), geqrf.getTaus());
  lowering.read(geqrf.getX());
  lowering.write(geqrf.getFactors());
  lowering.write(geqrf.getTaus());
  lowering.launch(kQrPart, lowering.size());
  return success();
}

LogicalResult lowerOrgqr(op::OrgqrOp orgqr, LoweringContext& context) {
  MatrixLowering lowering(orgqr, orgqr.getX(), "orgqr", context);
  putSizes(lowering, context, orgqr.getX(), orgqr.getTaus());
  lowering.read(orgqr.getX());
  lowering.read(orgqr.getTaus());
  lowering.write(orgqr.getResult());
  lowering.launch(kQrPart, lowering.size());
  return success();
}

LogicalResult lowerTriangularSolve(op::TriangularSolveOp solve, LoweringContext& context) {
  MatrixLowering lowering(solve, solve.getA(), "solve", context);
  lowering.tune("upper", solve.getUpper());
  lowering.tune("transpose", solve.getTranspose());
  lowering.tune("unit", solve.getUnit());
  const mlir::AffineExpr columns = context.extentsOf(solve.getB()).back();
  lowering.put("columns", columns);
  lowering.read(solve.getA());
  lowering.read(solve.getB());
  lowering.write(solve.getResult());
  lowering.launch(kSolvePart, context.upperBound(columns));
  return success();
}

LogicalResult lowerEigh(op::EighOp eigh, LoweringContext& context) {
  MatrixLowering lowering(eigh, eigh.getX(), "eigh", context);
  lowering.tune("upper", eigh.getUpper());
  lowering.read(eigh.getX());
  lowering.write(eigh.getVectors());
  lowering.write(eigh.getValues());
  lowering.scratch(eigh.getVectors());
  lowering.write(eigh.getInfo());
  lowering.launch(kJacobiPart, lowering.size());
  return success();
}

LogicalResult lowerSvd(op::SvdOp svd, LoweringContext& context) {
  MatrixLowering lowering(svd, svd.getX(), "svd", context);
  const mlir::AffineExpr rows = context.extentsOf(svd.getValues()).back();
  lowering.put("rows", rows);
  lowering.read(svd.getX());
  lowering.write(svd.getRight());
  lowering.write(svd.getValues());
  lowering.write(svd.getLeft());
  lowering.write(svd.getInfo());
  lowering.launch(kJacobiPart, context.upperBound(rows));
  return success();
}

}  // namespace

void registerLinalgRules(RuleSet& rules) {
  rules.add(lowerCholesky);
  rules.add(lowerLu);
  rules.add(lowerGeqrf);
  rules.add(lowerOrgqr);
  rules.add(lowerTriangularSolve);
  rules.add(lowerEigh);
  rules.add(lowerSvd);
}

}  // namespace straightline::lowering
