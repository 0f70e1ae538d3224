// SPDX-License-Identifier: Apache-2.0
#include "team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <new>

namespace straightline {
namespace {

// Workers spin for about 0.3 ms and then sleep. A wake takes 50-70 us, so back-to-back calls find
// them spinning, and an idle process uses no CPU. With one CPU, spinning would only keep the caller
// from running.
constexpr uint32_t kSpinRounds = 20000;
constexpr uint32_t kRoundsPerYield = 2000;

void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A call this soon after another one finds the workers still spinning.
constexpr uint64_t kBurstNs = 300'000;
constexpr int64_t kWakeNs = 100'000;

int64_t nowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// Of a clock that is read in a few nanoseconds and runs evenly.
uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return static_cast<uint64_t>(nowNs());
#endif
}

/// What a spin up to its first yield takes, and how fast the clock of `ticks` is.
struct Spin {
  uint64_t ticks;
  uint64_t ticksOf1000Ns;
};

const Spin& spin() {
  static const Spin measured = [] {
    const int64_t beginNs = nowNs();
    const uint64_t begin = ticks();
    for (uint32_t round = 0; round < kRoundsPerYield; ++round) {
      pauseCpu();
    }
    const uint64_t taken = ticks() - begin;
    const auto takenNs = static_cast<uint64_t>(std::max<int64_t>(nowNs() - beginNs, 1));
    return Spin{taken, std::max<uint64_t>(taken * 1000 / takenNs, 1)};
  }();
  return measured;
}

/// How long this thread has waited for members of its team in spins that were long enough to yield.
struct Waited {
  uint64_t ticks = 0;
  uint64_t lastYield = 0;
};
thread_local Waited waited;

void yieldCpu() {
  const uint64_t begin = ticks();
  const uint64_t whole = spin().ticks;
  const uint64_t since = begin - waited.lastYield;
  sched_yield();
  waited.lastYield = ticks();
  // Behind another yield of the same spin there are no rounds of it before this one.
  waited.ticks += waited.lastYield - begin + (since < whole / 4 ? since : whole);
}

/// A run is late if its caller waited at least so long, and most of the run: alone it would have
/// taken no longer. One that was preempted once is not.
constexpr uint64_t kLateSpins = 5;  // about 0.2 ms or more
constexpr uint32_t kLateRuns = 2;
constexpr uint32_t kFewestAlone = 8;
constexpr uint32_t kMostAlone = 512;  // a try costs 4 ms where threads that spin hold a processor

void futexWait(std::atomic<uint32_t>* word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, expected, nullptr,
          nullptr, 0);
}

void futexWakeAll(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, kMaxThreads, nullptr,
          nullptr, 0);
}

std::atomic<Team*> sharedTeams[kMaxThreads + 1];

void resetTeamsAfterFork() {
  for (std::atomic<Team*>& slot : sharedTeams) {
    if (Team* team = slot.load(std::memory_order_acquire)) {
      team->resetAfterFork();
    }
  }
}

}  // namespace

Team::Team(int32_t size)
    : size_(size),
      arrive_(new Flag[size]),
      threadIds_(new std::atomic<int32_t>[size]()),
      arguments_(new WorkerArgument[size]) {
  static_assert(sizeof(Flag) == 32 * sizeof(uint32_t), "entry.h: arrive slots are 128 bytes apart");
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  shared_ = {{sizeof(sl_team_shared), reinterpret_cast<uint32_t*>(arrive_.get()), yieldCpu,
              syncAfterLibrary},
             this};
  spinRounds_.value.store(kSpinRounds, std::memory_order_relaxed);
}

bool Team::start() {
  if (size_ == 1) {
    return true;
  }
  if (busy_.value.exchange(1, std::memory_order_acquire) != 0) {
    return true;  // at work, so started
  }
  const bool started = startHoldingTeam();
  busy_.value.store(0, std::memory_order_release);
  return started;
}

bool Team::startHoldingTeam() {
  while (started_ < size_ - 1) {
    if (!startWorker(started_ + 1)) {
      return false;
    }
    ++started_;
  }
  return true;
}

bool Team::startWorker(int32_t index) {
  arguments_[index] = {this, index};
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) {
    return false;
  }
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // Signals belong to the application's own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int failed = pthread_create(&thread, &attributes, workerMain, &arguments_[index]);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (failed != 0) {
    return false;
  }
  pthread_setname_np(thread, "sl-team");
  while (threadIds_[index].load(std::memory_order_acquire) == 0) {
    sched_yield();
  }
  callerCpu_ = -1;  // the new worker is not placed yet
  return true;
}

void* Team::workerMain(void* argument) {
  const auto* worker = static_cast<WorkerArgument*>(argument);
  worker->team->work(worker->index);
  return nullptr;
}

void Team::work(int32_t index) {
  waited = {};  // the memory of a thread's variables is made at their first use: not in a run
  // Read before the id is published: no job can have been started yet.
  uint32_t seen = generation_.value.load(std::memory_order_relaxed);
  threadIds_[index].store(static_cast<int32_t>(syscall(SYS_gettid)), std::memory_order_release);
  for (;;) {
    seen = awaitJob(seen);
    const Job job = job_;
    job.entry(job.ctx, sl_team{&shared_.abi, index, size_}, job.bindings);
    running_.value.fetch_sub(1, std::memory_order_release);
  }
}

