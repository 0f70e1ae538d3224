// SPDX-License-Identifier: Apache-2.0
// Splits reductions of few long rows on a device, whose kernel gives a row to a block (or to the
// blocks of a cluster): parts of each row are reduced concurrently by the whole device, then the
// results of the parts, in their order. There are no atomics, so a sum is the same in every call.
//
//   sum(x [o, n], dims = [1])  ->  sum(sum(reshape(x) [o, parts, c], dims = [2]) [o, parts], dims =
//   [1])
//
// Rows that lie side by side in memory (a reduction over an outer dim) are cut so that neighbouring
// threads read neighbours:
//
//   sum(permute(x [n, i]), dims = [1])  ->  sum(permute(sum(permute(reshape(x) [c, parts, i])
//   [parts, i, c]) [parts, i]))
//
// argmax(x): m = amax(x) and the first place where x == m or x is NaN of each part; then of the
// parts where m == amax(m) or m is NaN the least place in the row. A running sum is that of each
// part, then of what the parts before have:
//
//   cumsum(x [o, n])  ->  p = cumsum(reshape(x) [o, parts, c], dim = 2);  p + cat(0, cumsum(p[..,
//   -1])[.., :-1])
//
// Softmax, norms, mean and var of such rows are written as sums and maxima first. Elementwise ops
// that make x for the reduction alone are done on the parts, too.
//
// Several reduced dims are merged into one if every operand of those ops can be viewed so. If not
// (a row that is repeated, an operand with its dims exchanged, a slice), one of them is cut, which
// is a view whatever the strides are, and each of the others becomes a dim of the parts or a dim
// inside each part:
//
//   sum(x [n, m] + expand(b [m]), dims = [0, 1])
//     ->  sum(sum(reshape(x) [parts, c, m] + expand(reshape(b) [1, 1, m]), dims = [1, 2]) [parts],
//         dims = [0])
//
// Refuses: rows of the channels of an image that will lie channels last; named extents; rows whose
// length has no divisor near the number of parts wanted, and several dims of which none has where
// one must be cut, for a copy of what is repeated would be as large as all that is reduced; reduced
// dims that are not neighbours in memory.
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "passes/channels_last.h"
#include "passes/decompose_reductions.h"
#include "passes/targets/cuda/architecture.h"
#include "passes/targets/cuda/passes.h"
#include "passes/value_builder.h"

namespace straightline::passes {

#define GEN_PASS_DEF_SPLITREDUCTIONS
#include "passes/targets/cuda/passes.h.inc"

namespace {

using mlir::Operation;
using mlir::RankedTensorType;
using mlir::Value;

int64_t productOf(llvm::ArrayRef<int64_t> factors) {
  return std::accumulate(factors.begin(), factors.end(), int64_t(1), std::multiplies<>());
}

using Dims = llvm::SmallVector<int64_t>;

/// How one reduction is cut. In memory its operand is [outer.., n.., inner..]; the dims n are
/// reduced, with `count` elements a row. Dim i of the operand itself, [outer.., inner.., n..], is
/// dim order[i] in memory.
struct Cut {
  Dims order;
  Dims outer, inner;            ///< extents
  int64_t first = 0, last = 0;  ///< dims that are reduced, in memory
  /// their extents in memory, or `count` alone where all may be one dim
  Dims reduced;
  int64_t count = 1;
  size_t at = 0;  ///< index into `reduced` of the dim that is cut in two
  /// of `reduced`, those that are dims of the parts, `at` in part: the last of them (`acrossRows`,
  /// the first)
  size_t from = 0, to = 1;
  int64_t parts = 1;
  /// element e of a row is in part e % parts instead of e / (count / parts)
  bool acrossRows = false;

  int64_t each() const { return count / parts; }
  size_t reducedDims() const { return last + 1 - first; }
  bool isOfParts(size_t dim) const { return from <= dim && dim < to; }

