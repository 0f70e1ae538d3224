// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_RUNTIME_PROGRAM_H
#define STRAIGHTLINE_RUNTIME_PROGRAM_H

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device_code.h"
#include "frame_pool.h"
#include "guard_plan.h"
#include "straightline/abi/straightline.h"
#include "team.h"

namespace straightline {
struct InterpreterPlan;  // interpreter_plan.h
}  // namespace straightline

/// Immutable once created, except for the reference count and the pool.
struct sl_program {
  const sl_program_desc* desc = nullptr;
  void (*release)(void*) = nullptr;
  void* user = nullptr;
  std::atomic<int32_t> references{1};
  /// number of its device, 0 on the host
  int32_t device = 0;
  straightline::GuardPlan guard;
  std::vector<const sl_device_desc*> spaceDevices;  ///< by memory space, null for the host
  /// by queue index, null for the caller's team
  std::vector<const sl_device_desc*> queueDevices;
  /// by memory space, valid when staticArenas
  std::vector<size_t> arenaBytes;
  bool staticArenas = true;   ///< no arena's size depends on an extent
  bool asynchronous = false;  ///< some queue is a device's
  /// every statement of run is for thread 0 alone
  bool alone = false;
  /// a run takes less time than waking a sleeping team
  bool brief = false;
  /// null: it runs as a team whatever happens
  mutable std::unique_ptr<straightline::TeamHistory> teamHistory;
  /// The only queue of a device, if its work touches no host memory: then a frame may be leased
  /// again in the order of its last run on that queue. 0: there is none.
  size_t orderedQueue = 0;
  /// nodes of a run as a graph; -1: `whyNoGraph`
  int32_t graphNodes = -1;
  /// most graphs that a run is launched as: one more than there are calls between graphs
  int32_t graphParts = 1;
  std::string whyNoGraph;
  /// `orderedQueue`'s device has an arena, which events must protect
  bool deviceArena = false;
  std::vector<uint8_t> placed;  ///< by buffer: 0 when a statement has to make its address
  mutable straightline::FramePool frames;
  mutable straightline::DeviceKernels kernels;
  /// guards `interpreter`, made by the first interpreted call
  mutable std::once_flag interpreterOnce;
  mutable std::unique_ptr<const straightline::InterpreterPlan> interpreter;
};

namespace straightline {

/// True when the description is complete and consistent: versions and sizes of all structs, counts,
/// buffer numbers, expressions. Otherwise the message names the error. The rest of the runtime
/// relies on it without further checks.
bool checkDescription(const sl_program_desc* desc, sl_message* message);

/// By buffer: 0 when a statement has to make its address (allocations, views at index values, and
/// views of either).
std::vector<uint8_t> placedBuffers(const sl_program_desc& desc);

/// Writes "out of memory: <who> needs <bytes> bytes<of what>" with the memory space and its device,
/// or, if that device cannot be used at all, a message that says so. Returns the status.
int32_t reportNoMemory(const sl_program& program, size_t space, const char* who, int64_t bytes,
                       const char* of, sl_message* message);

/// Name of a buffer as the user knows it: its framework name, else its name in the emitted text.
const char* userName(const sl_buffer& buffer);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_PROGRAM_H
