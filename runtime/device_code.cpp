// SPDX-License-Identifier: Apache-2.0
#include "device_code.h"

#include <string>

#include "message_writer.h"
#include "registry.h"

namespace straightline {

namespace {

/// "cuda:sm_90" for the text of a #kernel.target<"cuda", "sm_90">; any other text unchanged.
std::string nameOf(const char* target) {
  const std::string text = target ? target : "";
  size_t quotes[4] = {};
  for (size_t i = 0, from = 0; i < 4; ++i, from = quotes[i - 1] + 1) {
    quotes[i] = text.find('"', from);
    if (quotes[i] == std::string::npos) {
      return text;
    }
  }
  return text.substr(quotes[0] + 1, quotes[1] - quotes[0] - 1) + ":" +
         text.substr(quotes[2] + 1, quotes[3] - quotes[2] - 1);
}

}  // namespace

DeviceKernels::~DeviceKernels() { unload(); }

int32_t DeviceKernels::load(const sl_program_desc& desc, int32_t device, sl_message* message) {
  if (loaded_.load(std::memory_order_acquire)) {
    return SL_OK;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (loaded_.load(std::memory_order_relaxed)) {
    return SL_OK;
  }
  for (int32_t i = 0; i < desc.entry_count; ++i) {
    const sl_entry& entry = desc.entries[i];
    if (!entry.code) {
      continue;
    }
    const sl_backend_desc* backend = findBackend(entry.backend);
    if (!backend || !backend->device || !backend->device->load) {
      MessageWriter(message)
          .text("kernel '")
          .text(entry.name)
          .text("' needs the backend '")
          .text(entry.backend)
          .text(backend ? "', which loads no code" : "', which is not registered");
      unload();
      return SL_UNSUPPORTED;
    }
    table_.resize(static_cast<size_t>(desc.entry_count));
    devices_.resize(table_.size());
    char reason[512] = "";
    const int32_t status = backend->device->load(
        device, entry.code, &table_[static_cast<size_t>(i)], reason, sizeof(reason));
    if (status != SL_OK) {
      MessageWriter(message)
          .text("kernel '")
          .text(entry.name)
          .text("' cannot be loaded: ")
          .text(reason)
          .text("; the program is for ")
          .text(nameOf(desc.target).c_str());
      unload();
      return status;
    }
    devices_[static_cast<size_t>(i)] = backend->device;
  }
  loaded_.store(true, std::memory_order_release);
  return SL_OK;
}

void DeviceKernels::unload() {
  for (size_t i = 0; i < table_.size(); ++i) {
    if (devices_[i]) {
      devices_[i]->unload(table_[i]);
    }
  }
  table_.clear();
  devices_.clear();
}

}  // namespace straightline