  /// Into how many pieces reduced[at] is cut.
  int64_t pieces() const {
    const llvm::ArrayRef<int64_t> dims = reduced;
    return parts /
           (productOf(dims.slice(from, at - from)) * productOf(dims.slice(at + 1, to - at - 1)));
  }
  Dims partDims() const {
    Dims dims(llvm::ArrayRef<int64_t>(reduced).slice(from, to - from));
    dims[at - from] = pieces();
    return dims;
  }
  Dims eachDims() const {
    Dims dims;
    for (auto [dim, extent] : llvm::enumerate(reduced)) {
      if (dim == at || !isOfParts(dim)) {
        dims.push_back(dim == at ? extent / pieces() : extent);
      }
    }
    return dims;
  }

  /// The dims of the operand in the order in which they lie in memory.
  Dims toMemory() const {
    Dims dims(order.size());
    for (auto [dim, place] : llvm::enumerate(order)) {
      dims[place] = dim;
    }
    return dims;
  }
  /// Whether the reduced dims have the same order in the operand as in memory.
  bool isInOrder() const {
    return llvm::is_sorted(llvm::ArrayRef<int64_t>(order).take_back(reducedDims()));
  }
};

/// Cuts one of the reduced dims so that there are near `wanted` parts (a third to five times).
/// Prefers parts whose elements form runs of a multiple of `unit`, then parts whose elements are
/// not separated by other dims. Leaves one part if no divisor fits.
void cutNear(Cut& cut, int64_t wanted, int64_t unit) {
  const llvm::ArrayRef<int64_t> reduced = cut.reduced;
  const int64_t fewest = std::max<int64_t>(2, wanted / 3),
                most = std::min(5 * wanted, cut.count / 2);
  double least = std::numeric_limits<double>::infinity();
  auto consider = [&](size_t at, size_t from, size_t to) {
    const int64_t others = productOf(reduced.slice(from, to - from)) / reduced[at];
    const bool isOneRun = cut.acrossRows ? to == reduced.size() : from == 0;
    for (int64_t divisor = 1; divisor <= std::min(most / others, reduced[at]); ++divisor) {
      const int64_t parts = others * divisor,
                    run = reduced[at] / divisor * productOf(reduced.drop_front(at + 1));
      if (reduced[at] % divisor != 0 || parts < fewest) {
        continue;
      }
      const double distance =
          std::abs(std::log(static_cast<double>(parts) / static_cast<double>(wanted))) +
          (run % unit == 0 ? 0 : 2) + (isOneRun ? 0 : 1);
      if (distance < least) {
        least = distance;
        cut.at = at;
        cut.from = from;
        cut.to = to;
        cut.parts = parts;
      }
    }
  };
  for (size_t at = 0; at < reduced.size(); ++at) {
    if (cut.acrossRows) {
      for (size_t to = at + 1; to <= reduced.size(); ++to) {
        consider(at, at, to);
      }
    } else {
      for (size_t from = 0; from <= at; ++from) {
        consider(at, from, at + 1);
      }
    }
  }
}

class Splitter {
 public:
  explicit Splitter(const CudaArchitecture& device) : device_(device) {}

  void run(mlir::func::FuncOp function) {
    llvm::SmallVector<op::ReductionOpInterface> found;
    function.walk([&](op::ReductionOpInterface reduction) { found.push_back(reduction); });
    for (op::ReductionOpInterface reduction : found) {
      if (cutOf(reduction)) {
        write(reduction);
      }
    }
    found.clear();
    function.walk([&](op::ReductionOpInterface reduction) { found.push_back(reduction); });
    for (op::ReductionOpInterface reduction : found) {
      if (std::optional<Cut> cut = cutOf(reduction)) {
        split(reduction, *cut);
      }
    }
    llvm::SmallVector<op::CumsumOp> scans;
    function.walk([&](op::CumsumOp scan) { scans.push_back(scan); });
    for (op::CumsumOp scan : scans) {
      splitScan(scan);
    }
  }

