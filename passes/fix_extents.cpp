// SPDX-License-Identifier: Apache-2.0
#include "dialect/error_kind.h"
#include "llvm/ADT/StringExtras.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_FIXEXTENTS
#include "passes/passes.h.inc"

using mlir::AffineExpr;
using mlir::RankedTensorType;
using mlir::StringAttr;

namespace {

/// The value of each extent that is fixed, by name.
using Sizes = llvm::DenseMap<StringAttr, int64_t>;

/// The same expressions, with numbers in place of the names that are fixed.
symbolic::ExprList fixed(const symbolic::ExprList& list, const Sizes& sizes) {
  llvm::SmallVector<AffineExpr> values;
  for (auto [position, name] : llvm::enumerate(list.names)) {
    const auto found = sizes.find(name);
    values.push_back(found == sizes.end()
                         ? mlir::getAffineSymbolExpr(position, name.getContext())
                         : mlir::getAffineConstantExpr(found->second, name.getContext()));
  }
  llvm::SmallVector<AffineExpr> exprs;
  for (AffineExpr expr : list.exprs) {
    exprs.push_back(mlir::simplifyAffineExpr(expr.replaceSymbols(values), 0, values.size()));
  }
  return symbolic::canonical(list.names, exprs);
}

struct FixExtentsPass : impl::FixExtentsBase<FixExtentsPass> {
  using FixExtentsBase::FixExtentsBase;

  void runOnOperation() override {
    Sizes fixedSizes;
    if (failed(readSizes(&fixedSizes))) {
      return signalPassFailure();
    }
    mlir::AttrTypeReplacer replacer;
    replacer.addReplacement([&](RankedTensorType type) -> std::optional<mlir::Type> {
      if (!llvm::isa_and_present<op::DimsAttr>(type.getEncoding())) {
        return std::nullopt;
      }
      return op::tensorType(type.getElementType(), fixed(op::extentsOf(type), fixedSizes));
    });
    replacer.addReplacement([&](op::DimsAttr dims) -> std::optional<mlir::Attribute> {
      return op::DimsAttr::get(dims.getContext(), fixed(dims.getList(), fixedSizes));
    });
    replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true,
                                          /*replaceLocs=*/false, /*replaceTypes=*/true);
  }

 private:
  /// Reads the option, and removes the symbols that it names.
  mlir::LogicalResult readSizes(Sizes* result) {
    llvm::DenseSet<StringAttr> computed;
    getOperation().walk([&](op::SetExtentOp set) { computed.insert(set.getExtentAttr()); });
    for (const std::string& entry : sizes) {
      const auto [name, text] = llvm::StringRef(entry).split('=');
      int64_t value = 0;
      if (text.getAsInteger(10, value)) {
        return refuse() << "'" << entry << "' is no size; one is 'name=number'";
      }
      auto symbol = getOperation().lookupSymbol<op::SymbolOp>(name);
      if (!symbol) {
        return refuse() << "there is no named size '" << name << "'" << namesThere();
      }
      if (computed.contains(symbol.getSymNameAttr())) {
        return refuse() << "size " << name << " depends on data: it has no value before a call";
      }
      if (value < symbol.getMin() || value > symbol.getMax()) {
        return refuse() << "size " << name << " is " << value << " but must be from "
                        << symbol.getMin() << " to " << symbol.getMax();
      }
      (*result)[symbol.getSymNameAttr()] = value;
      symbol.erase();
    }
    return mlir::success();
  }

  /// "; there are a, b".
  std::string namesThere() {
    llvm::SmallVector<llvm::StringRef> names;
    for (op::SymbolOp symbol : getOperation().getOps<op::SymbolOp>()) {
      names.push_back(symbol.getSymName());
    }
    return names.empty() ? "" : "; there are " + llvm::join(names, ", ");
  }

  mlir::InFlightDiagnostic refuse() { return emitUserError(getOperation()); }
};

}  // namespace

}  // namespace straightline::passes
