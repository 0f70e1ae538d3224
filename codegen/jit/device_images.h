// SPDX-License-Identifier: Apache-2.0
// Units of a device's kernels, each through the device's compiler or from the disk cache.
#ifndef STRAIGHTLINE_CODEGEN_JIT_DEVICE_IMAGES_H
#define STRAIGHTLINE_CODEGEN_JIT_DEVICE_IMAGES_H

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/jit/compile_program.h"

namespace straightline::jit {

struct DeviceProgram {
  /// by the name of their unit: cubins, PTX with its final zero, or what a plug-in's compiler makes
  std::map<std::string, std::string> images;
  /// NVRTC's version, as CUDA's driver counts: 13050 is 13.5; 0: another compiler
  int compiler = 0;
  unsigned compiled = 0;
  unsigned cached = 0;
};

/// What a compiler made of a unit: an image, or an error.
struct DeviceOutput {
  bool ok = false;
  std::string image;
  CompileError error;
};

/// Asks `compile` for the image of each unit that the cache does not have, several at once; the
/// first failure ends what has not begun. `keyed`: what an image depends on besides its unit's
/// text. Of the options cache and onUnit count. False with `error` set otherwise.
bool compileImages(const std::vector<Unit>& units, const std::vector<std::string>& keyed,
                   const CompileOptions& options,
                   const std::function<DeviceOutput(const Unit&)>& compile, DeviceProgram* program,
                   CompileError* error);

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_DEVICE_IMAGES_H
