// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "straightline/abi/queue.h"
#include "straightline/abi/straightline.h"
#include "test_description.h"

#if defined(__SANITIZE_THREAD__)
#define SL_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SL_TSAN 1
#endif
#endif
#ifdef SL_TSAN
// The child of a fork makes a new team, which ThreadSanitizer refuses by default.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "die_after_fork=0";
}
#endif

namespace straightline::testing {
namespace {

std::atomic<int32_t> members{0};
std::atomic<int32_t> seenSize{0};
std::atomic<int32_t> indices{0};
std::atomic<int> hold{0};
// team size of this thread's last call, in which it is member 0
thread_local int32_t callersSize = 0;

int32_t runCount(sl_ctx*, sl_team team, const sl_bindings*) {
  members.fetch_add(1);
  seenSize = team.size;
  callersSize = team.index == 0 ? team.size : callersSize;
  indices.fetch_or(1 << team.index);
  return SL_OK;
}

// The workers come so much later than the caller, in microseconds.
std::atomic<int> lateUs{0};
// the caller works for so long
std::atomic<int> workUs{0};

int32_t runLate(sl_ctx*, sl_team team, const sl_bindings*) {
  callersSize = team.index == 0 ? team.size : callersSize;
  usleep(static_cast<useconds_t>(team.index > 0 ? lateUs : workUs));
  return SL_OK;
}

// The first member to come stays until it is let go.
int32_t runHeld(sl_ctx*, sl_team team, const sl_bindings*) {
  if (team.size > 1 && team.index == 0) {
    hold = 1;
    while (hold.load() == 1) {
      sched_yield();
    }
  }
  return runCount(nullptr, team, nullptr);
}

/// Whether every thread of the process but this one sleeps, as the system's own table has it.
bool othersSleep() {
  std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir("/proc/self/task"), closedir);
  while (const dirent* task = readdir(tasks.get())) {
    if (task->d_name[0] == '.' || atoi(task->d_name) == gettid()) {
      continue;
    }
    std::ifstream file(std::string("/proc/self/task/") + task->d_name + "/stat");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    const size_t name = line.rfind(')');
    if (name != std::string::npos && line[name + 2] != 'S') {
      return false;
    }
  }
  return true;
}

/// And until they sleep, which takes longer on a busy machine.
void pauseLongerThanWorkersSpin() {
  const timespec pause{0, 20000000};
  nanosleep(&pause, nullptr);
  for (int i = 0; i < 10000 && !othersSleep(); ++i) {
    usleep(1000);
  }
}

class TeamTest : public ::testing::Test {
 protected:
  void open(sl_entry_fn run, int32_t threads) {
    sl_program_desc* const desc = builder_.build(run);
    desc->estimated_us = briefUs;
    ASSERT_EQ(SL_OK, sl_program_create(desc, nullptr, nullptr, &program, nullptr));
    ASSERT_EQ(SL_OK, sl_weights_create(program, nullptr, nullptr, nullptr, &weights, nullptr));
    sl_message message;
    ASSERT_EQ(SL_OK, sl_queue_team(threads, &queue, &message)) << message.text;
  }
  void TearDown() override {
    sl_weights_release(weights);
    sl_program_release(program);
  }

  /// Members, their indices as bits and the size they saw, of one call.
  void expectTeam(int32_t size) {
    members = 0;
    indices = 0;
    Call call(program, weights, queue);
    ASSERT_EQ(SL_OK, call({}, {}));
    EXPECT_EQ(size, members);
    EXPECT_EQ(size, seenSize);
    EXPECT_EQ((1 << size) - 1, indices);
  }

  sl_program* program = nullptr;
  sl_weights* weights = nullptr;
  sl_queue* queue = nullptr;
  double briefUs = 0;

 private:
  DescriptionBuilder builder_;
};

TEST_F(TeamTest, EveryMemberRunsOnceWithItsIndex) {
  for (const int32_t threads : {1, 2, 4, 2}) {
    open(runCount, threads);
    for (int i = 0; i < 50; ++i) {
      expectTeam(threads);
    }
    TearDown();
    program = nullptr;
    weights = nullptr;
  }
}

TEST_F(TeamTest, TheSameSizeIsTheSameTeam) {
  open(runCount, 2);
  sl_queue* again = nullptr;
  sl_queue* other = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_team(2, &again, nullptr));
  ASSERT_EQ(SL_OK, sl_queue_team(3, &other, nullptr));
  EXPECT_EQ(queue, again);
  EXPECT_NE(queue, other);
  sl_queue_release(again);
  expectTeam(2);
}

TEST_F(TeamTest, SizesThatCannotBeAreRefused) {
  open(runCount, 1);
  sl_queue* none = nullptr;
  sl_message message;
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_queue_team(0, &none, &message));
  EXPECT_STREQ("a team of 0 threads was asked for, but it must have 1 to 256", message.text);
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_queue_team(257, &none, &message));
}

