// SPDX-License-Identifier: Apache-2.0
// What this machine can do: float32 multiply-adds and bytes read per second, with one thread or
// several.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#if defined(__AVX512F__)
#define LANES 16
#else
#define LANES 8
#endif
#define ACCUMULATORS 12  // two units of four cycles' latency need eight
#define MAX_THREADS 64
#define ATTEMPTS 30  // short ones: on a busy machine some go undisturbed

typedef float vector __attribute__((vector_size(4 * LANES)));

typedef struct {
  const vector* data;
  size_t vectors;  // read by one pass of this thread
  long passes;
  atomic_int* ready;
  int threads;
  double seconds;
  float sum;  // keeps the work from being dropped
} part;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void syncThreads(part* p) {
  atomic_fetch_add(p->ready, 1);
  while (atomic_load(p->ready) < p->threads) {
  }
}

static float total(const vector* sums, int count) {
  float result = 0;
  for (int i = 0; i < count; ++i) {
    for (int lane = 0; lane < LANES; ++lane) {
      result += sums[i][lane];
    }
  }
  return result;
}

static void* multiplyAdd(void* argument) {
  part* p = argument;
  vector sums[ACCUMULATORS], factor, term;
  for (int lane = 0; lane < LANES; ++lane) {
    factor[lane] = 0.999f;
    term[lane] = 0.001f;
  }
  for (int i = 0; i < ACCUMULATORS; ++i) {
    sums[i] = term;
  }
  __asm__ volatile("" : "+x"(factor), "+x"(term));
  syncThreads(p);
  const double start = now();
  for (long pass = 0; pass < p->passes; ++pass) {
#pragma GCC unroll 12
    for (int i = 0; i < ACCUMULATORS; ++i) {
      sums[i] = sums[i] * factor + term;
    }
  }
  p->seconds = now() - start;
  p->sum = total(sums, ACCUMULATORS);
  return NULL;
}

static void* readAll(void* argument) {
  part* p = argument;
  vector sums[8] = {{0}};
  syncThreads(p);
  const double start = now();
  for (long pass = 0; pass < p->passes; ++pass) {
    const vector* at = p->data;
    __asm__ volatile("" : "+r"(at) : : "memory");
    for (size_t i = 0; i + 8 <= p->vectors; i += 8) {
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        sums[j] += at[i + j];
      }
    }
  }
  p->seconds = now() - start;
  p->sum = total(sums, 8);
  return NULL;
}

/// Runs `work` on all parts at once; the slowest thread's seconds.
static double onAll(void* (*work)(void*), part* parts, int threads) {
  pthread_t others[MAX_THREADS];
  atomic_int ready = 0;
  for (int i = 0; i < threads; ++i) {
    parts[i].ready = &ready;
    parts[i].threads = threads;
  }
  for (int i = 1; i < threads; ++i) {
    if (pthread_create(&others[i], NULL, work, &parts[i]) != 0) {
      abort();
    }
  }
  work(&parts[0]);
  double slowest = parts[0].seconds;
  for (int i = 1; i < threads; ++i) {
    pthread_join(others[i], NULL);
    slowest = parts[i].seconds > slowest ? parts[i].seconds : slowest;
  }
  return slowest;
}

/// Float32 operations per second (a multiply-add is two), the best of a few tries.
double sl_bench_flops(int threads) {
  part parts[MAX_THREADS] = {{0}};
  const long passes = 300000;
  double best = 0;
  if (threads < 1 || threads > MAX_THREADS) {
    return 0;
  }
  for (int i = 0; i < threads; ++i) {
    parts[i].passes = passes;
  }
  for (int attempt = 0; attempt < ATTEMPTS; ++attempt) {
    const double rate =
        2.0 * LANES * ACCUMULATORS * (double)passes * threads / onAll(multiplyAdd, parts, threads);
    best = rate > best ? rate : best;
  }
  return best;
}

/// Bytes per second read from so many bytes, each thread reading its part again and again; the best
/// of a few tries.
double sl_bench_read_bandwidth(size_t bytes, int threads) {
  part parts[MAX_THREADS] = {{0}};
  if (threads < 1 || threads > MAX_THREADS) {
    return 0;
  }
  const size_t each = bytes / sizeof(vector) / (size_t)threads / 8 * 8;
  void* memory = NULL;
  if (each == 0 || posix_memalign(&memory, 4096, each * sizeof(vector) * (size_t)threads) != 0) {
    return 0;
  }
  for (size_t i = 0; i < each * (size_t)threads; ++i) {
    ((vector*)memory)[i] = (vector){0};
  }
  const long passes = 1 + (long)(50e6 / ((double)each * sizeof(vector)));
  double best = 0;
  for (int i = 0; i < threads; ++i) {
    parts[i].data = (const vector*)memory + each * (size_t)i;
    parts[i].vectors = each;
    parts[i].passes = passes;
  }
  for (int attempt = 0; attempt < ATTEMPTS; ++attempt) {
    const double read = (double)each * sizeof(vector) * (double)passes * threads;
    const double rate = read / onAll(readAll, parts, threads);
    best = rate > best ? rate : best;
  }
  free(memory);
  return best;
}
