// SPDX-License-Identifier: Apache-2.0
// Launches of a kernel that does nothing, one by one or as one graph, through the driver that the
// process has open already.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  void* function;
  unsigned grid[3], block[3], shared;
  void** arguments;
  void** extra;
} kernel_node;

typedef struct {
  int kernels;
  void* function;
  void* graph;  // NULL: one by one
} launches;

static int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     void*, void**, void**);
static int (*graph_launch)(void*, void*);
static int (*synchronize)(void);

static const char text[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c) { ret; }\n";

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void* failed(char* message, size_t bytes, const char* what, int code) {
  snprintf(message, bytes, "%s fails with %d", what, code);
  return NULL;
}

/// `kernels` launches a call, on the legacy default stream; NULL and a message when the driver
/// refuses.
void* sl_bench_cuda_open(int kernels, int as_graph, char* message, size_t bytes) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) {
    return failed(message, bytes, "libcuda.so.1: dlopen", 0);
  }
  int (*load)(void**, const void*) = dlsym(driver, "cuModuleLoadData");
  int (*find)(void**, void*, const char*) = dlsym(driver, "cuModuleGetFunction");
  int (*create)(void**, unsigned) = dlsym(driver, "cuGraphCreate");
  int (*add)(void**, void*, void* const*, size_t, const kernel_node*) =
      dlsym(driver, "cuGraphAddKernelNode");
  int (*instantiate)(void**, void*, unsigned long long) =
      dlsym(driver, "cuGraphInstantiateWithFlags");
  launch = dlsym(driver, "cuLaunchKernel");
  graph_launch = dlsym(driver, "cuGraphLaunch");
  synchronize = dlsym(driver, "cuCtxSynchronize");
  if (!load || !find || !create || !add || !instantiate || !launch || !graph_launch ||
      !synchronize) {
    return failed(message, bytes, "libcuda.so.1: a function is missing, dlsym", 0);
  }
  launches* made = calloc(1, sizeof *made);
  made->kernels = kernels;
  void* module = NULL;
  int code = load(&module, text);
  if (code || (code = find(&made->function, module, "nothing"))) {
    return failed(message, bytes, "loading the empty kernel", code);
  }
  if (as_graph) {
    void* graph = NULL;
    void* last = NULL;
    static void* place = NULL;
    void* arguments[] = {&place, &place, &place};
    const kernel_node node = {made->function, {1, 1, 1}, {32, 1, 1}, 0, arguments, NULL};
    code = create(&graph, 0);
    for (int i = 0; i < kernels && !code; ++i) {
      void* added = NULL;
      code = add(&added, graph, &last, i > 0, &node);
      last = added;
    }
    if (code || (code = instantiate(&made->graph, graph, 0))) {
      return failed(message, bytes, "making a graph of empty kernels", code);
    }
  }
  return made;
}

static void call(const launches* made) {
  static void* place = NULL;
  void* arguments[] = {&place, &place, &place};
  if (made->graph) {
    graph_launch(made->graph, NULL);
    return;
  }
  for (int i = 0; i < made->kernels; ++i) {
    launch(made->function, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL);
  }
}

/// Seconds until the last of so many calls came back.
double sl_bench_cuda_enqueue(const launches* made, long calls) {
  const double start = now();
  for (long i = 0; i < calls; ++i) {
    call(made);
  }
  return now() - start;
}

/// Each call by itself: seconds until it came back, and until the device was done.
void sl_bench_cuda_singles(const launches* made, long calls, double* enqueue, double* done) {
  synchronize();
  for (long i = 0; i < calls; ++i) {
    const double start = now();
    call(made);
    enqueue[i] = now() - start;
    synchronize();
    done[i] = now() - start;
  }
}
