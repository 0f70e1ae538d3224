// SPDX-License-Identifier: Apache-2.0
// For the emitted text that calls a function of TVM-FFI from a program (sl.tvm_ffi_library): an own
// kernel (own_kernel.h) that makes views of its tensors on the stack and calls the C symbol. C++,
// freestanding. Layouts and prototypes are facts of TVM-FFI's C headers; its C functions are found
// by name, and none of its C++ classes is used, whose layout changes between releases.
#ifndef STRAIGHTLINE_ABI_TVM_KERNEL_H
#define STRAIGHTLINE_ABI_TVM_KERNEL_H

#include "straightline/abi/dlpack.h"
#include "straightline/abi/own_kernel.h"

extern "C" {
void* dlopen(const char* file, int flags);
void* dlsym(void* library, const char* name);
char* dlerror();
void* aligned_alloc(size_t alignment, size_t bytes);
void free(void* memory);
}

namespace sl_tvm {

/// TVMFFIAny.
struct Any {
  int32_t type;
  uint32_t zero;
  union {
    int64_t integer;
    double real;
    const void* pointer;
    sl_dtype dtype;
  };
};
enum : int32_t {
  kNone = 0,
  kInt = 1,
  kBool = 2,
  kFloat = 3,
  kDataType = 5,
  kDlTensor = 7,
  kRawText = 8,
  kObject = 64,
  kTensor = 70
};
using Call = int (*)(void* self, const Any* arguments, int32_t count, Any* result);

/// Bytes of TVMFFIObject, behind which an object's content stands.
constexpr size_t kHeaderBytes = 24;

struct Bytes {
  const char* data;
  size_t size;
};
/// The beginning of TVMFFIErrorCell.
struct Error {
  Bytes kind, message;
};
using Allocate = int (*)(sl_dl_tensor* like, sl_dl_managed** out, void* user,
                         void (*fail)(void* user, const char* kind, const char* message));

/// C functions of libtvm_ffi.
struct Library {
  void (*move_error)(void** out);
  int (*release)(void* object);
  Allocate (*allocator)();
  int (*set_allocator)(Allocate allocate, int globally, Allocate* before);
  int (*from_dlpack)(sl_dl_managed* from, int32_t alignment, int32_t contiguous, void** out);
};

template <typename Function>
bool find(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

inline void say(char* message, const char* a, const char* b = "", const char* c = "",
                size_t c_bytes = ~size_t{0}) {
  size_t used = 0;
  const char* const texts[] = {a, b, c};
  for (int i = 0; i < 3; ++i) {
    const char* text = texts[i];
    for (size_t k = 0; text && text[k] && (i < 2 || k < c_bytes); ++k) {
      if (used + 1 < SL_KERNEL_MESSAGE_BYTES) {
        message[used++] = text[k];
      }
    }
  }
  message[used] = 0;
}

/// The functions of the libtvm_ffi in this process; null: there is none, and `message` says so.
inline const Library* library(char* message) {
  static Library found;
  static int state;  // 0: not looked for, 1: found; looking twice does no harm
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == 1) {
    return &found;
  }
  void* handle = dlopen("libtvm_ffi.so", 2 | 4);  // RTLD_NOW | RTLD_NOLOAD
  Library made;
  if (!find(handle, "TVMFFIErrorMoveFromRaised", &made.move_error) ||
      !find(handle, "TVMFFIObjectDecRef", &made.release) ||
      !find(handle, "TVMFFIEnvGetDLPackManagedTensorAllocator", &made.allocator) ||
      !find(handle, "TVMFFIEnvSetDLPackManagedTensorAllocator", &made.set_allocator) ||
      !find(handle, "TVMFFITensorFromDLPackVersioned", &made.from_dlpack)) {
    say(message, "it needs libtvm_ffi (0.1.13 and later) in the process, which is not loaded");
    return nullptr;
  }
  found = made;
  __atomic_store_n(&state, 1, __ATOMIC_RELEASE);
  return &found;
}

/// A function of a library by its path, opened for as long as the process.
inline Call open(const char* path, const char* symbol, char* message) {
  void* handle = dlopen(path, 2);
  Call call = nullptr;
  if (!handle || !find(handle, symbol, &call)) {
    say(message,
        handle ? "the library lacks its symbol: " : "the library cannot be opened: ", dlerror());
  }
  return call;
}

// ---- memory that a kernel asks the environment for, where nobody else has an allocator

struct Memory {
  sl_dl_managed managed;
  int64_t sizes[16];  // shape, then strides
};

inline void releaseMemory(sl_dl_managed* managed) {
  free(managed->tensor.data);
  free(managed->context);
}

inline int allocate(sl_dl_tensor* like, sl_dl_managed** out, void* user,
                    void (*fail)(void*, const char*, const char*)) {
  size_t bytes = like->dtype.bits * like->dtype.lanes;
  bytes = (bytes + 7) / 8;
  auto* made = like->rank <= 8 && like->device.type == SL_DLPACK_CPU
                   ? static_cast<Memory*>(aligned_alloc(64, (sizeof(Memory) + 63) / 64 * 64))
                   : nullptr;
  for (int32_t dim = made ? like->rank : 0; dim-- > 0;) {
    made->sizes[dim] = like->shape[dim];
    made->sizes[8 + dim] = dim + 1 == like->rank ? 1 : made->sizes[9 + dim] * like->shape[dim + 1];
    bytes *= static_cast<size_t>(like->shape[dim]);
  }
  void* data = made ? aligned_alloc(64, (bytes + 64) / 64 * 64) : nullptr;
  if (!data) {
    free(made);
    fail(user, "MemoryError", "straightline has no memory for a tensor like this");
    return -1;
  }
  made->managed = {{SL_DLPACK_MAJOR, SL_DLPACK_MINOR}, made, releaseMemory, 0, *like};
  made->managed.tensor.data = data;
  made->managed.tensor.shape = made->sizes;
  made->managed.tensor.strides = made->sizes + 8;
  made->managed.tensor.byte_offset = 0;
  *out = &made->managed;
  return 0;
}

// ---- a call

inline Any none() { return {kNone, 0, {0}}; }

/// A view of a tensor of the call: row-major, on the host.
inline sl_dl_tensor view(const sl_kernel_tensor* tensor) {
  sl_dl_tensor made;
  made.data = tensor->data;
  made.device = {SL_DLPACK_CPU, 0};
  made.rank = tensor->rank;
  made.dtype = tensor->dtype;
  made.shape = const_cast<int64_t*>(tensor->extents);
  made.strides = nullptr;
  made.byte_offset = 0;
  return made;
}

/// In place of a tensor that is absent, whose view is not passed on.
inline constexpr int64_t noExtents[] = {0};
inline constexpr sl_kernel_tensor nothing = {nullptr, noExtents, 1, {2, 32, 1}};

/// The same with strides, for functions that read them.
struct View {
  sl_dl_tensor tensor;
  int64_t strides[8];
  explicit View(const sl_kernel_tensor* from) : tensor(view(from)) {
    int64_t stride = 1;
    for (int32_t dim = from->rank; dim-- > 0;) {
      strides[dim] = stride;
      stride *= from->extents[dim];
    }
    tensor.strides = strides;
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
};

inline Any of(const View& view) {
  Any any = {kDlTensor, 0, {}};
  any.pointer = &view.tensor;
  return any;
}
inline Any of(int64_t value) { return {kInt, 0, {value}}; }
inline Any ofBool(int64_t value) { return {kBool, 0, {value}}; }
inline Any of(double value) {
  Any any = {kFloat, 0, {}};
  any.real = value;
  return any;
}
inline Any of(const char* text) {
  Any any = {kRawText, 0, {}};
  any.pointer = text;
  return any;
}
inline Any of(sl_dtype dtype) {
  Any any = {kDataType, 0, {0}};
  any.dtype = dtype;
  return any;
}

/// A tensor of the call as an object of TVM-FFI, for functions that take no views, such as
/// Python's. Its memory is that of the call, so it has to be given back before the call ends.
class Object {
 public:
  Object(const Library& library, const sl_kernel_tensor* from) : library_(library) {
    if (!from) {
      return;  // an absent one
    }
    shared_ = static_cast<Shared*>(aligned_alloc(64, (sizeof(Shared) + 63) / 64 * 64));
    if (!shared_) {
      return;
    }
    shared_->state = kLive;
    int64_t stride = 1;
    for (int32_t dim = from->rank; dim-- > 0;) {
      shared_->sizes[dim] = from->extents[dim];
      shared_->sizes[8 + dim] = stride;
      stride *= from->extents[dim];
    }
    shared_->managed = {{SL_DLPACK_MAJOR, SL_DLPACK_MINOR}, shared_, release, 0, view(from)};
    shared_->managed.tensor.shape = shared_->sizes;
    shared_->managed.tensor.strides = shared_->sizes + 8;
    if (library.from_dlpack(&shared_->managed, 0, 0, &object_) != 0) {
      free(shared_);
      shared_ = nullptr;
      object_ = nullptr;
    }
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() { giveBack(); }

  Any any() const {
    Any made = none();
    made.type = object_ ? kTensor : kNone;
    made.pointer = object_;
    return made;
  }
  /// Drops the object; false: somebody else holds it still.
  bool giveBack() {
    if (!object_) {
      return true;
    }
    library_.release(object_);
    object_ = nullptr;
    if (__atomic_exchange_n(&shared_->state, kAbandoned, __ATOMIC_ACQ_REL) == kLive) {
      return false;  // whoever holds it frees what describes it
    }
    free(shared_);
    return true;
  }

 private:
  enum : int32_t { kLive, kReleased, kAbandoned };
  struct Shared {
    sl_dl_managed managed;
    int64_t sizes[16];  // shape, then strides
    int32_t state;
  };
  static void release(sl_dl_managed* managed) {
    auto* shared = static_cast<Shared*>(managed->context);
    if (__atomic_exchange_n(&shared->state, kReleased, __ATOMIC_ACQ_REL) == kAbandoned) {
      free(shared);
    }
  }

  const Library& library_;
  Shared* shared_ = nullptr;
  void* object_ = nullptr;
};

/// Takes the objects of a call back. An error of the function stays the one that is told.
inline int32_t giveBack(Object* const* objects, int32_t count, int32_t status, char* message) {
  for (int32_t i = 0; i < count; ++i) {
    if (!objects[i]->giveBack() && status == 0) {
      say(message,
          "it keeps a view of a tensor, whose memory is the call's: let it copy what it keeps");
      status = 1;
    }
  }
  return status;
}

/// Copies elements of any strides to row-major memory.
inline void copy(const sl_dl_tensor& from, const sl_kernel_tensor* to) {
  const size_t bytes = to->dtype.bits / 8;
  const int64_t count = sl_kernel_tensor_count(to);
  auto* data = static_cast<char*>(from.data) + from.byte_offset;
  int64_t at[8] = {};
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0, dense = 1;
    for (int32_t dim = to->rank; dim-- > 0;) {
      offset += at[dim] * (from.strides ? from.strides[dim] : dense);
      dense *= to->extents[dim];
    }
    __builtin_memcpy(static_cast<char*>(to->data) + i * static_cast<int64_t>(bytes),
                     data + offset * static_cast<int64_t>(bytes), bytes);
    for (int32_t dim = to->rank; dim-- > 0 && ++at[dim] == to->extents[dim];) {
      at[dim] = 0;
    }
  }
}

/// Takes what the function returned as the result `to`, null where the schema has none.
inline int32_t take(const Library& library, Any* result, const sl_kernel_tensor* to,
                    char* message) {
  int32_t status = 0;
  const sl_dl_tensor* made = nullptr;
  if (result->type == kTensor) {
    made = reinterpret_cast<const sl_dl_tensor*>(static_cast<const char*>(result->pointer) +
                                                 kHeaderBytes);
  } else if (result->type == kDlTensor) {
    made = static_cast<const sl_dl_tensor*>(result->pointer);
  }
  if (to) {
    const char* wrong = !made ? "it returned no tensor"
                        : made->device.type != SL_DLPACK_CPU
                            ? "it returned a tensor of another device"
                        : made->rank != to->rank ? "it returned a tensor of another rank"
                        : made->dtype.code != to->dtype.code || made->dtype.bits != to->dtype.bits
                            ? "it returned a tensor of another dtype"
                            : nullptr;
    for (int32_t dim = 0; !wrong && dim < to->rank; ++dim) {
      wrong =
          made->shape[dim] != to->extents[dim] ? "it returned a tensor of other sizes" : nullptr;
    }
    if (!wrong && !made->data && sl_kernel_tensor_count(to) > 0) {
      wrong = "it returned a tensor without memory";
    }
    if (wrong) {
      say(message, wrong, ", not what the fake kernel says");
      status = 1;
    } else {
      copy(*made, to);
    }
  }
  if (result->type >= kObject) {
    library.release(const_cast<void*>(result->pointer));
  }
  return status;
}

/// Calls the function; `message` gets kind and text of an error.
inline int32_t call(Call function, void* self, const Any* arguments, int32_t count,
                    const sl_kernel_tensor* result, char* message) {
  const Library* known = library(message);
  if (!known || !function) {
    return 1;
  }
  const bool isAlone = !known->allocator();
  Allocate before = nullptr;
  if (isAlone) {
    known->set_allocator(allocate, 0, &before);
  }
  Any returned = none();
  const int failed = function(self, arguments, count, &returned);
  if (isAlone) {
    known->set_allocator(before, 0, nullptr);
  }
  if (failed == 0) {
    return take(*known, &returned, result, message);
  }
  void* error = nullptr;
  known->move_error(&error);
  if (!error) {
    say(message, "it failed without an error");
    return 1;
  }
  const auto& cell =
      *reinterpret_cast<const Error*>(static_cast<const char*>(error) + kHeaderBytes);
  char kind[64];
  size_t bytes = cell.kind.size < sizeof kind - 1 ? cell.kind.size : sizeof kind - 1;
  __builtin_memcpy(kind, cell.kind.data, bytes);
  kind[bytes] = 0;
  say(message, kind, ": ", cell.message.data, cell.message.size);
  known->release(error);
  return 1;
}

}  // namespace sl_tvm

#endif  // STRAIGHTLINE_ABI_TVM_KERNEL_H
