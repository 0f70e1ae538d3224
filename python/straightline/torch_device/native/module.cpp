// SPDX-License-Identifier: Apache-2.0
// The module that Python loads.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/Stream.h>
#include <torch/csrc/utils/pybind.h>

#include "eager.h"
#include "straightline/abi/device_names.h"
#include "tensors.h"

PYBIND11_MODULE(_straightline_torch_device, m) {
  using namespace sl_torch;
  m.def("open", [](const std::string& backend, const std::string& name) {
    sl_name_extension_devices((new std::string(name))->c_str());
    openBackend(backend.c_str());
    registerClasses();
  });
  m.def("compiler", [] { return device().compiler ? std::string(device().compiler()) : ""; });
  m.def("backend", backend);
  m.def("device_count", deviceCount);
  m.def("is_forked", isForked);
  m.def("current_device", [] { return static_cast<int>(currentDevice()); });
  m.def("set_device", [](int index) { exchangeDevice(static_cast<c10::DeviceIndex>(index)); });
  m.def("stream", [](int index, int64_t id) {
    const c10::Stream stream(c10::Stream::UNSAFE, c10::Device(kType, checked(index)), id);
    return pybind11::reinterpret_steal<pybind11::object>(THPStream_Wrap(stream));
  });
  m.def("default_generator", [](int index) {
    return pybind11::reinterpret_steal<pybind11::object>(
        THPGenerator_Wrap(defaultGenerator(static_cast<c10::DeviceIndex>(index))));
  });
  m.def("set_kernels", setKernelText);
  m.def("set_builder",
        [](const pybind11::object& builder, size_t limit) { setBuilder(builder.ptr(), limit); });
  m.def("register_ops", registerOps);
  m.def("program_calls", programCalls);
  m.def("host_calls", hostCalls);
  m.def("programs_built", programsBuilt);
  m.def("forget_programs", forgetPrograms, pybind11::call_guard<pybind11::gil_scoped_release>());
  m.def(
      "empty_cache", [] { allocator()->emptyCache({0, 0}); },
      pybind11::call_guard<pybind11::gil_scoped_release>());
}
