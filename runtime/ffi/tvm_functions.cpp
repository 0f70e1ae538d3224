// SPDX-License-Identifier: Apache-2.0
#include "ffi/tvm_functions.h"

#include "ffi/process_library.h"

namespace straightline::ffi {
namespace {

/// The first name that is missing, or null.
const char* load(const ProcessLibrary& library, TvmFunctions* functions) {
  const char* missing = nullptr;
#define SL_TVM_OPTIONAL(name) \
  functions->name = reinterpret_cast<decltype(functions->name)>(library.find(#name));
#define SL_TVM(name)    \
  SL_TVM_OPTIONAL(name) \
  missing = missing || functions->name ? missing : #name;
  SL_TVM(TVMFFIErrorSetRaisedFromCStr)
  SL_TVM(TVMFFIFunctionCreate)
  SL_TVM(TVMFFIFunctionGetGlobal)
  SL_TVM(TVMFFIFunctionSetGlobal)
  SL_TVM(TVMFFIFunctionCall)
  SL_TVM(TVMFFIObjectDecRef)
  SL_TVM(TVMFFITensorFromDLPackVersioned)
  SL_TVM(TVMFFIEnvTensorAlloc)
  SL_TVM(TVMFFIEnvGetDLPackManagedTensorAllocator)
  SL_TVM(TVMFFIEnvGetStream)
  SL_TVM_OPTIONAL(TVMFFITensorCreateUnsafeView)
#undef SL_TVM
#undef SL_TVM_OPTIONAL
  return missing;
}

}  // namespace

const TvmFunctions* tvmFunctions(sl_message* message) {
  static LoadedOnce<TvmFunctions> functions;
  return functions.get("libtvm_ffi.so", load, "libtvm_ffi", "0.1.13 and later",
                       "this needs TVM-FFI in the process, and libtvm_ffi is not loaded", message);
}

}  // namespace straightline::ffi
