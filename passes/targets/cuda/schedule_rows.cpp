// SPDX-License-Identifier: Apache-2.0
// Families that reduce, scan or order rows.
#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "passes/targets/cuda/schedule_family.h"

namespace straightline::passes::cuda {

namespace {

using mlir::ArrayAttr;
using mlir::Attribute;

constexpr int64_t kSectorBytes = 32;  ///< that memory hands over at least
constexpr int64_t kMostKept = 64;     ///< words of a row that a thread keeps in registers
/// The same in a block of `threads` threads: half of it above 512, since threads of a block of
/// 1,024 have 64 registers each.
constexpr int64_t mostKept(int64_t threads) { return threads > 512 ? kMostKept / 2 : kMostKept; }

// --- row_reduction -------------------------------------------------------------------------------

/// The rows of a row reduction and how they lie in memory.
struct Rows {
  Size count;
  Size runs;       ///< of `vector` neighbours in a row
  int64_t vector;  ///< elements that one instruction reads
  int64_t words;   ///< of all inputs, for each element
  bool dense;      ///< elements of a row lie side by side
  bool across;     ///< neighbouring rows do

  /// A number for rows that only a call knows.
  int64_t countOr(int64_t unknown) const { return count.known().value_or(unknown); }
};

/// Whether elements lie side by side along the innermost loop, and along the last of the outer
/// ones.
std::pair<bool, bool> neighbours(kernel::FuncOp function, size_t inner, size_t outer,
                                 int64_t rowOutputs) {
  const auto inputs = static_cast<int64_t>(kernel::takenInputsOf(function).size());
  bool dense = inner > 0, across = outer > 0;
  for (auto [operand, row] : llvm::enumerate(rowsOf(function, "stride"))) {
    const auto number = static_cast<int64_t>(operand);
    if (number >= inputs && number < inputs + rowOutputs) {
      continue;
    }
    const bool mayBeZero = number < inputs;
    auto isDense = [&](size_t part, size_t loops) {
      const auto strides = llvm::cast<ArrayAttr>(llvm::cast<ArrayAttr>(row)[part]);
      const Size stride(strides[loops - 1]);
      return stride.is(1) || (mayBeZero && stride.is(0));
    };
    dense = dense && isDense(1, inner);
    across = across && isDense(0, outer);
  }
  return {dense, across};
}

Rows rowsToReduce(kernel::FuncOp function) {
  mlir::MLIRContext* context = function.getContext();
  const llvm::SmallVector<Size> innerExtents = sizesOf(function, "inner");
  const llvm::SmallVector<Size> outerExtents = sizesOf(function, "outer");
  const Size inner = innerExtents.empty() ? Size(context, 1) : innerExtents.back();
  const llvm::ArrayRef<Attribute> taken = kernel::takenInputsOf(function);
  const auto inputs = static_cast<int64_t>(taken.size());
  const int64_t rowOutputs = tuneOf(function, "rowOutputs");
  const auto [dense, across] =
      neighbours(function, innerExtents.size(), outerExtents.size(), rowOutputs);
  int64_t words = 0, widest = 1;
  for (auto [number, type] :
       llvm::enumerate(llvm::concat<const Attribute>(taken, function.getOutputs().getValue()))) {
    const bool isInput = number < static_cast<size_t>(inputs);
    words += isInput ? std::max<int64_t>(1, elementBytes(type) / 4) : 0;
    widest = isInput || static_cast<int64_t>(number) >= inputs + rowOutputs
                 ? std::max(widest, elementBytes(type))
                 : widest;
  }
  const int64_t vector =
      vectorFor(widest, inner, innerExtents.size() == 1 && outerExtents.empty(), dense);
  const Size runs =
      product(context, llvm::ArrayRef(innerExtents).drop_back(innerExtents.empty() ? 0 : 1))
          .times(inner.dividedUp(vector));
  return {product(context, outerExtents), runs, vector, words, dense, across};
}

/// How threads share a row: `threads` of each of `splits` blocks.
struct Division {
  int64_t threads = kThreads;
  int64_t splits = 1;
  int64_t beside = 1;  ///< rows of a block, of which neighbouring threads take neighbours

