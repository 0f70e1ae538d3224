// SPDX-License-Identifier: Apache-2.0
// A team of CPU threads that run one program together (SPMD): every member calls the same entry
// with its own index and synchronizes with the others at barriers in the emitted text.
#ifndef STRAIGHTLINE_RUNTIME_TEAM_H
#define STRAIGHTLINE_RUNTIME_TEAM_H

#include <atomic>
#include <cstdint>
#include <memory>

#include "straightline/abi/straightline.h"

namespace straightline {

/// Largest team; the table of shared teams has this size.
inline constexpr int32_t kMaxThreads = 256;

/// How runs of one program by a team went. Where the caller waits at barriers for most of such a
/// run, other threads have the workers' processors (those of OpenMP spin for milliseconds after an
/// op of another framework): then the next such runs are the caller's alone. Any thread may write
/// it; a write that another one overtakes costs a run's time.
struct TeamRuns {
  /// runs of the team one after another that the caller mostly waited in
  std::atomic<uint32_t> late{0};
  std::atomic<uint32_t> alone{0};    ///< so many runs to come are the caller's alone
  std::atomic<uint32_t> penalty{0};  ///< the last value that `alone` began with
};

/// Runs that follow soon on another run of the team, whose workers are awake then, and others.
struct TeamHistory {
  TeamRuns inBurst;
  TeamRuns afterPause;
};

/// Lives as long as the process: workers are detached and may touch it until the very end.
class Team {
 public:
  explicit Team(int32_t size);

  /// Starts the workers unless they are running. False when the system refuses a thread.
  bool start();

  /// Runs `entry` on every member; the caller is member 0. Returns when all have returned. The
  /// caller runs alone, as a team of one, when the team is busy with another caller, when the
  /// system refuses threads, or when the workers sleep and the run is `brief`, because waking them
  /// would take longer than the run. Where brief runs follow each other the workers are woken for
  /// the next ones. Takes no lock. With a history it is also alone where runs like this one were
  /// late.
  int32_t run(sl_entry_fn entry, sl_ctx* ctx, const sl_bindings* bindings, bool brief = false,
              TeamHistory* history = nullptr);

  int32_t size() const { return size_; }

  /// After a fork the child has only the calling thread: forget the workers, so that the next run
  /// starts new ones.
  void resetAfterFork();

 private:
  struct Job {
    sl_entry_fn entry;
    sl_ctx* ctx;
    const sl_bindings* bindings;
  };
  /// Alone in its pair of cache lines: neighbours are prefetched together.
  struct alignas(128) Flag {
    std::atomic<uint32_t> value{0};
  };
  struct WorkerArgument {
    Team* team;
    int32_t index;
  };

  /// The fields that emitted code reads, and a pointer from them back to the team.
  struct Shared {
    sl_team_shared abi;
    Team* team;
  };

  static void* workerMain(void* argument);
  static int32_t syncAfterLibrary(sl_team_shared* shared, int32_t index, int32_t failed);
  void awaitCallerAsleep(uint32_t sync);
  void awaitAll(uint32_t sync);
  void work(int32_t index);
  uint32_t awaitJob(uint32_t seen);
  int32_t runWithoutSleepers(sl_entry_fn entry, sl_ctx* ctx, const sl_bindings* bindings);
  bool startHoldingTeam();
  bool startWorker(int32_t index);
  int32_t runAsTeam(sl_entry_fn entry, sl_ctx* ctx, const sl_bindings* bindings);
  void judge(TeamRuns* runs, uint64_t waited, uint64_t total) const;
  void keepWorkersOffThisCpu();
  void resetBarriers();

  const int32_t size_;
  int32_t started_ = 0;  ///< workers running; guarded by busy_
  int callerCpu_ = -1;   ///< CPU that the workers keep off; guarded by busy_
  int64_t endedNs_ = 0;  ///< when the last run without workers ended; guarded by busy_
  uint64_t endedTicks_ =
      0;  ///< when the last run ended, of those that were not brief; guarded by busy_
  int64_t wokenNs_ = 0;  ///< when workers were last woken for runs to come; guarded by busy_
  Job job_{};            ///< written before generation_ moves, read after
  Shared shared_{};
  std::unique_ptr<Flag[]> arrive_;  ///< one per member; shared_.abi.arrive points here
  /// workers in (or about to enter) a futex wait for member 0 to leave a library
  Flag resting_;
  /// The values that member 0 passed at the last two barriers: a member may still read one of them
  /// while another reaches the next barrier.
  std::atomic<int32_t> failedAtSync_[2]{};
  std::unique_ptr<std::atomic<int32_t>[]>
      threadIds_;  ///< kernel thread ids of the workers, 0 until known
  std::unique_ptr<WorkerArgument[]> arguments_;
  Flag busy_;        ///< 1: a caller owns the team
  Flag generation_;  ///< counts jobs; workers wait for it to move
  Flag sleepers_;    ///< workers in (or about to enter) a futex wait
  Flag running_;     ///< workers that have not finished the current job
  Flag spinRounds_;  ///< rounds a worker spins before it sleeps
};

/// The process's team of this size, made on first use; null when the system refuses its threads.
Team* sharedTeam(int32_t size);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_TEAM_H
