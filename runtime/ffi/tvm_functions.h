// SPDX-License-Identifier: Apache-2.0
// The C ABI of TVM-FFI (tvm/ffi/c_api.h and extra/c_env_api.h), as much as is used of it. Layouts
// and prototypes are facts of its headers, none of which is read; C functions are found by name in
// the running process. Its C++ classes are not used: their layout changes between releases.
#ifndef STRAIGHTLINE_RUNTIME_FFI_TVM_FUNCTIONS_H
#define STRAIGHTLINE_RUNTIME_FFI_TVM_FUNCTIONS_H

#include <cstddef>
#include <cstdint>

#include "straightline/abi/dlpack.h"
#include "straightline/abi/straightline.h"

namespace straightline::ffi {

using TvmObject = void*;

/// TVMFFITypeIndex.
enum TvmType : int32_t {
  kTvmNone = 0,
  kTvmInt = 1,
  kTvmBool = 2,
  kTvmFloat = 3,
  kTvmDlTensor = 7,
  kTvmRawText = 8,
  kTvmSmallText = 11,
  kTvmObject = 64,
  kTvmText = 65,
  kTvmTensor = 70,
  kTvmArray = 71,
  kTvmList = 75
};

/// TVMFFIAny.
struct TvmAny {
  int32_t type;
  uint32_t textBytes;  ///< of a text of at most 7 bytes, which stands in `bytes`; else 0
  union {
    int64_t integer;
    double real;
    void* pointer;
    char bytes[8];
  };
};
static_assert(sizeof(TvmAny) == 16);

/// Bytes of TVMFFIObject, behind which an object's content stands.
constexpr size_t kTvmHeaderBytes = 24;

struct TvmBytes {
  const char* data;
  size_t size;
};

/// Those that return int give 0, or -1 with an error set.
struct TvmFunctions {
  void (*TVMFFIErrorSetRaisedFromCStr)(const char* kind, const char* message);
  int (*TVMFFIFunctionCreate)(void* self, int (*call)(void*, const TvmAny*, int32_t, TvmAny*),
                              void (*release)(void*), TvmObject* out);
  int (*TVMFFIFunctionGetGlobal)(const TvmBytes* name, TvmObject* out);
  int (*TVMFFIFunctionSetGlobal)(const TvmBytes* name, TvmObject function, int replace);
  int (*TVMFFIFunctionCall)(TvmObject function, const TvmAny* arguments, int32_t count,
                            TvmAny* result);
  int (*TVMFFIObjectDecRef)(TvmObject object);
  int (*TVMFFITensorFromDLPackVersioned)(sl_dl_managed* from, int32_t alignment, int32_t contiguous,
                                         TvmObject* out);
  int (*TVMFFIEnvTensorAlloc)(sl_dl_tensor* like, TvmObject* out);
  void* (*TVMFFIEnvGetDLPackManagedTensorAllocator)();
  void* (*TVMFFIEnvGetStream)(int32_t device_type, int32_t device);
  /// Null where this release has none.
  int (*TVMFFITensorCreateUnsafeView)(TvmObject source, const sl_dl_tensor* like, TvmObject* out);
};

/// Null when the process has no libtvm_ffi; `message` (nullable) then says so. Any thread.
const TvmFunctions* tvmFunctions(sl_message* message);

}  // namespace straightline::ffi

#endif  // STRAIGHTLINE_RUNTIME_FFI_TVM_FUNCTIONS_H
