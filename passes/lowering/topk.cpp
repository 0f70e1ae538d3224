// SPDX-License-Identifier: Apache-2.0
// topk and sort: the first elements of rows, in order. On a device the sizes decide how a block
// holds a row (codegen/kernels/cuda_topk.h). A long row is divided into parts: a first kernel finds
// the best elements of each part (or sorts it), a second one the best of these (or merges them).
//
//   topk(x [152000], k = 50)  ->  launch @topk_parts(x) outs(words [55 * 50]);  launch @topk(words,
//   x) outs(values, indices)
//   sort(x [8192])            ->  launch @sort_parts(x) outs(words [4 * 2048]);  launch
//   @sort(words, x) outs(values, indices)
#include <algorithm>
#include <cmath>

#include "dialect/error_kind.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "passes/lowering/context.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::LogicalResult;
using mlir::success;
using mlir::Value;

namespace {

constexpr int64_t kWarp = 32;
constexpr int64_t kMostThreads = 1024;
constexpr int64_t kMostListed = 2048;  ///< words that variant 2 sorts after its selection

/// How a block holds `count` words of a row of which it wants `k`: the tunables of the family
/// (codegen/kernels/cuda_topk.h). `variant` is its tunable "way".
struct Held {
  int64_t variant = 0, threads = 1, each = 1, word = 8, list = 64;
};

/// The largest number of words that a block sorts at once; a longer row is sorted in parts, which
/// are then merged.
constexpr int64_t kMostSorted = 2048;
/// The largest number of words that are merged from sorted parts. Beyond it a radix sort is faster
/// (h200_1fbda14.json).
constexpr int64_t kMostMerged = 1 << 15;

/// The largest number of words that a block holds in registers while it selects from them.
int64_t mostHeld(int64_t wordBytes) { return kMostThreads * (wordBytes == 16 ? 8 : 16); }

/// Bytes of a word, which holds an element and its place. Words of a part hold the place in the
/// whole row.
int64_t wordBytes(int64_t elementBytes, int64_t count, bool isPart) {
  constexpr int64_t kShort = 1 << 15;
  return elementBytes == 8 ? 16 : elementBytes <= 2 && count <= kShort && !isPart ? 4 : 8;
}

/// Whether `k` is small enough to select elements instead of sorting the row.
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
  // The cost of sorting grows with the length of a row, that of selecting hardly does.
  if (selects || (count > kSortedRow && isSelected(count, k))) {
    held.variant = 2;
    held.threads = std::clamp<int64_t>(padded / 8, 4 * kWarp, kMostThreads);
    held.each = llvm::divideCeil(count, held.threads);
    held.list = std::max<int64_t>(
        64, static_cast<int64_t>(llvm::PowerOf2Ceil(static_cast<uint64_t>(2 * k))));
    return held;
  }
  held.variant = 1;
  held.threads = std::clamp<int64_t>(padded / 4, 1, kMostThreads);
  held.each = padded / held.threads;
  return held;
}

/// The number of parts of a row, for a kernel that selects from each part and a second one that
/// selects from what the parts leave: about equal time for both, and enough blocks to fill the
/// device where the row allows it. 0 when two kernels are not enough.
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

/// How a row is divided into parts.
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

class TopkLowering {
 public:
  TopkLowering(op::TopkOp topk, LoweringContext& context)
      : topk_(topk),
        context_(context),
        inRegisters_(context.facts().processors > 0),
        dim_(static_cast<int64_t>(topk.getDim())),
        k_(static_cast<int64_t>(topk.getK())),
        outer_(without(context.extentsOf(topk.getX()), dim_)),
        count_(*symbolic::constantValue(context.extentsOf(topk.getX())[dim_])),
        rows_(context.upperBound(context.product(outer_))) {}

  LogicalResult lower() {
    x_ = context_.bufferOf(topk_.getX());
    values_ = context_.destination(topk_.getValues());
    Value wanted = context_.destination(topk_.getIndices());
    indices_ = inRegisters_ ? wanted : inRows(wanted);
    const int64_t bytes = typeOf(x_).elementBytes();
    if (inRegisters_) {
      cut_ = cutOf(rows_, count_, k_, mostHeld(bytes == 8 ? 16 : 8), context_.facts().processors);
    }
    if (cut_.parts == 0) {
      return emitUnsupported(topk_)
             << topk_->getName().stripDialect() << " takes " << k_ << " of " << count_
             << " elements of " << typeOf(x_).getElementType()
             << "; the nearest supported forms on a device are rows of at most " << kMostMerged
             << " or k up to " << kMostListed / 2;
    }
    wordBytes_ = wordBytes(bytes, count_, cut_.parts > 1);
    if (cut_.parts > 1) {
      launchParts();
    }
    launchLast();
    if (indices_ != wanted) {
      context_.copy(topk_.getLoc(), indices_, wanted, "copy",
                    "the places are wanted in another layout than they are found in");
    }
    return success();
  }

