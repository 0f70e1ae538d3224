// SPDX-License-Identifier: Apache-2.0
// Rows that kernels of a device find when they run. What makes a value that is copied into one row
// of a buffer (a token's key into a cache, at a position that is data) writes into that row itself:
//
//   launch @norm(%x) outs(%k);  launch @put(%at, %k) outs(%cache)
//   ->  launch @norm_row(%x, %at) outs(%cache), kernel.rows = [#kernel.row<output = 0, index = 1,
//   ..>]
//
// A slot stands for the row while the value is lowered: it may be permuted, reshaped and sliced as
// any place, and its strides are those of the buffer. launch() exchanges it for all rows of the
// buffer (of what it is a part of), so that all later passes see that any of them may be written,
// and appends the number of the row to the inputs.
#include "llvm/ADT/STLExtras.h"
#include "passes/lowering/context.h"

namespace straightline::lowering {

using mlir::LogicalResult;
using mlir::Operation;
using mlir::Value;

Value LoweringContext::rowPlace(kernel::BufferType type, const IndexedRows& rows) {
  Value place = slot(type);
  rowPlaces_.insert({place, rows});
  return place;
}

const LoweringContext::IndexedRows* LoweringContext::rowsOf(Value buffer) const {
  const auto* found = rowPlaces_.find(root(buffer));
  return found == rowPlaces_.end() ? nullptr : &found->second;
}

/// Whether what makes `tensor` may write it into the row that `user`, its only reader, wants it in.
bool LoweringContext::mayWriteRow(Value tensor, Operation* user) const {
  Operation* maker = tensor.getDefiningOp();
  const Rule* rule = maker ? rules_.find(maker) : nullptr;
  return rule && tensor.hasOneUse() && maker->getBlock() == user->getBlock() &&
         (rule->writesRows || maker->hasTrait<op::View>());
}

/// Exchanges outputs that stand for a row, or a part of one, for that of all rows.
void LoweringContext::findRows(mlir::Location loc, KernelSpec& spec) {
  for (auto [number, output] : llvm::enumerate(spec.outputs)) {
    const IndexedRows* rows = rowsOf(output);
    if (!rows) {
      continue;
    }
    int64_t index = -1;  // several outputs may be parts of one row
    for (kernel::RowAttr known : spec.rows) {
      index = spec.inputs[known.getIndex()] == rows->index ? known.getIndex() : index;
    }
    if (index < 0) {
      index = static_cast<int64_t>(spec.inputs.size());
      spec.inputs.push_back(rows->index);
    }
    const auto place = static_cast<int64_t>(number);
    spec.rows.push_back(kernel::RowAttr::get(context(), place, index, rows->extent, rows->stride,
                                             rows->wraps ? 1 : 0));
    llvm::erase_if(spec.ties, [&](kernel::Tie tie) { return tie.output == place; });
    Exprs extents = extentsOf(typeOf(output)), strides = stridesOf(typeOf(output));
    extents.insert(extents.begin(), constant(rows->extent));
    strides.insert(strides.begin(), constant(rows->stride));
    auto part = output.getDefiningOp<kernel::ViewOp>();
    const mlir::AffineExpr offset =
        part ? rebased(part.getOffset().getExpr(), part.getOffset().getNames()) : constant(0);
    output = view(loc, rows->whole, this->type(extents, typeOf(output).getElementType(), strides),
                  offset);
  }
}

LogicalResult LoweringContext::removeRowPlaces() {
  for (const auto& [place, rows] : rowPlaces_) {
    for (Operation* user : llvm::make_early_inc_range(place.getUsers())) {
      if (!llvm::isa<kernel::ViewOp>(user) || !user->use_empty()) {
        return user->emitOpError(
            "uses a place for a row of a buffer, which kernels of families "
            "that find the row alone may write");
      }
      user->erase();
    }
    place.getDefiningOp()->erase();
  }
  rowPlaces_.clear();
  return mlir::success();
}

}  // namespace straightline::lowering