 private:
  /// Whether to cut a reduction, and how. On an H200 (bench/results/h200_5282831.json): a
  /// second kernel takes some 2 us.
  std::optional<Cut> cutOf(op::ReductionOpInterface reduction) const {
    Cut cut;
    const Value x = reduction->getOperand(0);
    auto type = llvm::cast<RankedTensorType>(x.getType());
    const llvm::SmallVector<int64_t> reduced = reduction.getReducedDims();
    if (!type.hasStaticShape() || type.getNumElements() == 0 || reduced.empty()) {
      return std::nullopt;
    }
    const size_t kept = type.getRank() - reduced.size();
    if (!llvm::equal(reduced, llvm::seq<int64_t>(kept, type.getRank()))) {
      return std::nullopt;  // decompose-ops has put the reduced dims last
    }
    cut.order = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    if (op::PermuteOp permute = permuteBehind(x)) {
      if (static_cast<int64_t>(kept) == type.getRank() - 1 &&
          permute.getDims() == llvm::ArrayRef(channelsLast(type.getRank())) &&
          willLieChannelsLast(permute.getX())) {
        return std::nullopt;  // rows of channels, side by side
      }
      cut.order = llvm::to_vector(permute.getDims());
      type = permute.getX().getType();
    }
    const llvm::ArrayRef<int64_t> order = cut.order;
    cut.first = *llvm::min_element(order.drop_front(kept));
    cut.last = *llvm::max_element(order.drop_front(kept));
    if (cut.reducedDims() != reduced.size() || !llvm::is_sorted(order.take_front(kept))) {
      return std::nullopt;
    }
    const llvm::ArrayRef<int64_t> extents = type.getShape();
    cut.outer = llvm::to_vector(extents.take_front(cut.first));
    cut.inner = llvm::to_vector(extents.drop_front(cut.last + 1));
    cut.reduced = llvm::to_vector(extents.slice(cut.first, cut.reducedDims()));
    cut.count = productOf(cut.reduced);
    cut.acrossRows = productOf(cut.inner) > 1;
    if (areOneDim(cut, x, false)) {
      cut.reduced = {cut.count};
    }
    choose(cut, isAlone(reduction));
    return cut.parts > 1 ? std::optional<Cut>(cut) : std::nullopt;
  }

  /// Elementwise ops that a search has looked at, for each value of `asInMemory`. A search without
  /// it follows each path, and a chain of n squares has 2^n.
  using Seen = std::array<llvm::SmallPtrSet<Operation*, 16>, 2>;

  /// Whether the reduced dims can be one dim without any copy: those of an operand of the reduction
  /// or, if `asInMemory`, of the operand of a permute that makes one.
  static bool areOneDim(const Cut& cut, Value value, bool asInMemory) {
    Seen seen;
    return areOneDim(cut, value, asInMemory, seen);
  }

  /// The same for values that are not in `seen`; those that are have been answered with true, since
  /// one false ends the search.
  static bool areOneDim(const Cut& cut, Value value, bool asInMemory, Seen& seen) {
    Operation* maker = value.getDefiningOp();
    if (cut.reducedDims() == 1 || llvm::isa_and_present<op::FullOp>(maker)) {
      return true;
    }
    if (llvm::isa_and_present<op::ElementwiseOpInterface>(maker)) {
      return !seen[asInMemory].insert(maker).second ||
             llvm::all_of(maker->getOperands(),
                          [&](Value operand) { return areOneDim(cut, operand, asInMemory, seen); });
    }
    if (auto permute = llvm::dyn_cast_if_present<op::PermuteOp>(maker)) {
      return !asInMemory && permute.getDims() == llvm::ArrayRef(cut.order) &&
             areOneDim(cut, permute.getX(), true, seen);
    }
    const int64_t first = asInMemory ? cut.first : cut.outer.size() + cut.inner.size();
    if (auto expand = llvm::dyn_cast_if_present<op::ExpandOp>(maker)) {
      const Dims extents = llvm::to_vector(
          llvm::ArrayRef<int64_t>(extentsBefore(expand)).slice(first, cut.reducedDims()));
      if (llvm::all_of(extents, [](int64_t extent) { return extent == 1; })) {
        return true;
      }
      return (asInMemory || cut.isInOrder()) && productOf(extents) == cut.count &&
             isRowMajor(expand.getX());
    }
    if (!asInMemory && !cut.isInOrder()) {
      return false;
    }
    // A slice of an outer dim, or of the ends of the first reduced dim, leaves the elements of a
    // row without gaps.
    auto slice = llvm::dyn_cast_if_present<op::SliceOp>(maker);
    const bool isOuter =
        slice && static_cast<int64_t>(slice.getDim()) < first + (slice.getStep() == 1 ? 1 : 0);
    return isRowMajor(isOuter ? slice.getX() : value);
  }

