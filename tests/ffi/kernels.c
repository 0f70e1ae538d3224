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

/// quiet(Tensor(a!) out) -> (): an error of a kind, without a message
int __tvm_ffi_quiet(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)arguments;
  (void)n;
  (void)result;
  return fail("ValueError", "");
}

typedef struct {
  const char* data;
  size_t size;
} Bytes;
enum { kArray = 71 };
int TVMFFIFunctionGetGlobal(const Bytes* name, void** out);
int TVMFFIFunctionCall(void* function, const Any* arguments, int32_t n, Any* result);

/// A global function of TVM-FFI; what it gives is the caller's.
static Any global(const char* name, const Any* arguments, int32_t n) {
  const Bytes text = {name, strlen(name)};
  void* function = NULL;
  Any result = {0, 0, {0}};
  if (TVMFFIFunctionGetGlobal(&text, &function) == 0) {
    TVMFFIFunctionCall(function, arguments, n, &result);
    TVMFFIObjectDecRef(function);
  }
  return result;
}

static Any item(const Any* array, int64_t number) {
  const Any place[2] = {*array, {1, 0, {number}}};
  return global("ffi.ArrayGetItem", place, 2);
}

/// lists(Tensor(a!) out, Tensor[] xs, Tensor(b!)[] ys, int[] ks, float[] fs) -> (): out is the sum
/// of all elements, integers and floats, and ys grow by 1
int __tvm_ffi_lists(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)result;
  float sum = 0;
  for (int32_t i = 1; i < n; ++i) {
    if (arguments[i].type != kArray) {
      return fail("TypeError", "lists takes arrays");
    }
    const Any size = global("ffi.ArraySize", &arguments[i], 1);
    for (int64_t k = 0; k < size.integer; ++k) {
      const Any value = item(&arguments[i], k);
      const Tensor* tensor = tensorOf(&value);
      for (int64_t at = 0; tensor && at < count(tensor); ++at) {
        sum += floats(&value)[at];
        floats(&value)[at] += i == 2 ? 1 : 0;
      }
      if (tensor) {
        TVMFFIObjectDecRef(value.pointer);
      } else {
        sum += value.type == kFloat ? (float)value.real : (float)value.integer;
      }
    }
  }
  floats(&arguments[0])[0] = sum;
  return 0;
}

/// pair(Tensor x, int mode) -> (Tensor, Tensor): twice the argument in both, or what is wrong
int __tvm_ffi_pair(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)n;
  Any both[3] = {{0, 0, {0}}, {0, 0, {0}}, {0, 0, {0}}};
  for (int i = 0; i < 3; ++i) {
    if (made(arguments, 0, &both[i]) != 0) {
      return -1;
    }
  }
  if (arguments[1].integer == 0) {
    floats(&both[1])[0] += 1;
  }
  const Any array = global("ffi.Array", both, arguments[1].integer == 2 ? 3 : 2);
  for (int i = 0; i < 3; ++i) {
    TVMFFIObjectDecRef(both[i].pointer);
  }
  if (arguments[1].integer == 1) {
    TVMFFIObjectDecRef(array.pointer);
    result->type = 0;
    return 0;
  }
  *result = array;
  return 0;
}

/// numbers(Tensor sizes, int mode) -> int[3]: how many elements, their sum, whether they are more
/// than 2; or, by the mode, what is wrong: 1 another count, 2 a float, 3 nothing, 4 a tensor
int __tvm_ffi_numbers(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)n;
  const Tensor* sizes = tensorOf(&arguments[0]);
  const int mode = (int)arguments[1].integer;
  if (sizes->device_type != 1 || sizes->code != 0 || sizes->bits != 64) {
    return fail("TypeError", "numbers takes int64 on the host");
  }
  if (mode == 3) {
    return 0;
  }
  if (mode == 4) {
    return made(arguments, 0, result);
  }
  int64_t sum = 0;
  for (int64_t i = 0; i < count(sizes); ++i) {
    sum += ((const int64_t*)sizes->data)[i];
  }
  Any all[4] = {{1, 0, {count(sizes)}}, {1, 0, {sum}}, {kBool, 0, {count(sizes) > 2}}, {1, 0, {0}}};
  if (mode == 2) {
    all[1].type = kFloat;
    all[1].real = 0.5;
  }
  *result = global("ffi.Array", all, mode == 1 ? 4 : 3);
  return 0;
}

/// spread(Tensor(a!) out, Tensor x, int[3] numbers) -> (): x times the count, and the sum and the
/// truth of `numbers`
int __tvm_ffi_spread(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)n;
  (void)result;
  if (arguments[2].type != kArray) {
    return fail("TypeError", "spread takes an array");
  }
  float values[3] = {0, 0, 0};
  if (global("ffi.ArraySize", &arguments[2], 1).integer != 3) {
    return fail("ValueError", "spread takes three numbers");
  }
  for (int64_t i = 0; i < 3; ++i) {
    const Any value = item(&arguments[2], i);
    if (value.type != 1) {
      return fail("TypeError", "spread takes ints");
    }
    values[i] = (float)value.integer;
  }
  const Tensor* out = tensorOf(&arguments[0]);
  for (int64_t i = 0; i < count(out); ++i) {
    floats(&arguments[0])[i] = floats(&arguments[1])[i] * values[0] + values[1] + values[2];
  }
  return 0;
}

