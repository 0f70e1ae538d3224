// SPDX-License-Identifier: Apache-2.0
#include "passes/lowering/loops.h"

#include "llvm/ADT/STLExtras.h"

namespace straightline::lowering {

llvm::SmallVector<Loop> makeLoops(const Sizes& sizes, const Exprs& extents,
                                  llvm::ArrayRef<Exprs> strides) {
  llvm::SmallVector<Loop> loops;
  for (size_t dim = 0; dim < extents.size(); ++dim) {
    if (extents[dim] == sizes.constant(1)) {
      continue;
    }
    Loop loop{extents[dim], {}};
    for (const Exprs& operand : strides) {
      loop.strides.push_back(operand[dim]);
    }
    loops.push_back(loop);
  }
  return loops;
}

llvm::SmallVector<Loop> mergeLoops(llvm::SmallVector<Loop> loops) {
  for (size_t i = 0; i + 1 < loops.size();) {
    Loop& outer = loops[i];
    Loop& inner = loops[i + 1];
    const bool mergeable = llvm::all_of(llvm::zip(outer.strides, inner.strides), [&](auto pair) {
      return std::get<0>(pair) == std::get<1>(pair) * inner.extent;
    });
    if (!mergeable) {
      ++i;
      continue;
    }
    inner.extent = outer.extent * inner.extent;
    loops.erase(loops.begin() + static_cast<ptrdiff_t>(i));
  }
  return loops;
}

void orderLoops(const Sizes& sizes, llvm::SmallVectorImpl<Loop>& loops, size_t key) {
  llvm::stable_sort(loops, [&](const Loop& a, const Loop& b) {
    return sizes.upperBound(a.strides[key]) > sizes.upperBound(b.strides[key]);
  });
}

Exprs extentsOf(llvm::ArrayRef<Loop> loops) {
  return llvm::map_to_vector(loops, [](const Loop& loop) { return loop.extent; });
}

Exprs stridesOf(llvm::ArrayRef<Loop> loops, size_t operand) {
  return llvm::map_to_vector(loops, [&](const Loop& loop) { return loop.strides[operand]; });
}

std::string sizeName(llvm::ArrayRef<mlir::AffineExpr> extents) {
  std::string name;
  for (mlir::AffineExpr extent : extents) {
    std::optional<int64_t> size = symbolic::constantValue(extent);
    name += (name.empty() ? "_" : "x") + (size ? std::to_string(*size) : std::string("n"));
  }
  return name;
}

std::string sizeName(llvm::ArrayRef<Loop> loops) { return sizeName(extentsOf(loops)); }

Exprs without(Exprs values, int64_t dim) {
  values.erase(values.begin() + dim);
  return values;
}

Exprs part(const Exprs& values, size_t first, size_t count) {
  return Exprs(values.begin() + first, values.begin() + first + count);
}

mlir::AffineExpr onlyExtent(const Sizes& sizes, llvm::ArrayRef<Loop> loops) {
  return loops.empty() ? sizes.constant(1) : loops[0].extent;
}

mlir::AffineExpr onlyStride(const Sizes& sizes, llvm::ArrayRef<Loop> loops, size_t operand) {
  return loops.empty() ? sizes.constant(0) : loops[0].strides[operand];
}

bool isDenseRun(const Sizes& sizes, llvm::ArrayRef<Loop> loops) {
  return loops.empty() ||
         (loops.size() == 1 && llvm::all_of(loops[0].strides, [&](mlir::AffineExpr stride) {
            return stride == sizes.constant(1);
          }));
}

}  // namespace straightline::lowering
