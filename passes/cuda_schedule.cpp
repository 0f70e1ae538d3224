// SPDX-License-Identifier: Apache-2.0
#include "passes/cuda_schedule.h"

#include <algorithm>
#include <optional>

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "mlir/IR/Builders.h"
#include "passes/cuda_architecture.h"
#include "passes/decompose_recurrent.h"

namespace straightline::passes {

namespace {

using kernel::BufferType;
using kernel::ExtentAttr;
using mlir::AffineExpr;
using mlir::ArrayAttr;
using mlir::Attribute;
using mlir::StringAttr;

constexpr int64_t kThreads = 256;  ///< of a block of an elementwise kernel
constexpr int64_t kWarp = 32;
constexpr int64_t kMostBytes = 16;  ///< that one instruction moves
constexpr int64_t kMostVector = 8;
constexpr int64_t kMostThreads = 1024;  ///< of one block
constexpr int64_t kMostKept = 64;       ///< words of a row that a thread keeps in registers
/// The same in a block of so many threads, which have 64 registers each from 1,024 on.
constexpr int64_t mostKept(int64_t threads) { return threads > 512 ? kMostKept / 2 : kMostKept; }

/// A size that may be known only per call. Names of both sides of an operation are merged.
class Size {
 public:
  Size(mlir::MLIRContext* context, int64_t value) : attr_(ExtentAttr::get(context, value)) {}
  explicit Size(Attribute value) {
    auto integer = llvm::dyn_cast<mlir::IntegerAttr>(value);
    attr_ = integer ? ExtentAttr::get(value.getContext(), integer.getInt())
                    : llvm::cast<ExtentAttr>(value);
  }
  std::optional<int64_t> known() const { return attr_.getConstant(); }
  bool is(int64_t value) const { return known() == value; }
  bool isMultipleOf(int64_t factor) const { return attr_.getExpr().isMultipleOf(factor); }
  ExtentAttr attr() const { return attr_; }
  Size times(const Size& other) const {
    llvm::SmallVector<StringAttr> names(attr_.getNames());
    llvm::SmallVector<AffineExpr> places;
    for (StringAttr name : other.attr_.getNames()) {
      auto found = llvm::find(names, name);
      places.push_back(mlir::getAffineSymbolExpr(found - names.begin(), attr_.getContext()));
      if (found == names.end()) {
        names.push_back(name);
      }
    }
    return Size(names, attr_.getExpr() * other.attr_.getExpr().replaceSymbols(places));
  }
  Size dividedUp(int64_t divisor) const {
    return Size(attr_.getNames(), (attr_.getExpr() + (divisor - 1)).floorDiv(divisor));
  }

 private:
  Size(llvm::ArrayRef<StringAttr> names, AffineExpr expr)
      : attr_(ExtentAttr::get(expr.getContext(), names, expr)) {}