// ---- functions of a device, which tell what they got and do nothing there

void* TVMFFIEnvGetStream(int32_t device_type, int32_t device);
static struct {
  int32_t calls, device_type, device, host_type;
  void *stream, *out, *memory;
  int64_t numbers[3], scratch_bytes;
} seen;

/// What the last call of one of them saw.
const void* what_was_seen(void) { return &seen; }

/// seen(Tensor(a!) out, Tensor x, bool fails) -> ()
int __tvm_ffi_seen(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)n;
  (void)result;
  const Tensor *out = tensorOf(&arguments[0]), *x = tensorOf(&arguments[1]);
  if (arguments[2].integer) {
    return fail("RuntimeError", "it fails as asked");
  }
  seen.calls += 1;
  seen.device_type = x->device_type;
  seen.device = x->device_id;
  seen.stream = TVMFFIEnvGetStream(x->device_type, x->device_id);
  seen.out = (char*)out->data + out->byte_offset;
  return 0;
}

/// plan(Tensor(a!) out, Tensor sizes) -> (): reads `sizes` on the host
int __tvm_ffi_plan(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)n;
  (void)result;
  const Tensor *out = tensorOf(&arguments[0]), *sizes = tensorOf(&arguments[1]);
  seen.calls += 1;
  seen.device_type = out->device_type;
  seen.host_type = sizes->device_type;
  seen.stream = TVMFFIEnvGetStream(out->device_type, out->device_id);
  return 0;
}

/// plan_numbers(Tensor(a!) x, Tensor sizes, int scratch) -> int[3]: how often one of these
/// functions was called, 7, and how large the scratch memory on the host is, into which it writes
int __tvm_ffi_plan_numbers(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)n;
  const Tensor *x = tensorOf(&arguments[0]), *sizes = tensorOf(&arguments[1]);
  const Tensor* scratch = tensorOf(&arguments[2]);
  if (scratch->device_type != 1 || scratch->code != 1 || scratch->bits != 8) {
    return fail("TypeError", "plan_numbers takes bytes on the host");
  }
  memset(scratch->data, 1, (size_t)count(scratch));
  seen.calls += 1;
  seen.device_type = x->device_type;
  seen.host_type = sizes->device_type;
  seen.stream = TVMFFIEnvGetStream(x->device_type, x->device_id);
  seen.scratch_bytes = count(scratch);
  const Any all[3] = {{1, 0, {seen.calls}}, {1, 0, {7}}, {1, 0, {count(scratch)}}};
  *result = global("ffi.Array", all, 3);
  return 0;
}

/// run_numbers(Tensor(a!) out, int[3] numbers) -> ()
int __tvm_ffi_run_numbers(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)n;
  (void)result;
  const Tensor* out = tensorOf(&arguments[0]);
  for (int64_t i = 0; i < 3; ++i) {
    seen.numbers[i] = item(&arguments[1], i).integer;
  }
  seen.calls += 1;
  seen.device_type = out->device_type;
  seen.stream = TVMFFIEnvGetStream(out->device_type, out->device_id);
  return 0;
}

static void* kept;  // a tensor that outlives its call
void let_go(void) {
  TVMFFIObjectDecRef(kept);
  kept = NULL;
}

/// takes(Tensor(a!) out, Tensor x, int count, int mode) -> (): memory of the environment, `count`
/// times as much as x has; mode 1 keeps the last one, mode 2 asks for memory of another device
int __tvm_ffi_takes(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)n;
  (void)result;
  Tensor like = *tensorOf(&arguments[1]);
  like.device_id += arguments[3].integer == 2;
  for (int64_t i = 0; i < arguments[2].integer; ++i) {
    void* object = NULL;
    if (TVMFFIEnvTensorAlloc(&like, &object) != 0) {
      return -1;
    }
    seen.memory = ((Tensor*)((char*)object + 24))->data;
    if (arguments[3].integer == 1 && i + 1 == arguments[2].integer) {
      kept = object;
    } else {
      TVMFFIObjectDecRef(object);
    }
  }
  seen.calls += 1;
  return 0;
}

/// gives(Tensor x) -> Tensor: memory of the environment that nothing fills
int __tvm_ffi_gives(void* self, const Any* arguments, int32_t n, Any* result) {
  (void)self;
  (void)n;
  Tensor like = *tensorOf(&arguments[0]);
  void* object = NULL;
  if (TVMFFIEnvTensorAlloc(&like, &object) != 0) {
    return -1;
  }
  seen.memory = ((Tensor*)((char*)object + 24))->data;
  seen.calls += 1;
  result->type = kTensor;
  result->pointer = object;
  return 0;
}
