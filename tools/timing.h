// SPDX-License-Identifier: Apache-2.0
// A compiled program with memory of its own that is called to measure its time, for measured
// choices.
#ifndef STRAIGHTLINE_TOOLS_TIMING_H
#define STRAIGHTLINE_TOOLS_TIMING_H

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "straightline/abi/straightline.h"
#include "tools/failure.h"

namespace straightline {

/// Used by one thread at a time.
class Timing {
 public:
  ~Timing();
  Timing(const Timing&) = delete;
  Timing& operator=(const Timing&) = delete;

  /// Keeps the program. Parameters and inputs get numbers from `seed`, of the type and size that
  /// the program wants. A program whose sizes are only known per call is the user's error; one that
  /// a library cannot do here is unsupported, by this or by `run`.
  static Failure create(sl_program* program, uint64_t seed, bool byStream,
                        std::unique_ptr<Timing>* out);

  /// Calls the program for at least `seconds`, and at least twice. Gives the least microseconds of
  /// a call. With a program that tells when its statements begin and end (profile=true), those that
  /// only move data into the order that a kernel reads do not count. On a device calls follow each
  /// other without waiting, as one graph each where the program can be one and it is not said to be
  /// launched kernel by kernel (byStream); all that runs there counts.
  Failure run(double seconds, double* us);

 private:
  struct Memory;
  Timing(sl_program* program, bool byStream);
  static void onStatement(void* user, int32_t statement, int32_t begin);
  Failure openQueues(const sl_program_desc& desc);
  /// Memory of the buffer where it is to lie, with numbers in it; null with a failure: there is
  /// none.
  void* makeData(const sl_program_desc& desc, const sl_buffer& buffer, std::mt19937_64& random);
  Failure runOnDevice(double seconds, double* us);
  /// One call; on a device it has begun when this returns.
  int32_t call(sl_frame* frame, int32_t launch, sl_message* message);
  /// Waits for the device.
  void finish();

  sl_program* program_;
  bool byStream_;
  sl_weights* weights_ = nullptr;
  sl_queue* team_ = nullptr;    ///< shared, not owned
  sl_queue* device_ = nullptr;  ///< of a program that runs on one
  int64_t callsABatch_ = 1;     ///< on a device: between two waits
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<void*> parameters_, inputs_, outputs_;
  std::vector<bool> movesOnly_;  ///< by statement
  int64_t beganNs_ = 0;
  int64_t movedNs_ = 0;  ///< of the call that runs
};

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_TIMING_H
