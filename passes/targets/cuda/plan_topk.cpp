// SPDX-License-Identifier: Apache-2.0
#include "passes/targets/cuda/plan_topk.h"

#include <algorithm>
#include <cmath>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace straightline::passes::cuda {

namespace {

constexpr int64_t kWarp = 32;
constexpr int64_t kMostThreads = 1024;
constexpr int64_t kMostListed = 2048;  ///< words that variant 2 sorts after its selection

/// How a block holds the words of a row: the tunables of the family.
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

/// For `count` words of a row, of which `k` are wanted.
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

/// The tunables of the family, as the kernel's template has them.
llvm::SmallVector<Tunable> tunablesOf(const Held& held) {
  return {{"variant", held.variant},
          {"threads", held.threads},
          {"each", held.each},
          {"word", held.word},
          {"list", held.list}};
}

Cut cutOf(const TopkProblem& problem, const CudaArchitecture& device) {
  return cutOf(problem.rows, problem.count, problem.k, mostHeld(problem.elementBytes == 8 ? 16 : 8),
               device.processors);
}

}  // namespace

std::string nearestTopk(const TopkProblem& problem, const CudaArchitecture& device) {
  if (problem.count < 0) {
    return "rows of a fixed number of elements";
  }
  if (cutOf(problem, device).parts != 0) {
    return "";
  }
  const std::string rows = "rows of at most " + std::to_string(kMostMerged) + " elements";
  return problem.k == problem.count ? rows
                                    : rows + ", or k up to " + std::to_string(kMostListed / 2);
}

TopkPlan planTopk(const TopkProblem& problem, const CudaArchitecture& device) {
  const auto [rows, count, k, elementBytes] = problem;
  const Cut cut = cutOf(problem, device);
  const bool isCut = cut.parts > 1;
  TopkPlan plan = {cut.parts, cut.kept, cut.merges, wordBytes(elementBytes, count, isCut), {}, {}};
  if (isCut) {
    const int64_t each = llvm::divideCeil(count, cut.parts);
    plan.ofParts = tunablesOf(heldFor(each, cut.merges ? each : k, plan.wordBytes, !cut.merges));
  }
  plan.ofRow =
      tunablesOf(cut.merges ? Held{3, 1, 1, plan.wordBytes, 64}
                            : heldFor(isCut ? cut.parts * k : count, k, plan.wordBytes, isCut));
  return plan;
}

}  // namespace straightline::passes::cuda
