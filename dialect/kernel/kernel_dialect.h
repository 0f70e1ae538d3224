// SPDX-License-Identifier: Apache-2.0
// The kernel dialect's C++ classes and the questions that every user of it asks.
#ifndef STRAIGHTLINE_DIALECT_KERNEL_H
#define STRAIGHTLINE_DIALECT_KERNEL_H

#include "dialect/symbolic/symbolic.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace straightline::kernel {

class ConditionOp;
class PrepareOp;
class ProgramOp;
class ReturnOp;
class RunOp;

/// The backend of the host: of the first queue of every program, which is the caller's team of
/// threads, and of a target whose programs run on it. Every other backend is a device's.
inline constexpr llvm::StringLiteral kHostBackend = "cpu";

/// Output `output` may share the storage of input `input`, element by element.
struct Tie {
  int64_t input;
  int64_t output;
  bool operator==(const Tie&) const = default;
};

/// The kernel.func or kernel.decl that `symbol` names beside the program around `op`; null when
/// there is none.
mlir::Operation* lookupEntry(mlir::Operation* op, mlir::FlatSymbolRefAttr symbol);
/// Facts about a kernel.func or kernel.decl (null: false, empty).
bool isOutputRead(mlir::Operation* entry, unsigned output);
llvm::SmallVector<Tie> getTies(mlir::Operation* entry);
bool canFail(mlir::Operation* entry);

/// Attributes of a kernel.func that runs on a device and not on the host: how many blocks
/// (#kernel.extent) of how many threads (i64). 1 block of 0 threads: it is printed as a kernel of
/// the host, for a compiler that the device brings, and one core runs it.
inline constexpr llvm::StringLiteral kBlocksAttr = "kernel.blocks";
inline constexpr llvm::StringLiteral kThreadsAttr = "kernel.threads";
/// Blocks of a cluster; absent: there are no clusters.
inline constexpr llvm::StringLiteral kClusterAttr = "kernel.cluster";
/// Blocks that a processor must have room for, so that a kernel's registers are bounded; absent:
/// one.
inline constexpr llvm::StringLiteral kResidentAttr = "kernel.resident";
/// Bytes of dynamic shared memory of a block, in addition to what the kernel's text declares;
/// absent: none.
inline constexpr llvm::StringLiteral kSharedAttr = "kernel.shared";
int64_t sharedBytesOf(mlir::Operation* entry);
bool runsOnDevice(mlir::Operation* entry);
/// Whether a kernel.func is printed with a context and a team: on the host, or for such a compiler.
bool isPrintedAsHost(mlir::Operation* entry);
/// Of a kernel.decl: the backend of the device on whose queue the library puts its work; without it
/// the library computes where it is called.
inline constexpr llvm::StringLiteral kRunsOnAttr = "kernel.runs_on";

/// On statements of run's own block: which of them a graph of the device may run concurrently. A
/// statement with kernel.step = n (i64, counted from 0) begins step n: it and the statements after
/// it, up to the next one that begins a step, in order. Step n runs after the steps kernel.after
/// (array<i64>, all below n). Without these attributes the statements of a queue run in the order
/// of the text, which is always a valid order. kernel.branch (i64) is for people: statements of one
/// number run one after the other.
inline constexpr llvm::StringLiteral kStepAttr = "kernel.step";
inline constexpr llvm::StringLiteral kAfterAttr = "kernel.after";
inline constexpr llvm::StringLiteral kBranchAttr = "kernel.branch";

/// Whether two buffers of one storage may have an element in common. False only where sizes,
/// strides and offsets are numbers that prove it: the byte ranges are disjoint, or the ranges of
/// indices in one dim of the storage are (slices of it).
bool mayOverlap(mlir::Value a, mlir::Value b);

/// The value that owns the storage of `buffer`: follows views to a storage op, slot, alloc or
/// argument of run.
mlir::Value storageRoot(mlir::Value buffer);

}  // namespace straightline::kernel

#include "dialect/kernel/kernel_dialect.h.inc"
#include "dialect/kernel/kernel_interfaces.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/kernel/kernel_types.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/kernel/kernel_attributes.h.inc"

#define GET_OP_CLASSES
#include "dialect/kernel/kernel_ops.h.inc"

#endif  // STRAIGHTLINE_DIALECT_KERNEL_H
