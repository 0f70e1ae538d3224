// SPDX-License-Identifier: Apache-2.0
// Plug-ins: shared libraries with a backend of their own, which are opened by name.
#ifndef STRAIGHTLINE_RUNTIME_PLUGIN_H
#define STRAIGHTLINE_RUNTIME_PLUGIN_H

#include "description_loader.h"
#include "straightline/abi/straightline.h"

namespace straightline {

/// What is asked of a plug-in beyond what the loader of descriptions asks of every backend: nothing
/// is NULL that a program would call, and no name is taken that a program would find another
/// kernel by. False, with the reason.
bool checkPlugin(const sl_backend_desc& backend, sl_message* message);

/// In registry.cpp. Whether emitted text calls a function of the runtime by that name.
bool isOwnSymbol(const char* name);
/// Registers the backend of a plug-in that lies in `file`. `registered` is what the registry has of
/// it, also where the description was registered before.
int32_t addPlugin(const sl_backend_desc* backend, const char* file,
                  const sl_backend_desc** registered, sl_message* message);
/// The backend of that name, where it is a plug-in's; else null.
const LoadedBackend* findPlugin(const char* name);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_PLUGIN_H
