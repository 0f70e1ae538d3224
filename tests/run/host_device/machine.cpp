// SPDX-License-Identifier: Apache-2.0
// machine.h, and `machine PROGRAM.so CALL RESULTS SEED CLUSTER`, which prepares and runs the
// program of a library: buffers of exact size, filled from the file CALL, what it has written in
// the file RESULTS.
#include "machine.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "straightline/abi/entry.h"
#include "straightline/abi/queue.h"
#include "straightline/abi/straightline.h"

// The sanitizers' own functions, where this is linked with one.
extern "C" {
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_switch_to_fiber(void*, unsigned flags);
[[gnu::weak]] void __tsan_acquire(void*);
[[gnu::weak]] void __tsan_release(void*);
[[gnu::weak]] void __tsan_write_range(void*, unsigned long bytes);
[[gnu::weak]] void __tsan_read_range(void*, unsigned long bytes);
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** stack, const void* bottom, size_t bytes);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* stack, const void** bottom, size_t* bytes);
[[gnu::weak]] void __asan_poison_memory_region(const volatile void*, size_t);
[[gnu::weak]] void* __asan_region_is_poisoned(void*, size_t);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void*, size_t);
}

__thread cuda_place threadIdx, blockIdx, blockDim, gridDim;

namespace host_device {
namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr size_t kShownBytes = 16;
constexpr unsigned kNoOrder = 1;  // of a switch: __tsan_switch_to_fiber_no_sync
constexpr int kWarp = 32;

void acquire(void* what) {
  if (__tsan_acquire) {
    __tsan_acquire(what);
  }
}
void release(void* what) {
  if (__tsan_release) {
    __tsan_release(what);
  }
}
/// memcpy would be an access to the sanitizer.
void copyBytes(void* to, const void* from, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    const_cast<volatile char*>(static_cast<char*>(to))[i] = static_cast<const char*>(from)[i];
  }
}

/// With NaN.
void fillBytes(void* what, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    static_cast<volatile char*>(what)[i] = char(0xff);
  }
}

/// An access of the thread that runs.
void reads(const void* what, size_t bytes) {
  if (__tsan_read_range) {
    __tsan_read_range(const_cast<void*>(what), bytes);
  }
  if (__asan_region_is_poisoned && __asan_region_is_poisoned(const_cast<void*>(what), bytes)) {
    fail("reads what is not there");
  }
}
void writes(void* what, size_t bytes) {
  if (__tsan_write_range) {
    __tsan_write_range(what, bytes);
  }
  if (__asan_region_is_poisoned && __asan_region_is_poisoned(what, bytes)) {
    fail("writes what is not there");
  }
}

uint64_t randomState = 1;
/// xorshift64* (Marsaglia, "Xorshift RNGs"; Vigna).
uint64_t nextRandom(uint64_t* state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545F4914F6CDD1D;
}

/// A barrier of `live` threads, used again and again. It orders what a thread did before it before
/// what any thread does after it. Two places: the next arrival may come before all have left.
struct SyncPoint {
  int arrived = 0;
  unsigned round = 0;
  char places[2] = {};
};

struct Copy {
  void* to;
  char bytes[16];
  int group;
};
// under way in a thread; fibers make no memory, which would be theirs to the sanitizer
constexpr size_t kMostCopies = 256;

#if defined(__x86_64__)
// swapcontext asks the kernel for the signal mask, twice a switch.
asm(R"(
  .text
  .type switchStack, @function
switchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size switchStack, . - switchStack
)");
extern "C" void switchStack(void** from, void* to);

/// Where a stack of its own goes on.
class Context {
 public:
  void start(char* stack, size_t bytes, void (*entry)()) {
    // What switchStack takes from there: control words, six registers, where to return to. An entry
    // finds its stack as behind a call.
    auto* top = reinterpret_cast<uint64_t*>((uintptr_t(stack) + bytes) & ~uintptr_t(15));
    uint64_t* const first = top - 9;
    std::fill(first, top, 0);
    uint32_t mxcsr;
    uint16_t fcw;
    asm volatile("stmxcsr %0\n fnstcw %1" : "=m"(mxcsr), "=m"(fcw));
    first[0] = uint64_t(fcw) << 32 | mxcsr;
    first[7] = uint64_t(entry);
    stack_ = first;
  }
  void switchTo(Context& other) { switchStack(&stack_, other.stack_); }