uint32_t Team::awaitJob(uint32_t seen) {
  for (uint32_t round = 0;; ++round) {
    uint32_t now = generation_.value.load(std::memory_order_acquire);
    if (now != seen) {
      return now;
    }
    if (round < spinRounds_.value.load(std::memory_order_relaxed)) {
      pauseCpu();
      if (round % kRoundsPerYield == kRoundsPerYield - 1) {
        sched_yield();
      }
      continue;
    }
    // Either the caller sees this sleeper, or this load sees the caller's job, because both sides
    // are sequentially consistent.
    sleepers_.value.fetch_add(1, std::memory_order_seq_cst);
    if (generation_.value.load(std::memory_order_seq_cst) == seen) {
      futexWait(&generation_.value, seen);
    }
    sleepers_.value.fetch_sub(1, std::memory_order_relaxed);
    round = 0;
  }
}

// Wakes the workers without a job: they spin again, and the next call finds them awake.
int32_t Team::runWithoutSleepers(sl_entry_fn entry, sl_ctx* ctx, const sl_bindings* bindings) {
  const int64_t now = nowNs();
  if (now - endedNs_ < int64_t{kBurstNs} && now - wokenNs_ > kWakeNs) {
    futexWakeAll(&generation_.value);
    wokenNs_ = now;
  }
  const int32_t result = entry(ctx, sl_team{nullptr, 0, 1}, bindings);
  endedNs_ = nowNs();
  busy_.value.store(0, std::memory_order_release);
  return result;
}

int32_t Team::run(sl_entry_fn entry, sl_ctx* ctx, const sl_bindings* bindings, bool brief,
                  TeamHistory* history) {
  const sl_team alone{nullptr, 0, 1};
  if (size_ == 1 || busy_.value.load(std::memory_order_relaxed) != 0 ||
      busy_.value.exchange(1, std::memory_order_acquire) != 0) {
    return entry(ctx, alone, bindings);
  }
  if (started_ < size_ - 1 && !startHoldingTeam()) {
    busy_.value.store(0, std::memory_order_release);
    return entry(ctx, alone, bindings);
  }
  const uint64_t begin = ticks();
  TeamRuns* runs = nullptr;
  if (history != nullptr) {
    const bool inBurst = begin - endedTicks_ < kBurstNs * spin().ticksOf1000Ns / 1000;
    runs = inBurst ? &history->inBurst : &history->afterPause;
  }
  if (const uint32_t left = runs ? runs->alone.load(std::memory_order_relaxed) : 0) {
    runs->alone.store(left - 1, std::memory_order_relaxed);
    const int32_t result = entry(ctx, alone, bindings);
    endedTicks_ = ticks();
    busy_.value.store(0, std::memory_order_release);
    return result;
  }
  if (brief && sleepers_.value.load(std::memory_order_relaxed) != 0) {
    return runWithoutSleepers(entry, ctx, bindings);
  }
  waited.ticks = 0;
  const int32_t result = runAsTeam(entry, ctx, bindings);
  endedTicks_ = ticks();
  if (runs != nullptr) {
    judge(runs, waited.ticks, endedTicks_ - begin);
  }
  busy_.value.store(0, std::memory_order_release);
  return result;
}

void Team::judge(TeamRuns* runs, uint64_t waitedTicks, uint64_t total) const {
  // Alone it takes up to `size` times what the caller did not wait; teams gain somewhat less.
  const auto size = static_cast<uint64_t>(size_);
  if (waitedTicks < kLateSpins * spin().ticks || waitedTicks * size * 5 < total * (size - 1) * 4) {
    if (runs->late.load(std::memory_order_relaxed) != 0) {
      runs->late.store(0, std::memory_order_relaxed);
      runs->penalty.store(0, std::memory_order_relaxed);
    }
    return;
  }
  const uint32_t late = runs->late.load(std::memory_order_relaxed) + 1;
  if (late < kLateRuns) {
    runs->late.store(late, std::memory_order_relaxed);
    return;
  }
  // `late` stays as it is: the next try decides.
  const uint32_t before = runs->penalty.load(std::memory_order_relaxed);
  const uint32_t penalty = std::clamp(before * 4, kFewestAlone, kMostAlone);
  runs->penalty.store(penalty, std::memory_order_relaxed);
  runs->alone.store(penalty, std::memory_order_relaxed);
}

int32_t Team::runAsTeam(sl_entry_fn entry, sl_ctx* ctx, const sl_bindings* bindings) {
  keepWorkersOffThisCpu();
  job_ = {entry, ctx, bindings};
  running_.value.store(static_cast<uint32_t>(size_ - 1), std::memory_order_relaxed);
  generation_.value.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.value.load(std::memory_order_seq_cst) != 0) {
    futexWakeAll(&generation_.value);
  }
  const int32_t result = entry(ctx, sl_team{&shared_.abi, 0, size_}, bindings);
  for (uint32_t round = 1; running_.value.load(std::memory_order_acquire) != 0; ++round) {
    pauseCpu();
    if (round % kRoundsPerYield == 0) {
      yieldCpu();
    }
  }
  if (result != SL_OK || __atomic_load_n(&ctx->status, __ATOMIC_RELAXED) != SL_OK) {
    resetBarriers();
  }
  return result;
}

