// SPDX-License-Identifier: Apache-2.0
// Emitted CUDA C++ as C++ for the host, so that what kernels compute can be tested without a device: a block's threads are
// fibers of one thread that hand over at barriers and exchanges between lanes; blocks follow each other. Nothing here says
// anything about time, about races between blocks or about what a warp may not do. No clusters, no float16. For clang.
#ifndef STRAIGHTLINE_TESTS_CUDA_ON_HOST_H
#define STRAIGHTLINE_TESTS_CUDA_ON_HOST_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <utility>
#include <vector>

#define __CUDACC__ 1
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __launch_bounds__(...)
#define __shared__ static
#define asm(...)  // conversions of float16, which are not for here
#define alignas(bytes) __attribute__((aligned(bytes)))  // may stand behind `static`

struct cuda_place { unsigned x = 0; };
static cuda_place threadIdx, blockIdx, blockDim;

namespace cuda_host {

struct Fiber {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(1 << 18);
  bool finished = false;
};
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static uint64_t exchanged[2048];

/// Lets the other threads go on.
inline void handOver() { swapcontext(&fibers[threadIdx.x].context, &scheduler); }

struct Barrier {
  int arrived = 0;
  unsigned round = 0;
  void meet(int count) {
    const unsigned mine = round;
    if (++arrived == count) {
      arrived = 0;
      ++round;
    }
    while (round == mine) {
      handOver();
    }
  }
};
static Barrier blockBarrier, warpBarriers[64];
inline void meetWarp() { warpBarriers[threadIdx.x / 32].meet(32); }

template <class Body>
struct Entry {
  static Body* body;
  static void run() {
    (*body)();
    fibers[threadIdx.x].finished = true;
  }
};
template <class Body>
Body* Entry<Body>::body;

template <class Body>
void runGrid(int64_t blocks, int threads, Body body) {
  Entry<Body>::body = &body;
  if (fibers.size() < size_t(threads)) {
    fibers = std::vector<Fiber>(threads);
  }
  blockDim.x = threads;
  for (int64_t block = 0; block < blocks; ++block) {
    blockIdx.x = unsigned(block);
    for (int i = 0; i < threads; ++i) {
      Fiber& fiber = fibers[i];
      fiber.finished = false;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      fiber.context.uc_link = &scheduler;
      makecontext(&fiber.context, &Entry<Body>::run, 0);
    }
    for (int left = threads; left > 0;) {
      for (int i = 0; i < threads; ++i) {
        if (!fibers[i].finished) {
          threadIdx.x = unsigned(i);
          swapcontext(&scheduler, &fibers[i].context);
          left -= fibers[i].finished ? 1 : 0;
        }
      }
    }
  }
}

template <class... P, size_t... I>
void callAt(void (*kernel)(P...), void* const* arguments, const int64_t* grid, std::index_sequence<I...>) {
  runGrid(grid[0], int(grid[1]), [&] { kernel(*static_cast<P*>(arguments[I])...); });
}
template <class... P>
void call(void (*kernel)(P...), void* const* arguments, const int64_t* grid) {
  callAt(kernel, arguments, grid, std::index_sequence_for<P...>{});
}

}  // namespace cuda_host

inline void __syncthreads() { cuda_host::blockBarrier.meet(int(blockDim.x)); }
inline void __syncwarp() { cuda_host::meetWarp(); }
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  memcpy(&cuda_host::exchanged[threadIdx.x], &value, sizeof(T));
  cuda_host::meetWarp();
  T other;
  memcpy(&other, &cuda_host::exchanged[threadIdx.x / 32 * 32 + lane], sizeof(T));
  cuda_host::meetWarp();
  return other;
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int distance) {
  memcpy(&cuda_host::exchanged[threadIdx.x], &value, sizeof(T));
  cuda_host::meetWarp();
  T other;
  memcpy(&other, &cuda_host::exchanged[threadIdx.x ^ distance], sizeof(T));
  cuda_host::meetWarp();
  return other;
}
template <class T>
T __shfl_up_sync(unsigned, T value, int distance) {
  memcpy(&cuda_host::exchanged[threadIdx.x], &value, sizeof(T));
  cuda_host::meetWarp();
  T other = value;
  if (int(threadIdx.x % 32) >= distance) {
    memcpy(&other, &cuda_host::exchanged[threadIdx.x - distance], sizeof(T));
  }
  cuda_host::meetWarp();
  return other;
}
inline unsigned atomicAdd(unsigned* p, unsigned value) {
  const unsigned old = *p;
  *p += value;
  return old;
}
inline void __assertfail(const char* what, const char*, unsigned, const char*, size_t) {
  fprintf(stderr, "a kernel failed: %s\n", what);
  abort();
}
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(x); }

