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
struct Here {};
}  // namespace sl_tvm
/// Constructs in memory that there is.
inline void* operator new(size_t, void* place, sl_tvm::Here) noexcept { return place; }

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
  kTensor = 70,
  kArray = 71,
  kList = 75
};
using Call = int (*)(void* self, const Any* arguments, int32_t count, Any* result);
/// The guarded call of own_kernel.h.
using Guard = int32_t (*)(Call function, void* self, const Any* arguments, int32_t count,
                          Any* result, char* message);

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
  int (*set_stream)(int32_t device_type, int32_t device, void* stream, void** before);
  int (*find_global)(const Bytes* name, void** out);
  int (*call)(void* function, const Any* arguments, int32_t count, Any* result);
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
      !find(handle, "TVMFFITensorFromDLPackVersioned", &made.from_dlpack) ||
      !find(handle, "TVMFFIEnvSetStream", &made.set_stream) ||
      !find(handle, "TVMFFIFunctionGetGlobal", &made.find_global) ||
      !find(handle, "TVMFFIFunctionCall", &made.call)) {
    say(message, "it needs libtvm_ffi (0.1.13 and later) in the process, which is not loaded");
    return nullptr;
  }
  found = made;
  __atomic_store_n(&state, 1, __ATOMIC_RELEASE);
  return &found;
}

// ---- where a call is

/// The functions of libcuda that a call on a device needs; found by name.
struct Driver {
  int (*device)(int32_t* out);
  int (*is_capturing)(void* stream, int32_t* out);
  int (*copy)(uint64_t to, uint64_t from, size_t bytes, void* stream);
  int (*copy_to_host)(void* to, uint64_t from, size_t bytes, void* stream);
  int (*wait)(void* stream);
};

inline const Driver* driver(char* message) {
  static Driver found;
  static int state;  // as in `library`
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == 1) {
    return &found;
  }
  void* handle = dlopen("libcuda.so.1", 2 | 4);  // RTLD_NOW | RTLD_NOLOAD
  Driver made;
  if (!handle || !find(handle, "cuCtxGetDevice", &made.device) ||
      !find(handle, "cuStreamIsCapturing", &made.is_capturing) ||
      !find(handle, "cuMemcpyDtoDAsync_v2", &made.copy) ||
      !find(handle, "cuMemcpyDtoHAsync_v2", &made.copy_to_host) ||
      !find(handle, "cuStreamSynchronize", &made.wait)) {
    say(message, "it needs NVIDIA's driver in the process, which is not loaded");
    return nullptr;
  }
  found = made;
  __atomic_store_n(&state, 1, __ATOMIC_RELEASE);
  return &found;
}

constexpr int32_t kCuda = 2;  // DLDeviceType

/// Where the tensors of one call are, and what it may use there.
struct Site {
  sl_dl_device device = {SL_DLPACK_CPU, 0};
  void* stream = nullptr;          ///< of a device
  char* workspace = nullptr;       ///< of a device: what the environment's allocator gives
  size_t bytes = 0;                ///< of the workspace
  const Driver* driver = nullptr;  ///< of a device
};

/// A call on the thread's current device. False: there is none, and `message` says so.
inline bool onDevice(void* stream, void* workspace, int64_t bytes, Site* site, char* message) {
  const Driver* known = driver(message);
  int32_t number = 0;
  if (!known) {
    return false;
  }
  if (known->device(&number) != 0) {
    say(message, "the thread has no current CUDA device");
    return false;
  }
  *site = {
      {kCuda, number}, stream, static_cast<char*>(workspace), static_cast<size_t>(bytes), known};
  return true;
}

/// Whether the stream is being captured: whoever plans on the host for each launch, or is given the
/// numbers of a plan, cannot be a part of what is captured. `what` says which.
inline bool isCaptured(const Site& site, const char* what, char* message) {
  int32_t captures = 0;
  const bool is = site.driver->is_capturing(site.stream, &captures) != 0 || captures != 0;
  if (is) {
    say(message, what,
        ", which a captured graph does not repeat: call the program outside of the capture");
  }
  return is;
}