// A barrier like sl_barrier's, over the same counters, at which the other members may sleep.
int32_t Team::syncAfterLibrary(sl_team_shared* shared, int32_t index, int32_t failed) {
  static_assert(offsetof(Shared, abi) == 0);
  Team* const team = reinterpret_cast<Shared*>(shared)->team;
  std::atomic<uint32_t>& mine = team->arrive_[index].value;
  const uint32_t sync = mine.load(std::memory_order_relaxed) + 1;
  std::atomic<int32_t>& verdict = team->failedAtSync_[sync % 2];
  if (index == 0) {
    verdict.store(failed, std::memory_order_relaxed);
  }
  // Either member 0 sees the sleeper counted, or the sleeper sees member 0's arrival, because both
  // sides are sequentially consistent.
  mine.store(sync, std::memory_order_seq_cst);
  if (index == 0) {
    if (team->resting_.value.load(std::memory_order_seq_cst) != 0) {
      futexWakeAll(&mine);
    }
  } else {
    team->awaitCallerAsleep(sync);
  }
  team->awaitAll(sync);
  return verdict.load(std::memory_order_relaxed);
}

void Team::awaitCallerAsleep(uint32_t sync) {
  std::atomic<uint32_t>& caller = arrive_[0].value;
  const auto isThere = [&](std::memory_order order) {
    return static_cast<int32_t>(caller.load(order) - sync) >= 0;
  };
  for (uint32_t round = 0; round < kRoundsPerYield; ++round) {
    if (isThere(std::memory_order_acquire)) {
      return;
    }
    pauseCpu();
  }
  resting_.value.fetch_add(1, std::memory_order_seq_cst);
  while (!isThere(std::memory_order_seq_cst)) {
    futexWait(&caller, sync - 1);
  }
  resting_.value.fetch_sub(1, std::memory_order_relaxed);
}

void Team::awaitAll(uint32_t sync) {
  for (int32_t other = 0; other < size_; ++other) {
    uint32_t round = 0;
    while (static_cast<int32_t>(arrive_[other].value.load(std::memory_order_acquire) - sync) < 0) {
      pauseCpu();
      if (++round % kRoundsPerYield == 0) {
        yieldCpu();
      }
    }
  }
}

// Members of a failed run may have left at different barriers; the next run must find equal counts.
// All workers are between jobs here.
void Team::resetBarriers() {
  for (int32_t i = 0; i < size_; ++i) {
    arrive_[i].value.store(0, std::memory_order_relaxed);
  }
}

// A worker without a CPU of its own is often woken on the caller's CPU; both then spin there until
// the next scheduler tick (0.2-2 ms instead of 50-70 us). Best effort: every failure here costs
// speed only. The mask is the main thread's, which taskset and a cpuset set for the process;
// reading it each time follows later changes.
void Team::keepWorkersOffThisCpu() {
  const int cpu = sched_getcpu();
  if (cpu == callerCpu_) {
    return;
  }
  callerCpu_ = cpu;
  cpu_set_t allowed;
  if (cpu < 0 || cpu >= CPU_SETSIZE ||
      sched_getaffinity(getpid(), sizeof(allowed), &allowed) != 0) {
    return;
  }
  const bool several = CPU_COUNT(&allowed) >= 2;
  spinRounds_.value.store(several ? kSpinRounds : 0, std::memory_order_relaxed);
  if (several) {
    CPU_CLR(cpu, &allowed);
  }
  for (int32_t i = 1; i < size_; ++i) {
    sched_setaffinity(threadIds_[i].load(std::memory_order_relaxed), sizeof(allowed), &allowed);
  }
}

void Team::resetAfterFork() {
  started_ = 0;
  callerCpu_ = -1;
  for (int32_t i = 0; i < size_; ++i) {
    threadIds_[i].store(0, std::memory_order_relaxed);
  }
  resetBarriers();
  generation_.value.store(0, std::memory_order_relaxed);
  sleepers_.value.store(0, std::memory_order_relaxed);
  resting_.value.store(0, std::memory_order_relaxed);
  running_.value.store(0, std::memory_order_relaxed);
  busy_.value.store(0, std::memory_order_relaxed);
}

Team* sharedTeam(int32_t size) {
  static const int forkHandler = pthread_atfork(nullptr, nullptr, resetTeamsAfterFork);
  if (forkHandler != 0) {
    return nullptr;
  }
  std::atomic<Team*>& slot = sharedTeams[size];
  Team* team = slot.load(std::memory_order_acquire);
  if (!team) {
    auto made = std::make_unique<Team>(size);
    if (slot.compare_exchange_strong(team, made.get(), std::memory_order_acq_rel)) {
      team = made.release();  // for the life of the process: its workers never end
    }
  }
  return team->start() ? team : nullptr;
}

}  // namespace straightline