  int64_t sharers() const { return threads * splits; }
};

/// Decides the division of the rows of one kernel.
class RowDivider {
 public:
  RowDivider(kernel::FuncOp function, const CudaArchitecture& device)
      : function_(function),
        device_(device),
        rows_(rowsToReduce(function)),
        manyRows_(rows_.countOr(device.allThreads())) {}

  void schedule() {
    Division division = threadsBeside().value_or(Division{.threads = threadsOfARow()});
    if (rows_.runs.known() && rows_.count.known() && rows_.dense && device_.largestCluster > 1 &&
        division.threads > kWarp) {
      division = shareAmongBlocks(division.threads);
      setCluster(function_, division.splits);
    }
    // Half as many threads have twice the registers, where the kept words would be spilled.
    const int64_t keptByMany = kept(division.sharers());
    if (rows_.runs.known() && division.threads * division.beside > kMostThreads / 2 &&
        keptByMany > device_.keptByMany &&
        keptByMany <= mostKept(division.threads * division.beside)) {
      division.threads /= 2;
    }
    setTunables(division);
  }

 private:
  /// Runs of a row that each of so many threads takes.
  int64_t each(int64_t threads) const {
    return static_cast<int64_t>(
        llvm::divideCeil(rows_.runs.known().value_or(device_.allThreads()), threads));
  }
  /// Words that each of them has to keep.
  int64_t kept(int64_t threads) const { return each(threads) * rows_.vector * rows_.words; }

  int64_t threadsOfARow() const {
    // Fewer threads than these leave processors without work.
    const int64_t manyThreads = device_.allThreads();
    const std::optional<int64_t> runs = rows_.runs.known();
    const bool isShort = runs && *runs <= kWarp && manyRows_ >= device_.processors * kWarp;
    if (!rows_.dense && rows_.across && (isShort || manyRows_ >= manyThreads / 8)) {
      return 1;  // neighbouring threads take neighbouring rows, which lie side by side
    }
    if (!runs) {
      return kThreads;
    }
    auto threads = std::min<int64_t>(
        kMostThreads, static_cast<int64_t>(llvm::PowerOf2Ceil(std::max<int64_t>(1, *runs))));
    // With rows enough for all processors, fewer threads a row exchange fewer partial results.
    while (threads > kWarp && manyRows_ * threads > manyThreads &&
           kept(threads / 2) <= kMostKept / 2) {
      threads /= 2;
    }
    while (threads > kThreads && manyRows_ * threads > manyThreads / 4 &&
           kept(threads / 2) <= kMostKept / 4) {
      threads /= 2;  // more of the smaller blocks fit on a processor
    }
    return threads;
  }

  /// The division of rows that lie side by side while the elements of each do not: a sector of
  /// memory has an element of each of several rows, and neighbouring threads take these.
  std::optional<Division> threadsBeside() const {
    constexpr int64_t kBlock = 128;
    if (rows_.dense || !rows_.across || !rows_.runs.known() || threadsOfARow() == 1) {
      return std::nullopt;
    }
    const int64_t sector = kSectorBytes / narrowest();
    if (manyRows_ < sector) {
      return std::nullopt;
    }
    const auto runs = static_cast<int64_t>(llvm::PowerOf2Ceil(*rows_.runs.known()));
    int64_t threads = std::clamp<int64_t>(runs, 1, kMostThreads / sector);
    while (threads > kWarp / sector && manyRows_ * threads > device_.allThreads() / 2 &&
           kept(threads / 2) <= kMostKept / 2) {
      threads /= 2;
    }
    Division division{.threads = threads, .beside = std::max(sector, kBlock / threads)};
    // Blocks enough for all processors, where a thread has elements enough to pay for an exchange.
    constexpr int64_t kWorthSharing = 32;
    while (division.splits < device_.largestCluster &&
           manyRows_ / division.beside * division.splits < device_.processors &&
           each(division.sharers()) >= kWorthSharing) {
      division.splits *= 2;
    }
    setCluster(function_, division.splits);
    return division;
  }

