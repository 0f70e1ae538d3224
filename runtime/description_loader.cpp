// SPDX-License-Identifier: Apache-2.0
#include "description_loader.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "message_writer.h"

namespace straightline {
namespace {

// The fields up to here have no default.
constexpr size_t kLeastBackend = offsetof(sl_backend_desc, device);
constexpr size_t kLeastKernel = offsetof(sl_kernel_desc, workspace);
constexpr size_t kLeastDevice = offsetof(sl_device_desc, load);
constexpr size_t kLeastTunable = sizeof(sl_tunable);
constexpr size_t kLeastFacts = offsetof(sl_operand_facts, types);
constexpr size_t kLeastEpilogue = offsetof(sl_epilogue, types);
constexpr size_t kLeastRule = offsetof(sl_calling_rule, attributes);

/// Copies the part of a struct of `bytes` bytes that this runtime knows; the rest is zero.
template <typename Struct>
Struct known(const void* from, uint64_t bytes) {
  Struct value{};
  std::memcpy(static_cast<void*>(&value), from, std::min<uint64_t>(bytes, sizeof(Struct)));
  return value;
}

template <typename Struct>
std::vector<Struct> knownElements(const void* first, int32_t count, uint64_t stride) {
  std::vector<Struct> values;
  for (int32_t i = 0; i < count; ++i) {
    const auto* from = static_cast<const char*>(first) + static_cast<uint64_t>(i) * stride;
    values.push_back(known<Struct>(from, stride));
  }
  return values;
}

}  // namespace

/// Begins each message with the backend's name.
class Refusal {
 public:
  Refusal(const char* backend, sl_message* message) : backend_(backend), message_(message) {}

  MessageWriter begin() const {
    MessageWriter writer(message_);
    writer.text("backend '").text(backend_).text("': ");
    return writer;
  }
  /// Whether `bytes` are enough; if not, reports it.
  bool isEnough(const char* what, const char* whose, uint64_t bytes, size_t least) const {
    if (bytes >= least) {
      return true;
    }
    MessageWriter writer = begin();
    writer.text(what);
    if (whose) {
      writer.text(" of kernel '").text(whose).text("'");
    }
    writer.text(" has ")
        .number(static_cast<int64_t>(bytes))
        .text(" bytes, but at least ")
        .number(static_cast<int64_t>(least))
        .text(" are needed");
    return false;
  }

 private:
  const char* backend_;
  sl_message* message_;
};

namespace {

/// Replaces an array that a kernel's description points to by a copy.
template <typename Struct>
bool readArray(const Refusal& refusal, const char* what, const char* kernel, size_t least,
               const Struct** first, int32_t count, uint64_t* stride,
               std::deque<std::vector<Struct>>* copies) {
  if (!*first || count <= 0) {
    return true;
  }
  if (!refusal.isEnough(what, kernel, *stride, least)) {
    return false;
  }
  copies->push_back(knownElements<Struct>(*first, count, *stride));
  *first = copies->back().data();
  *stride = sizeof(Struct);
  return true;
}

}  // namespace

bool LoadedBackend::copyWhatItPointsTo(const Refusal& refusal, sl_kernel_desc* kernel) {
  if (!readArray(refusal, "an sl_tunable", kernel->name, kLeastTunable, &kernel->tunables,
                 kernel->tunable_count, &kernel->tunable_stride, &tunables_) ||
      !readArray(refusal, "an sl_operand_facts", kernel->name, kLeastFacts, &kernel->operands,
                 kernel->operand_count, &kernel->operand_stride, &operands_) ||
      !readArray(refusal, "an sl_epilogue", kernel->name, kLeastEpilogue, &kernel->epilogues,
                 kernel->epilogue_count, &kernel->epilogue_stride, &epilogues_)) {
    return false;
  }
  if (kernel->rule) {
    if (!refusal.isEnough("the sl_calling_rule", kernel->name, kernel->rule->size, kLeastRule)) {
      return false;
    }
    rules_.push_back(known<sl_calling_rule>(kernel->rule, kernel->rule->size));
    rules_.back().size = sizeof(sl_calling_rule);
    kernel->rule = &rules_.back();
  }
  return true;
}

std::unique_ptr<LoadedBackend> loadBackend(const sl_backend_desc* backend, sl_message* message) {
  const uint64_t bytes = backend ? backend->size : 0;
  if (bytes < kLeastBackend || !backend->name) {
    MessageWriter(message).text(
        backend && bytes < kLeastBackend
            ? "a backend description that is too short to have a name and kernels"
            : "a backend description without a name");
    return nullptr;
  }
  const Refusal refusal(backend->name, message);
  if (backend->abi_version != SL_KERNEL_ABI_VERSION) {
    refusal.begin()
        .text("it was built for abi_version ")
        .number(backend->abi_version)
        .text(" but this runtime has ")
        .number(SL_KERNEL_ABI_VERSION)
        .text("; build it again with the headers of this release");
    return nullptr;
  }
  auto loaded = std::make_unique<LoadedBackend>();
  loaded->source_ = backend;
  loaded->desc_ = known<sl_backend_desc>(backend, bytes);
  sl_backend_desc& desc = loaded->desc_;
  if (desc.device) {
    if (!refusal.isEnough("its sl_device_desc", nullptr, desc.device->size, kLeastDevice)) {
      return nullptr;
    }
    // A description that has all fields is used in place: its owner may still fill in functions.
    if (desc.device->size < sizeof(sl_device_desc)) {
      loaded->device_ = known<sl_device_desc>(desc.device, desc.device->size);
      loaded->device_.size = sizeof(sl_device_desc);
      desc.device = &loaded->device_;
    }
  }
  if (desc.kernel_count < 0 || (desc.kernel_count > 0 && !desc.kernels)) {
    refusal.begin()
        .text("it has ")
        .number(desc.kernel_count)
        .text(desc.kernel_count < 0 ? " kernels" : " kernels, but kernels is NULL");
    return nullptr;
  }
  const auto* at = reinterpret_cast<const char*>(desc.kernels);
  const uint64_t stride =
      desc.kernel_stride != 0 || desc.kernel_count < 1 ? desc.kernel_stride : desc.kernels->size;
  loaded->kernels_.reserve(static_cast<size_t>(desc.kernel_count));
  for (int32_t i = 0; i < desc.kernel_count; ++i, at += stride) {
    uint64_t size = 0;
    std::memcpy(&size, at, sizeof size);
    size = std::min(size, stride);
    if (!refusal.isEnough("one of its sl_kernel_desc", nullptr, size, kLeastKernel)) {
      return nullptr;
    }
    auto kernel = known<sl_kernel_desc>(at, size);
    if (!kernel.name || !kernel.op || !kernel.accepts || !kernel.cost) {
      refusal.begin().text("kernel number ").number(i).text(" lacks a name, op, accepts or cost");
      return nullptr;
    }
    if (!loaded->copyWhatItPointsTo(refusal, &kernel)) {
      return nullptr;
    }
    kernel.family = kernel.family ? kernel.family : "";
    kernel.backend = kernel.backend ? kernel.backend : desc.name;
    kernel.size = sizeof(sl_kernel_desc);
    loaded->kernels_.push_back(kernel);
  }
  desc.size = sizeof(sl_backend_desc);
  desc.kernels = loaded->kernels_.data();
  desc.kernel_stride = sizeof(sl_kernel_desc);
  return loaded;
}

}  // namespace straightline