extern "C" void sl_fail_at(struct sl_ctx*, int32_t, int64_t, int64_t, int64_t);

// What is written in the device's instructions.
#define STRAIGHTLINE_KERNELS_CUDA_REQUEST_H
#define STRAIGHTLINE_KERNELS_CUDA_TENSOR_CORE_H
#define STRAIGHTLINE_KERNELS_CUDA_CLUSTER_H
#include "straightline/kernels/epilogue.h"
namespace sl {
struct Piece16 {
  unsigned word[4];
  void request(const void* p) { memcpy(this, p, sizeof(*this)); }
  void requestIf(bool wanted, const void* p) {
    if (wanted) {
      request(p);
    }
  }
  void pin() {}
  template <class T>
  Piece<T, kWholePiece<T>> as() const { return __builtin_bit_cast(Piece<T, kWholePiece<T>>, *this); }
};
namespace tensor_core {
inline void copyLater(void* to, const void* from, bool exists) {
  exists ? memcpy(to, from, 16) : memset(to, 0, 16);
}
inline void closeGroup() {}
template <int N>
void waitForGroups() {}

// What the lanes of a warp show each other.
static const void* lines[2048];
static uint32_t factorsA[2048][4], factorsB[2048][2];

/// Part j lies at the lines that lanes 8 j to 8 j + 7 name: a lane gets two neighbours of line lane / 4, or transposed of column lane / 4.
template <bool TRANSPOSED>
void loadParts(uint32_t (&to)[4], const void* line) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane;
  lines[threadIdx.x] = line;
  cuda_host::meetWarp();
  for (unsigned j = 0; j < 4; ++j) {
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned row = TRANSPOSED ? lane % 4 * 2 + half : lane / 4, column = TRANSPOSED ? lane / 4 : lane % 4 * 2 + half;
      const uint32_t element = static_cast<const uint16_t*>(lines[warp + j * 8 + row])[column];
      to[j] = half == 0 ? element : to[j] | element << 16;
    }
  }
  cuda_host::meetWarp();
}

/// To nearest, ties away from zero.
template <int M, int N>
void roundFactors(uint32_t (&factors)[M][N]) {
  for (auto& row : factors) {
    for (uint32_t& word : row) {
      word = isfinite(__builtin_bit_cast(float, word)) ? (word + 0x1000) & ~0x1fffu : word;
    }
  }
}

/// One number of 16 columns of A or rows of B (8 where a word is a number), as the lanes have them (PTX, "Matrix Fragments").
template <class T>
float numberOf(uint32_t word, int which) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(float, word);
  } else {
    return __builtin_bit_cast(float, (which ? word >> 16 : word & 0xffffu) << 16);
  }
}
template <class T>
void multiply(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  static_assert(kSame<T, float> || kSame<T, bfloat16>, "no float16 on the host");
  constexpr int kNumbers = 4 / sizeof(T);  // of a word
  memcpy(factorsA[threadIdx.x], a, sizeof(a));
  memcpy(factorsB[threadIdx.x], b, sizeof(b));
  cuda_host::meetWarp();
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x - lane;
  for (int i = 0; i < 4; ++i) {
    const unsigned row = lane / 4, column = lane % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 8; ++k) {  // words along the reduction
      for (int which = 0; which < kNumbers; ++which) {
        sums[i] += numberOf<T>(factorsA[warp + row * 4 + k % 4][k / 4 * 2 + i / 2], which) *
                   numberOf<T>(factorsB[warp + column * 4 + k % 4][k / 4], which);
      }
    }
  }
  cuda_host::meetWarp();
}
}  // namespace tensor_core
namespace cluster {
inline int rank() { return 0; }
inline void meet() { __syncthreads(); }
inline void arrive() {}
inline void arriveFirst() {}
inline void wait() {}
inline void expect(uint64_t*, int) {}
template <bool OTHERS, class T>
void send(int, T* p, T value, uint64_t*) { *p = value; }
inline void expectAgain(uint64_t*, int) {}
inline void awaitSent(uint64_t*, int = 0) {}
template <class T, int N>
void loadFrom(int, T (&to)[N], const T* p) { memcpy(to, p, sizeof(to)); }
template <bool OTHERS, class T>
T oneFrom(int, const T* p) { return *p; }
template <bool OTHERS, int N, class T>
void someFrom(int, T (&to)[N], const T* from) { memcpy(to, from, sizeof(to)); }
}  // namespace cluster
}  // namespace sl

#endif  // STRAIGHTLINE_TESTS_CUDA_ON_HOST_H