TEST_F(TeamTest, SleepingWorkersWake) {
  open(runCount, 2);
  for (int i = 0; i < 5; ++i) {
    pauseLongerThanWorkersSpin();
    expectTeam(2);
  }
}

// Contract: E20.
TEST_F(TeamTest, ABriefRunWaitsForNoSleeper) {
  briefUs = 20;
  open(runCount, 2);
  for (int i = 0; i < 5; ++i) {
    pauseLongerThanWorkersSpin();
    expectTeam(1);
  }
  // One call right behind another has the workers woken: sooner or later they are there.
  Call call(program, weights, queue);
  for (int i = 0; i < 10'000'000 && seenSize != 2; ++i) {
    ASSERT_EQ(SL_OK, call({}, {}));
  }
  EXPECT_EQ(2, seenSize);
}

/// Sizes of the team of so many calls, each some time after the last.
std::vector<int32_t> sizesOf(Call& call, int count) {
  std::vector<int32_t> sizes;
  for (int i = 0; i < count; ++i) {
    usleep(1000);
    EXPECT_EQ(SL_OK, call({}, {}));
    sizes.push_back(callersSize);
  }
  return sizes;
}

TEST_F(TeamTest, WhereWorkersComeLateTheCallerRunsAloneForAWhile) {
  briefUs = 1000;
  open(runLate, 2);
  Call call(program, weights, queue);
  lateUs = 20000;
  workUs = 0;
  std::vector<int32_t> expected = {2, 2};
  for (const size_t alone : {8, 32, 128, 512, 512}) {
    expected.insert(expected.end(), alone, 1);
    expected.push_back(2);
  }
  EXPECT_EQ(expected, sizesOf(call, static_cast<int>(expected.size())));
  // The last try was late as well. Then one is in time, and all that follow are the team's.
  lateUs = 0;
  EXPECT_EQ(std::vector<int32_t>(512, 1), sizesOf(call, 512));
  workUs = 20000;
  EXPECT_EQ(std::vector<int32_t>(10, 2), sizesOf(call, 10));
}

TEST_F(TeamTest, RunsThatFollowSoonHaveAHistoryOfTheirOwn) {
  briefUs = 1000;
  open(runLate, 2);
  Call call(program, weights, queue);
  lateUs = 20000;
  workUs = 0;
  EXPECT_EQ(std::vector<int32_t>({2, 2, 1}), sizesOf(call, 3));
  // Two that are late, then 8 alone. One that is held up in between counts as behind a pause.
  int32_t largest = 0;
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(SL_OK, call({}, {}));
    largest = std::max(largest, callersSize);
  }
  EXPECT_EQ(2, largest);
  EXPECT_EQ(1, callersSize);
}

TEST_F(TeamTest, OneLateRunChangesNothing) {
  briefUs = 1000;
  open(runLate, 2);
  Call call(program, weights, queue);
  for (int i = 0; i < 5; ++i) {
    lateUs = 20000;
    workUs = 0;
    EXPECT_EQ(std::vector<int32_t>(1, 2), sizesOf(call, 1));
    lateUs = 0;
    workUs = 20000;
    EXPECT_EQ(std::vector<int32_t>(3, 2), sizesOf(call, 3));
  }
}

// Contract: E13.
TEST_F(TeamTest, ASecondCallerRunsAloneAndNeverWaits) {
  open(runHeld, 2);
  hold = 0;
  std::thread first([&] {
    Call call(program, weights, queue);
    EXPECT_EQ(SL_OK, call({}, {}));
    EXPECT_EQ(2, callersSize);
  });
  while (hold.load() != 1) {
    sched_yield();
  }
  Call call(program, weights, queue);
  EXPECT_EQ(SL_OK, call({}, {}));  // would hang if it waited: the first caller is held
  EXPECT_EQ(1, callersSize);
  hold = 2;
  first.join();
}

std::atomic<int32_t> verdicts{0};
std::atomic<int32_t> asleep{0};
int32_t failing = 0;

// Member 0 stays in its "library" until the others sleep, or for ten seconds.
int32_t runLibrary(sl_ctx*, sl_team team, const sl_bindings*) {
  for (int sync = 0; sync < 3; ++sync) {
    for (int i = 0; team.index == 0 && i < 10000; ++i) {
      if (othersSleep()) {
        asleep.fetch_add(1);
        break;
      }
      usleep(1000);
    }
    const int32_t failed = team.index == 0 && failing == sync;
    verdicts.fetch_add(team.shared->sync_after_library(team.shared, team.index, failed)
                       << (8 * sync));
  }
  return SL_OK;
}

TEST_F(TeamTest, MembersSleepWhileTheCallerIsInALibrary) {
  open(runLibrary, 3);
  for (failing = 0; failing < 3; ++failing) {
    verdicts = 0;
    asleep = 0;
    Call call(program, weights, queue);
    ASSERT_EQ(SL_OK, call({}, {}));
    EXPECT_EQ(3, asleep);
    EXPECT_EQ(3 << (8 * failing), verdicts) << "all members learn of the failure at its sync";
  }
}

