// SPDX-License-Identifier: Apache-2.0
// The first elements of rows in order (topk, sort). On a device the sizes decide how a row is held
// (codegen/kernels/cuda_topk.h), and a long one is cut: the best of each part (or all of it,
// sorted), by the whole device, then the best of these.
//
//   topk(x [152000], k = 50)  ->  launch @topk_parts(x) outs(words [55 * 50]);  launch @topk(words,
//   x) outs(values, indices)
//   sort(x [8192])            ->  launch @sort_parts(x) outs(words [4 * 2048]);  launch
//   @sort(words, x) outs(values, indices)
#include <algorithm>
#include <cmath>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "passes/cuda_architecture.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

constexpr int64_t kWarp = 32;
constexpr int64_t kMostThreads = 1024;
constexpr int64_t kMostListed = 2048;  ///< words that way 2 sorts at last

/// How a block holds `count` words of a row of which it wants `k`: the tunables of the family
/// (topk.h).
struct Held {
  int64_t way = 0, threads = 1, each = 1, word = 8, list = 64;
};

/// words that a block sorts whole: a longer row is merged from parts
constexpr int64_t kMostSorted = 2048;
/// that are merged from sorted parts: of more, a radix sort is faster (h200_1fbda14.json)
constexpr int64_t kMostMerged = 1 << 15;

/// Words that a block selects from, in its registers.
int64_t mostHeld(int64_t wordBytes) { return kMostThreads * (wordBytes == 16 ? 8 : 16); }

/// Bytes of a word; those of a part carry the place in the whole row.
int64_t wordBytes(int64_t elementBytes, int64_t count, bool isPart) {
  constexpr int64_t kShort = 1 << 15;
  return elementBytes == 8 ? 16 : elementBytes <= 2 && count <= kShort && !isPart ? 4 : 8;
}

/// Whether the k first of a row are few enough to be selected.
bool isSelected(int64_t count, int64_t k) { return 4 * k <= count && 2 * k <= kMostListed; }

Held heldFor(int64_t count, int64_t k, int64_t word, bool selects) {
  constexpr int64_t kFewWanted = 16, kShortRow = 256, kSortedRow = 1024;
  Held held;
  held.word = word;
  const int64_t padded =
      static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(std::max<int64_t>(count, 2))));
  if (!selects && k <= kFewWanted && count <= kShortRow) {
    held.threads = std::clamp<int64_t>(padded / 4, 1, kWarp);
    held.each = llvm::divideCeil(count, held.threads);
    return held;
  }
  // Sorting a long row costs more the longer it is, selecting from it hardly.
  if (selects || (count > kSortedRow && isSelected(count, k))) {
    held.way = 2;
    held.threads = std::clamp<int64_t>(padded / 8, 4 * kWarp, kMostThreads);
    held.each = llvm::divideCeil(count, held.threads);
    held.list = std::max<int64_t>(
        64, static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(2 * k))));
    return held;
  }
  held.way = 1;
  held.threads = std::clamp<int64_t>(padded / 4, 1, kMostThreads);
  held.each = padded / held.threads;
  return held;
}

/// Parts of a row to select from for two kernels of like length, each of which fills the device
/// where it can; 0 where two do not do.
int64_t selectedParts(int64_t rows, int64_t count, int64_t k, int64_t most, int64_t processors) {
  const int64_t blocks = 2 * processors;
  const int64_t fewest = llvm::divideCeil(count, most), highest = most / k;
  if (2 * k > kMostListed || fewest > highest) {
    return 0;
  }
  const auto balanced =
      static_cast<int64_t>(std::sqrt(static_cast<double>(count) / static_cast<double>(k)));
  return std::clamp(std::min(balanced, blocks / std::max<int64_t>(1, rows)), fewest, highest);
}

/// How a row is cut.
struct Cut {
  int64_t parts = 1;    ///< 0: it cannot be
  int64_t kept = 0;     ///< words that each part leaves
  bool merges = false;  ///< parts are sorted whole
};

Cut cutOf(int64_t rows, int64_t count, int64_t k, int64_t most, int64_t processors) {
  if (count <= kMostSorted || (count <= most && isSelected(count, k))) {
    return {};
  }
  const int64_t parts =
      count > most && isSelected(count, k) ? selectedParts(rows, count, k, most, processors) : 0;
  if (parts > 0) {
    return {parts, k, false};
  }
  if (count > kMostMerged) {
    return {0};
  }
  const int64_t cut = llvm::divideCeil(count, kMostSorted);
  return {cut, static_cast<int64_t>(llvm::divideCeil(count, cut)), true};
}

}  // namespace

