// SPDX-License-Identifier: Apache-2.0
// A CUDA device on the host, so that results of emitted kernels can be tested without a device. The
// threads of a block are fibers of one host thread; they switch at barriers and waits, in an order
// made from a seed. The blocks of a cluster are threads. Nothing here says anything about time.
// Kernels' threads call these functions; machine.cpp is never instrumented.
//
// Under ThreadSanitizer each thread of a kernel is a thread of its own to it
// (`__tsan_create_fiber`) and only what CUDA says orders two accesses: barriers, what st.async
// announces, __syncwarp, and awaitPrevious() or the plain end of a kernel between launches, by the
// rules of runtime/backends/cuda/graph.cpp. So it finds races between threads, blocks of one launch
// and launches, also of what a kernel reads before it waits and of storage used again too early. An
// exchange between lanes orders nothing.
#ifndef STRAIGHTLINE_TESTS_HOST_DEVICE_MACHINE_H
#define STRAIGHTLINE_TESTS_HOST_DEVICE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include <tuple>
#include <utility>

#include "straightline/abi/entry.h"

struct cuda_place {
  unsigned x;
};
extern __thread cuda_place threadIdx, blockIdx, blockDim, gridDim;

namespace host_device {

/// Ends the process with these words.
[[noreturn]] void fail(const char* what);

/// __syncthreads: returns when all threads of the block that have not ended have called it.
void syncBlock();
/// The same for the 32 threads of a warp; `orders`: also orders their writes and reads.
void syncWarp(bool orders);

/// Shows `bytes` (at most 16) to the warp. Behind it every lane reads what the others show, at
/// shown(lane), and calls hide().
void show(const void* what, unsigned bytes);
const void* shown(unsigned lane);
void hide();

/// Waits for the kernels ahead (griddepcontrol.wait).
void awaitPrevious();

/// A copy to shared memory that may happen at any time until it is waited for: the place is garbage
/// until then. 16 bytes.
void copyLater(void* to, const void* from, bool exists);
void closeGroup();
/// What the groups but the newest `kept` copied is there.
void waitForGroups(int kept);

// Of clusters: names as in codegen/kernels/cuda_cluster.h.
int rank();
void arrive(bool releases);
void wait();
void expect(uint64_t* barrier, int bytes, bool first);
void complete(uint64_t* barrier, int bytes);
void awaitSent(const uint64_t* barrier, int parity);
/// Where block `number` of the cluster has what lies at `p` here.
void* there(int number, const void* p);

/// Runs a kernel: its grid, its entry of the program's tables with its arguments, and whether it
/// waits for those ahead by itself where these do, too. `shared`: finds the shared memory of the
/// calling thread, or null. Under AddressSanitizer a kernel may touch of what the program keeps
/// (arenas, prepared data) only what its arguments are.
struct Launch {
  int64_t blocks = 0;
  int threads = 0;
  int cluster = 1;
  bool early = false;
  const sl_entry* kernel = nullptr;
  void* const* arguments = nullptr;
  void (*entry)(const void* body) = nullptr;
  const void* body = nullptr;
  void (*shared)(char** first, size_t* bytes) = nullptr;
};
void launch(const Launch& what);

template <class Body>
void callBody(const void* body) {
  (*static_cast<const Body*>(body))();
}
template <class... P, size_t... I>
void callAt(void (*kernel)(P...), void* const* arguments, Launch what, std::index_sequence<I...>) {
  auto body = [kernel, values = std::tuple<P...>(*static_cast<P*>(arguments[I])...)] {
    std::apply(kernel, values);
  };
  what.entry = &callBody<decltype(body)>;
  // for good: nothing tells the sanitizer when kernels have read it
  what.body = new auto(body);
  launch(what);
}
template <class... P>
void call(void (*kernel)(P...), void* const* arguments, const Launch& what) {
  callAt(kernel, arguments, what, std::index_sequence_for<P...>{});
}

}  // namespace host_device

#endif  // STRAIGHTLINE_TESTS_HOST_DEVICE_MACHINE_H
