// SPDX-License-Identifier: Apache-2.0
#include "passes/lowering/indexed_loops.h"

#include "llvm/ADT/STLExtras.h"

namespace straightline::lowering {

IndexedLoops indexedLoops(const IndexedBuffer& indexed, size_t rank, LoweringContext& context) {
  const Exprs extents = context.extentsOf(typeOf(indexed.whole));
  const Exprs strides = context.stridesOf(typeOf(indexed.whole));
  const auto first = static_cast<size_t>(indexed.firstIndexDim);
  const size_t count = rank - (extents.size() - indexed.dims.size());  // loops of index tensors
  IndexedLoops loops;
  loops.beside.assign(rank, context.constant(0));
  loops.isIndexDim.assign(rank, false);
  std::fill_n(loops.isIndexDim.begin() + first, count, true);
  size_t loop = 0;
  for (size_t dim = 0; dim < extents.size(); ++dim) {
    if (llvm::is_contained(indexed.dims, static_cast<int64_t>(dim))) {
      loops.dimExtents.push_back(extents[dim]);
      loops.dimStrides.push_back(strides[dim]);
      continue;
    }
    loop = loop == first ? first + count : loop;
    loops.beside[loop++] = strides[dim];
  }
  for (mlir::Value index : indexed.indices) {
    Exprs& of = loops.indices.emplace_back(rank, context.constant(0));
    llvm::copy(context.stridesOf(typeOf(index)), of.begin() + first);
  }
  return loops;
}

}  // namespace straightline::lowering