 private:
  void* stack_ = nullptr;
};
#else
class Context {
 public:
  void start(char* stack, size_t bytes, void (*entry)()) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = bytes;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
  }
  void switchTo(Context& other) { swapcontext(&context_, &other.context_); }

 private:
  ucontext_t context_;
};
#endif

struct Fiber {
  Context context;
  char* stack = nullptr;
  void* watched = nullptr;  ///< who this is to ThreadSanitizer
  bool finished = false, waited = false;
  unsigned clusterRound = 0;
  std::vector<Copy> copies;
  int group = 0;
};

struct Block;
struct Cluster {
  std::vector<Block*> blocks;
  std::atomic<int> ready{0}, left{0};
  std::atomic_flag isBusy;  // of what follows; a mutex would order its users
  int live = 0, arrived = 0;
  std::atomic<unsigned> round{0};
  char places[2] = {};

  /// Counts a thread that arrives or ends. Returns the round in which it did.
  unsigned count(bool ends) {
    while (isBusy.test_and_set()) {
      sched_yield();
    }
    const unsigned now = round.load();
    live -= ends ? 1 : 0;
    arrived += ends ? 0 : 1;
    if (arrived > 0 && arrived >= live) {
      arrived = 0;
      round.fetch_add(1);
    }
    isBusy.clear();
    return now;
  }
};

/// What runs one block after the other, which are in order therefore; two of them are not. A thread
/// of the host, or the caller. ThreadSanitizer tells 255 threads apart and forgets what else there
/// was, so to it a warp is one, but for those whose lanes are looked at.
struct Processor {
  std::vector<Fiber> fibers;
  /// of stacks and `shown`; not from malloc, whose free is an access to the sanitizer
  char* memory = nullptr;
  char* shown = nullptr;  ///< 16 bytes a thread
  char place = 0;         ///< in whose order its blocks are
  std::atomic<int> given{0}, taken{0};
  Block* next = nullptr;
};

struct Block {
  const Launch* what = nullptr;
  Cluster* cluster = nullptr;
  Processor* processor = nullptr;
  int number = 0, rank = 0;
  int launch = 0;
  SyncPoint all;
  std::vector<SyncPoint> warps;
  std::vector<int> warpLive;
  int live = 0;
  uint64_t moves = 0;  // of anything: else all wait for ever
  uint64_t random = 1;
  Context scheduler;
  void* schedulerWatched = nullptr;
  char* shared = nullptr;
  size_t sharedBytes = 0;
  char begun = 0;  ///< its memory is there
  std::atomic<bool> gone{false};
};

thread_local Block* block = nullptr;
Fiber& mine() { return block->processor->fibers[threadIdx.x]; }

void switchTo(Context* from, Context* to, void* watched, const void* bottom, size_t bytes,
              bool dies) {
  void* fake = nullptr;
  if (__sanitizer_start_switch_fiber) {
    __sanitizer_start_switch_fiber(dies ? nullptr : &fake, bottom, bytes);
  }
  if (__tsan_switch_to_fiber) {
    __tsan_switch_to_fiber(watched, kNoOrder);
  }
  from->switchTo(*to);
  if (__sanitizer_finish_switch_fiber) {
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
  }
}

thread_local const void* schedulerStack = nullptr;
thread_local size_t schedulerStackBytes = 0;

/// Lets the other threads go on.
void handOver(bool dies = false) {
  switchTo(&mine().context, &block->scheduler, block->schedulerWatched, schedulerStack,
           schedulerStackBytes, dies);
}

void openIfFull(SyncPoint& where, int live) {
  if (where.arrived > 0 && where.arrived >= live) {
    where.arrived = 0;
    ++where.round;
    ++block->moves;
  }
}
void syncAt(SyncPoint& where, const int& live, bool orders) {
  const unsigned round = where.round;
  if (orders) {
    release(&where.places[round & 1]);
  }
  ++where.arrived;
  ++block->moves;
  openIfFull(where, live);
  while (where.round == round) {
    handOver();
  }
  if (orders) {
    acquire(&where.places[round & 1]);
  }
}

