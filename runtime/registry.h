// SPDX-License-Identifier: Apache-2.0
// Backends known to this process. Registration is rare and takes a mutex; look-ups read a fixed
// table without one.
#ifndef STRAIGHTLINE_RUNTIME_REGISTRY_H
#define STRAIGHTLINE_RUNTIME_REGISTRY_H

#include "straightline/abi/straightline.h"

namespace straightline {

/// Null when no backend of that name is registered.
const sl_backend_desc* findBackend(const char* name);

/// The device that owns a memory space, null when there is none ("host" has none).
const sl_device_desc* findSpace(const char* space);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_REGISTRY_H
