// SPDX-License-Identifier: Apache-2.0
// DLPack's binary layout (version 1.x), as this project needs it: a tensor, an owned tensor, and
// the table of C functions that a framework's tensor type publishes as `__dlpack_c_exchange_api__`.
// The layouts are DLPack's standard (https://dmlc.github.io/dlpack); the declarations are ours.
#ifndef STRAIGHTLINE_ABI_DLPACK_H
#define STRAIGHTLINE_ABI_DLPACK_H

#include "straightline/abi/entry.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SL_DLPACK_MAJOR 1
#define SL_DLPACK_MINOR 1
#define SL_DLPACK_CPU 1
#define SL_DLPACK_CUDA 2
/// Of a device of a plug-in (kDLExtDev).
#define SL_DLPACK_EXTENSION 12
#define SL_DLPACK_READ_ONLY 1u  ///< bit of sl_dl_managed.flags

typedef struct sl_dl_version {
  uint32_t major;
  uint32_t minor;
} sl_dl_version;

/// DLDevice.
typedef struct sl_dl_device {
  int32_t type, id;
} sl_dl_device;

/// DLTensor. Strides count elements; NULL means row-major (older producers). Data starts at data +
/// byte_offset.
typedef struct sl_dl_tensor {
  void* data;
  sl_dl_device device;
  int32_t rank;
  sl_dtype dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} sl_dl_tensor;

/// DLManagedTensorVersioned: its owner calls `deleter` once. The deleter may be called from any
/// thread.
typedef struct sl_dl_managed {
  sl_dl_version version;
  void* context;
  void (*deleter)(struct sl_dl_managed* self);
  uint64_t flags;
  sl_dl_tensor tensor;
} sl_dl_managed;

/// DLManagedTensor, from producers before version 1 (capsule "dltensor").
typedef struct sl_dl_managed_legacy {
  sl_dl_tensor tensor;
  void* context;
  void (*deleter)(struct sl_dl_managed_legacy* self);
} sl_dl_managed_legacy;

/// DLPackExchangeAPI, found in a capsule of this name on the tensor type. All functions need the
/// GIL; those that return int give 0, or -1 with a Python exception set. `borrow` (nullable) fills
/// a tensor that is valid while the object lives; `wrap` takes over the managed tensor, also when
/// it fails.
#define SL_DL_EXCHANGE_ATTRIBUTE "__dlpack_c_exchange_api__"
#define SL_DL_EXCHANGE_CAPSULE "dlpack_exchange_api"
typedef struct sl_dl_exchange {
  sl_dl_version version;
  const struct sl_dl_exchange* older;  ///< table of an older major version, or NULL
  int (*allocate)(sl_dl_tensor* prototype, sl_dl_managed** out, void* user,
                  void (*fail)(void* user, const char* kind, const char* message));
  int (*own)(void* object, sl_dl_managed** out);
  int (*wrap)(sl_dl_managed* tensor, void** object);
  int (*borrow)(void* object, sl_dl_tensor* out);
  int (*stream)(int32_t device_type, int32_t device_id, void** out);
} sl_dl_exchange;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_DLPACK_H
