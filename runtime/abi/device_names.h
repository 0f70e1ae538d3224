// SPDX-License-Identifier: Apache-2.0
// How messages name devices that a framework has over a plug-in's.
#ifndef STRAIGHTLINE_ABI_DEVICE_NAMES_H
#define STRAIGHTLINE_ABI_DEVICE_NAMES_H

#ifdef __cplusplus
extern "C" {
#endif

#ifndef SL_API
#define SL_API __attribute__((visibility("default")))
#endif

/// Messages say `name` ("sl:0") where a tensor is on a device of DLPack's type kDLExtDev (12).
/// Until
/// then "plug-in". The text lives as long as the process. Any thread.
SL_API void sl_name_extension_devices(const char* name);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // STRAIGHTLINE_ABI_DEVICE_NAMES_H