  /// Bytes of the narrowest element of all inputs, within what a sector is divided into.
  int64_t narrowest() const {
    kernel::FuncOp function = function_;
    int64_t bytes = 8;
    for (const Attribute type : kernel::takenInputsOf(function)) {
      bytes = std::min(bytes, elementBytes(type));
    }
    return std::max<int64_t>(bytes, 2);
  }

  /// Bytes of all inputs for a run; those that are one value a row count nothing.
  int64_t bytesOfARun() const {
    const size_t loops = rowsOf(function_, "inner").size();
    const ArrayAttr strides = rowsOf(function_, "stride");
    int64_t bytes = 0;
    kernel::FuncOp function = function_;
    for (auto [operand, type] : llvm::enumerate(kernel::takenInputsOf(function))) {
      const auto inner = llvm::cast<ArrayAttr>(llvm::cast<ArrayAttr>(strides[operand])[1]);
      const bool isOfRow = loops == 0 || Size(inner[loops - 1]).is(0);
      bytes += isOfRow ? 0 : elementBytes(type) * rows_.vector;
    }
    return bytes;
  }

  /// Estimated nanoseconds of a row in that division, on an H200. A block reads 80 bytes a
  /// nanosecond if all its loads are issued at once, and 40 if each stage reads the row again. It
  /// computes 6 elements a nanosecond in each stage. Blocks of a cluster synchronize once a stage.
  int64_t rowNs(const Division& division, int64_t runBytes) const {
    constexpr int64_t kSyncNs = 700;
    const int64_t stages = tuneOf(function_, "stages");
    const int64_t runs = *rows_.runs.known();
    const int64_t elementBytes = std::max<int64_t>(1, runBytes / rows_.vector);
    const int64_t bytes = llvm::divideCeil(runs, division.splits) * runBytes;
    const bool keeps = kept(division.sharers()) <= mostKept(division.threads);
    const int64_t rounds = stages + (tuneOf(function_, "elementOutputs") > 0 ? 1 : 0);
    const int64_t reading = keeps ? bytes / 80 : bytes / 40 * rounds;
    const int64_t computing = bytes / elementBytes / 6 * rounds;
    return std::max(reading, computing) + (division.splits > 1 ? kSyncNs * stages : 0);
  }

  /// Few long rows: the blocks of a cluster share a row. A block with that many registers fills a
  /// processor, so the device may need several rounds.
  Division shareAmongBlocks(int64_t threadsOfOne) const {
    const int64_t runBytes = bytesOfARun();
    auto wholeNs = [&](const Division& division) {
      return static_cast<int64_t>(
                 llvm::divideCeil(manyRows_ * division.splits, device_.processors)) *
             rowNs(division, runBytes);
    };
    Division best{threadsOfOne, 1};
    int64_t bestNs = wholeNs(best);
    for (int64_t splits = 2; splits <= device_.largestCluster; splits *= 2) {
      const auto threads =
          static_cast<int64_t>(llvm::PowerOf2Ceil(llvm::divideCeil(*rows_.runs.known(), splits)));
      const Division wanted{std::clamp(threads, 2 * kWarp, kMostThreads), splits};
      if (const int64_t ns = wholeNs(wanted); ns < bestNs) {
        best = wanted;
        bestNs = ns;
      }
    }
    return best;
  }

  void setTunables(const Division& division) {
    const bool keeps = rows_.runs.known() &&
                       kept(division.sharers()) <= mostKept(division.threads * division.beside);
    int64_t block = division.threads * division.beside;
    if (division.beside == 1 && division.threads <= kWarp) {
      constexpr int64_t kBlock = 128;
      const int64_t wanted =
          rows_.count.known() ? std::min(kBlock, *rows_.count.known() * division.threads) : kBlock;
      block = std::max<int64_t>(kWarp, llvm::alignTo(wanted, kWarp));
    }
    Tune chosen = {{"threads", division.threads},
                   {"vector", rows_.vector},
                   {"each", keeps ? each(division.sharers()) : 0}};
    if (division.splits > 1) {
      chosen.push_back({"splits", division.splits});
    }
    if (division.beside > 1) {
      chosen.push_back({"beside", division.beside});
    }
    setGrid(function_, chosen,
            rows_.count.dividedUp(block / division.threads).times(division.splits), block);
  }

