// SPDX-License-Identifier: Apache-2.0
// Tensors of the device: factories, views, copies, fills and random numbers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "device.h"

namespace sl_torch {

/// The thread's current device is `index` for the life of the object.
class OnDevice {
 public:
  explicit OnDevice(c10::DeviceIndex index) : before_(exchangeDevice(index)) {}
  ~OnDevice() { exchangeDevice(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  const c10::DeviceIndex before_;
};

/// Text of kernels.cc.txt, the headers that it includes (name, text), and the file in which the
/// image is kept between processes.
void setKernelText(std::string text, std::vector<std::pair<std::string, std::string>> headers,
                   std::string image);

/// A tensor of the device with dense elements in the order of the strides.
at::Tensor emptyStrided(c10::DeviceIndex index, at::IntArrayRef sizes, at::IntArrayRef strides,
                        at::ScalarType type);
/// The memory of a complex tensor of the device, [.., 2], whatever the flags of the tensor say.
at::Tensor realParts(const at::Tensor& tensor);
/// Its elements in row-major order: itself, or a copy.
at::Tensor rowMajor(const at::Tensor& tensor);
/// Copies between two tensors of one device, of any strides and types. Sizes are equal.
void copyOnDevice(const at::Tensor& to, const at::Tensor& from);

}  // namespace sl_torch
