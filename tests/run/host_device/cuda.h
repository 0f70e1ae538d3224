// SPDX-License-Identifier: Apache-2.0
// Emitted CUDA C++ as C++ for the host: CUDA's names and what our headers write in the device's
// instructions, over machine.h. Nothing about what the instructions of one warp may do at once. For
// clang.
#ifndef STRAIGHTLINE_TESTS_HOST_DEVICE_CUDA_H
#define STRAIGHTLINE_TESTS_HOST_DEVICE_CUDA_H

#include <link.h>
#include <math.h>
#include <string.h>

#include "machine.h"

#define __CUDACC__ 1
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
// Of a block: blocks that run at once, or that the sanitizer takes for that, are threads.
#if defined(STRAIGHTLINE_BLOCKS_ARE_THREADS)
#define __shared__ static thread_local
#elif __has_feature(address_sanitizer)
#define __shared__ static  // with space around it
#else
#define __shared__ static __attribute__((section("shared_memory")))
#endif
#define alignas(bytes) __attribute__((aligned(bytes)))  // may stand behind `static`

inline void __syncthreads() { host_device::syncBlock(); }
inline void __syncwarp() { host_device::syncWarp(true); }

namespace host_device {
template <class T>
T ofLane(T value, unsigned lane) {
  show(&value, sizeof(T));
  T other;
  memcpy(&other, shown(lane), sizeof(T));
  hide();
  return other;
}
inline unsigned lane() { return threadIdx.x % 32; }

#if defined(STRAIGHTLINE_BLOCKS_ARE_THREADS)
inline int findOwn(dl_phdr_info* info, size_t, void* found) {
  const auto here = reinterpret_cast<uintptr_t>(&findOwn);
  const void* data = nullptr;
  size_t bytes = 0;
  bool isOwn = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    isOwn =
        isOwn || (part.p_type == PT_LOAD && here - info->dlpi_addr - part.p_vaddr < part.p_memsz);
    if (part.p_type == PT_TLS) {
      data = info->dlpi_tls_data;
      bytes = part.p_memsz;
    }
  }
  if (isOwn) {
    static_cast<std::pair<const void*, size_t>*>(found)->first = data;
    static_cast<std::pair<const void*, size_t>*>(found)->second = bytes;
  }
  return isOwn ? 1 : 0;
}
/// All that is thread_local in this library.
inline void sharedMemory(char** first, size_t* bytes) {
  static thread_local volatile char anchor;  // makes it
  anchor = 0;
  std::pair<const void*, size_t> found;
  dl_iterate_phdr(&findOwn, &found);
  *first = static_cast<char*>(const_cast<void*>(found.first));
  *bytes = found.second;
}
#else
extern "C" [[gnu::weak, gnu::visibility("hidden")]] char __start_shared_memory[],
    __stop_shared_memory[];
inline void sharedMemory(char** first, size_t* bytes) {
  *first = __start_shared_memory;
  *bytes = __start_shared_memory ? size_t(__stop_shared_memory - __start_shared_memory) : 0;
}
#endif
}  // namespace host_device