// ---- memory that a kernel asks the environment for, where nobody else has an allocator

/// Counts the tensors that have memory of one call's workspace. Whoever is last frees it.
struct Holders {
  int32_t count;  // one more as long as the call runs
};

inline bool release(Holders* holders) {
  const bool isLast = __atomic_sub_fetch(&holders->count, 1, __ATOMIC_ACQ_REL) == 0;
  if (isLast) {
    free(holders);
  }
  return isLast;
}

/// What the allocator gives on a device: the workspace of the call, from its beginning on.
struct Arena {
  const Site* site;
  size_t used;
  Holders* holders;  ///< made with the first tensor
};
/// Of the call that runs on this thread; null: there is none on a device.
inline thread_local Arena* arena = nullptr;

struct Memory {
  sl_dl_managed managed;
  int64_t sizes[16];  // shape, then strides
  Holders* holders;   // null: `data` is the tensor's own
};

inline void releaseMemory(sl_dl_managed* managed) {
  auto* memory = static_cast<Memory*>(managed->context);
  if (memory->holders) {
    release(memory->holders);
  } else {
    free(managed->tensor.data);
  }
  free(memory);
}

/// `text` and, where it is not below 0, a number.
struct Words {
  char text[200];
  size_t used = 0;
  Words& add(const char* more) {
    for (; *more && used + 1 < sizeof text; ++more) {
      text[used++] = *more;
    }
    text[used] = 0;
    return *this;
  }
  Words& add(size_t number) {
    char digits[24];
    char* at = digits + sizeof digits - 1;
    *at = 0;
    do {
      *--at = static_cast<char>('0' + number % 10);
    } while ((number /= 10) != 0);
    return add(at);
  }
};

/// `bytes` of the workspace; null with `words`: there are not so many.
inline void* takeOfWorkspace(size_t bytes, Words* words) {
  constexpr size_t kAlignment = 64;  // of a workspace, too
  if (!arena->holders) {
    arena->holders = static_cast<Holders*>(aligned_alloc(64, 64));
    if (!arena->holders) {
      words->add("there is no memory on the host");
      return nullptr;
    }
    arena->holders->count = 1;
  }
  const auto base = reinterpret_cast<uint64_t>(arena->site->workspace);
  const size_t begin = (base + arena->used + kAlignment - 1) / kAlignment * kAlignment - base;
  if (!arena->site->workspace || begin + bytes > arena->site->bytes) {
    words->add("it asks the environment for ")
        .add(bytes)
        .add(" bytes, behind ")
        .add(arena->used)
        .add(" others, and its workspace has ")
        .add(arena->site->bytes)
        .add(": give workspace=");
    return nullptr;
  }
  arena->used = begin + bytes;
  __atomic_add_fetch(&arena->holders->count, 1, __ATOMIC_RELAXED);
  return arena->site->workspace + begin;
}

inline int allocate(sl_dl_tensor* like, sl_dl_managed** out, void* user,
                    void (*fail)(void*, const char*, const char*)) {
  size_t bytes = like->dtype.bits * like->dtype.lanes;
  bytes = (bytes + 7) / 8;
  const bool isOnHost = like->device.type == SL_DLPACK_CPU;
  const bool isHere = isOnHost || (arena && like->device.type == arena->site->device.type &&
                                   like->device.id == arena->site->device.id);
  auto* made = like->rank <= 8 && isHere
                   ? static_cast<Memory*>(aligned_alloc(64, (sizeof(Memory) + 63) / 64 * 64))
                   : nullptr;
  for (int32_t dim = made ? like->rank : 0; dim-- > 0;) {
    made->sizes[dim] = like->shape[dim];
    made->sizes[8 + dim] = dim + 1 == like->rank ? 1 : made->sizes[9 + dim] * like->shape[dim + 1];
    bytes *= static_cast<size_t>(like->shape[dim]);
  }
  Words words;
  words.add("");
  void* data = !made      ? nullptr
               : isOnHost ? aligned_alloc(64, (bytes + 64) / 64 * 64)
                          : takeOfWorkspace(bytes, &words);
  if (!data) {
    free(made);
    fail(user, "MemoryError",
         words.used ? words.text : "straightline has no memory for a tensor like this");
    return -1;
  }
  made->managed = {{SL_DLPACK_MAJOR, SL_DLPACK_MINOR}, made, releaseMemory, 0, *like};
  made->holders = isOnHost ? nullptr : arena->holders;
  made->managed.tensor.data = data;
  made->managed.tensor.shape = made->sizes;
  made->managed.tensor.strides = made->sizes + 8;
  made->managed.tensor.byte_offset = 0;
  *out = &made->managed;
  return 0;
}