// ---- the order of launches, as graph.cpp has it ----

std::vector<bool> waits;  // of each launch, whether it waits for those ahead by itself
constexpr int kMostLaunches = 1 << 16;
char ends[kMostLaunches];  // what a launch has done
std::vector<int> ahead;    // launches that the next one comes behind
std::vector<std::vector<int>> stepEnds;
int currentStep = -1;
std::vector<int> behind;  // those of the launch under way
bool isEarly = false;     // the launch under way

void acquireBehind() {
  for (int launch : behind) {
    acquire(&ends[launch]);
  }
}

char hostPlace;  // what the host has done

void entryOfFiber() {
  if (__sanitizer_finish_switch_fiber) {
    __sanitizer_finish_switch_fiber(nullptr, &schedulerStack, &schedulerStackBytes);
  }
  acquire(&hostPlace);
  acquire(&block->processor->place);
  for (Block* one : block->cluster->blocks) {
    acquire(&one->begun);
  }
  if (!isEarly) {
    acquireBehind();
  }
  block->what->entry(block->what->body);
  Fiber& fiber = mine();
  if (!fiber.copies.empty()) {
    fail(
        "copies to shared memory are under way when a thread ends: they may overwrite what others "
        "have written there");
  }
  if (isEarly && !fiber.waited) {
    fail("a thread of a kernel that may start early has ended without waiting for those ahead");
  }
  release(&ends[block->launch]);
  release(&block->processor->place);
  fiber.finished = true;
  ++block->moves;
  --block->live;
  --block->warpLive[threadIdx.x / kWarp];
  openIfFull(block->all, block->live);
  openIfFull(block->warps[threadIdx.x / kWarp], block->warpLive[threadIdx.x / kWarp]);
  block->cluster->count(true);
  handOver(true);
  fail("a thread goes on behind its end");
}

void runBlock(Block* which) {
  block = which;
  const Launch& what = *which->what;
  const int threads = what.threads;
  blockDim.x = unsigned(threads);
  gridDim.x = unsigned(what.blocks);
  blockIdx.x = unsigned(which->number);
  if (what.shared) {
    char* first = nullptr;
    size_t bytes = 0;
    what.shared(&first, &bytes);
    which->shared = first;
    which->sharedBytes = bytes;
    fillBytes(first, bytes);
  }
  which->schedulerWatched = __tsan_get_current_fiber ? __tsan_get_current_fiber() : nullptr;
  std::vector<Fiber>& fibers = which->processor->fibers;
  for (int i = 0; i < threads; ++i) {
    Fiber& fiber = fibers[i];
    fiber.finished = fiber.waited = false;
    fiber.copies.clear();
    fiber.group = 0;
    fiber.context.start(fiber.stack, kStackBytes, &entryOfFiber);
  }
  release(&which->begun);
  which->cluster->ready.fetch_add(1);
  while (which->cluster->ready.load() < int(which->cluster->blocks.size())) {
    sched_yield();
  }
  while (which->live > 0) {
    const uint64_t before = which->moves;
    const uint64_t drawn = nextRandom(&which->random);
    const int first = int(drawn >> 1 & 0xffffff) % threads;
    for (int n = 0; n < threads; ++n) {
      const int i = (drawn & 1 ? first + n : first - n + threads) % threads;
      if (!fibers[i].finished) {
        threadIdx.x = unsigned(i);
        switchTo(&which->scheduler, &fibers[i].context, fibers[i].watched, fibers[i].stack,
                 kStackBytes, false);
      }
    }
    if (which->moves == before) {
      if (which->cluster->blocks.size() == 1) {
        fail("threads of a block wait for each other");
      }
      sched_yield();
    }
  }
  acquire(&which->processor->place);
  which->gone = true;
  if (which->sharedBytes > 0) {
    writes(which->shared, which->sharedBytes);  // who of the cluster may still read it?
  }
  release(&which->processor->place);
  which->cluster->left.fetch_add(1);
  while (which->cluster->left.load() < int(which->cluster->blocks.size())) {
    sched_yield();
  }
  block = nullptr;
}

