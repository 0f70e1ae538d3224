// SPDX-License-Identifier: Apache-2.0
// Functions of TVM-FFI in C, as any language may write them: safe calls by the name
// __tvm_ffi_<name> (tvm/ffi/c_api.h).
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
  uint32_t small;
  union {
    int64_t integer;
    double real;
    void* pointer;
    struct {
      uint8_t code, bits;
      uint16_t lanes;
    } dtype;
  };
} Any;
enum { kBool = 2, kFloat = 3, kDataType = 5, kTensorPointer = 7, kRawText = 8, kTensor = 70 };

void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
int TVMFFIEnvTensorAlloc(Tensor* like, void** out);
int TVMFFIObjectDecRef(void* object);

static int fail(const char* kind, const char* message) {
  TVMFFIErrorSetRaisedFromCStr(kind, message);
  return -1;
}

static int64_t count(const Tensor* tensor) {
  int64_t all = 1;
  for (int32_t dim = 0; dim < tensor->rank; ++dim) {
    all *= tensor->shape[dim];
  }
  return all;
}

/// A view, or a tensor object, whose content stands behind a header of 24 bytes; NULL: neither.
static const Tensor* tensorOf(const Any* any) {
  return any->type == kTensorPointer ? any->pointer
         : any->type == kTensor      ? (const Tensor*)((const char*)any->pointer + 24)
                                     : NULL;
}

static float* floats(const Any* any) {
  const Tensor* tensor = tensorOf(any);
  return (float*)((char*)tensor->data + tensor->byte_offset);
}

/// scale(Tensor(a!) out, Tensor x, float a, bool negate) -> ()
int __tvm_ffi_scale(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)result;
  if (n != 4 || !tensorOf(&arguments[0]) || !tensorOf(&arguments[1]) ||
      arguments[2].type != kFloat || arguments[3].type != kBool) {
    return fail("TypeError", "scale takes two tensors, a float and a bool");
  }
  const Tensor *out = tensorOf(&arguments[0]), *x = tensorOf(&arguments[1]);
  if (out->device_type != 1 || !x->strides || count(out) != count(x) || x->code != 2 ||
      x->bits != 32) {
    return fail("ValueError", "scale takes float32 of one size");
  }
  if (arguments[2].real < 0) {
    return fail("ValueError", "a is negative");
  }
  const float a = (float)(arguments[3].integer ? -arguments[2].real : arguments[2].real);
  for (int64_t i = 0; i < count(x); ++i) {
    floats(&arguments[0])[i] = floats(&arguments[1])[i] * a;
  }
  return 0;
}

/// What each argument is, as numbers: kinds(Tensor(a!) out, Tensor? x, int k, str s, dtype d) -> ()
int __tvm_ffi_kinds(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)result;
  float* out = floats(&arguments[0]);
  out[0] = (float)n;
  out[1] = (float)arguments[1].type;
  out[2] = (float)arguments[2].integer;
  out[3] = (float)(arguments[3].type == kRawText ? strlen(arguments[3].pointer) : 0);
  out[4] = arguments[4].type == kDataType
               ? (float)(arguments[4].dtype.code * 100 + arguments[4].dtype.bits)
               : 0;
  return 0;
}

/// A tensor by the environment's allocator. `mode`: 0 is twice the argument, others are wrong.
static int made(const Any* arguments, int mode, Any* result) {
  Tensor like = *(const Tensor*)arguments[0].pointer;
  int64_t shape[8];
  memcpy(shape, like.shape, sizeof(int64_t) * (size_t)like.rank);
  like.shape = shape;
  if (mode == 1) {
    like.code = 0;
  } else if (mode == 2) {
    shape[0] += 1;
  } else if (mode == 3) {
    like.rank -= 1;
  }
  void* object = NULL;
  if (TVMFFIEnvTensorAlloc(&like, &object) != 0) {
    return -1;
  }
  Tensor* tensor = (Tensor*)((char*)object + 24);
  if (mode == 4) {
    tensor->device_type = 2;
  }
  for (int64_t i = 0; mode == 0 && i < count(tensor); ++i) {
    ((float*)tensor->data)[i] = 2 * floats(&arguments[0])[i];
  }
  result->type = kTensor;
  result->pointer = object;
  return 0;
}
/// twice(Tensor x) -> Tensor
int __tvm_ffi_twice(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)n;
  return made(arguments, 0, result);
}
/// bad(Tensor x, int mode) -> Tensor
int __tvm_ffi_bad(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)n;
  return arguments[1].integer ? made(arguments, (int)arguments[1].integer, result) : 0;
}

/// Takes and frees memory of the environment: scratch(Tensor(a!) out, Tensor x) -> ()
int __tvm_ffi_scratch(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)n;
  (void)result;
  Tensor like = *(const Tensor*)arguments[1].pointer;
  void* object = NULL;
  if (TVMFFIEnvTensorAlloc(&like, &object) != 0) {
    return -1;
  }
  float* memory = ((Tensor*)((char*)object + 24))->data;
  for (int64_t i = 0; i < count(&like); ++i) {
    memory[i] = floats(&arguments[1])[i] + 1;
  }
  memcpy(floats(&arguments[0]), memory, sizeof(float) * (size_t)count(&like));
  return TVMFFIObjectDecRef(object);
}

/// silent(Tensor(a!) out) -> (): an error without words
int __tvm_ffi_silent(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)arguments;
  (void)n;
  (void)result;
  return -1;
}
