// SPDX-License-Identifier: Apache-2.0
#include "passes/targets/cuda/plan_recurrent_sequence.h"

#include <algorithm>

#include "dialect/op/op_dialect.h"
#include "llvm/Support/MathExtras.h"

namespace straightline::passes::cuda {

std::optional<RecurrentSequencePlan> planRecurrentSequence(const RecurrentProblem& problem,
                                                           const CudaArchitecture& device) {
  const auto [gates, hidden, batch, element] = problem;
  constexpr int64_t kRun = 4;  // neighbouring columns of the weight that a lane of the kernel holds
  constexpr int64_t kRegisters = 65536;  // of a processor; each fourth warp of a block has a fourth
  constexpr int64_t kMost = 255;         // registers of a thread
  // Registers that a thread needs for each row: sums, inputs of two steps, and the state.
  const int64_t ofARow = 3 * gates + 1;
  constexpr int64_t kOthers = 40;  // registers for addresses
  constexpr int64_t kMostThreads = 512;
  constexpr int64_t kMostRows = 4;
  constexpr int64_t kBlocks = 128;  // that a device runs at once
  // Fitted to an H200 (bench/results/h200_5221463.json, LSTMs): microseconds that any step takes,
  // microseconds that the barrier of a cluster adds, and instructions of a function. Each gate
  // evaluates one function, and LSTM one more (tanh of c).
  constexpr double kAlone = 0.35, kSync = 0.1, kFunction = 50, kClock = 1700, kSchedulers = 4;
  const double functions =
      kFunction * static_cast<double>(gates == op::LstmOp::kGates ? gates + 1 : gates);
  std::optional<RecurrentSequencePlan> best;
  const int64_t words = element.isF64() ? 2 : 1;
  for (int64_t blocks = 1; blocks <= device.largestCluster && hidden > 0 && batch > 0;
       blocks *= 2) {
    const int64_t units = llvm::divideCeil(hidden, blocks);
    const int64_t rows = llvm::divideCeil(batch, kBlocks / blocks);
    for (const int64_t lanes : {8, 16, 32}) {
      const int64_t threads = llvm::alignTo(units * lanes, 32);
      const int64_t columns = kRun * llvm::divideCeil(hidden, kRun * lanes);
      const int64_t registers = (gates * columns + ofARow * rows) * words + kOthers;
      const int64_t most = std::min<int64_t>(
          kMost, kRegisters / static_cast<int64_t>(llvm::alignTo(threads, 128)) / 8 * 8);
      if ((blocks - 1) * units >= hidden || threads > kMostThreads || registers > most ||
          rows > kMostRows) {
        continue;
      }
      // A warp's multiply-adds and exchanges take turns on the four schedulers of a processor; a
      // double takes two.
      const double sums =
          static_cast<double>(gates) * (static_cast<double>(columns) + 2.0 * llvm::Log2_64(lanes));
      const double instructions = static_cast<double>(rows * words) * (sums + functions);
      const double turns = std::max(1.0, static_cast<double>(threads) / 32 / kSchedulers);
      const double us = kAlone + (blocks > 1 ? kSync : 0) + instructions * turns / kClock;
      if (!best || us < best->stepUs) {
        best = RecurrentSequencePlan{lanes, blocks, rows, threads, us};
      }
    }
  }
  return best;
}

}  // namespace straightline::passes::cuda
