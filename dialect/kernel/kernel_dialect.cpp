// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/kernel_dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "dialect/kernel/kernel_dialect.cpp.inc"
#include "dialect/kernel/kernel_interfaces.cpp.inc"

namespace straightline::kernel {

void KernelDialect::initialize() {
  registerTypes();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialect/kernel/kernel_ops.cpp.inc"
      >();
}

mlir::Operation* lookupEntry(mlir::Operation* op, mlir::FlatSymbolRefAttr symbol) {
  auto program = op->getParentOfType<ProgramOp>();
  if (!program) {
    return nullptr;
  }
  mlir::Operation* entry =
      mlir::SymbolTable::lookupNearestSymbolFrom(program->getParentOp(), symbol);
  return entry && llvm::isa<FuncOp, DeclOp>(entry) ? entry : nullptr;
}

bool isOutputRead(mlir::Operation* entry, unsigned output) {
  if (!entry) {
    return false;
  }
  auto func = llvm::dyn_cast<FuncOp>(entry);
  mlir::ArrayAttr roles = func ? func.getOutputRoles() : llvm::cast<DeclOp>(entry).getOutputRoles();
  return output < roles.size() &&
         llvm::cast<mlir::StringAttr>(roles[output]).getValue() == "readwrite";
}

llvm::SmallVector<Tie> getTies(mlir::Operation* entry) {
  llvm::SmallVector<Tie> ties;
  if (auto func = llvm::dyn_cast_or_null<FuncOp>(entry)) {
    llvm::ArrayRef<int64_t> pairs = func.getTies();
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      ties.push_back({pairs[i], pairs[i + 1]});
    }
  }
  return ties;
}

bool canFail(mlir::Operation* entry) {
  if (auto func = llvm::dyn_cast_or_null<FuncOp>(entry)) {
    return func.getCanFail() || runsOnDevice(func);  // a device may refuse
  }
  auto decl = llvm::dyn_cast_or_null<DeclOp>(entry);
  return decl && decl.getCanFail();
}

bool runsOnDevice(mlir::Operation* entry) { return entry && entry->hasAttr(kBlocksAttr); }

int64_t sharedBytesOf(mlir::Operation* entry) {
  auto bytes = entry ? entry->getAttrOfType<mlir::IntegerAttr>(kSharedAttr) : nullptr;
  return bytes ? bytes.getInt() : 0;
}

bool isPrintedAsHost(mlir::Operation* entry) {
  auto threads = entry ? entry->getAttrOfType<mlir::IntegerAttr>(kThreadsAttr) : nullptr;
  return !threads || threads.getInt() == 0;
}

mlir::Value storageRoot(mlir::Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewOp>()) {
    buffer = view.getBase();
  }
  return buffer;
}

