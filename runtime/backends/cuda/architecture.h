// SPDX-License-Identifier: Apache-2.0
// Which machine code a device runs: CUDA's rules, on numbers alone.
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_CUDA_ARCHITECTURE_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_CUDA_ARCHITECTURE_H

#include <cstdint>
#include <string_view>

namespace straightline::cuda {

/// An architecture's name, taken apart: "sm_90a" has the number 90 and the suffix 'a'.
struct Architecture {
  bool isText = false;  ///< "compute_80": PTX, which the driver compiles
  int number = 0;       ///< ten times the major version, plus the minor one; 0: no such name
  char suffix = 0;      ///< 'a': that very architecture; 'f': its family; 0: none
};

/// Of "sm_90", "sm_100f" or "compute_80".
Architecture architectureOf(std::string_view name);

/// How well a device of compute capability major.minor runs code for an architecture; 0: not at
/// all. Machine code runs where the major version is the same and the minor one no greater (with
/// 'a' the same), and more is better; PTX runs on every later device, but for clusters that sm_110
/// has no room for, and comes behind all machine code.
int32_t fitOf(const Architecture& code, int major, int minor);

/// The architecture that a kernel's image was made for, of which only a device of its own major
/// version runs machine code: of a cubin `deviceNumber`; of PTX what its .target says, 0 where it
/// says nothing.
int imageArchitecture(std::string_view image, int deviceNumber);

/// Whether an image is PTX, and not machine code.
bool isText(std::string_view image);

}  // namespace straightline::cuda

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_CUDA_ARCHITECTURE_H
