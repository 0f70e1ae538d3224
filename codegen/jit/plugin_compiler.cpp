// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/plugin_compiler.h"

#include "codegen/jit/embedded_headers.h"
#include "straightline/abi/entry.h"

namespace straightline::jit {
namespace {

/// Room for what a compiler says.
constexpr std::size_t kReasonBytes = 16384;

std::vector<sl_source_file> headers() {
  std::vector<sl_source_file> files;
  for (std::size_t i = 0; i < embeddedHeaderCount; ++i) {
    files.push_back({embeddedHeaders[i].path, embeddedHeaders[i].text});
  }
  return files;
}

void keepImage(void* user, const void* image, uint64_t bytes) {
  static_cast<std::string*>(user)->assign(static_cast<const char*>(image), bytes);
}

DeviceOutput compileUnit(const Unit& unit, const std::string& name, const sl_device_desc& device,
                         const std::string& machine, const std::vector<sl_source_file>& files) {
  const sl_device_source source{
      sizeof(sl_device_source), unit.name.c_str(), unit.text.c_str(),
      machine.c_str(),          files.data(),      static_cast<int32_t>(files.size()),
      sizeof(sl_source_file)};
  DeviceOutput output;
  std::string reason(kReasonBytes, '\0');
  const int32_t status =
      device.compile(&source, keepImage, &output.image, reason.data(), reason.size());
  reason.resize(std::min(reason.find('\0'), reason.size()));
  output.ok = status == SL_OK && !output.image.empty();
  if (output.ok) {
    return output;
  }
  if (status == SL_OK) {
    reason = "its compiler says that all is well but gives no image";
  } else if (reason.empty()) {
    reason = "its compiler says nothing, status " + std::to_string(status);
  }
  const std::string who = "device '" + name + "': ";
  if (status == SL_UNSUPPORTED || status == SL_INVALID_ARGUMENT) {
    output.error = {
        status == SL_UNSUPPORTED ? CompileError::Kind::unsupported : CompileError::Kind::user,
        who + reason};
  } else {
    output.error = {CompileError::Kind::internal, who + keptUnit(unit, ".cpp", reason)};
  }
  return output;
}

}  // namespace

std::unique_ptr<DeviceProgram> compileByPlugin(const std::vector<Unit>& units,
                                               const std::string& name,
                                               const sl_device_desc& device,
                                               const std::string& machine,
                                               const CompileOptions& options, CompileError* error) {
  const char* version = device.compiler ? device.compiler() : nullptr;
  if (!version) {
    *error = {CompileError::Kind::user,
              "device '" + name +
                  "' has a compiler without a version (sl_device_desc.compiler), by "
                  "which its images are kept"};
    return nullptr;
  }
  const std::vector<sl_source_file> files = headers();
  const std::vector<std::string> keyed = {"device " + name, machine, version};
  auto program = std::make_unique<DeviceProgram>();
  const auto compile = [&](const Unit& unit) {
    return compileUnit(unit, name, device, machine, files);
  };
  return compileImages(units, keyed, options, compile, program.get(), error) ? std::move(program)
                                                                             : nullptr;
}

}  // namespace straightline::jit
