// SPDX-License-Identifier: Apache-2.0
// Calls a library of fn.export_library(.., symbol="forward") by TVM-FFI's C ABI: no Python, no
// torch, no compiler, and no library but libc.
//
//     cc library.c -ldl -o library && ./library ./forward.so
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

// A tensor and an argument as DLPack and TVM-FFI lay them out (dlpack.h, tvm/ffi/c_api.h).
typedef struct {
  void* data;
  int32_t device_type, device_id, rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} Tensor;
typedef struct {
  int32_t type;
  uint32_t zero;
  void* value;
} Argument;
enum { kTensorPointer = 7, kCpu = 1, kFloat = 2 };

int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  int (*forward)(void*, const Argument*, int32_t, Argument*) = NULL;
  if (library) {
    *(void**)&forward = dlsym(library, "__tvm_ffi_forward");
  }
  if (!forward) {
    fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "usage: library forward.so");
    return 1;
  }
  float x[2 * 16], y[2 * 4];
  for (int i = 0; i < 2 * 16; ++i) {
    x[i] = (float)(i % 5);
  }
  int64_t in[2] = {2, 16}, out[2] = {2, 4};
  Tensor tensors[2] = {{x, kCpu, 0, 2, kFloat, 32, 1, in, NULL, 0},
                       {y, kCpu, 0, 2, kFloat, 32, 1, out, NULL, 0}};
  // without libtvm_ffi nobody makes results: the caller gives a destination behind the arguments
  const Argument arguments[2] = {{kTensorPointer, 0, &tensors[0]},
                                 {kTensorPointer, 0, &tensors[1]}};
  Argument result = {0, 0, NULL};
  if (forward(NULL, arguments, 2, &result) != 0) {
    fprintf(stderr, "the call failed\n");
    return 1;
  }
  for (int i = 0; i < 2 * 4; ++i) {
    printf("%.6f\n", y[i]);
  }
  return 0;
}
