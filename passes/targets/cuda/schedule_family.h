// SPDX-License-Identifier: Apache-2.0
// What the schedules of kernel families share: sizes that may be known only per call, readers of a
// kernel's schedule, and the table's rows. A family with a CUDA form has a row in the file of its
// group (schedule_elements.cpp, schedule_rows.cpp, ...).
#ifndef STRAIGHTLINE_PASSES_TARGETS_CUDA_SCHEDULE_FAMILY_H
#define STRAIGHTLINE_PASSES_TARGETS_CUDA_SCHEDULE_FAMILY_H

#include <optional>

#include "dialect/kernel/kernel_dialect.h"
#include "dialect/kernel/recorded.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "passes/targets/cuda/architecture.h"

namespace straightline::passes::cuda {

inline constexpr int64_t kThreads = 256;  ///< of a block of an elementwise kernel
inline constexpr int64_t kWarp = 32;
inline constexpr int64_t kMostThreads = 1024;  ///< of one block
inline constexpr int64_t kMostBytes = 16;      ///< that one instruction moves

/// A size that may be known only per call. Names of both sides of an operation are merged.
class Size {
 public:
  Size(mlir::MLIRContext* context, int64_t value);
  /// Of an integer or an extent.
  explicit Size(mlir::Attribute value);

  std::optional<int64_t> known() const { return attr_.getConstant(); }
  bool is(int64_t value) const { return known() == value; }
  bool isMultipleOf(int64_t factor) const { return attr_.getExpr().isMultipleOf(factor); }
  kernel::ExtentAttr attr() const { return attr_; }
  Size times(const Size& other) const;
  Size times(int64_t factor) const { return times(Size(attr_.getContext(), factor)); }
  Size plus(int64_t value) const { return Size(attr_.getNames(), attr_.getExpr() + value); }
  Size dividedUp(int64_t divisor) const;

 private:
  Size(llvm::ArrayRef<mlir::StringAttr> names, mlir::AffineExpr expr)
      : attr_(kernel::ExtentAttr::get(expr.getContext(), names, expr)) {}

  kernel::ExtentAttr attr_;
};

// --- readers -------------------------------------------------------------------------------------

/// The tunable `key` of the kernel's schedule; 0 where the schedule lacks it.
int64_t tuneOf(kernel::FuncOp function, llvm::StringRef key);
Size shapeOf(kernel::FuncOp function, llvm::StringRef key);
/// Of a list of sizes.
llvm::SmallVector<Size> sizesOf(kernel::FuncOp function, llvm::StringRef key);
/// Their product.
Size productOf(kernel::FuncOp function, llvm::StringRef key);
Size product(mlir::MLIRContext* context, llvm::ArrayRef<Size> factors);
/// The rows of a list of lists, such as the strides of each operand.
mlir::ArrayAttr rowsOf(kernel::FuncOp function, llvm::StringRef key);
/// Bytes of an element of a buffer, given the buffer's type as an attribute.
int64_t elementBytes(mlir::Attribute type);
/// Neighbours that one thread takes, so that they move in one instruction; 1 where they do not lie
/// side by side. `onlyLoop`: no other loop goes over the elements.
int64_t vectorFor(int64_t widestBytes, const Size& inner, bool onlyLoop, bool dense);

// --- what a schedule sets ------------------------------------------------------------------------

using Tune = llvm::SmallVector<std::pair<llvm::StringRef, int64_t>>;

/// `chosen` are tunables that the schedule lacks, or has with another value.
void setGrid(kernel::FuncOp function, const Tune& chosen, const Size& blocks, int64_t threads);
/// For kernels that give a thread an element.
void setGridOfElements(kernel::FuncOp function, const Size& elements);
/// Makes clusters of `blocks` neighbouring blocks; 1: no clusters.
void setCluster(kernel::FuncOp function, int64_t blocks);
/// Gives each block dynamic shared memory, and has registers bounded so that as many blocks fit on
/// a processor as its shared memory holds, at most 2.
void setSharedBytes(kernel::FuncOp function, int64_t bytes);
/// Makes clusters of as many blocks as the kernel's tunable `splits` says, and returns that number;
/// 1 where the architecture has no clusters.
int64_t clusterFor(kernel::FuncOp function, const CudaArchitecture& device);

// --- the table -----------------------------------------------------------------------------------

/// A family with a CUDA form.
struct FamilySchedule {
  llvm::StringLiteral family;
  void (*schedule)(kernel::FuncOp function, const CudaArchitecture& device);
  /// Tunables without which there is no grid. A kernel that was chosen for a CPU lacks them.
  llvm::ArrayRef<llvm::StringLiteral> needs;
  /// Kernels with large tiles do not start early: their blocks would be placed early on few
  /// processors, where room is left, and stay there (an encoder layer of them took 107 us instead
  /// of 76 on an H200). A schedule may set another one for a kernel.
  kernel::EarlyStart earlyStart = kernel::EarlyStart::none;
  /// Whether a kernel of known size that may be one of several in a launch (tunable `firstBlock`)
  /// is right in blocks of any multiple of a warp, as long as there are as many threads; null: none
  /// of the family may be.
  bool (*takesAnyThreads)(kernel::FuncOp function) = nullptr;
  /// Whether the form takes a workspace.
  bool takesWorkspace = false;
};
/// For families of which a thread computes an element wherever it is.
inline bool takesAnyThreads(kernel::FuncOp) { return true; }

llvm::ArrayRef<FamilySchedule> attentionSchedules();
llvm::ArrayRef<FamilySchedule> elementSchedules();
llvm::ArrayRef<FamilySchedule> movingSchedules();
llvm::ArrayRef<FamilySchedule> productSchedules();
llvm::ArrayRef<FamilySchedule> rowSchedules();

}  // namespace straightline::passes::cuda

#endif  // STRAIGHTLINE_PASSES_TARGETS_CUDA_SCHEDULE_FAMILY_H
