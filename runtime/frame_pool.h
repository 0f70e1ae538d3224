// SPDX-License-Identifier: Apache-2.0
// The frames of a program that no call uses.
#ifndef STRAIGHTLINE_RUNTIME_FRAME_POOL_H
#define STRAIGHTLINE_RUNTIME_FRAME_POOL_H

#include <atomic>
#include <cstdint>

#include "straightline/abi/straightline.h"

namespace straightline {

/// Lock-free: a frame is taken by exchanging its slot with null, so whichever thread gets the
/// pointer owns the frame, and there is no ABA problem. The overflow list is only pushed to and
/// taken as a whole.
struct FramePool {
  static constexpr int32_t kSlots = 64;
  std::atomic<sl_frame*> slots[kSlots] = {};
  /// sl_frame.order of what is in the slot; a hint, for only its owner may read a frame
  std::atomic<uint64_t> orders[kSlots] = {};
  std::atomic<sl_frame*> overflow{nullptr};
  /// The one order of all leases so far; kSeveral: there were several orders, or an unknown one; 0:
  /// no lease yet.
  std::atomic<uint64_t> order{0};
  static constexpr uint64_t kSeveral = ~uint64_t{0};
  /// frames of captured graphs, until the program is destroyed
  std::atomic<sl_frame*> captured{nullptr};
};

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_FRAME_POOL_H