 private:
  /// Where a thread puts rows in order, it does so where the indices will be: dense rows.
  Value inRows(Value wanted) {
    if (context_.stridesOf(typeOf(wanted))[dim_] == context_.constant(1)) {
      return wanted;
    }
    const Exprs extents = context_.extentsOf(topk_.getX());
    Exprs strides(extents.size());
    AffineExpr next = context_.constant(k_);
    for (size_t d = extents.size(); d-- > 0;) {
      const bool isDim = static_cast<int64_t>(d) == dim_;
      strides[d] = isDim ? context_.constant(1) : next;
      next = isDim ? next : next * extents[d];
    }
    return context_.slot(context_.type(context_.extentsOf(topk_.getIndices()),
                                       typeOf(wanted).getElementType(), strides));
  }

  /// The first kernel of two: the words of each part.
  void launchParts() {
    KernelSpec spec = describe("_parts");
    Exprs extents = outer_;
    extents.push_back(context_.constant(cut_.parts * cut_.kept * wordBytes_ / 8));
    words_ = context_.slot(context_.contiguousType(extents, context_.builder().getI64Type()));
    spec.why = "emitted.topk: " + std::string(cut_.merges ? "each" : "the best of each") + " of " +
               std::to_string(cut_.parts) + " parts of a long row, in order";
    spec.inputs = {x_};
    spec.outputs = {words_};
    const int64_t each = llvm::divideCeil(count_, cut_.parts);
    setSchedule(
        spec, {}, {},
        cut_.merges ? heldFor(each, each, wordBytes_, false) : heldFor(each, k_, wordBytes_, true));
    context_.launch(topk_.getLoc(), spec);
  }

  void launchLast() {
    KernelSpec spec = describe("");
    const bool isCut = cut_.parts > 1;
    spec.why = cut_.merges ? "emitted.topk: sorted parts are merged"
               : isCut     ? "emitted.topk: the best of all parts"
                           : "emitted.topk: a row is put in order where it is held";
    if (isCut) {
      spec.inputs.push_back(words_);
    }
    spec.inputs.push_back(x_);
    spec.outputs = {values_, indices_};
    setSchedule(spec, values_, indices_,
                cut_.merges ? Held{3, 1, 1, wordBytes_, 64}
                            : heldFor(isCut ? cut_.parts * k_ : count_, k_, wordBytes_, isCut));
    context_.launch(topk_.getLoc(), spec);
  }

  KernelSpec describe(llvm::StringRef suffix) {
    KernelSpec spec;
    spec.family = "topk";
    spec.op = k_ == count_ ? "sort" : "topk";
    spec.name = spec.op + suffix.str() + "_" + std::to_string(k_) + "of" + std::to_string(count_);
    // On one thread: a comparison for each element, and insertions into the ordered best.
    const double elements = static_cast<double>(
        context_.upperBound(context_.product(context_.extentsOf(topk_.getX()))));
    spec.costUs =
        elements * (k_ == count_ ? 0.02 : 0.0008) + static_cast<double>(rows_ * k_) * 0.02;
    return spec;
  }

  /// Of a result: values or indices; null for what a part leaves.
  mlir::Attribute rowStrides(Value buffer) {
    return context_.numbers(buffer ? without(context_.stridesOf(typeOf(buffer)), dim_)
                                   : Exprs(outer_.size(), context_.constant(0)));
  }
  AffineExpr elementStride(Value buffer) {
    return buffer ? context_.stridesOf(typeOf(buffer))[dim_] : context_.constant(0);
  }

  void setSchedule(KernelSpec& spec, Value first, Value second, const Held& how) {
    Exprs wordStrides(outer_.size(), context_.constant(0));
    if (words_) {
      wordStrides = context_.stridesOf(typeOf(words_));
      wordStrides.pop_back();
    }
    auto number = [&](llvm::StringRef key, int64_t value) {
      return context_.named(key, context_.number(value));
    };
    spec.tune = {number("rank", static_cast<int64_t>(outer_.size())),
                 number("largest", topk_.getLargest() ? 1 : 0)};
    if (inRegisters_) {
      spec.tune.append({number("way", how.variant), number("threads", how.threads),
                        number("each", how.each), number("word", how.word),
                        number("list", how.list)});
    }
    spec.shape = {
        context_.named("outer", context_.numbers(outer_)),
        context_.named("outerStride", context_.builder().getArrayAttr(
                                          {rowStrides(x_), rowStrides(first), rowStrides(second),
                                           context_.numbers(wordStrides)})),
        number("count", count_),
        number("k", k_),
        number("parts", cut_.parts),
        number("kept", cut_.kept),
        context_.named("stride", context_.numbers({elementStride(x_), elementStride(first),
                                                   elementStride(second)}))};
  }

  op::TopkOp topk_;
  LoweringContext& context_;
  const bool inRegisters_;
  const int64_t dim_, k_;
  const Exprs outer_;
  const int64_t count_;  ///< elements of a row
  const int64_t rows_;
  Cut cut_;
  int64_t wordBytes_ = 0;
  Value x_, values_, indices_;
  Value words_;  ///< of the parts; null until there are some
};

LogicalResult lowerTopk(op::TopkOp topk, LoweringContext& context) {
  return TopkLowering(topk, context).lower();
}

}  // namespace

void registerTopkRules(RuleSet& rules) { rules.add(lowerTopk); }

}  // namespace straightline::lowering
