// SPDX-License-Identifier: Apache-2.0
// A kernel for TVM-FFI in C: rmsnorm(out, x, w, eps) over rows of float32. Compilers of kernels and
// libraries such as FlashInfer export theirs in this form.
//
//     cc -O3 -shared -fPIC rmsnorm.c -o librmsnorm.so -L<tvm_ffi>/lib -ltvm_ffi -lm
#include <math.h>
#include <stdint.h>

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
  union {
    double real;
    Tensor* tensor;
  };
} Argument;

void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);

int __tvm_ffi_rmsnorm(void* self, const Argument* arguments, int32_t count, Argument* result) {
  (void)self;
  (void)result;
  if (count != 4 || arguments[1].tensor->rank != 2) {
    TVMFFIErrorSetRaisedFromCStr("ValueError", "rmsnorm takes (out, x, w, eps), x of rank 2");
    return -1;
  }
  const Tensor* x = arguments[1].tensor;
  const int64_t rows = x->shape[0], columns = x->shape[1];
  const float* weight = arguments[2].tensor->data;
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = (const float*)x->data + row * columns;
    float* to = (float*)arguments[0].tensor->data + row * columns;
    float sum = 0;
    for (int64_t i = 0; i < columns; ++i) {
      sum += from[i] * from[i];
    }
    const float scale = 1 / sqrtf(sum / (float)columns + (float)arguments[3].real);
    for (int64_t i = 0; i < columns; ++i) {
      to[i] = from[i] * scale * weight[i];
    }
  }
  return 0;
}