  /// As far as is known: neither a view, which may have other strides, nor an input with strides.
  static bool isRowMajor(Value value) {
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(value)) {
      auto function = llvm::dyn_cast<mlir::func::FuncOp>(argument.getOwner()->getParentOp());
      return !function || !op::stridesOfArgument(function, argument.getArgNumber());
    }
    Operation* maker = value.getDefiningOp();
    if (llvm::isa<op::ReshapeOp>(maker)) {
      return isRowMajor(maker->getOperand(0));
    }
    return !maker->hasTrait<op::View>() && !op::stridesOf(maker);
  }

  /// The extents of an expand's operand, with as many dims as its result.
  static Dims extentsBefore(op::ExpandOp expand) {
    const auto from = llvm::cast<RankedTensorType>(expand.getX().getType());
    Dims extents(llvm::cast<RankedTensorType>(expand.getType()).getRank() - from.getRank(), 1);
    llvm::append_range(extents, from.getShape());
    return extents;
  }

  /// Cuts the rows if they are few and long; a warp or a block scans each part. The sums of the
  /// parts before are shifted, not subtracted: a difference would be NaN after an infinity.
  static void splitScan(op::CumsumOp scan) {
    constexpr int64_t kLongRow = int64_t(1) << 14, kFewRows = 16;
    const RankedTensorType type = llvm::cast<RankedTensorType>(scan.getX().getType());
    const int64_t dim = static_cast<int64_t>(scan.getDim());
    if (!type.hasStaticShape() || dim != type.getRank() - 1 || type.getDimSize(dim) < kLongRow ||
        type.getNumElements() > kFewRows * type.getDimSize(dim)) {
      return;
    }
    const int64_t count = type.getDimSize(dim);
    Cut places;
    places.reduced = {count};
    places.count = count;
    cutNear(places, static_cast<int64_t>(std::sqrt(static_cast<double>(count))), 1);
    const int64_t parts = places.parts;
    if (parts == 1) {
      return;
    }
    mlir::OpBuilder builder(scan);
    ValueBuilder build(builder, scan.getLoc());
    const ValueBuilder::Extents all = build.extents(scan.getX());
    ValueBuilder::Extents rows = all, cut = all, one = all;
    rows[dim] = cut[dim] = build.number(parts);
    cut.push_back(build.number(count / parts));
    one[dim] = build.number(1);
    const Value whole = build.reshape(scan.getX(), cut);
    const Value own = build.make<op::CumsumOp>(whole.getType(), whole, dim + 1);
    const Value totals =
        build.reshape(build.slice(own, dim + 1, count / parts - 1, count / parts), rows);
    const Value upTo = build.make<op::CumsumOp>(totals.getType(), totals, dim);
    const Value nothing = build.full(build.type(type.getElementType(), one), 0);
    const Value before = build.cat({nothing, build.slice(upTo, dim, 0, parts - 1)}, dim);
    rows.push_back(build.number(1));
    const Value sum = build.make<op::AddOp>(own, build.expand(build.reshape(before, rows), cut));
    scan.getResult().replaceAllUsesWith(build.reshape(sum, all));
    scan.erase();
  }

  /// The permute that an elementwise chain reads, if there is one: its result then has the order in
  /// memory of that permute's result.
  static op::PermuteOp permuteBehind(Value x) {
    llvm::SmallPtrSet<Operation*, 16> seen;
    return permuteBehind(x, seen);
  }

