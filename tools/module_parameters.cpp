// SPDX-License-Identifier: Apache-2.0
#include "tools/module_parameters.h"

#include "dialect/kernel/kernel_dialect.h"
#include "dialect/op/recorded.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

namespace straightline {
namespace {

namespace json = llvm::json;

json::Array sizes(llvm::ArrayRef<mlir::AffineExpr> exprs, llvm::ArrayRef<mlir::StringAttr> names) {
  json::Array result;
  for (mlir::AffineExpr expr : exprs) {
    if (std::optional<int64_t> value = symbolic::constantValue(expr)) {
      result.push_back(*value);
      continue;
    }
    std::string text;
    llvm::raw_string_ostream stream(text);
    symbolic::printExpr(stream, expr, names);
    result.push_back(text);
  }
  return result;
}

json::Object row(llvm::StringRef name, bool isState, mlir::Type element) {
  std::string type;
  llvm::raw_string_ostream(type) << element;
  return json::Object{{"name", name}, {"kind", isState ? "state" : "parameter"}, {"type", type}};
}

/// Without "strides" it is row-major.
json::Object opLevelRow(mlir::Operation* operation, llvm::StringRef name) {
  auto type = llvm::cast<mlir::RankedTensorType>(operation->getResult(0).getType());
  json::Object result = row(name, llvm::isa<op::StateOp>(operation), type.getElementType());
  const symbolic::ExprList extents = op::extentsOf(type);
  result["shape"] = sizes(extents.exprs, extents.names);
  if (const op::DimsAttr strides = op::stridesOf(operation)) {
    result["strides"] = sizes(strides.getExprs(), strides.getNames());
  }
  return result;
}

json::Object kernelLevelRow(mlir::Operation* operation, llvm::StringRef name) {
  auto type = llvm::cast<kernel::BufferType>(operation->getResult(0).getType());
  json::Object result = row(name, llvm::isa<kernel::StateOp>(operation), type.getElementType());
  result["shape"] = sizes(type.getExtents(), type.getNames());
  result["strides"] = sizes(type.getStrides(), type.getNames());
  return result;
}

/// Calls `visit(operation, name, is at op level)` for the first op of each name.
template <class Visit>
void forEachParameter(mlir::ModuleOp module, Visit visit) {
  llvm::StringSet<> seen;
  module.walk([&](mlir::Operation* operation) {
    const bool opLevel = llvm::isa<op::ParameterOp, op::StateOp>(operation);
    if (!opLevel && !llvm::isa<kernel::ParameterOp, kernel::StateOp>(operation)) {
      return;
    }
    const llvm::StringRef name = operation->getAttrOfType<mlir::StringAttr>("name").getValue();
    if (seen.insert(name).second) {
      visit(operation, name, opLevel);
    }
  });
}

}  // namespace

std::string moduleParameters(mlir::ModuleOp module) {
  json::Array rows;
  forEachParameter(module, [&](mlir::Operation* operation, llvm::StringRef name, bool opLevel) {
    rows.push_back(opLevel ? opLevelRow(operation, name) : kernelLevelRow(operation, name));
  });
  std::string text;
  llvm::raw_string_ostream(text) << json::Value(std::move(rows));
  return text;
}

std::vector<std::string> moduleParameterNames(mlir::ModuleOp module) {
  std::vector<std::string> names;
  forEachParameter(
      module, [&](mlir::Operation*, llvm::StringRef name, bool) { names.push_back(name.str()); });
  return names;
}

}  // namespace straightline
