// SPDX-License-Identifier: Apache-2.0
// What the hand-written floors share: vectors, a tile of a matrix product, two threads that walk
// one straight line. A floor's file says FLOOR_THREADS and its sizes by macros (the case gives
// them), defines
//   static void prepare(const float* const* parameters);                         once: packs
//   weights
//   static void run(const void* const* inputs, void* const* outputs, int thread);  all threads walk
//   through it
// and ends with FLOOR_EXPORTS. FLOOR_ALONE before the include: a second thread would cost more than
// it saves. Frozen: it changes only where a faster way becomes known.
#pragma once
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

#if !defined(FLOOR_THREADS)
#define FLOOR_THREADS 1
#elif defined(FLOOR_ALONE)
#undef FLOOR_THREADS
#define FLOOR_THREADS 1
#endif

namespace floor_code {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
constexpr int kTileRows = 8;
#else
constexpr int kLanes = 8;
constexpr int kTileRows = 4;
#endif
typedef float vec __attribute__((vector_size(4 * kLanes)));
typedef float vecUnaligned __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
typedef int32_t vecInt __attribute__((vector_size(4 * kLanes)));

#define FLOOR_INLINE static inline __attribute__((always_inline))

FLOOR_INLINE vec load(const float* p) { return *reinterpret_cast<const vecUnaligned*>(p); }
FLOOR_INLINE void store(float* p, vec v) { *reinterpret_cast<vecUnaligned*>(p) = v; }
// x + 0 would be an addition: it changes -0
FLOOR_INLINE vec all(float x) { return x - vec{}; }
FLOOR_INLINE vec relu(vec v) { return v < 0 ? vec{} : v; }  // keeps nan, as PyTorch's does

FLOOR_INLINE float sum(vec v) {
  float total = 0;
  for (int i = 0; i < kLanes; ++i) {
    total += v[i];
  }
  return total;
}

/// Floats, aligned to 64 bytes, that live as long as the process; many lie on large pages.
inline float* floats(size_t count) {
  const size_t unit = count < (size_t{1} << 20) ? 64 : size_t{1} << 21;
  const size_t bytes = (count * sizeof(float) + 64 + unit - 1) / unit * unit;
  void* place = std::aligned_alloc(unit, bytes);
  if (place == nullptr) {
    std::abort();
  }
  if (unit > 64) {
    madvise(place, bytes, MADV_HUGEPAGE);
  }
  std::memset(place, 0, count * sizeof(float));
  return static_cast<float*>(place);
}

/// Weights [n][k], as a linear layer has them, as panels [n / width][k][width]; missing columns are
/// zero.
inline float* packed(const float* w, int n, int k, int width) {
  const int panels = (n + width - 1) / width;
  float* out = floats(static_cast<size_t>(panels) * width * k);
  for (int column = 0; column < n; ++column) {
    for (int i = 0; i < k; ++i) {
      out[(static_cast<size_t>(column / width) * k + i) * width + column % width] =
          w[static_cast<size_t>(column) * k + i];
    }
  }
  return out;
}

/// A vector of biases padded with zeros to whole panels.
inline float* padded(const float* b, int n, int width) {
  float* out = floats(static_cast<size_t>((n + width - 1) / width) * width);
  std::memcpy(out, b, static_cast<size_t>(n) * sizeof(float));
  return out;
}

/// One tile: c[kRows][kVectors * kLanes] = bias + a[kRows][kDepth] * b[kDepth][kVectors * kLanes],
/// then `finish(value, c's place)`. `kSplit` chains of sums hide the latency of the multiply-add
/// where the tile is small. `next`, where there is one, is as long as b and will be read soon.
template <int kRows, int kVectors, int kSplit, int kDepth, typename Finish>
FLOOR_INLINE void tile(const float* a, int64_t aStride, const float* b, int64_t bStride,
                       const float* bias, float* c, int64_t cStride, Finish finish,
                       const float* next = nullptr) {
  vec sums[kSplit][kRows][kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const vec first = bias != nullptr ? load(bias + v * kLanes) : vec{};
    for (int r = 0; r < kRows; ++r) {
      sums[0][r][v] = first;
      for (int s = 1; s < kSplit; ++s) {
        sums[s][r][v] = vec{};
      }
    }
  }
  static_assert(kDepth % kSplit == 0);
  for (int k = 0; k < kDepth; k += kSplit) {
    if (next != nullptr) {
      for (int line = 0; line < kSplit * kVectors * kLanes; line += 16) {
        __builtin_prefetch(next + k * bStride + line, 0, 2);
      }
    }
#pragma GCC unroll 16
    for (int s = 0; s < kSplit; ++s) {
      vec column[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        column[v] = load(b + (k + s) * bStride + v * kLanes);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const vec x = all(a[r * aStride + k + s]);
        for (int v = 0; v < kVectors; ++v) {
          sums[s][r][v] += x * column[v];
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      vec value = sums[0][r][v];
      for (int s = 1; s < kSplit; ++s) {
        value += sums[s][r][v];
      }
      float* place = c + r * cStride + v * kLanes;
      store(place, finish(value, place));
    }
  }
}

/// e^x, within 2 ulp from -87 on; smaller x give what -87 gives.
FLOOR_INLINE vec exponential(vec x) {
  x = x < -87.0f ? all(-87.0f) : x;
  const vec rounding = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const vec n = (x * 1.44269504f + rounding) - rounding;
  vec f = x - n * 0.693359375f;
  f = f + n * 2.12194440e-4f;
  vec p = all(1.9875691500e-4f);
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * (f * f) + f + 1.0f;
  const vecInt power = (__builtin_convertvector(n, vecInt) + 127) << 23;
  vec scale;
  std::memcpy(&scale, &power, sizeof(scale));
  return p * scale;
}

/// 1 / (1 + e^-x): the exponential of what is negative cannot overflow.
FLOOR_INLINE vec sigmoid(vec x) {
  const vec e = exponential(x < 0 ? x : -x);
  return (x < 0 ? e : all(1.0f)) / (e + 1.0f);
}

/// tanh.
FLOOR_INLINE vec tangent(vec x) { return sigmoid(x * 2.0f) * 2.0f - 1.0f; }

/// GELU by the error function (Abramowitz and Stegun 7.1.26, 1.5e-7 absolute).
FLOOR_INLINE vec gelu(vec x) {
  const vec z = x * 0.70710678118f;
  const vec size = z < 0 ? -z : z;
  const vec t = all(1.0f) / (size * 0.3275911f + 1.0f);
  vec p = all(1.061405429f);
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const vec tail = p * t * exponential(-(z * z));  // 1 - erf(|z|)
  const vec half = x * 0.5f;
  return z < 0 ? half * tail : half * (2.0f - tail);
}

// Threads. The second one walks the same function; they meet at barriers, which spin, and yield
// when they spin for long.
struct alignas(128) Flag {
  std::atomic<uint32_t> value{0};
};
inline Flag arrived[2];

inline void waitFor(const std::atomic<uint32_t>& flag, uint32_t least) {
  for (int spins = 0; static_cast<int32_t>(flag.load(std::memory_order_acquire) - least) < 0;) {
    __builtin_ia32_pause();
    if (++spins > 2000) {
      spins = 0;
      sched_yield();
    }
  }
}

FLOOR_INLINE void barrier(int thread) {
  if (FLOOR_THREADS > 1) {
    const uint32_t mine = arrived[thread].value.load(std::memory_order_relaxed) + 1;
    arrived[thread].value.store(mine, std::memory_order_release);
    waitFor(arrived[1 - thread].value, mine);
  }
}

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Keeps the calling thread on one CPU, or off it; returns where it was allowed before.
inline cpu_set_t keepOn(int cpu, bool on) {
  cpu_set_t before, wanted;
  sched_getaffinity(0, sizeof(before), &before);
  wanted = before;
  if (on) {
    CPU_ZERO(&wanted);
    CPU_SET(cpu, &wanted);
  } else {
    CPU_CLR(cpu, &wanted);
  }
  sched_setaffinity(0, sizeof(wanted), &wanted);
  return before;
}

/// Calls `run` so often, by FLOOR_THREADS threads; the second one lives for one loop. Returns
/// seconds.
template <typename Run>
double timedLoop(Run run, const void* const* inputs, void* const* outputs, long calls) {
  static_assert(FLOOR_THREADS == 1 || FLOOR_THREADS == 2, "the floors know one thread and two");
  if (FLOOR_THREADS == 1) {
    const double start = now();
    for (long i = 0; i < calls; ++i) {
      run(inputs, outputs, 0);
    }
    return now() - start;
  }
  // Two spinning threads on one CPU would wait for the scheduler's next tick.
  const int cpu = sched_getcpu();
  std::atomic<bool> ready{false};
  std::thread other([&] {
    keepOn(cpu, false);
    ready.store(true);
    for (long i = 0; i < calls; ++i) {
      run(inputs, outputs, 1);
      barrier(1);
    }
  });
  const cpu_set_t before = keepOn(cpu, true);
  while (!ready.load()) {
    sched_yield();
  }
  const double start = now();
  for (long i = 0; i < calls; ++i) {
    run(inputs, outputs, 0);
    barrier(0);
  }
  const double taken = now() - start;
  other.join();
  sched_setaffinity(0, sizeof(before), &before);
  return taken;
}

}  // namespace floor_code

#define FLOOR_EXPORTS                                                                         \
  extern "C" void floor_prepare(const float* const* parameters) { prepare(parameters); }      \
  extern "C" double floor_loop(const void* const* inputs, void* const* outputs, long calls) { \
    return floor_code::timedLoop(run, inputs, outputs, calls);                                \
  }