  static op::PermuteOp permuteBehind(Value x, llvm::SmallPtrSetImpl<Operation*>& seen) {
    Operation* maker = x.getDefiningOp();
    if (auto permute = llvm::dyn_cast_if_present<op::PermuteOp>(maker)) {
      return permute;
    }
    if (!llvm::isa_and_present<op::ElementwiseOpInterface>(maker) || !seen.insert(maker).second) {
      return {};
    }
    for (Value operand : maker->getOperands()) {
      if (op::PermuteOp permute = permuteBehind(operand, seen)) {
        return permute;
      }
    }
    return {};
  }

  /// False if another reduction reads the same rows together with the result, or computed what the
  /// rows are compared with: then one kernel with several stages does all of it in a cluster.
  static bool isAlone(op::ReductionOpInterface reduction) {
    if (reduction.keepsShape() || llvm::isa<op::VarOp>(*reduction)) {
      return false;
    }
    const auto elements =
        llvm::cast<RankedTensorType>(reduction->getOperand(0).getType()).getNumElements();
    auto isPlain = [](Operation* op) {
      return op && (llvm::isa<op::ElementwiseOpInterface>(op) || op->hasTrait<op::View>());
    };
    llvm::SetVector<Operation*> behind, ahead;
    behind.insert(reduction);
    for (size_t i = 0; i < behind.size(); ++i) {
      for (Operation* user : behind[i]->getUsers()) {
        if (isPlain(user)) {
          behind.insert(user);
        }
        const auto type = user->getNumResults() == 1
                              ? llvm::dyn_cast<RankedTensorType>(user->getResult(0).getType())
                              : RankedTensorType();
        if (isPlain(user) && type.hasStaticShape() && type.getNumElements() >= elements) {
          return false;
        }
      }
    }
    if (Operation* maker = reduction->getOperand(0).getDefiningOp()) {
      ahead.insert(maker);
    }
    for (size_t i = 0; i < ahead.size(); ++i) {
      if (llvm::isa<op::ReductionOpInterface>(ahead[i])) {
        return false;
      }
      for (Value operand : ahead[i]->getOperands()) {
        Operation* maker = operand.getDefiningOp();
        if (isPlain(ahead[i]) && maker) {
          ahead.insert(maker);
        }
      }
    }
    return true;
  }

  void choose(Cut& cut, bool isAlone) const {
    const int64_t blocks = 2 * device_.processors;
    constexpr int64_t kFewRows = 16;
    constexpr int64_t kUnit = 8;  // a part is read 16 bytes at a time
    const int64_t threads = device_.allThreads() / 2;
    // with so many rows each thread reduces a row of its own (schedule_rows.cpp)
    const int64_t rowsForThreads = device_.allThreads() / 8;
    constexpr int64_t kFewElements = int64_t(1) << 19;
    constexpr int64_t kLongColumn = int64_t(1) << 15;
    // Up to this length the registers of a cluster hold a row for several stages; without clusters
    // one block reduces a row.
    const int64_t longRow =
        device_.largestCluster > 1 && !isAlone ? int64_t(1) << 18 : int64_t(1) << 16;
    const int64_t rows = productOf(cut.outer) * productOf(cut.inner);
    if (!cut.acrossRows) {
      if (cut.count > longRow && rows <= kFewRows) {
        cutNear(cut, blocks / rows, kUnit);
      }
      return;
    }
    const int64_t elements = rows * cut.count;
    const int64_t wanted = std::min(threads, elements / 16) / rows;
    if (rows < rowsForThreads && (elements >= kFewElements || cut.count >= kLongColumn) &&
        wanted >= 4) {
      cutNear(cut, wanted, 1);
    }
  }

  /// Writes a composite reduction as plain ones. The ops that it writes have no other readers, so
  /// split() may compute them on the parts.
  void write(op::ReductionOpInterface reduction) {
    mlir::OpBuilder builder(reduction);
    Operation* before = reduction->getPrevNode();
    mlir::FailureOr<Value> replacement = writeReduction(reduction, builder);
    if (failed(replacement) || !*replacement) {
      return;
    }
    for (Operation* op = before ? before->getNextNode() : &reduction->getBlock()->front();
         op != reduction; op = op->getNextNode()) {
      own_.insert(op);
    }
    reduction->getResult(0).replaceAllUsesWith(*replacement);
    reduction->erase();
  }