  kernel::FuncOp function_;
  const CudaArchitecture& device_;
  Rows rows_;
  int64_t manyRows_;
};

void scheduleRowReduction(kernel::FuncOp function, const CudaArchitecture& device) {
  RowDivider(function, device).schedule();
}

/// More threads a row than a warp are the whole block.
bool rowsTakeAnyThreads(kernel::FuncOp function) {
  return tuneOf(function, "threads") <= kWarp && tuneOf(function, "beside") <= 1;
}

// --- scan and topk -------------------------------------------------------------------------------

/// A warp a row, or where rows are few and long a block, unless neighbouring rows lie side by side
/// or are many.
void scheduleScan(kernel::FuncOp function, const CudaArchitecture& device) {
  const llvm::SmallVector<Size> outer = sizesOf(function, "outer");
  const Size rows = product(function.getContext(), outer);
  bool across = !outer.empty();
  for (const Attribute row : rowsOf(function, "outerStride")) {
    across = across && Size(llvm::cast<ArrayAttr>(row)[outer.size() - 1]).is(1);
  }
  const bool isLong = shapeOf(function, "count").known().value_or(kWarp) >= kWarp / 2;
  const bool isSum = tuneOf(function, "combine") == 0;  // others run along a row in one thread
  const int64_t threads = across || !isLong || !isSum ? 1 : kWarp;
  constexpr int64_t kLongRow = 1024;
  const int64_t most = shapeOf(function, "count").known().value_or(0);
  if (isSum && most >= kLongRow && rows.known() &&
      *rows.known() * kWarp < (across ? kThreads : device.allThreads() / 2)) {
    const int64_t block = most >= 8 * kLongRow ? kMostThreads : kThreads;
    return setGrid(function, {{"threads", block}}, rows, block);
  }
  setGrid(function, {{"threads", threads}}, rows.times(threads).dividedUp(kThreads), kThreads);
}

/// The tunables come from the lowering, which cuts long rows; what is left is to count blocks.
void scheduleTopk(kernel::FuncOp function, const CudaArchitecture&) {
  const int64_t threads = tuneOf(function, "threads");
  const Size outer = productOf(function, "outer");
  if (tuneOf(function, "variant") == 3) {
    return setGridOfElements(function, outer.times(shapeOf(function, "count")));
  }
  // Those that take the best of parts have a row a block.
  const bool merges = function.getInputs().size() == 2;
  const Size rows =
      outer.times(merges ? Size(function.getContext(), 1) : shapeOf(function, "parts"));
  const int64_t wanted =
      rows.known() ? std::min<int64_t>(4 * kWarp, *rows.known() * threads) : 4 * kWarp;
  const int64_t block =
      threads > kWarp ? threads : std::max<int64_t>(kWarp, llvm::alignTo(wanted, kWarp));
  setGrid(function, {}, rows.dividedUp(block / threads), block);
}

constexpr llvm::StringLiteral kTopkNeeds[] = {"threads", "each", "word"};

/// A warp a matrix.
void scheduleLinalg(kernel::FuncOp function, const CudaArchitecture&) {
  setGridOfElements(function, shapeOf(function, "batch").times(kWarp));
}

/// A warp a row.
void scheduleTreeEnsemble(kernel::FuncOp function, const CudaArchitecture&) {
  setGridOfElements(function, shapeOf(function, "rows").times(kWarp));
}

}  // namespace

llvm::ArrayRef<FamilySchedule> rowSchedules() {
  static constexpr FamilySchedule kSchedules[] = {
      {"row_reduction", scheduleRowReduction, {}, kernel::EarlyStart::atEntry, rowsTakeAnyThreads},
      {"scan", scheduleScan, {}, kernel::EarlyStart::atEntry},
      {"topk", scheduleTopk, kTopkNeeds, kernel::EarlyStart::atEntry},
      {"linalg", scheduleLinalg, {}, kernel::EarlyStart::atEntry},
      {"tree_ensemble", scheduleTreeEnsemble, {}, kernel::EarlyStart::atEntry},
  };
  return kSchedules;
}

}  // namespace straightline::passes::cuda