namespace {

/// Elements of a buffer within its storage, in terms of numbers.
struct Slice {
  int64_t first = 0, last = 0;  ///< of the storage's elements from its element 0, both included
  /// for each dim of the storage first and end; empty: none is known
  llvm::SmallVector<std::pair<int64_t, int64_t>> box;
};

std::optional<llvm::SmallVector<int64_t>> numbersOf(llvm::ArrayRef<mlir::AffineExpr> expressions) {
  llvm::SmallVector<int64_t> numbers;
  for (mlir::AffineExpr expression : expressions) {
    const std::optional<int64_t> number = symbolic::constantValue(expression);
    if (!number || *number < 0) {
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

/// The dims of the storage that the slice takes a part of: its offset written in terms of their
/// strides.
void findBox(Slice* slice, llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<int64_t> strides,
             llvm::ArrayRef<int64_t> ownExtents, llvm::ArrayRef<int64_t> ownStrides) {
  llvm::SmallVector<size_t> order;
  for (size_t dim = 0; dim < extents.size(); ++dim) {
    if (extents[dim] > 1) {
      order.push_back(dim);
    }
  }
  llvm::stable_sort(order, [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  llvm::SmallVector<std::pair<int64_t, int64_t>> box(extents.size(), {0, 1});
  int64_t rest = slice->first;
  for (auto [place, dim] : llvm::enumerate(order)) {
    int64_t inner = 0;  // how far the dims of smaller strides reach
    for (size_t other : llvm::drop_begin(order, place + 1)) {
      inner += (extents[other] - 1) * strides[other];
    }
    if (strides[dim] <= inner) {
      return;  // they overlap each other
    }
    box[dim] = {rest / strides[dim], rest / strides[dim] + 1};
    rest %= strides[dim];
  }
  if (rest != 0) {
    return;
  }
  llvm::SmallVector<bool> taken(extents.size(), false);
  for (auto [extent, stride] : llvm::zip(ownExtents, ownStrides)) {
    if (extent == 1) {
      continue;
    }
    auto* dim = llvm::find_if(
        order, [&, stride = stride](size_t candidate) { return strides[candidate] == stride; });
    if (dim == order.end() || taken[*dim]) {
      return;  // no slice with a step of 1
    }
    taken[*dim] = true;
    box[*dim].second = box[*dim].first + extent;
  }
  for (auto [dim, part] : llvm::enumerate(box)) {
    if (part.second > extents[dim]) {
      return;
    }
  }
  slice->box = std::move(box);
}

/// A view at an index is a part of its base: of as many dims, each no larger and of the same
/// stride.
bool isPartOf(BufferType part, BufferType base) {
  const auto extents = numbersOf(base.getExtents()), ownExtents = numbersOf(part.getExtents());
  if (!extents || !ownExtents || extents->size() != ownExtents->size()) {
    return false;
  }
  for (auto [extent, own, stride, ownStride] :
       llvm::zip(*extents, *ownExtents, base.getStrides(), part.getStrides())) {
    if (own > extent || (own > 1 && stride != ownStride)) {
      return false;
    }
  }
  return true;
}

/// The innermost of the buffers that it is a part of whose place is a number.
mlir::Value placedBase(mlir::Value buffer) {
  mlir::Value placed = buffer;
  for (mlir::Value part = buffer; auto view = part.getDefiningOp<ViewOp>(); part = view.getBase()) {
    if (llvm::cast<BufferType>(view.getType()).hasBorder()) {
      return {};
    }
    const bool moves =
        !view.getIndices().empty() || !symbolic::constantValue(view.getOffset().getExpr());
    if (moves && !isPartOf(llvm::cast<BufferType>(view.getType()),
                           llvm::cast<BufferType>(view.getBase().getType()))) {
      return {};
    }
    placed = moves ? view.getBase() : placed;
  }
  return placed;
}

std::optional<Slice> sliceOf(mlir::Value buffer) {
  buffer = placedBase(buffer);
  if (!buffer) {
    return std::nullopt;
  }
  auto type = llvm::cast<BufferType>(buffer.getType());
  Slice slice;
  mlir::Value root = buffer;
  while (auto view = root.getDefiningOp<ViewOp>()) {
    const std::optional<int64_t> offset = symbolic::constantValue(view.getOffset().getExpr());
    if (!offset || *offset < 0 || !view.getIndices().empty()) {
      return std::nullopt;
    }
    slice.first += *offset;
    root = view.getBase();
  }
  auto whole = llvm::cast<BufferType>(root.getType());
  const auto extents = numbersOf(whole.getExtents()), strides = numbersOf(whole.getStrides());
  const auto ownExtents = numbersOf(type.getExtents()), ownStrides = numbersOf(type.getStrides());
  const bool isPlain = type.getElementType() == whole.getElementType() &&
                       type.getBorder().empty() && whole.getBorder().empty();
  if (!isPlain || !extents || !strides || !ownExtents || !ownStrides ||
      llvm::is_contained(*ownExtents, 0)) {
    return std::nullopt;
  }
  slice.last = slice.first;
  for (auto [extent, stride] : llvm::zip(*ownExtents, *ownStrides)) {
    slice.last += (extent - 1) * stride;
  }
  findBox(&slice, *extents, *strides, *ownExtents, *ownStrides);
  return slice;
}

}  // namespace

bool mayOverlap(mlir::Value a, mlir::Value b) {
  const std::optional<Slice> one = sliceOf(a), other = sliceOf(b);
  if (a == b || !one || !other) {
    return true;
  }
  if (one->last < other->first || other->last < one->first) {
    return false;
  }
  const bool known = !one->box.empty() && !other->box.empty();
  return !known || llvm::all_of(llvm::zip(one->box, other->box), [](const auto& parts) {
    const auto& [x, y] = parts;
    return x.first < y.second && y.first < x.second;
  });
}

}  // namespace straightline::kernel