  static ValueBuilder::Extents numbersOf(ValueBuilder& build, llvm::ArrayRef<int64_t> values) {
    return llvm::map_to_vector(values, [&](int64_t value) { return build.number(value); });
  }

  /// The parts of rows as the last dims: [outer.., parts.., inner.., each..].
  class Parts {
   public:
    Parts(ValueBuilder& build, const Cut& cut, const llvm::DenseSet<Operation*>& own,
          Operation* reader)
        : build_(build), cut_(cut), own_(own) {
      inside_.insert(reader);
    }

    /// The parts of an operand of the reduction or, if `asInMemory`, of the operand of a permute
    /// that makes one.
    Value of(Value value, bool asInMemory = false) {
      if (Value known = done_[asInMemory].lookup(value)) {
        return known;
      }
      Operation* maker = value.getDefiningOp();
      const bool isOurs = maker && isFor(maker);
      auto permute = llvm::dyn_cast_if_present<op::PermuteOp>(maker);
      Value result;
      if (isOurs && llvm::isa<op::ElementwiseOpInterface>(maker)) {
        inside_.insert(maker);
        llvm::SmallVector<Value> operands;
        for (Value operand : maker->getOperands()) {
          operands.push_back(of(operand, asInMemory));
        }
        Operation* copy = build_.builder().clone(*maker);
        copy->setOperands(operands);
        copy->getResult(0).setType(build_.type(ValueBuilder::elementOf(value), finalExtents()));
        result = copy->getResult(0);
      } else if (permute && !asInMemory && permute.getDims() == llvm::ArrayRef(cut_.order)) {
        if (isOurs) {
          inside_.insert(maker);
        }
        result = of(permute.getX(), true);
      } else if (auto full = llvm::dyn_cast_if_present<op::FullOp>(maker)) {
        result = build_.make<op::FullOp>(
            build_.type(ValueBuilder::elementOf(value), finalExtents()), full.getValue());
      } else if (auto expand = llvm::dyn_cast_if_present<op::ExpandOp>(maker)) {
        result = expanded(expand, asInMemory);
      } else {
        result =
            arranged(value, llvm::cast<RankedTensorType>(value.getType()).getShape(), asInMemory);
      }
      done_[asInMemory][value] = result;
      return result;
    }

   private:
    /// Whether only members read the op's result.
    bool isFor(Operation* maker) const {
      return own_.contains(maker) || llvm::all_of(maker->getUsers(), [&](Operation* user) {
               return inside_.contains(user);
             });
    }

    ValueBuilder::Extents finalExtents() {
      Dims extents(cut_.outer);
      llvm::append_range(extents, cut_.partDims());
      llvm::append_range(extents, cut_.inner);
      llvm::append_range(extents, cut_.eachDims());
      return numbersOf(build_, extents);
    }

    /// `value` has `extents`, some of which are 1 where it is repeated afterwards; the reduced ones
    /// all are or none where they become one dim.
    Value arranged(Value value, llvm::ArrayRef<int64_t> extents, bool asInMemory) {
      Dims all(extents);
      if (!asInMemory && !llvm::is_sorted(cut_.order)) {
        const Dims toMemory = cut_.toMemory();
        value = build_.permute(build_.reshape(value, numbersOf(build_, all)), toMemory);
        all = llvm::map_to_vector(toMemory, [&](int64_t dim) { return extents[dim]; });
      }
      const int64_t outer = cut_.outer.size(), inner = cut_.inner.size();
      Dims reduced(llvm::ArrayRef<int64_t>(all).slice(cut_.first, cut_.reducedDims()));
      if (cut_.reduced.size() == 1) {
        reduced = {productOf(reduced)};
      }
      Dims pieces(llvm::ArrayRef<int64_t>(all).take_front(outer)), partPlaces, eachPlaces;
      auto add = [&](int64_t extent, bool isOfParts) {
        (isOfParts ? partPlaces : eachPlaces).push_back(pieces.size());
        pieces.push_back(extent);
      };
      for (auto [dim, extent] : llvm::enumerate(reduced)) {
        if (dim == cut_.at) {
          const int64_t parts = extent == 1 ? 1 : cut_.pieces();
          add(cut_.acrossRows ? extent / parts : parts, !cut_.acrossRows);
          add(cut_.acrossRows ? parts : extent / parts, cut_.acrossRows);
        } else {
          add(extent, cut_.isOfParts(dim));
        }
      }
      const int64_t end = pieces.size();
      llvm::append_range(pieces, llvm::ArrayRef<int64_t>(all).take_back(inner));
      const Value whole = build_.reshape(value, numbersOf(build_, pieces));
      Dims order = llvm::to_vector(llvm::seq<int64_t>(0, outer));
      llvm::append_range(order, partPlaces);
      llvm::append_range(order, llvm::seq<int64_t>(end, end + inner));
      llvm::append_range(order, eachPlaces);
      return llvm::is_sorted(order) ? whole : build_.permute(whole, order);
    }

