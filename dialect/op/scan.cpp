// SPDX-License-Identifier: Apache-2.0
// The family "scan": the generated definitions, and the verifier.
#include "dialect/op/scan.h"

#include "dialect/op/op_verify.h"
#include "llvm/ADT/StringSwitch.h"
#include "mlir/IR/DialectImplementation.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define GET_OP_CLASSES
#include "dialect/op/op_scan.cpp.inc"
#pragma GCC diagnostic pop

namespace straightline::op {

std::optional<int64_t> scanCombine(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<int64_t>>(name)
      .Case("prod", 1)
      .Case("logcumsumexp", 2)
      .Case("max", 3)
      .Case("min", 4)
      .Case("argmax", 5)
      .Case("argmin", 6)
      .Default(std::nullopt);
}

llvm::LogicalResult ScanOp::verify() {
  ExtentSpace space;
  const auto extents = space.of(getX());
  if (failed(verifyDim(*this, static_cast<int64_t>(getDim()), extents.size(), "row_c1"))) {
    return mlir::failure();
  }
  const llvm::StringRef combine = getCombine();
  if (!scanCombine(combine)) {
    return opError(*this) << "combine is \"" << combine << "\" but prod, logcumsumexp, max, min, "
                          << "argmax or argmin is needed (scan_c1)";
  }
  const mlir::Type element = getX().getType().getElementType();
  if (combine == "logcumsumexp" && !llvm::isa<mlir::FloatType>(element)) {
    return opError(*this) << "logcumsumexp of " << element << ", which is no float (scan_c4)";
  }
  const mlir::Type found =
      combine.starts_with("arg") ? mlir::Type(mlir::IntegerType::get(getContext(), 64)) : element;
  if (failed(verifyElements(*this, getResult(), "the result", found, "scan_c3"))) {
    return mlir::failure();
  }
  return verifyExtents(*this, space, "the result", space.of(getResult()), extents, "scan_c2");
}

}  // namespace straightline::op