LogicalResult Lowering::lowerTopk(op::TopkOp topk) {
  const mlir::Location loc = topk.getLoc();
  const auto dim = static_cast<int64_t>(topk.getDim()), k = static_cast<int64_t>(topk.getK());
  const Exprs extents = extentsOf(topk.getX());
  const Exprs outer = without(extents, dim);
  const int64_t count = *symbolic::constantValue(extents[dim]);
  Value x = bufferOf(topk.getX());
  Value values = destination(topk.getValues()), wanted = destination(topk.getIndices()),
        indices = wanted;
  const bool onDevice = target_.getBackend() != "cpu";
  if (!onDevice && stridesOf(typeOf(wanted))[dim] != constant(1)) {
    // A CPU puts rows in order where the indices will be.
    Exprs strides(extents.size());
    AffineExpr next = constant(k);
    for (size_t d = extents.size(); d-- > 0;) {
      const bool isDim = static_cast<int64_t>(d) == dim;
      strides[d] = isDim ? constant(1) : next;
      next = isDim ? next : next * extents[d];
    }
    indices = slot(type(extentsOf(topk.getIndices()), typeOf(wanted).getElementType(), strides));
  }
  const int64_t bytes = typeOf(x).elementBytes();
  const int64_t most = mostHeld(bytes == 8 ? 16 : 8);
  const int64_t rows = upperBound(product(outer));
  const Cut cut =
      onDevice ? cutOf(rows, count, k, most, cudaArchitecture(target_.getCpu()).processors) : Cut();
  const int64_t parts = cut.parts;
  if (parts == 0) {
    return topk.emitOpError()
           << "takes " << k << " of " << count << " elements of " << typeOf(x).getElementType()
           << "; unsupported: the nearest supported forms on a device are rows of at most "
           << kMostMerged << " or k up to " << kMostListed / 2;
  }
  KernelSpec spec;
  spec.family = "topk";
  spec.op = k == count ? "sort" : "topk";
  const std::string size = "_" + std::to_string(k) + "of" + std::to_string(count);
  Value words;
  const int64_t wordWide = wordBytes(bytes, count, parts > 1);
  auto strides = [&](Value buffer) {
    return buffer ? without(stridesOf(typeOf(buffer)), dim) : Exprs(outer.size(), constant(0));
  };
  auto along = [&](Value buffer) { return buffer ? stridesOf(typeOf(buffer))[dim] : constant(0); };
  auto fill = [&](Value first, Value second, const Held& how) {
    Exprs wordStrides(outer.size(), constant(0));
    if (words) {
      wordStrides = stridesOf(typeOf(words));
      wordStrides.pop_back();
    }
    spec.tune = {named("rank", number(static_cast<int64_t>(outer.size()))),
                 named("largest", number(topk.getLargest() ? 1 : 0))};
    if (onDevice) {
      for (auto [key, value] : {std::pair<llvm::StringRef, int64_t>("way", how.way),
                                {"threads", how.threads},
                                {"each", how.each},
                                {"word", how.word},
                                {"list", how.list}}) {
        spec.tune.push_back(named(key, number(value)));
      }
    }
    spec.shape = {
        named("outer", numbers(outer)),
        named("outerStride",
              mlir::ArrayAttr::get(context_, {numbers(strides(x)), numbers(strides(first)),
                                              numbers(strides(second)), numbers(wordStrides)})),
        named("count", number(count)),
        named("k", number(k)),
        named("parts", number(parts)),
        named("kept", number(cut.kept)),
        named("stride", numbers({along(x), along(first), along(second)}))};
  };
  // Of one thread: a comparison an element, and what keeps the best in order.
  spec.costUs = static_cast<double>(upperBound(product(extents))) * (k == count ? 0.02 : 0.0008) +
                static_cast<double>(rows * k) * 0.02;
  if (parts > 1) {
    Exprs wordExtents = outer;
    wordExtents.push_back(constant(parts * cut.kept * wordWide / 8));
    words = slot(contiguousType(wordExtents, builder_.getI64Type()));
    spec.name = spec.op + "_parts" + size;
    spec.why = "native.topk: " + std::string(cut.merges ? "each" : "the best of each") + " of " +
               std::to_string(parts) + " parts of a long row, in order";
    spec.inputs = {x};
    spec.outputs = {words};
    const int64_t each = llvm::divideCeil(count, parts);
    fill({}, {},
         cut.merges ? heldFor(each, each, wordWide, false) : heldFor(each, k, wordWide, true));
    launch(loc, spec);
    spec.inputs = {words, x};
  } else {
    spec.inputs = {x};
  }
  spec.name = spec.op + size;
  spec.why = cut.merges  ? "native.topk: sorted parts are merged"
             : parts > 1 ? "native.topk: the best of all parts"
                         : "native.topk: a row is put in order where it is held";
  spec.outputs = {values, indices};
  fill(values, indices,
       cut.merges ? Held{3, 1, 1, wordWide, 64}
                  : heldFor(parts > 1 ? parts * k : count, k, wordWide, parts > 1));
  launch(loc, spec);
  if (indices != wanted) {
    copy(loc, indices, wanted, "copy",
         "the places are wanted in another layout than they are found in");
  }
  return success();
}

}  // namespace straightline::lowering