// ---- a call

inline Any none() { return {kNone, 0, {0}}; }

/// A view of a tensor of the call: row-major.
inline sl_dl_tensor view(const sl_kernel_tensor* tensor, sl_dl_device device) {
  sl_dl_tensor made;
  made.data = tensor->data;
  made.device = device;
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
  View(const Site& site, const sl_kernel_tensor* from) : tensor(view(from, site.device)) {
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

/// A tensor of a device as a copy on the host, for a function that plans there: read when the
/// stream has come so far.
class HostCopy {
 public:
  HostCopy(const Site& site, const sl_kernel_tensor* from, char* message) : tensor_(*from) {
    const size_t bytes = static_cast<size_t>(sl_kernel_tensor_count(from)) * (from->dtype.bits / 8);
    tensor_.data = memory_ = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!memory_) {
      say(message, "there is no memory on the host for a copy of a tensor");
    } else if (bytes != 0 &&
               (site.driver->copy_to_host(memory_, reinterpret_cast<uint64_t>(from->data), bytes,
                                          site.stream) != 0 ||
                site.driver->wait(site.stream) != 0)) {
      say(message, "a tensor that it reads on the host cannot be copied there");
    } else {
      isGood_ = true;
    }
  }
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;
  ~HostCopy() { free(memory_); }
  /// Null: there is none, and the message says why.
  const sl_kernel_tensor* tensor() const { return isGood_ ? &tensor_ : nullptr; }

 private:
  sl_kernel_tensor tensor_;
  void* memory_ = nullptr;
  bool isGood_ = false;
};

/// Memory on the host that a function may use in a call. What it copies from there has arrived when
/// the memory goes.
class HostScratch {
 public:
  HostScratch(const Site& site, int64_t bytes, char* message) : site_(site), bytes_(bytes) {
    const size_t count = bytes < 0 ? 0 : static_cast<size_t>(bytes);
    tensor_ = {
        bytes < 0 ? nullptr : aligned_alloc(64, (count + 64) / 64 * 64), &bytes_, 1, {1, 8, 1}};
    if (!tensor_.data) {
      say(message, bytes < 0 ? "a number of bytes on the host is negative"
                             : "there is no memory on the host for what it uses there");
    }
  }
  HostScratch(const HostScratch&) = delete;
  HostScratch& operator=(const HostScratch&) = delete;
  ~HostScratch() {
    if (tensor_.data) {
      site_.driver->wait(site_.stream);
      free(tensor_.data);
    }
  }
  /// `bytes` of uint8. Null: there are none, and the message says why.
  const sl_kernel_tensor* tensor() const { return tensor_.data ? &tensor_ : nullptr; }

 private:
  const Site& site_;
  int64_t bytes_;
  sl_kernel_tensor tensor_;
};

/// A tensor of the call as an object of TVM-FFI, for functions that take no views, such as
/// Python's, and for lists. Its memory is that of the call, so it has to be given back before the
/// call ends.
class Object {
 public:
  Object(const Library& library, const Site& site, const sl_kernel_tensor* from)
      : library_(library) {
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
    shared_->managed = {
        {SL_DLPACK_MAJOR, SL_DLPACK_MINOR}, shared_, release, 0, view(from, site.device)};
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

constexpr const char* kKeeps =
    "it keeps a view of a tensor, whose memory is the call's: let it copy what it keeps";

/// Takes the objects of a call back. An error of the function stays the one that is told.
inline int32_t giveBack(Object* const* objects, int32_t count, int32_t status, char* message) {
  for (int32_t i = 0; i < count; ++i) {
    if (!objects[i]->giveBack() && status == 0) {
      say(message, kKeeps);
      status = 1;
    }
  }
  return status;
}

/// Calls a global function of TVM-FFI. 0, or another number with a message.
inline int32_t callGlobal(const Library& library, const char* name, const Any* arguments,
                          int32_t count, Any* result, char* message) {
  size_t bytes = 0;
  while (name[bytes]) {
    ++bytes;
  }
  const Bytes text = {name, bytes};
  void* function = nullptr;
  if (library.find_global(&text, &function) != 0 || !function) {
    say(message, "TVM-FFI has no global function ", name);
    return 1;
  }
  *result = none();
  const int failed = library.call(function, arguments, count, result);
  library.release(function);
  if (failed != 0) {
    void* error = nullptr;
    library.move_error(&error);
    if (error) {
      library.release(error);
    }
    say(message, "a global function of TVM-FFI failed: ", name);
  }
  return failed;
}

/// A list of tensors or of numbers as an array of TVM-FFI.
class List {
 public:
  /// Of tensors, as objects.
  List(const Library& library, const Site& site, const sl_kernel_tensor* tensors, int64_t count,
       char* message)
      : library_(library), count_(count) {
    auto* items = take<Any>(count);
    objects_ = take<Object>(count);
    for (int64_t i = 0; items && objects_ && i < count; ++i) {
      items[i] = (new (objects_ + i, Here()) Object(library, site, tensors + i))->any();
      made_ = i + 1;
    }
    finish(items, items && objects_, message);
  }
  template <typename Number>
  List(const Library& library, const Number* numbers, int64_t count, char* message)
      : library_(library), count_(count) {
    auto* items = take<Any>(count);
    for (int64_t i = 0; items && i < count; ++i) {
      items[i] = of(numbers[i]);
    }
    finish(items, items != nullptr, message);
  }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  ~List() { giveBack(); }

  /// Whether there is one; else the message says why not.
  bool isGood() const { return array_.type == kArray; }
  Any any() const { return array_; }
  /// Drops it; false: somebody else holds a tensor of it still.
  bool giveBack() {
    if (array_.type >= kObject) {
      library_.release(const_cast<void*>(array_.pointer));
    }
    array_ = none();
    bool isLast = true;
    for (int64_t i = 0; i < made_; ++i) {
      isLast &= objects_[i].giveBack();
    }
    made_ = 0;
    free(objects_);
    objects_ = nullptr;
    return isLast;
  }

 private:
  template <typename T>
  static T* take(int64_t count) {
    const size_t bytes = sizeof(T) * static_cast<size_t>(count);
    return static_cast<T*>(aligned_alloc(64, (bytes + 64) / 64 * 64));
  }
  void finish(Any* items, bool isMade, char* message) {
    if (isMade) {
      callGlobal(library_, "ffi.Array", items, static_cast<int32_t>(count_), &array_, message);
    } else {
      say(message, "there is no memory on the host for a list");
    }
    free(items);
  }

  const Library& library_;
  int64_t count_, made_ = 0;
  Object* objects_ = nullptr;
  Any array_ = none();
};

/// The same for the lists of a call.
inline int32_t giveBack(List* const* lists, int32_t count, int32_t status, char* message) {
  for (int32_t i = 0; i < count; ++i) {
    if (!lists[i]->giveBack() && status == 0) {
      say(message, kKeeps);
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

inline bool isRowMajor(const sl_dl_tensor& tensor) {
  int64_t expected = 1;
  for (int32_t dim = tensor.rank; dim-- > 0;) {
    if (tensor.strides && tensor.shape[dim] != 1 && tensor.strides[dim] != expected) {
      return false;
    }
    expected *= tensor.shape[dim];
  }
  return true;
}

/// Whether a value is an int, or a bool, which counts as 0 or 1.
inline bool isInteger(const Any& value) { return value.type == kInt || value.type == kBool; }

/// What a value is, for people.
inline Words& add(Words* words, const Any& value) {
  const bool isTensor = value.type == kTensor || value.type == kDlTensor;
  const char* known = value.type == kNone                           ? "nothing"
                      : isTensor                                    ? "a tensor"
                      : value.type == kFloat                        ? "a float"
                      : isInteger(value)                            ? "an int"
                      : value.type == kArray || value.type == kList ? "an array"
                                                                    : nullptr;
  return known ? words->add(known)
               : words->add("a value of TVM-FFI's type ").add(static_cast<size_t>(value.type));
}

/// A tensor for people: "float32(3, 5)".
inline Words& add(Words* words, sl_dtype dtype, const int64_t* sizes, int32_t rank) {
  static constexpr const char* names[] = {"int", "uint", "float", "opaque", "bfloat", "complex"};
  if (dtype.code == 6) {
    words->add("bool");
  } else if (dtype.code < 6) {
    words->add(names[dtype.code]).add(static_cast<size_t>(dtype.bits));
  } else {
    words->add("dtype ").add(static_cast<size_t>(dtype.code));
    words->add(":").add(static_cast<size_t>(dtype.bits));
  }
  for (int32_t dim = 0; dim < rank; ++dim) {
    words->add(dim == 0 ? "(" : ", ").add(static_cast<size_t>(sizes[dim]));
  }
  return words->add(rank == 0 ? "()" : ")");
}

/// Whether a value that the function returned cannot be the result `to`; then `message` says what
/// it is and what it should be.
inline bool isWrong(const Site& site, const Any& value, const sl_dl_tensor* made,
                    const sl_kernel_tensor* to, char* message) {
  Words words;
  words.add("it returned ");
  const bool isElsewhere = made && (made->device.type != site.device.type ||
                                    (site.driver && made->device.id != site.device.id));
  if (!made) {
    add(&words, value).add(", not ");
  } else if (isElsewhere) {
    words.add("a tensor of DLPack's device ").add(static_cast<size_t>(made->device.type));
    words.add(":").add(static_cast<size_t>(made->device.id));
    words.add(", not ").add(static_cast<size_t>(site.device.type));
    words.add(":").add(static_cast<size_t>(site.device.id)).add(" with ");
  } else {
    bool isSame = made->rank == to->rank && made->dtype.code == to->dtype.code &&
                  made->dtype.bits == to->dtype.bits;
    for (int32_t dim = 0; isSame && dim < to->rank; ++dim) {
      isSame = made->shape[dim] == to->extents[dim];
    }
    if (isSame && (made->data || sl_kernel_tensor_count(to) == 0)) {
      return false;
    }
    const sl_dtype dtype = {made->dtype.code, made->dtype.bits, made->dtype.lanes};
    add(&words, dtype, made->shape, made->rank).add(isSame ? " without memory, not " : ", not ");
  }
  add(&words, to->dtype, to->extents, to->rank);
  say(message, words.text, " as the fake kernel says");
  return true;
}

/// Takes one value that the function returned as the result `to`.
inline int32_t takeOne(const Site& site, const Any& value, const sl_kernel_tensor* to,
                       char* message) {
  const sl_dl_tensor* made = nullptr;
  if (value.type == kTensor) {
    made = reinterpret_cast<const sl_dl_tensor*>(static_cast<const char*>(value.pointer) +
                                                 kHeaderBytes);
  } else if (value.type == kDlTensor) {
    made = static_cast<const sl_dl_tensor*>(value.pointer);
  }
  if (isWrong(site, value, made, to, message)) {
    return 1;
  }
  if (!site.driver) {
    copy(*made, to);
    return 0;
  }
  if (!isRowMajor(*made)) {
    say(message, "it returned a tensor of a device that is not row-major");
    return 1;
  }
  const auto from = reinterpret_cast<uint64_t>(made->data) + made->byte_offset;
  const size_t bytes = static_cast<size_t>(sl_kernel_tensor_count(to)) * (to->dtype.bits / 8);
  if (bytes && site.driver->copy(reinterpret_cast<uint64_t>(to->data), from, bytes, site.stream)) {
    say(message, "the tensor that it returned cannot be copied");
    return 1;
  }
  return 0;
}

/// Takes what the function returned as the results: none, a tensor, or an array of them.
inline int32_t take(const Library& library, const Site& site, Any* returned,
                    const sl_kernel_tensor* const* results, int32_t count, char* message) {
  int32_t status = 0;
  const bool isArray = returned->type == kArray || returned->type == kList;
  if (count == 1 && !isArray) {
    status = takeOne(site, *returned, results[0], message);
  } else if (count > 0 && !isArray) {
    Words words;
    add(&words.add("it returned "), *returned).add(", not an array of ");
    words.add(static_cast<size_t>(count)).add(" tensors as the schema says");
    say(message, words.text);
    status = 1;
  } else if (count > 0) {
    Any size = none();
    status = callGlobal(library, returned->type == kArray ? "ffi.ArraySize" : "ffi.ListSize",
                        returned, 1, &size, message);
    if (status == 0 && size.integer != count) {
      Words words;
      words.add("it returned ").add(static_cast<size_t>(size.integer)).add(" tensors, not ");
      words.add(static_cast<size_t>(count)).add(" as the schema says");
      say(message, words.text);
      status = 1;
    }
    for (int32_t i = 0; status == 0 && i < count; ++i) {
      const Any place[2] = {*returned, of(int64_t{i})};
      Any item = none();
      status =
          callGlobal(library, returned->type == kArray ? "ffi.ArrayGetItem" : "ffi.ListGetItem",
                     place, 2, &item, message);
      status = status == 0 ? takeOne(site, item, results[i], message) : status;
      if (item.type >= kObject) {
        library.release(const_cast<void*>(item.pointer));
      }
    }
  }
  if (returned->type >= kObject) {
    library.release(const_cast<void*>(returned->pointer));
  }
  return status;
}

/// Takes an array of ints that the function returned as the elements of `to`, int64 of rank 1 on
/// the host.
inline int32_t takeNumbers(const Library& library, const Any& returned, const sl_kernel_tensor* to,
                           char* message) {
  const bool isArray = returned.type == kArray;
  Words words;
  if (!isArray && returned.type != kList) {
    add(&words.add("it returned "), returned)
        .add(", not an array of ")
        .add(static_cast<size_t>(to->extents[0]))
        .add(" ints as numbers= says");
    say(message, words.text);
    return 1;
  }
  Any size = none();
  if (callGlobal(library, isArray ? "ffi.ArraySize" : "ffi.ListSize", &returned, 1, &size,
                 message) != 0) {
    return 1;
  }
  if (size.integer != to->extents[0]) {
    words.add("it returned ")
        .add(static_cast<size_t>(size.integer))
        .add(" numbers, but numbers= says ")
        .add(static_cast<size_t>(to->extents[0]));
    say(message, words.text);
    return 1;
  }
  for (int64_t i = 0; i < size.integer; ++i) {
    const Any place[2] = {returned, of(i)};
    Any item = none();
    if (callGlobal(library, isArray ? "ffi.ArrayGetItem" : "ffi.ListGetItem", place, 2, &item,
                   message) != 0) {
      return 1;
    }
    if (item.type >= kObject) {
      library.release(const_cast<void*>(item.pointer));
    }
    if (!isInteger(item)) {
      words.add("element ").add(static_cast<size_t>(i)).add(" of the array that it returned is ");
      add(&words, item).add(", not an int as numbers= says");
      say(message, words.text);
      return 1;
    }
    static_cast<int64_t*>(to->data)[i] = item.integer;
  }
  return 0;
}

/// What TVM-FFI's environment says for the time of a call: the stream, and where memory is from. On
/// the host it is ours where there is no allocator; on a device always, because what was captured
/// must find it again.
class Environment {
 public:
  Environment(const Library& library, const Site& site) : library_(library), site_(site) {
    own_ = {&site, 0, nullptr};
    if (site.driver) {
      library.set_stream(site.device.type, site.device.id, site.stream, &stream_);
      outer_ = arena;
      arena = &own_;
    }
    isSet_ = site.driver || !library.allocator();
    if (isSet_) {
      library.set_allocator(allocate, 0, &before_);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { end(); }

  /// Puts back what there was. False: the function keeps memory of its workspace.
  bool end() {
    if (isEnded_) {
      return true;
    }
    isEnded_ = true;
    if (isSet_) {
      library_.set_allocator(before_, 0, nullptr);
    }
    if (site_.driver) {
      library_.set_stream(site_.device.type, site_.device.id, stream_, nullptr);
      arena = outer_;
    }
    return !own_.holders || release(own_.holders);
  }

 private:
  const Library& library_;
  const Site& site_;
  void* stream_ = nullptr;
  Allocate before_ = nullptr;
  Arena own_;
  Arena* outer_ = nullptr;
  bool isSet_, isEnded_ = false;
};

/// Moves the error that was raised into `message`: kind and text.
inline void tell(const Library& library, char* message) {
  void* error = nullptr;
  library.move_error(&error);
  if (!error) {
    say(message, "it failed without an error");
    return;
  }
  const auto& cell =
      *reinterpret_cast<const Error*>(static_cast<const char*>(error) + kHeaderBytes);
  char kind[64];
  size_t bytes = cell.kind.size < sizeof kind - 1 ? cell.kind.size : sizeof kind - 1;
  __builtin_memcpy(kind, cell.kind.data, bytes);
  kind[bytes] = 0;
  if (cell.message.size == 0) {
    say(message, bytes ? kind : "an error without a kind and", " without a message");
  } else {
    say(message, kind, ": ", cell.message.data, cell.message.size);
  }
  library.release(error);
}

/// What a function returns.
enum class Returned { tensors, numbers };

/// Calls the function; `message` gets kind and text of an error. `guard`: where the runtime put its
/// guarded call; null: it has none.
inline int32_t call(const Site& site, void* const* guard, Call function, void* self,
                    const Any* arguments, int32_t count, const sl_kernel_tensor* const* results,
                    int32_t result_count, Returned kind, char* message) {
  const Library* known = library(message);
  if (!known || !function) {
    return 1;
  }
  Environment environment(*known, site);
  Any returned = none();
  int32_t status = 0;
  const auto guarded = reinterpret_cast<Guard>(__atomic_load_n(guard, __ATOMIC_ACQUIRE));
  const int32_t failed = guarded ? guarded(function, self, arguments, count, &returned, message)
                                 : function(self, arguments, count, &returned);
  if (failed == SL_KERNEL_THREW) {
    status = 1;  // the message says it
  } else if (failed != 0) {
    tell(*known, message);
    status = 1;
  } else if (kind == Returned::numbers) {
    status = takeNumbers(*known, returned, results[0], message);
    if (returned.type >= kObject) {
      known->release(const_cast<void*>(returned.pointer));
    }
  } else {
    status = take(*known, site, &returned, results, result_count, message);
  }
  if (!environment.end() && status == 0) {
    say(message,
        "it keeps memory of its workspace, which is the call's: let it copy what it keeps");
    status = 1;
  }
  return status;
}

}  // namespace sl_tvm

#endif  // STRAIGHTLINE_ABI_TVM_KERNEL_H
