// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 that has one device and does nothing: what a call costs on the host without it.
// bench/cuda_call_path.py adds a function that answers 0 for every other symbol that the runtime
// asks for.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static size_t made = 64;  // handles are numbers that nothing reads
static void* last;        // stream of the last launch
static int early;         // launches that may start before the kernel ahead of them has ended
static int capturing;

void* fake_last_stream(void) { return last; }
void fake_capture(int on) { capturing = on; }
int fake_early(void) { return early; }
static int captures;  // of a library's work for a graph
int fake_captures(void) { return captures; }

// Of what was loaded last: the header of machine code, or the beginning of a text.
static char image[4096];
const char* fake_last_image(void) { return image; }

// The last kernel that was started or became a node, among those of `fake_watch` threads a block:
// its grid, shared memory, and the first bytes of its `parameters`, 8 of each.
enum { kWatched = 16 };
static struct {
  unsigned grid[3], shared_bytes;
  unsigned long long values[kWatched];
  unsigned count;
} seen;
static unsigned watched, watched_threads;
void fake_watch(unsigned threads, unsigned parameters) {
  memset(&seen, 0, sizeof seen);
  watched_threads = threads, watched = parameters < kWatched ? parameters : kWatched;
}
const void* fake_seen(void) { return &seen; }
static void see(unsigned gridX, unsigned gridY, unsigned gridZ, unsigned threads, unsigned shared,
                void** arguments) {
  if (threads != watched_threads) {
    return;
  }
  seen.grid[0] = gridX, seen.grid[1] = gridY, seen.grid[2] = gridZ, seen.shared_bytes = shared;
  for (unsigned i = 0; i < watched; ++i) {
    memcpy(&seen.values[i], arguments[i], 8);
  }
  ++seen.count;
}

int cuLaunchKernel(void* kernel, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                   unsigned blockY, unsigned blockZ, unsigned sharedBytes, void* stream,
                   void** arguments) {
  see(gridX, gridY, gridZ, blockX, sharedBytes, arguments);
  return last = stream, 0;
}
struct launch_config {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  const struct launch_attribute {
    unsigned id, reserved, value;
  }* attributes;
  unsigned attribute_count;
};
int cuLaunchKernelEx(const struct launch_config* config) {
  const unsigned programmatic_serialization = 6;
  early += config->attribute_count == 1 && config->attributes->id == programmatic_serialization &&
           config->attributes->value == 1;
  return last = config->stream, 0;
}
int cuGraphLaunch(void* graph, void* stream) { return last = stream, 0; }
int cuStreamIsCapturing(void* stream, int* status) { return *status = capturing, 0; }

// NVRTC, which tells its version to a driver that is there, calls it without a look whether there
// is one.
int cuGetExportTable(const void** table, const void* id) { return *table = NULL, 500; }
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* device, int number) { return *device = number, 0; }
// STRAIGHTLINE_FAKE_CAPABILITY=86: the device is an sm_86.
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const char* chosen = getenv("STRAIGHTLINE_FAKE_CAPABILITY");
  const int capability = chosen ? atoi(chosen) : 90;
  return *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 0, 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) { return *context = (void*)64, 0; }
int cuCtxGetCurrent(void** context) { return *context = (void*)64, 0; }
int cuCtxGetDevice(int* device) { return *device = 0, 0; }
int cuStreamEndCapture(void* stream, void** graph) { return ++captures, *graph = (void*)++made, 0; }
int cuGraphAddChildGraphNode(void** node) { return *node = (void*)++made, 0; }
int cuGetErrorName(int error, const char** name) { return *name = "CUDA_ERROR_OTHER", 0; }
int cuGetErrorString(int error, const char** text) { return *text = "as it is", 0; }
int cuLibraryLoadData(void** library, const void* code) {
  if (memcmp(code, "\177ELF", 4) == 0) {
    memcpy(image, code, 64);
  } else {
    strncpy(image, code, sizeof image - 1);
  }
  return *library = (void*)++made, 0;
}
int cuLibraryGetKernel(void** kernel) { return *kernel = (void*)++made, 0; }
int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  static unsigned long long next = 1ull << 40;
  *address = next;
  next += (bytes + 255) / 256 * 256;
  return 0;
}
int cuStreamCreate(void** stream, unsigned flags) { return *stream = (void*)++made, 0; }
int cuStreamGetId(void* stream, unsigned long long* id) { return *id = 7 + (size_t)stream, 0; }
int cuEventCreate(void** event, unsigned flags) { return *event = (void*)++made, 0; }
int cuGraphCreate(void** graph) { return *graph = (void*)++made, 0; }
struct node_parameters {  // CUDA_KERNEL_NODE_PARAMS, version 2
  void* function;
  unsigned grid[3], block[3], shared_bytes;
  void** arguments;
};
static void see_node(const struct node_parameters* node) {
  see(node->grid[0], node->grid[1], node->grid[2], node->block[0], node->shared_bytes,
      node->arguments);
}
int cuGraphAddKernelNode_v2(void** node, void* graph, const void* from, size_t count,
                            const struct node_parameters* parameters) {
  see_node(parameters);
  return *node = (void*)++made, 0;
}
int cuGraphExecKernelNodeSetParams_v2(void* exec, void* node,
                                      const struct node_parameters* parameters) {
  return see_node(parameters), 0;
}
int cuGraphAddMemcpyNode(void** node) { return *node = (void*)++made, 0; }
int cuGraphAddEmptyNode(void** node) { return *node = (void*)++made, 0; }
int cuGraphInstantiateWithFlags(void** exec) { return *exec = (void*)++made, 0; }