template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return host_device::ofLane(value, unsigned(lane));
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int distance) {
  return host_device::ofLane(value, host_device::lane() ^ unsigned(distance));
}
template <class T>
T __shfl_up_sync(unsigned, T value, int distance) {
  const unsigned lane = host_device::lane();
  return host_device::ofLane(value, lane >= unsigned(distance) ? lane - unsigned(distance) : lane);
}
inline unsigned atomicAdd(unsigned* p, unsigned value) {
  return __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
}
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long value) {
  return __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
}
inline unsigned atomicCAS(unsigned* p, unsigned compare, unsigned value) {
  __atomic_compare_exchange_n(p, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return compare;
}
inline unsigned long long atomicCAS(unsigned long long* p, unsigned long long compare,
                                    unsigned long long value) {
  __atomic_compare_exchange_n(p, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return compare;
}
template <class T>
T addAtomically(T* p, T value) {
  T seen;
  __atomic_load(p, &seen, __ATOMIC_RELAXED);
  T next = seen + value;
  while (!__atomic_compare_exchange(p, &seen, &next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    next = seen + value;
  }
  return seen;
}
inline float atomicAdd(float* p, float value) { return addAtomically(p, value); }
inline double atomicAdd(double* p, double value) { return addAtomically(p, value); }
extern "C" void __assertfail(const char* what, const char*, unsigned, const char*, size_t);
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(x); }

extern "C" void sl_fail_at(struct sl_ctx*, int32_t, int64_t, int64_t, int64_t);

// What is written in the device's instructions.
#define STRAIGHTLINE_KERNELS_CUDA_PREVIOUS_H
namespace sl {
inline void awaitPrevious() { host_device::awaitPrevious(); }
inline void letNextComeAndAwaitPrevious() { host_device::awaitPrevious(); }
}  // namespace sl
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
  Piece<T, kWholePiece<T>> as() const {
    return __builtin_bit_cast(Piece<T, kWholePiece<T>>, *this);
  }
};

namespace tensor_core {
using host_device::closeGroup;
using host_device::copyLater;
template <int N>
void waitForGroups() {
  host_device::waitForGroups(N);
}

/// Part j lies at the lines that lanes 8 j to 8 j + 7 name: a lane gets two neighbours of line lane
/// / 4, or transposed of column lane / 4.
template <bool TRANSPOSED>
void loadParts(uint32_t (&to)[4], const void* line) {
  const unsigned lane = host_device::lane();
  host_device::show(&line, sizeof(line));
  for (unsigned j = 0; j < 4; ++j) {
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned row = TRANSPOSED ? lane % 4 * 2 + half : lane / 4,
                     column = TRANSPOSED ? lane / 4 : lane % 4 * 2 + half;
      const uint16_t* of;
      memcpy(&of, host_device::shown(j * 8 + row), sizeof(of));
      const uint32_t element = of[column];
      to[j] = half == 0 ? element : to[j] | element << 16;
    }
  }
  host_device::hide();
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

/// One number of 16 columns of A or rows of B (8 where a word is a number), as the lanes have them
/// (PTX, "Matrix Fragments").
template <class T>
float numberOf(uint32_t word, int which) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(float, word);
  } else {
    return toFloat(T{uint16_t(which ? word >> 16 : word)});
  }
}
template <class T>
void multiply(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  constexpr int kNumbers = 4 / sizeof(T);  // of a word
  const unsigned lane = host_device::lane();
  uint32_t rows[2][4][4], columns[2][4][2];  // of this lane's sums, by the lane that has them
  host_device::show(a, sizeof(a));
  for (unsigned i = 0; i < 4; ++i) {
    memcpy(rows[0][i], host_device::shown(lane / 4 * 4 + i), sizeof(a));
  }
  host_device::hide();
  host_device::show(b, sizeof(b));
  for (unsigned which = 0; which < 2; ++which) {
    for (unsigned i = 0; i < 4; ++i) {
      memcpy(columns[which][i], host_device::shown((lane % 4 * 2 + which) * 4 + i), sizeof(b));
    }
  }
  host_device::hide();
  for (int i = 0; i < 4; ++i) {
    for (unsigned k = 0; k < 8; ++k) {  // words along the reduction
      for (int which = 0; which < kNumbers; ++which) {
        sums[i] += numberOf<T>(rows[0][k % 4][k / 4 * 2 + i / 2], which) *
                   numberOf<T>(columns[i % 2][k % 4][k / 4], which);
      }
    }
  }
}
}  // namespace tensor_core

namespace cluster {
inline int rank() { return host_device::rank(); }
inline void arrive() { host_device::arrive(true); }
inline void arriveFirst() { host_device::arrive(false); }
inline void wait() { host_device::wait(); }
inline void sync() {
  arrive();
  wait();
}
inline void expect(uint64_t* barrier, int bytes) { host_device::expect(barrier, bytes, true); }
inline void expectAgain(uint64_t* barrier, int bytes) {
  host_device::expect(barrier, bytes, false);
}
inline void awaitSent(uint64_t* barrier, int parity = 0) {
  host_device::awaitSent(barrier, parity);
}
template <bool TOGETHER, class T>
void send(int number, T* p, T value, uint64_t* barrier) {
  if constexpr (TOGETHER) {
    *static_cast<T*>(host_device::there(number, p)) = value;
    host_device::complete(static_cast<uint64_t*>(host_device::there(number, barrier)), sizeof(T));
  } else {
    *p = value;
  }
}
template <class T, int N>
void loadFrom(int number, T (&to)[N], const T* p) {
  memcpy(to, host_device::there(number, p), sizeof(to));
}
template <bool TOGETHER, class T>
T oneFrom(int number, const T* p) {
  return TOGETHER ? *static_cast<const T*>(host_device::there(number, p)) : *p;
}
template <bool TOGETHER, int N, class T>
void someFrom(int number, T (&to)[N], const T* p) {
  memcpy(to, TOGETHER ? host_device::there(number, p) : p, sizeof(to));
}
}  // namespace cluster
}  // namespace sl

#endif  // STRAIGHTLINE_TESTS_HOST_DEVICE_CUDA_H