std::vector<std::unique_ptr<Processor>> processors;
bool areThreads = false;
size_t nextProcessor = 0;

void sleepWhile(std::atomic<int>& what, int value) {
  syscall(SYS_futex, &what, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void set(std::atomic<int>& what, int value) {
  what = value;
  syscall(SYS_futex, &what, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void serve(Processor* processor) {
  for (int count = 0;; ++count) {
    while (processor->given.load() == count) {
      sleepWhile(processor->given, count);
    }
    runBlock(processor->next);
    set(processor->taken, count + 1);
  }
}

/// For blocks of at most so many threads and clusters of at most so many blocks.
void makeProcessors(int threads, int cluster) {
  constexpr int kTold = 250;
  const bool isWatched = __tsan_create_fiber != nullptr;
  areThreads = isWatched || cluster > 1;
  const int warps = (threads + kWarp - 1) / kWarp;
  const int count = isWatched ? std::max(cluster, std::min(6, kTold / (warps + 1))) : cluster;
  int left = kTold - count * (warps + 1);
  for (int number = 0; number < count; ++number) {
    processors.push_back(std::make_unique<Processor>());
    Processor& made = *processors.back();
    const size_t bytes = (kStackBytes + kShownBytes) * size_t(threads);
    made.memory = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (made.memory == MAP_FAILED) {
      fail("no memory for stacks");
    }
    made.shown = made.memory + kStackBytes * size_t(threads);
    made.fibers = std::vector<Fiber>(size_t(threads));
    // a warp of single lanes
    const int apart = left < kWarp  ? -1
                      : number == 0 ? 0
                                    : int(nextRandom(&randomState) % uint64_t(warps));
    left -= apart < 0 ? 0 : kWarp - 1;
    for (int i = 0; i < threads; ++i) {
      Fiber& fiber = made.fibers[i];
      fiber.stack = made.memory + kStackBytes * size_t(i);
      fiber.copies.reserve(kMostCopies);
      if (isWatched) {
        fiber.watched = i % kWarp == 0 || i / kWarp == apart ? __tsan_create_fiber(0)
                                                             : made.fibers[i - 1].watched;
      }
    }
    if (areThreads) {
      std::thread(&serve, &made).detach();
    }
  }
}

void runCluster(const Launch& what, int64_t first, int launch) {
  Cluster cluster;
  std::vector<Block> blocks(size_t(what.cluster));
  for (int rank = 0; rank < what.cluster; ++rank) {
    Block& made = blocks[rank];
    made.what = &what;
    made.cluster = &cluster;
    made.processor = processors[nextProcessor++ % processors.size()].get();
    made.number = int(first) + rank;
    made.rank = rank;
    made.launch = launch;
    const int warps = (what.threads + kWarp - 1) / kWarp;
    made.warps.resize(size_t(warps));
    made.warpLive.assign(size_t(warps), kWarp);
    made.warpLive.back() = what.threads - (warps - 1) * kWarp;
    made.live = what.threads;
    made.random = nextRandom(&randomState) | 1;
    cluster.blocks.push_back(&made);
  }
  cluster.live = what.threads * what.cluster;
  if (!areThreads) {
    runBlock(&blocks[0]);
    return;
  }
  for (Block& made : blocks) {
    made.processor->next = &made;
    set(made.processor->given, made.processor->given.load() + 1);
  }
  for (Block& made : blocks) {
    for (int taken = made.processor->taken.load(); taken < made.processor->given.load();
         taken = made.processor->taken.load()) {
      sleepWhile(made.processor->taken, taken);
    }
  }
}

}  // namespace

void fail(const char* what) {
  fprintf(stderr, "the device on the host: %s (block %u, thread %u)\n", what, blockIdx.x,
          threadIdx.x);
  fflush(stderr);
  _Exit(3);
}

void syncBlock() { syncAt(block->all, block->live, true); }
void syncWarp(bool orders) {
  syncAt(block->warps[threadIdx.x / kWarp], block->warpLive[threadIdx.x / kWarp], orders);
}

void show(const void* what, unsigned bytes) {
  copyBytes(&block->processor->shown[threadIdx.x * kShownBytes], what, bytes);
  syncWarp(false);
}
const void* shown(unsigned lane) {
  return &block->processor->shown[(threadIdx.x / kWarp * kWarp + lane) * kShownBytes];
}
void hide() { syncWarp(false); }

void awaitPrevious() {
  if (isEarly) {
    acquireBehind();
  }
  mine().waited = true;
}

void copyLater(void* to, const void* from, bool exists) {
  Copy copy{to, {}, mine().group};
  if (exists) {
    reads(from, sizeof(copy.bytes));
    copyBytes(copy.bytes, from, sizeof(copy.bytes));
  }
  writes(to, sizeof(copy.bytes));
  fillBytes(to, sizeof(copy.bytes));
  if (mine().copies.size() == kMostCopies) {
    fail("too many copies under way");
  }
  mine().copies.push_back(copy);
}
void closeGroup() { ++mine().group; }
void waitForGroups(int kept) {
  std::vector<Copy>& copies = mine().copies;
  size_t still = 0;
  for (const Copy& copy : copies) {
    if (copy.group >= mine().group - kept) {
      copyBytes(&copies[still++], &copy, sizeof(copy));
      continue;
    }
    writes(copy.to, sizeof(copy.bytes));
    copyBytes(copy.to, copy.bytes, sizeof(copy.bytes));
  }
  copies.resize(still);
}

int rank() { return block->rank; }
void arrive(bool releases) {
  Cluster& cluster = *block->cluster;
  if (releases) {
    // no other round can begin before this thread has arrived
    release(&cluster.places[cluster.round.load() & 1]);
  }
  mine().clusterRound = cluster.count(false);
  ++block->moves;
}
void wait() {
  Cluster& cluster = *block->cluster;
  const unsigned round = mine().clusterRound;
  while (cluster.round.load() == round) {
    handOver();
  }
  ++block->moves;
  acquire(&cluster.places[round & 1]);
}

// An mbarrier of one arrival: bytes that are still to come (32 bits), arrivals (16), phase (16).
namespace {
struct Word {
  int32_t bytes;
  uint16_t pending, phase;
};
template <class Change>
void change(uint64_t* barrier, Change how) {
  uint64_t old = __atomic_load_n(barrier, __ATOMIC_SEQ_CST), word;
  do {
    Word state = __builtin_bit_cast(Word, old);
    how(state);
    if (state.pending == 0 && state.bytes == 0) {
      state.phase ^= 1;
      state.pending = 1;
    }
    word = __builtin_bit_cast(uint64_t, state);
  } while (
      !__atomic_compare_exchange_n(barrier, &old, word, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}
}  // namespace
void expect(uint64_t* barrier, int bytes, bool first) {
  if (first) {
    __atomic_store_n(barrier, __builtin_bit_cast(uint64_t, Word{0, 1, 0}), __ATOMIC_SEQ_CST);
  }
  change(barrier, [&](Word& state) {
    state.bytes += bytes;
    --state.pending;
  });
}
void complete(uint64_t* barrier, int bytes) {
  release(barrier);
  change(barrier, [&](Word& state) { state.bytes -= bytes; });
}
void awaitSent(const uint64_t* barrier, int parity) {
  while (__builtin_bit_cast(Word, __atomic_load_n(barrier, __ATOMIC_SEQ_CST)).phase ==
         uint16_t(parity)) {
    handOver();
  }
  ++block->moves;
  acquire(const_cast<uint64_t*>(barrier));
}
void* there(int number, const void* p) {
  Block& other = *block->cluster->blocks[size_t(number)];
  if (other.gone) {
    fail("shared memory of a block that has ended");
  }
  const ptrdiff_t offset = static_cast<const char*>(p) - block->shared;
  if (offset < 0 || size_t(offset) >= block->sharedBytes) {
    fail("not shared memory");
  }
  return other.shared + offset;
}

// ---- what a launch may touch ----

const sl_program_desc* program = nullptr;
/// What the program keeps in one memory space, and the role of the buffers in it.
struct Kept {
  char* first;
  int64_t bytes;
  int32_t role, space;
};
std::vector<Kept> keeps;

std::vector<int64_t> extents;  // of this call

int64_t valueOf(const sl_expr& expression) {
  for (int64_t i = 0; i < expression.count; ++i) {
    if (expression.steps[i].op == 'v') {
      fail("a size that is known within a call");
    }
  }
  return sl_expr_value(&expression, extents.data());
}

/// A dim of an input: what it says of the named sizes.
void learn(const sl_expr& expression, int64_t value) {
  if (expression.count == 1 && expression.steps[0].op == 's') {
    extents[size_t(expression.steps[0].value)] = value;
  }
}

/// Elements from element 0 to the last one, or 0 where there are none.
int64_t reach(int32_t rank, const sl_expr* sizes, const sl_expr* strides) {
  int64_t last = 0;
  for (int dim = 0; dim < rank; ++dim) {
    const int64_t extent = valueOf(sizes[dim]);
    if (extent == 0) {
      return 0;
    }
    last += (extent - 1) * valueOf(strides[dim]);
  }
  return last + 1;
}

/// The same for an argument of a kernel of several sizes: of what the program's statements give it
/// there, the largest that may lie at `first`.
int64_t reachOfAny(const sl_entry& kernel, int position, const char* first) {
  int64_t largest = 0;
  for (int s = 0; s < program->statement_count; ++s) {
    const sl_statement& statement = program->statements[s];
    if (!statement.entry || strcmp(statement.entry, kernel.name) != 0) {
      continue;
    }
    const sl_buffer& buffer = program->buffers[statement.operands[position]];
    const bool elsewhere = std::any_of(keeps.begin(), keeps.end(), [&](const Kept& kept) {
      return buffer.base < 0 && buffer.role == kept.role && buffer.space == kept.space &&
             kept.first + valueOf(buffer.offset) != first;
    });
    if (!elsewhere) {
      largest = std::max(largest, reach(buffer.rank, buffer.extents, buffer.strides));
    }
  }
  return largest;
}

void allow(void* const* arguments, const sl_entry& kernel) {
  if (!__asan_poison_memory_region) {
    return;
  }
  for (const Kept& kept : keeps) {
    __asan_poison_memory_region(kept.first, size_t(kept.bytes));
  }
  for (int i = 0; i < kernel.argument_count; ++i) {
    const sl_argument& argument = kernel.arguments[i];
    char* const first = *static_cast<char* const*>(arguments[i]);
    const int64_t elements = argument.rank < 0
                                 ? reachOfAny(kernel, i, first)
                                 : reach(argument.rank, argument.extents, argument.strides);
    const int64_t element = std::max(1, argument.dtype.bits / 8);
    __asan_unpoison_memory_region(first, size_t(elements) * size_t(element));
    for (const Kept& kept : keeps) {
      for (int b = 0; b < program->buffer_count; ++b) {  // with the border around it
        const sl_buffer& buffer = program->buffers[b];
        if (buffer.role == kept.role && buffer.space == kept.space && valueOf(buffer.lead) > 0 &&
            kept.first + valueOf(buffer.offset) == first) {
          __asan_unpoison_memory_region(first - valueOf(buffer.lead),
                                        size_t(valueOf(buffer.bytes)));
        }
      }
    }
  }
}

void launch(const Launch& what) {
  if (what.blocks == 0) {
    return;  // nothing is started, and what comes behind is behind what was ahead
  }
  if (what.kernel) {
    allow(what.arguments, *what.kernel);
  }
  const int number = int(waits.size());
  if (number >= kMostLaunches) {
    fail("too many launches");
  }
  behind = ahead;
  isEarly = what.early && !behind.empty() &&
            std::all_of(behind.begin(), behind.end(), [](int i) { return waits[size_t(i)]; });
  waits.push_back(what.early);
  ahead = {number};
  release(&hostPlace);
  const int64_t clusters = what.blocks / what.cluster;
  const bool forward = nextRandom(&randomState) >> 63;
  for (int64_t i = 0; i < clusters; ++i) {
    runCluster(what, (forward ? i : clusters - 1 - i) * what.cluster, number);
  }
}

}  // namespace host_device

using namespace host_device;

namespace {

/// Ends of launches are known to the host from here on.
void awaitAll() {
  for (size_t i = 0; i < waits.size(); ++i) {
    acquire(&ends[i]);
  }
  ahead.clear();
  currentStep = -1;
}

struct Copied {
  void* to;
  const void* from;
  size_t bytes;
};
void copyOnDevice(const void* given) {
  const auto* copied = static_cast<const Copied*>(given);
  reads(copied->from, copied->bytes);
  writes(copied->to, copied->bytes);
  copyBytes(copied->to, copied->from, copied->bytes);
}

}  // namespace

extern "C" {
void sl_queue_step(void*, int32_t number, const int32_t* after, int32_t count) {
  if (currentStep >= 0) {
    stepEnds.resize(std::max(stepEnds.size(), size_t(currentStep) + 1));
    stepEnds[size_t(currentStep)] = ahead;
  }
  currentStep = number;
  ahead.clear();
  for (int32_t i = 0; i < count; ++i) {
    const std::vector<int>& end = stepEnds[size_t(after[i])];
    ahead.insert(ahead.end(), end.begin(), end.end());
  }
}
int32_t sl_queue_copy(sl_ctx*, void*, void* to, const char*, const void* from, const char*,
                      size_t bytes) {
  const Copied copied{to, from, bytes};
  if (__asan_unpoison_memory_region) {
    __asan_unpoison_memory_region(to, bytes);
    __asan_unpoison_memory_region(from, bytes);
  }
  Launch what;
  what.blocks = 1;
  what.threads = 1;
  what.entry = &copyOnDevice;
  what.body = &copied;
  launch(what);
  return SL_OK;
}
void* sl_queue_record(void*) { return nullptr; }
void sl_queue_wait(void*, void*, void*) { awaitAll(); }
void sl_queue_forget(void*, void*) {}
void __assertfail(const char* what, const char*, unsigned, const char*, size_t) { fail(what); }
}

namespace {

class Buffers {
 public:
  explicit Buffers(FILE* file) : file_(file) {}
  int64_t number() {
    int64_t value = 0;
    if (fread(&value, sizeof(value), 1, file_) != 1) {
      fail("the file of the call is too short");
    }
    return value;
  }
  /// Of exact size, at a multiple of what torch's allocator of a device gives at least.
  void* make(int64_t bytes, bool filled) {
    void* p = nullptr;
    if (posix_memalign(&p, 256, size_t(std::max<int64_t>(bytes, 1))) != 0) {
      fail("no memory");
    }
    memset(p, 0xff, size_t(bytes));
    if (filled && bytes > 0 && fread(p, size_t(bytes), 1, file_) != 1) {
      fail("the file of the call is too short");
    }
    return p;
  }

 private:
  FILE* file_;
};

}  // namespace

namespace {

/// The buffers of one call, as its file describes them.
struct Call {
  std::vector<const void*> parameters;
  std::vector<void*> inputs, outputs, prepared, scratch, arenas, kernels;
  std::vector<int64_t> outputBytes;
  int threads = 1;  // largest block of all kernels

  explicit Call(Buffers& buffers);
};

/// Reads one input and learns the extents of the program from its sizes.
void* readInput(Buffers& buffers, int64_t index) {
  const int64_t rank = buffers.number();
  for (int64_t dim = 0; dim < rank; ++dim) {
    const int64_t value = buffers.number();
    for (int b = 0; b < program->buffer_count; ++b) {
      if (program->buffers[b].role == SL_ROLE_INPUT && program->buffers[b].index == index) {
        learn(program->buffers[b].extents[dim], value);
      }
    }
  }
  return buffers.make(buffers.number(), true);
}

Call::Call(Buffers& buffers) {
  for (int64_t n = buffers.number(); n > 0; --n) {
    parameters.push_back(buffers.make(buffers.number(), true));
  }
  extents.resize(size_t(program->extent_count), 1);
  const int64_t inputCount = buffers.number();
  for (int64_t n = 0; n < inputCount; ++n) {
    inputs.push_back(readInput(buffers, n));
  }
  for (int i = 0; i < program->extent_count; ++i) {
    if (program->extents[i].bound.count >
        0) {  // a statement computes it; memory is for the largest
      extents[size_t(i)] = valueOf(program->extents[i].bound);
    }
  }
  for (int64_t n = buffers.number(); n > 0; --n) {
    outputBytes.push_back(buffers.number());
    outputs.push_back(buffers.make(outputBytes.back(), false));
  }
  for (int space = 0; space < program->space_count; ++space) {
    prepared.push_back(buffers.make(valueOf(program->prepared_bytes[space]), false));
    scratch.push_back(buffers.make(valueOf(program->scratch_bytes[space]), false));
    arenas.push_back(buffers.make(valueOf(program->arena_bytes[space]), false));
  }
  for (int i = 0; i < program->entry_count; ++i) {
    kernels.push_back(const_cast<sl_entry*>(&program->entries[i]));
    threads = std::max(threads, program->entries[i].code ? program->entries[i].code->threads : 1);
  }
}

void keep(const std::vector<void*>& of, const sl_expr* bytes, int32_t role) {
  for (int space = 0; space < program->space_count; ++space) {
    keeps.push_back({static_cast<char*>(of[space]), valueOf(bytes[space]), role, space});
  }
}

/// Calls prepare and run, and waits for all queues.
int32_t perform(Call& call) {
  std::vector<void*> queues(size_t(program->queue_count));
  alignas(64) static char context[1 << 14];
  auto* ctx = reinterpret_cast<sl_ctx*>(context);
  ctx->size = sizeof(context);
  sl_bindings bindings{};
  bindings.size = sizeof(bindings);
  bindings.extents = extents.data();
  bindings.parameters = call.parameters.data();
  bindings.prepared = call.prepared.data();
  bindings.inputs = call.inputs.data();
  bindings.outputs = call.outputs.data();
  bindings.queues = queues.data();
  bindings.kernels = call.kernels.data();
  const sl_team team{nullptr, 0, 1};
  keep(call.prepared, program->prepared_bytes, SL_ROLE_PREPARED);
  int32_t status = SL_OK;
  if (program->prepare) {
    bindings.arenas = call.scratch.data();
    keep(call.scratch, program->scratch_bytes, SL_ROLE_ARENA);
    status = program->prepare(ctx, team, &bindings);
    awaitAll();
  }
  if (status == SL_OK) {
    bindings.arenas = call.arenas.data();
    keep(call.arenas, program->arena_bytes, SL_ROLE_ARENA);
    status = program->run(ctx, team, &bindings);
    awaitAll();
  }
  return status;
}

void writeResults(const Call& call, const char* path) {
  FILE* results = fopen(path, "wb");
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputBytes[i] > 0 &&
        fwrite(call.outputs[i], size_t(call.outputBytes[i]), 1, results) != 1) {
      fail("the file of the results cannot be written");
    }
  }
  fclose(results);
}

}  // namespace

int main(int count, char** words) {
  void* library = count == 6 ? dlopen(words[1], RTLD_LAZY) : nullptr;
  if (!library) {
    fprintf(stderr, "machine PROGRAM.so CALL RESULTS SEED CLUSTER: %s\n",
            count == 6 ? dlerror() : "");
    return 2;
  }
  program = static_cast<const sl_program_desc*>(dlsym(library, "sl_program"));
  FILE* file = fopen(words[2], "rb");
  randomState = strtoull(words[4], nullptr, 10) | 1;
  Buffers buffers(file);
  Call call(buffers);
  makeProcessors(call.threads, atoi(words[5]));
  const int32_t status = perform(call);
  if (status != SL_OK) {
    fprintf(stderr, "status %d\n", status);
    return 4;
  }
  writeResults(call, words[3]);
  fflush(nullptr);
  _Exit(0);
}