    /// An expanded value is arranged before the expand.
    Value expanded(op::ExpandOp expand, bool asInMemory) {
      return build_.expand(arranged(expand.getX(), extentsBefore(expand), asInMemory),
                           finalExtents());
    }

    ValueBuilder& build_;
    const Cut& cut_;
    const llvm::DenseSet<Operation*>& own_;
    llvm::DenseSet<Operation*> inside_;
    /// one map for each value of `asInMemory`: a square operand may be read in both orders
    std::array<llvm::DenseMap<Value, Value>, 2> done_;
  };

  /// `like` over the last dims of x.
  static Value reduceLast(ValueBuilder& build, Operation* like, Value x, size_t dims = 1) {
    ValueBuilder::Extents extents = build.extents(x);
    const int64_t rank = extents.size(), kept = rank - dims;
    extents.truncate(kept);
    Operation* reduction = build.builder().clone(*like);
    reduction->setOperand(0, x);
    if (reduction->hasAttr("dims")) {
      reduction->setAttr(
          "dims", build.builder().getDenseI64ArrayAttr(llvm::to_vector(llvm::seq(kept, rank))));
    } else {
      reduction->setAttr("dim", build.builder().getI64IntegerAttr(kept));
    }
    reduction->setAttr("keepdim", build.builder().getBoolAttr(false));
    reduction->getResult(0).setType(
        build.type(ValueBuilder::elementOf(like->getResult(0)), extents));
    return reduction->getResult(0);
  }

