// SPDX-License-Identifier: Apache-2.0
// Families of products. Their tunables come from the kernels' descriptions (runtime/backends/cuda);
// what is left is to count blocks.
#include <algorithm>

#include "mlir/IR/Builders.h"
#include "passes/targets/cuda/plan_recurrent_sequence.h"
#include "passes/targets/cuda/schedule_family.h"

namespace straightline::passes::cuda {

namespace {

/// Results of a product that a block of gemv makes.
int64_t columnsOfABlock(kernel::FuncOp function) {
  return tuneOf(function, "threads") / tuneOf(function, "lanes") * tuneOf(function, "rows");
}

void scheduleGemv(kernel::FuncOp function, const CudaArchitecture&) {
  const Size blocks = shapeOf(function, "n")
                          .dividedUp(columnsOfABlock(function))
                          .times(shapeOf(function, "m").dividedUp(tuneOf(function, "mr")));
  setGrid(function, {}, blocks, tuneOf(function, "threads"));
}

/// A block for every threads / lanes * rows results of each part. Two blocks fit on a processor, so
/// that the next kernel can start early.
void scheduleGemvGroup(kernel::FuncOp function, const CudaArchitecture&) {
  int64_t blocks = 0;
  for (const Size& n : sizesOf(function, "n")) {
    blocks += *n.dividedUp(columnsOfABlock(function)).known();
  }
  setGrid(function, {}, Size(function.getContext(), blocks), tuneOf(function, "threads"));
  function->setAttr(kernel::kResidentAttr,
                    mlir::Builder(function.getContext()).getI64IntegerAttr(2));
}

/// Of a block whose warpgroups multiply: the tiles of its stages, in whose place it puts its sums,
/// and what aligns them (codegen/kernels/cuda_matmul_warpgroups.h).
int64_t warpgroupBytes(kernel::FuncOp function) {
  constexpr int64_t kAlignment = 1024, kLine = 128, kPadding = 8;
  const int64_t rows = tuneOf(function, "rows"), columns = tuneOf(function, "columns");
  return kAlignment + std::max(tuneOf(function, "stages") * (rows + columns) * kLine,
                               rows * (columns + kPadding) * 4);
}

void scheduleMatmul(kernel::FuncOp function, const CudaArchitecture& device) {
  const int64_t splits = clusterFor(function, device);
  const Size blocks = productOf(function, "batch")
                          .times(shapeOf(function, "m").dividedUp(tuneOf(function, "rows")))
                          .times(shapeOf(function, "n").dividedUp(tuneOf(function, "columns")))
                          .times(splits);
  setGrid(function, {{"splits", splits}}, blocks, tuneOf(function, "threads"));
  if (tuneOf(function, "stages") > 0) {
    kernel::setEarlyStart(function, kernel::EarlyStart::inTemplate);
    setSharedBytes(function, warpgroupBytes(function));
  }
}

/// A block for every tile of each part.
void scheduleMatmulGroup(kernel::FuncOp function, const CudaArchitecture&) {
  constexpr int64_t kAlignment = 1024, kLine = 128, kPadding = 8;
  const int64_t rows = tuneOf(function, "rows"), columns = tuneOf(function, "columns");
  const int64_t wide = columns * tuneOf(function, "weights");
  int64_t across = 0;
  for (const Size& n : sizesOf(function, "n")) {
    across += *n.dividedUp(columns).known();
  }
  setGrid(function, {}, shapeOf(function, "m").dividedUp(rows).times(across),
          tuneOf(function, "threads"));
  setSharedBytes(function, kAlignment + std::max(tuneOf(function, "stages") * (rows + wide) * kLine,
                                                 rows * (wide + kPadding) * 4));
}

/// The most tiles that groups of rows can have: each group has at most one tile that is not full,
/// and so have the rows after the last group. Groups of terms have results of equal sizes.
void scheduleGroupedMatmul(kernel::FuncOp function, const CudaArchitecture&) {
  const int64_t rows = tuneOf(function, "rows");
  const int64_t groups = *shapeOf(function, "groups").known();
  const bool ofTerms = bool(function.getSchedule().getShapeValue("cGroup"));
  const Size tiles = ofTerms ? shapeOf(function, "m").dividedUp(rows).times(groups)
                             : shapeOf(function, "m").plus(groups * (rows - 1)).dividedUp(rows);
  setGrid(function, {}, tiles.times(shapeOf(function, "n").dividedUp(tuneOf(function, "columns"))),
          tuneOf(function, "threads"));
}

void scheduleConvolution(kernel::FuncOp function, const CudaArchitecture& device) {
  if (tuneOf(function, "taps") > 0) {
    const Size parts = shapeOf(function, "wo").dividedUp(tuneOf(function, "pixels"));
    const Size lines =
        product(function.getContext(),
                {shapeOf(function, "n"), shapeOf(function, "ho"), parts, shapeOf(function, "k")});
    if (const int64_t splits = tuneOf(function, "splits"); splits > 1) {
      const int64_t threads = tuneOf(function, "threads");
      setGrid(function, {}, lines.dividedUp(threads / splits), threads);
    } else {
      setGridOfElements(function, lines);
    }
    return;
  }
  const Size pixels =
      product(function.getContext(),
              {shapeOf(function, "n"), shapeOf(function, "ho"), shapeOf(function, "wo")});
  if (tuneOf(function, "rows") == 0) {
    setGridOfElements(function, pixels.times(shapeOf(function, "k")));
    return;
  }
  const int64_t splits = clusterFor(function, device);
  const int64_t groups = *shapeOf(function, "groups").known();
  const Size outputs(function.getContext(), *shapeOf(function, "k").known() / groups);
  const Size blocks = pixels.dividedUp(tuneOf(function, "rows"))
                          .times(outputs.dividedUp(tuneOf(function, "columns")))
                          .times(groups * splits);
  setGrid(function, {{"splits", splits}}, blocks, tuneOf(function, "threads"));
}

/// A cluster for some rows of the batch. The sizes are those for which decompose-ops found a plan.
void scheduleRecurrentSequence(kernel::FuncOp function, const CudaArchitecture& device) {
  const Size batch = shapeOf(function, "batch");
  const mlir::Type element = llvm::cast<kernel::BufferType>(
                                 llvm::cast<mlir::TypeAttr>(function.getOutputs()[0]).getValue())
                                 .getElementType();
  const RecurrentSequencePlan plan = *planRecurrentSequence(
      {tuneOf(function, "gates"), tuneOf(function, "hidden"), *batch.known(), element}, device);
  setGrid(function,
          {{"lanes", plan.lanes},
           {"blocks", plan.blocks},
           {"rows", plan.rows},
           {"threads", plan.threads}},
          batch.dividedUp(plan.rows).times(plan.blocks), plan.threads);
  setCluster(function, plan.blocks);
}

constexpr llvm::StringLiteral kGemvNeeds[] = {"rows", "mr", "lanes", "threads"};
constexpr llvm::StringLiteral kGroupNeeds[] = {"rows", "lanes", "threads", "unroll",
                                               "mr",   "depth", "parts",   "weights"};
constexpr llvm::StringLiteral kMatmulNeeds[] = {"rows", "columns", "threads"};

}  // namespace

llvm::ArrayRef<FamilySchedule> productSchedules() {
  static constexpr FamilySchedule kSchedules[] = {
      {"gemv", scheduleGemv, kGemvNeeds, kernel::EarlyStart::atEntry},
      {"gemv_group", scheduleGemvGroup, kGroupNeeds, kernel::EarlyStart::inTemplate},
      {.family = "matmul",
       .schedule = scheduleMatmul,
       .needs = kMatmulNeeds,
       .takesWorkspace = true},
      {.family = "matmul_group",
       .schedule = scheduleMatmulGroup,
       .needs = kMatmulNeeds,
       .earlyStart = kernel::EarlyStart::inTemplate,
       .takesWorkspace = true},
      {"grouped_matmul", scheduleGroupedMatmul, kMatmulNeeds},
      {"convolution_direct", scheduleConvolution, {}},
      {"recurrent_sequence", scheduleRecurrentSequence, {}, kernel::EarlyStart::inTemplate},
  };
  return kSchedules;
}

}  // namespace straightline::passes::cuda