  ExtentAttr attr_;
};

int64_t bytesOf(Attribute type) {
  return llvm::cast<BufferType>(llvm::cast<mlir::TypeAttr>(type).getValue()).elementBytes();
}

int64_t bytesOfWidest(kernel::FuncOp function) {
  int64_t widest = 1;
  for (ArrayAttr types : {function.getInputs(), function.getOutputs()}) {
    for (mlir::Type type : types.getAsValueRange<mlir::TypeAttr>()) {
      widest = std::max(widest, llvm::cast<BufferType>(type).elementBytes());
    }
  }
  return widest;
}

ArrayAttr array(Attribute value, size_t i) {
  return llvm::cast<ArrayAttr>(llvm::cast<ArrayAttr>(value)[i]);
}

llvm::SmallVector<Size> sizes(Attribute value) {
  return llvm::map_to_vector(llvm::cast<ArrayAttr>(value),
                             [](Attribute item) { return Size(item); });
}

Size product(mlir::MLIRContext* context, llvm::ArrayRef<Size> factors) {
  Size result(context, 1);
  for (const Size& factor : factors) {
    result = result.times(factor);
  }
  return result;
}

/// Neighbours that one thread takes, so that they move in one instruction; 1 where they do not lie
/// side by side.
int64_t vectorFor(int64_t widest, const Size& inner, bool onlyLoop, bool dense) {
  int64_t vector = std::min(kMostVector, kMostBytes / std::min(widest, kMostBytes));
  while (vector > 1 && (!dense || !(onlyLoop || inner.isMultipleOf(vector)))) {
    vector /= 2;  // a row that is no multiple would begin the next one between two pieces
  }
  return vector;
}

using Tune = llvm::SmallVector<std::pair<llvm::StringRef, int64_t>>;

/// `chosen` are tunables that the schedule lacks, or has with another value.
void finish(kernel::FuncOp function, const Tune& chosen, const Size& blocks, int64_t threads) {
  mlir::Builder builder(function.getContext());
  kernel::ScheduleAttr schedule = function.getSchedule();
  llvm::SmallVector<mlir::NamedAttribute> tune(schedule.getTune());
  for (auto [key, value] : chosen) {
    const mlir::NamedAttribute entry = builder.getNamedAttr(key, builder.getI64IntegerAttr(value));
    auto* found = llvm::find_if(
        tune, [&](mlir::NamedAttribute known) { return known.getName() == entry.getName(); });
    if (found == tune.end()) {
      tune.push_back(entry);
    } else {
      *found = entry;
    }
  }
  function.setScheduleAttr(kernel::ScheduleAttr::get(function.getContext(), schedule.getFamily(),
                                                     schedule.getShape(), tune));
  function->setAttr(kernel::kBlocksAttr, blocks.attr());
  function->setAttr(kernel::kThreadsAttr, builder.getI64IntegerAttr(threads));
}

/// So many neighbouring blocks work together; one is none.
void setCluster(kernel::FuncOp function, int64_t blocks) {
  if (blocks > 1) {
    function->setAttr(kernel::kClusterAttr,
                      mlir::Builder(function.getContext()).getI64IntegerAttr(blocks));
  }
}

void schedulePointwise(kernel::FuncOp function, const CudaArchitecture& device) {
  mlir::MLIRContext* context = function.getContext();
  kernel::ScheduleAttr schedule = function.getSchedule();
  const llvm::SmallVector<Size> extents = sizes(schedule.getShapeValue("extent"));
  const Size inner = extents.empty() ? Size(context, 1) : extents.back();
  const Size outer = product(context, llvm::ArrayRef(extents).drop_back(extents.empty() ? 0 : 1));
  const size_t inputs = function.getInputs().size();
  bool dense = !extents.empty();
  for (auto [operand, row] :
       llvm::enumerate(llvm::cast<ArrayAttr>(schedule.getShapeValue("stride")))) {
    if (dense) {
      const Size stride(llvm::cast<ArrayAttr>(row)[extents.size() - 1]);
      dense = stride.is(1) || (stride.is(0) && operand < inputs);
    }
  }
  int64_t vector = vectorFor(bytesOfWidest(function), inner, extents.size() == 1, dense);
  const std::optional<int64_t> all = outer.times(inner).known();
  while (vector > 1 && all && *all / vector < device.allThreads() / 8) {
    vector /= 2;  // latency counts more than instructions
  }
  const Size runs = outer.times(inner.dividedUp(vector));
  const int64_t threads =
      runs.known()
          ? std::clamp(static_cast<int64_t>(llvm::alignTo(*runs.known(), kWarp)), kWarp, kThreads)
          : kThreads;
  finish(function, {{"vector", vector}}, runs.dividedUp(threads), threads);
}

/// Of kernels that give a thread an element.
void scheduleElements(kernel::FuncOp function, const Size& elements) {
  finish(function, {}, elements.dividedUp(kThreads), kThreads);
}

/// What a block of a row reduction has to do, for an estimate of its time.
struct RowWork {
  int64_t runs;          ///< of `vector` neighbours in a row
  int64_t keptEach;      ///< words that a thread keeps for each run
  int64_t bytes;         ///< of all inputs, for each run
  int64_t elementBytes;  ///< of all inputs, for each element
  int64_t stages;
  bool writesElements;
};

/// Nanoseconds of a row that `splits` blocks of `threads` threads share, on an H200: a block reads
/// 80 bytes a nanosecond while all its loads are under way at once and 40 where each stage goes
/// round, and computes 6 elements a nanosecond in each; blocks of a cluster wait for each other
/// once a stage.
int64_t rowTime(const RowWork& work, int64_t splits, int64_t threads) {
  constexpr int64_t kMeetNs = 700;
  const int64_t each = llvm::divideCeil(work.runs, threads * splits);
  const int64_t bytes = llvm::divideCeil(work.runs, splits) * work.bytes;
  const bool keeps = each * work.keptEach <= mostKept(threads);
  const int64_t rounds = work.stages + (work.writesElements ? 1 : 0);
  const int64_t reading = keeps ? bytes / 80 : bytes / 40 * rounds;
  const int64_t computing = bytes / work.elementBytes / 6 * rounds;
  return std::max(reading, computing) + (splits > 1 ? kMeetNs * work.stages : 0);
}

void scheduleRowReduction(kernel::FuncOp function, const CudaArchitecture& device) {
  // Fewer threads than these leave processors without work.
  const int64_t manyThreads = device.allThreads();
  mlir::MLIRContext* context = function.getContext();
  kernel::ScheduleAttr schedule = function.getSchedule();
  const llvm::SmallVector<Size> innerExtents = sizes(schedule.getShapeValue("inner"));
  const llvm::SmallVector<Size> outerExtents = sizes(schedule.getShapeValue("outer"));
  const Size rows = product(context, outerExtents);
  const Size inner = innerExtents.empty() ? Size(context, 1) : innerExtents.back();
  const auto inputs = static_cast<int64_t>(function.getInputs().size());
  const int64_t rowOutputs =
      llvm::cast<mlir::IntegerAttr>(schedule.getTuneValue("rowOutputs")).getInt();

  // Along the innermost loop, and along the last of the outer ones.
  bool dense = !innerExtents.empty();
  bool across = !outerExtents.empty();
  for (auto [operand, row] :
       llvm::enumerate(llvm::cast<ArrayAttr>(schedule.getShapeValue("stride")))) {
    const auto number = static_cast<int64_t>(operand);
    if (number >= inputs && number < inputs + rowOutputs) {
      continue;
    }
    const bool mayBeZero = number < inputs;
    auto isDense = [&](size_t part, size_t last) {
      const Size stride(llvm::cast<ArrayAttr>(array(row, part))[last]);
      return stride.is(1) || (mayBeZero && stride.is(0));
    };
    dense = dense && isDense(1, innerExtents.size() - 1);
    across = across && isDense(0, outerExtents.size() - 1);
  }
  int64_t words = 0, widest = 1;
  for (auto [number, type] : llvm::enumerate(
           llvm::concat<const Attribute>(function.getInputs(), function.getOutputs()))) {
    const bool isInput = number < static_cast<size_t>(inputs);
    words += isInput ? std::max<int64_t>(1, bytesOf(type) / 4) : 0;
    widest = isInput || static_cast<int64_t>(number) >= inputs + rowOutputs
                 ? std::max(widest, bytesOf(type))
                 : widest;
  }
  const int64_t vector =
      vectorFor(widest, inner, innerExtents.size() == 1 && outerExtents.empty(), dense);
  const Size runs =
      product(context, llvm::ArrayRef(innerExtents).drop_back(innerExtents.empty() ? 0 : 1))
          .times(inner.dividedUp(vector));
  const int64_t manyRows = rows.known().value_or(manyThreads);
  auto each = [&](int64_t threads) {
    return llvm::divideCeil(runs.known().value_or(manyThreads), threads);
  };
  auto kept = [&](int64_t threads) { return static_cast<int64_t>(each(threads)) * vector * words; };

  int64_t threads = kThreads;
  const bool isShort =
      runs.known() && *runs.known() <= kWarp && manyRows >= device.processors * kWarp;
  if (!dense && across && (isShort || manyRows >= manyThreads / 8)) {
    threads = 1;  // neighbouring threads take neighbouring rows, which lie side by side
  } else if (runs.known()) {
    threads =
        std::min<int64_t>(kMostThreads, llvm::PowerOf2Ceil(std::max<int64_t>(1, *runs.known())));
    // Rows enough for all processors: fewer threads a row have less to say to each other.
    while (threads > kWarp && manyRows * threads > manyThreads &&
           kept(threads / 2) <= kMostKept / 2) {
      threads /= 2;
    }
    while (threads > kThreads && manyRows * threads > manyThreads / 4 &&
           kept(threads / 2) <= kMostKept / 4) {
      threads /= 2;  // smaller blocks fit beside each other
    }
  }
  // Few long rows: a row for the blocks of a cluster, in as many rounds as the device needs (a
  // block of that many registers is a processor's).
  int64_t splits = 1;
  if (runs.known() && rows.known() && dense && device.largestCluster > 1 && threads > kWarp) {
    int64_t bytes = 0;
    for (auto [operand, type] : llvm::enumerate(function.getInputs())) {
      const bool isOfRow =
          innerExtents.empty() ||
          Size(llvm::cast<ArrayAttr>(
                   array(llvm::cast<ArrayAttr>(schedule.getShapeValue("stride"))[operand],
                         1))[innerExtents.size() - 1])
              .is(0);
      bytes += isOfRow ? 0 : bytesOf(type) * vector;
    }
    const RowWork work{
        *runs.known(),
        vector * words,
        bytes,
        std::max<int64_t>(1, bytes / vector),
        llvm::cast<mlir::IntegerAttr>(schedule.getTuneValue("stages")).getInt(),
        llvm::cast<mlir::IntegerAttr>(schedule.getTuneValue("elementOutputs")).getInt() > 0};
    auto wholeTime = [&](int64_t wanted, int64_t given) {
      return static_cast<int64_t>(llvm::divideCeil(manyRows * wanted, device.processors)) *
             rowTime(work, wanted, given);
    };
    int64_t best = wholeTime(1, threads);
    for (int64_t wanted = 2; wanted <= device.largestCluster; wanted *= 2) {
      const int64_t fewer = std::clamp<int64_t>(
          llvm::PowerOf2Ceil(llvm::divideCeil(work.runs, wanted)), 2 * kWarp, kMostThreads);
      if (const int64_t time = wholeTime(wanted, fewer); time < best) {
        best = time;
        splits = wanted;
        threads = fewer;
      }
    }
    setCluster(function, splits);
  }
  // Half as many threads with twice the registers, where what each would keep spills.
  const int64_t keptByMany = kept(threads * splits);
  if (runs.known() && threads > kMostThreads / 2 && keptByMany > device.keptByMany &&
      keptByMany <= mostKept(threads)) {
    threads /= 2;
  }
  const int64_t sharers = threads * splits;
  const bool keeps = runs.known() && kept(sharers) <= mostKept(threads);
  int64_t block = threads;
  if (threads <= kWarp) {
    const int64_t wanted = rows.known() ? std::min<int64_t>(128, *rows.known() * threads) : 128;
    block = std::max<int64_t>(kWarp, llvm::alignTo(wanted, kWarp));
  }
  Tune chosen = {{"threads", threads},
                 {"vector", vector},
                 {"each", keeps ? static_cast<int64_t>(each(sharers)) : 0}};
  if (splits > 1) {
    chosen.push_back({"splits", splits});
  }
  finish(function, chosen, rows.dividedUp(block / threads).times(Size(context, splits)), block);
}

int64_t tuneOf(kernel::FuncOp function, llvm::StringRef key) {
  auto value =
      llvm::dyn_cast_if_present<mlir::IntegerAttr>(function.getSchedule().getTuneValue(key));
  return value ? value.getInt() : 0;
}

Size shapeOf(kernel::FuncOp function, llvm::StringRef key) {
  return Size(function.getSchedule().getShapeValue(key));
}

/// The tunables come from the kernel's description (runtime/backends/cuda); what is left is to
/// count blocks.
void scheduleGemv(kernel::FuncOp function) {
  const int64_t threads = tuneOf(function, "threads");
  const int64_t columns = threads / tuneOf(function, "lanes") * tuneOf(function, "rows");
  const Size blocks = shapeOf(function, "n")
                          .dividedUp(columns)
                          .times(shapeOf(function, "m").dividedUp(tuneOf(function, "mr")));
  finish(function, {}, blocks, threads);
}

/// A block for so many results of each part. Two fit on a processor, so that the next kernel can
/// come early.
void scheduleGemvGroup(kernel::FuncOp function) {
  const int64_t threads = tuneOf(function, "threads");
  const int64_t columns = threads / tuneOf(function, "lanes") * tuneOf(function, "rows");
  int64_t blocks = 0;
  for (const Size& n : sizes(function.getSchedule().getShapeValue("n"))) {
    blocks += *n.dividedUp(columns).known();
  }
  finish(function, {}, Size(function.getContext(), blocks), threads);
  function->setAttr(kernel::kResidentAttr,
                    mlir::Builder(function.getContext()).getI64IntegerAttr(2));
}

/// Blocks that share the work of one: the kernel's wish where the architecture has clusters.
int64_t clusterFor(kernel::FuncOp function, const CudaArchitecture& device) {
  const int64_t splits = std::clamp<int64_t>(tuneOf(function, "splits"), 1, device.largestCluster);
  setCluster(function, splits);
  return splits;
}

void scheduleMatmul(kernel::FuncOp function, const CudaArchitecture& device) {
  const int64_t splits = clusterFor(function, device);
  const Size batch =
      product(function.getContext(), sizes(function.getSchedule().getShapeValue("batch")));
  const Size blocks = batch.times(shapeOf(function, "m").dividedUp(tuneOf(function, "rows")))
                          .times(shapeOf(function, "n").dividedUp(tuneOf(function, "columns")))
                          .times(Size(function.getContext(), splits));
  finish(function, {{"splits", splits}}, blocks, tuneOf(function, "threads"));
}

void scheduleAttention(kernel::FuncOp function, const CudaArchitecture& device) {
  const int64_t splits = clusterFor(function, device);
  const int64_t served = *shapeOf(function, "h").known() / *shapeOf(function, "hk").known();
  const Size rows = shapeOf(function, "s").times(Size(function.getContext(), served));
  const Size blocks =
      product(function.getContext(),
              {shapeOf(function, "b"), shapeOf(function, "hk"),
               rows.dividedUp(tuneOf(function, "rows")), Size(function.getContext(), splits)});
  finish(function, {{"splits", splits}}, blocks, tuneOf(function, "threads"));
}

void scheduleConvolution(kernel::FuncOp function, const CudaArchitecture& device) {
  const Size pixels =
      product(function.getContext(),
              {shapeOf(function, "n"), shapeOf(function, "ho"), shapeOf(function, "wo")});
  if (tuneOf(function, "rows") == 0) {
    scheduleElements(function, pixels.times(shapeOf(function, "k")));
    return;
  }
  const int64_t splits = clusterFor(function, device);
  const int64_t groups = *shapeOf(function, "groups").known();
  const Size outputs(function.getContext(), *shapeOf(function, "k").known() / groups);
  const Size blocks = pixels.dividedUp(tuneOf(function, "rows"))
                          .times(outputs.dividedUp(tuneOf(function, "columns")))
                          .times(Size(function.getContext(), groups * splits));
  finish(function, {{"splits", splits}}, blocks, tuneOf(function, "threads"));
}

/// A thread 16 bytes of a row.
void scheduleGatherRows(kernel::FuncOp function) {
  const int64_t vector = kMostBytes / bytesOf(function.getOutputs()[0]);
  scheduleElements(function, product(function.getContext(),
                                     {shapeOf(function, "outer"), shapeOf(function, "count"),
                                      shapeOf(function, "run").dividedUp(vector)}));
}

/// A thread an element of every row: rows keep their order.
void scheduleScatterRows(kernel::FuncOp function) {
  scheduleElements(function, shapeOf(function, "outer").times(shapeOf(function, "run")));
}

/// A warp a row, or where rows are few and long a block, unless neighbouring rows lie side by side
/// or are many.
void scheduleScan(kernel::FuncOp function, const CudaArchitecture& device) {
  const llvm::SmallVector<Size> outer = sizes(function.getSchedule().getShapeValue("outer"));
  const Size rows = product(function.getContext(), outer);
  bool across = !outer.empty();
  for (const Attribute row :
       llvm::cast<ArrayAttr>(function.getSchedule().getShapeValue("outerStride"))) {
    across = across && Size(llvm::cast<ArrayAttr>(row)[outer.size() - 1]).is(1);
  }
  const bool isLong = shapeOf(function, "count").known().value_or(kWarp) >= kWarp / 2;
  const int64_t threads = across || !isLong ? 1 : kWarp;
  constexpr int64_t kLongRow = 1024;
  const int64_t most = shapeOf(function, "count").known().value_or(0);
  if (most >= kLongRow && rows.known() &&
      *rows.known() * kWarp < (across ? kThreads : device.allThreads() / 2)) {
    const int64_t block = most >= 8 * kLongRow ? kMostThreads : kThreads;
    return finish(function, {{"threads", block}}, rows, block);
  }
  finish(function, {{"threads", threads}},
         rows.times(Size(function.getContext(), threads)).dividedUp(kThreads), kThreads);
}

/// The tunables come from the lowering, which cuts long rows; what is left is to count blocks.
void scheduleTopk(kernel::FuncOp function) {
  const int64_t threads = tuneOf(function, "threads");
  if (tuneOf(function, "way") == 3) {
    const Size rows =
        product(function.getContext(), sizes(function.getSchedule().getShapeValue("outer")));
    return scheduleElements(function, rows.times(shapeOf(function, "count")));
  }
  // Those that take the best of parts have a row a block.
  const bool merges = function.getInputs().size() == 2;
  const Size rows =
      product(function.getContext(), sizes(function.getSchedule().getShapeValue("outer")))
          .times(merges ? Size(function.getContext(), 1) : shapeOf(function, "parts"));
  const int64_t wanted =
      rows.known() ? std::min<int64_t>(4 * kWarp, *rows.known() * threads) : 4 * kWarp;
  const int64_t block =
      threads > kWarp ? threads : std::max<int64_t>(kWarp, llvm::alignTo(wanted, kWarp));
  finish(function, {}, rows.dividedUp(block / threads), block);
}

void scheduleTranspose(kernel::FuncOp function) {
  constexpr int64_t kSide = 32;
  const Size blocks = product(function.getContext(), {shapeOf(function, "batch"),
                                                      shapeOf(function, "rows").dividedUp(kSide),
                                                      shapeOf(function, "cols").dividedUp(kSide)});
  finish(function, {}, blocks, kThreads);
}

/// A cluster for some rows of the batch. The sizes are those for which decompose-ops found a plan.
void scheduleRecurrentSequence(kernel::FuncOp function, const CudaArchitecture& device) {
  mlir::MLIRContext* context = function.getContext();
  const Size batch = shapeOf(function, "batch");
  const mlir::Type element =
      llvm::cast<BufferType>(llvm::cast<mlir::TypeAttr>(function.getOutputs()[0]).getValue())
          .getElementType();
  const RecurrentSequencePlan plan =
      *planRecurrentSequence(tuneOf(function, "gates"), tuneOf(function, "hidden"), *batch.known(),
                             element, device.largestCluster);
  finish(function,
         {{"lanes", plan.lanes},
          {"blocks", plan.blocks},
          {"rows", plan.rows},
          {"threads", plan.threads}},
         batch.dividedUp(plan.rows).times(Size(context, plan.blocks)), plan.threads);
  setCluster(function, plan.blocks);
}

/// Tunables without which there is no grid. A kernel that was chosen for a CPU lacks them.
llvm::ArrayRef<llvm::StringRef> neededTunables(llvm::StringRef family) {
  static constexpr llvm::StringRef kGemv[] = {"rows", "mr", "lanes", "threads"};
  static constexpr llvm::StringRef kGroup[] = {"rows", "lanes", "threads", "unroll",
                                               "mr",   "depth", "parts",   "weights"};
  static constexpr llvm::StringRef kMatmul[] = {"rows", "columns", "threads"};
  static constexpr llvm::StringRef kAttention[] = {"rows", "keys", "depth", "threads"};
  static constexpr llvm::StringRef kTopk[] = {"threads", "each", "word"};
  return family == "topk"         ? llvm::ArrayRef<llvm::StringRef>(kTopk)
         : family == "gemv"       ? llvm::ArrayRef<llvm::StringRef>(kGemv)
         : family == "gemv_group" ? llvm::ArrayRef<llvm::StringRef>(kGroup)
         : family == "matmul"     ? llvm::ArrayRef<llvm::StringRef>(kMatmul)
         : family == "attention"  ? llvm::ArrayRef<llvm::StringRef>(kAttention)
                                  : llvm::ArrayRef<llvm::StringRef>();
}

}  // namespace

std::string whyNotOnCuda(kernel::FuncOp function) {
  const llvm::StringRef family = function.getSchedule().getFamily().getValue();
  if (!llvm::is_contained(
          {"pointwise", "row_reduction", "fill", "iota", "gemv", "gemv_group", "matmul",
           "attention", "convolution_direct", "gather_rows", "gather_elements", "scatter_rows",
           "scan", "pool", "topk", "transpose", "recurrent_sequence"},
          family)) {
    return "kernels of family '" + family.str() + "' have no CUDA form";
  }
  for (const llvm::StringRef key : neededTunables(family)) {
    if (tuneOf(function, key) < 1) {
      return "the " + family.str() + " kernel lacks the tunable '" + key.str() +
             "' of its CUDA form";
    }
  }
  if (!function.getWorkspace().empty()) {
    return "kernels with workspace have no CUDA form";
  }
  return "";
}

void scheduleForCuda(kernel::FuncOp function, llvm::StringRef arch) {
  const CudaArchitecture& device = cudaArchitecture(arch);
  const llvm::StringRef family = function.getSchedule().getFamily().getValue();
  mlir::MLIRContext* context = function.getContext();
  if (family == "pointwise") {
    schedulePointwise(function, device);
  } else if (family == "row_reduction") {
    scheduleRowReduction(function, device);
  } else if (family == "fill") {
    scheduleElements(function, product(function.getContext(),
                                       sizes(function.getSchedule().getShapeValue("extent"))));
  } else if (family == "iota") {
    scheduleElements(function, shapeOf(function, "count"));
  } else if (family == "gemv") {
    scheduleGemv(function);
  } else if (family == "gemv_group") {
    scheduleGemvGroup(function);
  } else if (family == "matmul") {
    scheduleMatmul(function, device);
  } else if (family == "convolution_direct") {
    scheduleConvolution(function, device);
  } else if (family == "gather_rows") {
    scheduleGatherRows(function);
  } else if (family == "gather_elements") {
    scheduleElements(function,
                     product(context, sizes(function.getSchedule().getShapeValue("extent"))));
  } else if (family == "scatter_rows") {
    scheduleScatterRows(function);
  } else if (family == "scan") {
    scheduleScan(function, device);
  } else if (family == "pool") {
    scheduleElements(function,
                     product(context, {shapeOf(function, "batch"), shapeOf(function, "channels"),
                                       shapeOf(function, "outH"), shapeOf(function, "outW")}));
  } else if (family == "topk") {
    scheduleTopk(function);
  } else if (family == "transpose") {
    scheduleTranspose(function);
  } else if (family == "recurrent_sequence") {
    scheduleRecurrentSequence(function, device);
  } else {
    scheduleAttention(function, device);
  }
}

double estimateOnCuda(mlir::Operation* statement) {
  constexpr double kBytesPerUs = 4.2e6;
  if (auto cost = statement->getAttrOfType<mlir::FloatAttr>("kernel.cost_us")) {
    return cost.getValueAsDouble();
  }
  double bytes = 0;
  for (mlir::Value operand : statement->getOperands()) {
    auto type = llvm::dyn_cast<kernel::BufferType>(operand.getType());
    bytes += type ? static_cast<double>(symbolic::constantValue(type.bytes()).value_or(0)) : 0;
  }
  return kKernelUs + bytes / kBytesPerUs;
}

}  // namespace straightline::passes