  /// [outer.., parts, inner..] -> [outer.., inner.., parts].
  static Value partsLast(ValueBuilder& build, Value parts, const Cut& cut) {
    const int64_t at = cut.outer.size(), rank = at + 1 + cut.inner.size();
    llvm::SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, at));
    llvm::append_range(order, llvm::seq<int64_t>(at + 1, rank));
    order.push_back(at);
    return llvm::is_sorted(order) ? parts : build.permute(parts, order);
  }

  /// Best over the last dim of x, which is kept as 1.
  template <class Best>
  static Value bestOf(ValueBuilder& build, Value x) {
    ValueBuilder::Extents extents = build.extents(x);
    const llvm::SmallVector<int64_t> last = {static_cast<int64_t>(extents.size()) - 1};
    extents.back() = build.number(1);
    return build.make<Best>(build.type(ValueBuilder::elementOf(x), extents), x,
                            build.builder().getDenseI64ArrayAttr(last),
                            build.builder().getBoolAttr(true));
  }

  /// Whether an element is the best of its row or a NaN (a NaN in a row is its best).
  template <class Best>
  static Value isBest(ValueBuilder& build, Value x, Value best) {
    const ValueBuilder::Extents extents = build.extents(x);
    const RankedTensorType truth = build.type(build.builder().getI1Type(), extents);
    const Value equal = build.make<op::EqOp>(truth, x, build.expand(best, extents));
    return llvm::isa<mlir::FloatType>(ValueBuilder::elementOf(x))
               ? build.make<op::LogicalOrOp>(truth, equal, build.make<op::NeOp>(truth, x, x))
               : equal;
  }

  /// The place in its row of the first best element. Each part's best and its place come from one
  /// kernel.
  template <class Best>
  static Value placeOfBest(ValueBuilder& build, Value parts, const Cut& cut) {
    const mlir::Type index = build.builder().getI64Type();
    const Value best = bestOf<Best>(build, parts);
    const Value wins = isBest<Best>(build, parts, best);
    const Value chosen = build.toDtype(wins, build.builder().getF32Type());
    ValueBuilder::Extents rows = build.extents(parts);
    rows.pop_back();
    const Value inPart = build.make<op::ArgmaxOp>(build.type(index, rows), chosen,
                                                  build.builder().getI64IntegerAttr(rows.size()),
                                                  build.builder().getBoolAttr(false));
    // Another rank keeps the passes from fusing what follows with the parts' own rows.
    auto apart = [&](Value x) {
      ValueBuilder::Extents extents = build.extents(x);
      extents.insert(extents.begin(), build.number(1));
      return build.reshape(x, extents);
    };
    const Value values = apart(partsLast(build, build.reshape(best, rows), cut)),
                places = apart(partsLast(build, inPart, cut));
    const ValueBuilder::Extents all = build.extents(values);
    const RankedTensorType numbers = build.type(index, all);
    llvm::SmallVector<int64_t> starts;
    for (int64_t part = 0; part < cut.parts; ++part) {
      starts.push_back(cut.acrossRows ? part : part * cut.each());
    }
    const auto vector = RankedTensorType::get({cut.parts}, index);
    const Value start = build.make<op::ConstantOp>(
        vector, mlir::DenseElementsAttr::get(vector, llvm::ArrayRef<int64_t>(starts)));
    const Value scaled =
        cut.acrossRows ? build.make<op::MulOp>(numbers, places,
                                               build.full(numbers, static_cast<double>(cut.parts)))
                       : places;
    const Value where = build.make<op::AddOp>(numbers, scaled, build.expand(start, all));
    const Value first =
        build.make<op::WhereOp>(isBest<Best>(build, values, bestOf<Best>(build, values)), where,
                                build.full(numbers, static_cast<double>(cut.count)));
    return bestOf<op::AminOp>(build, first);
  }

  void split(op::ReductionOpInterface reduction, const Cut& cut) {
    if (!llvm::isa<op::SumOp, op::AmaxOp, op::AminOp, op::ProdOp, op::AnyOp, op::AllOp,
                   op::ArgmaxOp, op::ArgminOp>(*reduction)) {
      return;
    }
    mlir::OpBuilder builder(reduction);
    ValueBuilder build(builder, reduction->getLoc());
    const Value parts = Parts(build, cut, own_, reduction).of(reduction->getOperand(0));
    Value result;
    if (llvm::isa<op::ArgmaxOp>(*reduction)) {
      result = placeOfBest<op::AmaxOp>(build, parts, cut);
    } else if (llvm::isa<op::ArgminOp>(*reduction)) {
      result = placeOfBest<op::AminOp>(build, parts, cut);
    } else {
      Dims rows(cut.outer);
      rows.push_back(cut.parts);
      llvm::append_range(rows, cut.inner);
      const Value reduced = build.reshape(
          reduceLast(build, reduction, parts, cut.eachDims().size()), numbersOf(build, rows));
      result = reduceLast(build, reduction, partsLast(build, reduced, cut));
    }
    const ValueBuilder::Extents wanted = build.extents(reduction->getResult(0));
    reduction->getResult(0).replaceAllUsesWith(build.reshape(result, wanted));
    own_.erase(reduction);
    reduction->erase();
  }

  const CudaArchitecture& device_;
  llvm::DenseSet<Operation*> own_;  ///< ops that a composite reduction was written as
};

struct SplitReductionsPass : impl::SplitReductionsBase<SplitReductionsPass> {
  using SplitReductionsBase::SplitReductionsBase;

  void runOnOperation() override { Splitter(cudaArchitecture(arch)).run(getOperation()); }
};

}  // namespace

}  // namespace straightline::passes
