// SPDX-License-Identifier: Apache-2.0
// For the text of a library that `export_library` writes: it holds a model and the runtime, and
// needs libc alone. C++, freestanding; the functions of libc are declared here.
#ifndef STRAIGHTLINE_ABI_EXPORTED_H
#define STRAIGHTLINE_ABI_EXPORTED_H

#include "straightline/abi/ffi.h"

extern "C" {
void* dlopen(const char* file, int flags);
void* dlsym(void* library, const char* name);
char* dlerror();
int memfd_create(const char* name, unsigned int flags);
long write(int file, const void* data, size_t bytes);
int close(int file);
}

/// What the library's functions call, once it is open.
struct sl_exported {
  sl_ffi_function* function;  ///< null: `why` says what is wrong
  decltype(&sl_ffi_torch_call) torch_call;
  decltype(&sl_ffi_torch_meta) torch_meta;
  decltype(&sl_ffi_torch_register) torch_register;
  decltype(&sl_ffi_tvm_call) tvm_call;
  decltype(&sl_ffi_tvm_call_with_slots) tvm_call_with_slots;
  decltype(&sl_ffi_program_call) program_call;
  sl_message why;
};

namespace sl_exported_detail {

inline void say(sl_exported* exported, const char* a, const char* b) {
  size_t used = 0;
  const char* const both[] = {a, b};
  for (const char* text : both) {
    for (; text && *text && used + 1 < sizeof exported->why.text; ++text) {
      exported->why.text[used++] = *text;
    }
  }
  exported->why.text[used] = 0;
}

/// Opens a shared object that lies in memory; null: `why` says what is wrong.
inline void* open(sl_exported* exported, const char* data, size_t bytes) {
  const int file = memfd_create("straightline_runtime", 1);  // MFD_CLOEXEC
  for (size_t done = 0; file >= 0 && done < bytes;) {
    const long wrote = write(file, data + done, bytes - done);
    if (wrote <= 0) {
      say(exported, "the runtime cannot be written to memory", "");
      close(file);
      return nullptr;
    }
    done += static_cast<size_t>(wrote);
  }
  if (file < 0) {
    say(exported, "there is no file in memory (memfd_create)", "");
    return nullptr;
  }
  char path[32] = "/proc/self/fd/";
  char digits[12];
  int count = 0, at = 14;
  for (int rest = file; rest > 0 || count == 0; rest /= 10) {
    digits[count++] = static_cast<char>('0' + rest % 10);
  }
  while (count > 0) {
    path[at++] = digits[--count];
  }
  path[at] = 0;
  void* library = dlopen(path, 2);  // RTLD_NOW, local
  if (!library) {
    say(exported, "the runtime cannot be loaded: ", dlerror());
    close(file);
  }
  // The file stays open: the loader knows libraries by their path, and another one with the same
  // number would be taken for this one.
  return library;
}

template <typename Function>
bool find(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  return *out != nullptr;
}

}  // namespace sl_exported_detail

/// Opens the runtime and makes the function; called once, when the library is opened.
inline void sl_exported_open(sl_exported* exported, const sl_ffi_signature* signature,
                             const sl_linked_model* model, const char* runtime, size_t bytes) {
  using namespace sl_exported_detail;
  decltype(&sl_ffi_create_linked) create = nullptr;
  sl_ffi_function* function = nullptr;
  void* library = open(exported, runtime, bytes);
  if (library && (!find(library, "sl_ffi_create_linked", &create) ||
                  !find(library, "sl_ffi_torch_call", &exported->torch_call) ||
                  !find(library, "sl_ffi_torch_meta", &exported->torch_meta) ||
                  !find(library, "sl_ffi_torch_register", &exported->torch_register) ||
                  !find(library, "sl_ffi_tvm_call", &exported->tvm_call) ||
                  !find(library, "sl_ffi_tvm_call_with_slots", &exported->tvm_call_with_slots) ||
                  !find(library, "sl_ffi_program_call", &exported->program_call))) {
    say(exported, "the runtime lacks a function: ", dlerror());
    return;
  }
  if (library && create(signature, model, &function, &exported->why) == SL_OK) {
    exported->function = function;
  }
}

/// What a program calls that has this library in the place of an op (sl_ffi_program_call).
inline int32_t sl_exported_call(const sl_exported* exported, const sl_kernel_tensor* const* inputs,
                                const sl_kernel_tensor* const* results, void* stream,
                                char* message) {
  if (exported->function) {
    return exported->program_call(exported->function, inputs, results, stream, message);
  }
  size_t used = 0;
  for (; exported->why.text[used] && used + 1 < SL_KERNEL_MESSAGE_BYTES; ++used) {
    message[used] = exported->why.text[used];
  }
  message[used] = 0;
  return 1;
}

/// Registers an op where torch is in the process; what is wrong goes to standard error, because
/// nobody asks who opens a library.
inline void sl_exported_register(sl_exported* exported, const char* space, const char* schema,
                                 const char* key, sl_torch_kernel kernel, sl_torch_kernel meta) {
  void* torch = dlopen("libtorch_cpu.so", 2 | 4);  // RTLD_NOLOAD
  if (!torch && !dlsym(nullptr, "aoti_torch_library_def")) {
    return;
  }
  void* registered = nullptr;  // for as long as the process
  if (!exported->function || exported->torch_register(space, schema, key, kernel, meta, &registered,
                                                      &exported->why) != SL_OK) {
    write(2, exported->why.text, __builtin_strlen(exported->why.text));
    write(2, "\n", 1);
  }
}

/// TVM-FFI's error of a library that could not be opened.
inline int sl_exported_failed(const sl_exported* exported) {
  void* library = dlopen("libtvm_ffi.so", 2 | 4);
  void (*fail)(const char*, const char*) = nullptr;
  if (sl_exported_detail::find(library, "TVMFFIErrorSetRaisedFromCStr", &fail)) {
    fail("RuntimeError", exported->why.text);
  }
  return -1;
}

#endif  // STRAIGHTLINE_ABI_EXPORTED_H