// Nobody has to sleep for it to work: short calls, many times.
int32_t runShortLibrary(sl_ctx*, sl_team team, const sl_bindings*) {
  int32_t failures = 0;
  for (int sync = 0; sync < 2000; ++sync) {
    if (team.index == 0 && sync % 100 == 0) {
      usleep(30);
    }
    failures +=
        team.shared->sync_after_library(team.shared, team.index, team.index == 0 && sync % 7 == 3);
  }
  verdicts.fetch_add(failures);
  return SL_OK;
}

TEST_F(TeamTest, EveryMeetingHasItsOwnAnswer) {
  open(runShortLibrary, 3);
  verdicts = 0;
  Call call(program, weights, queue);
  ASSERT_EQ(SL_OK, call({}, {}));
  EXPECT_EQ(3 * 286, verdicts);  // of 0 .. 1999 those that leave 3 when divided by 7
}

TEST_F(TeamTest, TheChildOfAForkHasATeamOfItsOwn) {
  open(runCount, 2);
  expectTeam(2);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    members = 0;
    Call call(program, weights, queue);
    const bool right = call({}, {}) == SL_OK && members == 2 && seenSize == 2;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  expectTeam(2);
}

TEST_F(TeamTest, AForkWhileAnotherThreadRunsTheTeamIsNoTrouble) {
  open(runHeld, 2);
  hold = 0;
  std::thread first([&] {
    Call call(program, weights, queue);
    EXPECT_EQ(SL_OK, call({}, {}));
  });
  while (hold.load() != 1) {
    sched_yield();
  }
  const pid_t child = fork();
  if (child == 0) {
    hold = 0;
    std::atomic<int>* flag = &hold;
    members = 0;
    std::thread release([flag] {
      while (flag->load() != 1) {
        sched_yield();
      }
      *flag = 2;
    });
    Call call(program, weights, queue);
    const bool right = call({}, {}) == SL_OK && members == 2;
    release.join();
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  hold = 2;
  first.join();
}

std::atomic<int> callerCpu{-1};
cpu_set_t workerMask;

int32_t runPlace(sl_ctx*, sl_team team, const sl_bindings*) {
  if (team.index == 0) {
    callerCpu = sched_getcpu();
  } else {
    sched_getaffinity(0, sizeof(workerMask), &workerMask);
  }
  return SL_OK;
}

TEST_F(TeamTest, WorkersKeepOffTheCallersCpuWithinTheProcesssMask) {
  cpu_set_t allowed;
  ASSERT_EQ(0, sched_getaffinity(getpid(), sizeof(allowed), &allowed));
  if (CPU_COUNT(&allowed) < 2) {
    GTEST_SKIP() << "one CPU";
  }
  open(runPlace, 2);
  Call call(program, weights, queue);
  int placed = 0;
  for (int i = 0; i < 50; ++i) {
    const int before = sched_getcpu();
    ASSERT_EQ(SL_OK, call({}, {}));
    if (sched_getcpu() != before || callerCpu != before) {
      continue;  // the system moved the caller meanwhile
    }
    placed += !CPU_ISSET(before, &workerMask);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      ASSERT_FALSE(CPU_ISSET(cpu, &workerMask) && !CPU_ISSET(cpu, &allowed))
          << "cpu " << cpu << " is not ours";
    }
  }
  EXPECT_GT(placed, 0);
}

TEST(TeamExit, WorkersDoNotKeepTheProcess) {
  // This very process ends with sleeping and spinning workers: the check is that the test
  // executable returns, and that a child that calls exit() right after a run does.
  sl_queue* queue = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_team(4, &queue, nullptr));
  const pid_t child = fork();
  if (child == 0) {
    sl_queue* again = nullptr;
    std::_Exit(sl_queue_team(4, &again, nullptr) == SL_OK ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void addScalar(sl_ctx*, sl_team, void* const* pointers, const int64_t* scalars) {
  *static_cast<int64_t*>(pointers[0]) += scalars[0];
}

TEST(TeamQueue, StatementsOnATeamAreSynchronous) {
  sl_queue* queue = nullptr;
  ASSERT_EQ(SL_OK, sl_queue_team(1, &queue, nullptr));
  sl_ctx ctx{};
  int64_t a = 40, b = 0;
  void* pointers[] = {&a};
  const int64_t scalars[] = {2};
  EXPECT_EQ(SL_OK, sl_queue_launch(&ctx, queue, addScalar, pointers, 1, scalars, 1));
  EXPECT_EQ(SL_OK, sl_queue_copy(&ctx, queue, &b, "host", &a, "host", sizeof(a)));
  EXPECT_EQ(42, b);
  void* event = sl_queue_record(queue);
  EXPECT_EQ(nullptr, event);
  sl_queue_wait(queue, event, queue);
  sl_queue_forget(event, queue);
  EXPECT_EQ(SL_INTERNAL, sl_queue_copy(&ctx, queue, &b, "host", &a, "cuda", sizeof(a)));
}

}  // namespace
}  // namespace straightline::testing
