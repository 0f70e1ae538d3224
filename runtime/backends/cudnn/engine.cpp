// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "straightline/abi/straightline.h"

namespace straightline::cudnn {
namespace {

/// Engines that the heuristic proposes, the best first; none where it fails.
std::vector<Descriptor> proposals(const Descriptor& graph, Heuristic mode) {
  Descriptor heuristics(kHeuristics);
  heuristics.put(kHeuristicsGraph, graph).put(kHeuristicsMode, kOfHeuristicMode, mode).finish();
  int64_t count = 0;
  if (!heuristics || library().get(heuristics.raw(), kHeuristicsResults, kOfDescriptor, 0, &count,
                                   nullptr) != kSuccess) {
    return {};
  }
  std::vector<Descriptor> configs;
  std::vector<void*> raw;
  for (int64_t i = 0; i < count; ++i) {
    configs.emplace_back(kEngineConfig);
    raw.push_back(configs.back().raw());
  }
  int64_t filled = 0;
  const Status status = library().get(heuristics.raw(), kHeuristicsResults, kOfDescriptor, count,
                                      &filled, raw.data());
  configs.resize(status == kSuccess ? std::min(count, filled) : 0);
  return configs;
}

/// Whether the engine sums plain products of unrounded factors in float32 and always in the
/// same order; with `exact` also whether it does not round float32 to TF32 for tensor
/// cores.
bool sumsPlainProducts(const Descriptor& config, bool exact) {
  constexpr int64_t kMostNotes = 32;
  Descriptor engine(kEngine);
  void* raw = engine.raw();
  int64_t count = 0;
  int notes[kMostNotes];
  if (library().get(config.raw(), kConfigEngine, kOfDescriptor, 1, &count, &raw) != kSuccess ||
      library().get(raw, kEngineNotes, kOfNumericalNote, kMostNotes, &count, notes) != kSuccess) {
    return false;
  }
  return std::none_of(notes, notes + std::min(count, kMostNotes), [&](int note) {
    return note == kDownConvertsInputs || note == kReducedPrecision || note == kNondeterministic ||
           note == kFft || (note >= kWinograd && note <= kLastWinograd) ||
           (exact && note == kTensorCore);
  });
}

/// Writes the addresses into the pack, unless they are those of the last run.
Status address(Pack* pack, std::span<const int64_t> ids, std::vector<const void*> addresses,
               const void* workspace) {
  addresses.push_back(workspace);
  if (pack->descriptor && pack->addresses == addresses) {
    return kSuccess;
  }
  const auto count = static_cast<int64_t>(ids.size());
  Descriptor made(kVariantPack);
  made.put(kPackIds, kOfInt64, count, ids.data())
      .put(kPackAddresses, kOfAddress, count, addresses.data());
  made.put(kPackWorkspace, kOfAddress, 1, &workspace).finish();
  pack->descriptor = std::move(made);
  pack->addresses = std::move(addresses);
  return pack->descriptor.status();
}

}  // namespace

int32_t fail(sl_ctx* ctx, int32_t status, const std::string& text) {
  sl_fail_text(ctx, status, text.c_str());
  return status;
}

DeviceHandle* usable(const cuda::OpenDevice& device, const cuda::Entered& entered,
                     std::string* error) {
  *error = entered ? library().error : device.words(entered.result);
  return error->empty() ? handleOf(device.number, error) : nullptr;
}

int32_t isThere(char* reason, size_t bytes) {
  if (const std::string missing = cuda::driver().error.empty() ? whyMissing() : "";
      !missing.empty()) {
    std::snprintf(reason, bytes, "%s", missing.c_str());
    return 0;
  }
  return 1;
}

Type typeOf(sl_dtype dtype) {
  return dtype.bits == 32 ? kFloat32 : dtype.code == 4 ? kBfloat16 : kFloat16;
}

const Descriptor& GraphBuilder::keep(Descriptor made) {
  made.finish();
  status_ = status_ == kSuccess ? made.status() : status_;
  return engine_->parts.emplace_back(std::move(made));
}

const Descriptor& GraphBuilder::tensor(const TensorFacts& facts) {
  Descriptor made(kTensor);
  made.put(kTensorId, {facts.id})
      .put(kTensorType, kOfDataType, facts.type)
      .put(kTensorDims, facts.dims);
  made.put(kTensorStrides, facts.strides).put(kTensorAlignment, {facts.alignment});
  if (facts.isVirtual) {
    made.put(kTensorVirtual, kOfBoolean, 1, &facts.isVirtual);
  }
  if (facts.isByValue) {
    made.put(kTensorByValue, kOfBoolean, 1, &facts.isByValue);
  }
  return keep(std::move(made));
}

void GraphBuilder::pointwise(const PointwiseFacts& facts, const Descriptor& result) {
  Descriptor how(kPointwiseDescriptor);
  how.put(kPointwiseMode, kOfPointwiseMode, facts.mode)
      .put(kPointwisePrecision, kOfDataType, facts.precision);
  if (facts.mode == kRelu) {
    how.put(kPointwiseNan, kOfNanPropagation, 1);
  }
  if (facts.axis >= 0) {
    how.put(kPointwiseAxis, {facts.axis});
  }
  Descriptor operation(kPointwiseOperation);
  operation.put(kOperationPointwise, keep(std::move(how)))
      .put(kOperationX, *facts.x)
      .put(kOperationY, result);
  if (facts.b) {
    operation.put(kOperationB, *facts.b);
  }
  if (facts.t) {
    operation.put(kOperationT, *facts.t);
  }
  add(std::move(operation));
}

const Descriptor& GraphBuilder::finishGraph() {
  Descriptor made(kOperationGraph);
  made.put(kGraphHandle, kOfHandle, 1, &engine_->device->handle);
  made.put(kGraphOperations, kOfDescriptor, static_cast<int64_t>(operations_.size()),
           operations_.data());
  return keep(std::move(made));
}

Status choose(const Descriptor& graph, std::initializer_list<Heuristic> modes, bool exact,
              int64_t mostWorkspace, int32_t variant, Engine* engine) {
  int32_t passed = 0;
  for (const Heuristic mode : modes) {
    for (Descriptor& config : proposals(graph, mode)) {
      // skipped engines are not planned: a plan takes milliseconds
      if (!sumsPlainProducts(config, exact) || passed++ < variant) {
        continue;
      }
      Descriptor plan(kExecutionPlan);
      plan.put(kPlanHandle, kOfHandle, 1, &engine->device->handle)
          .put(kPlanConfig, config)
          .finish();
      int64_t needed = 0, count = 0;
      if (plan &&
          library().get(plan.raw(), kPlanWorkspace, kOfInt64, 1, &count, &needed) == kSuccess &&
          needed <= mostWorkspace) {
        engine->config = std::move(config);
        engine->plan = std::move(plan);
        return kSuccess;
      }
    }
  }
  return variant > 0 ? choose(graph, modes, exact, mostWorkspace, 0, engine) : kNotSupported;
}

bool areAligned(std::span<const void* const> addresses) {
  return std::all_of(addresses.begin(), addresses.end(), [](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % kFullAlignment == 0;
  });
}

int32_t enqueue(sl_ctx* ctx, const Engine& engine, Pack* pack, std::span<const int64_t> ids,
                std::vector<const void*> addresses, const void* workspace) {
  if (const Status status = address(pack, ids, std::move(addresses), workspace);
      status != kSuccess) {
    return fail(ctx, SL_DEVICE_ERROR, words("cudnnBackendFinalize of a variant pack", status));
  }
  const Functions& lib = library();
  DeviceHandle& device = *engine.device;
  const std::lock_guard<std::mutex> lock(device.mutex);
  Status status = lib.setStream(device.handle, sl_cuda_stream());
  if (status != kSuccess) {
    return fail(ctx, SL_DEVICE_ERROR, words("cudnnSetStream", status));
  }
  status = lib.execute(device.handle, engine.plan.raw(), pack->descriptor.raw());
  return status == kSuccess ? int32_t{SL_OK}
                            : fail(ctx, SL_DEVICE_ERROR, words("cudnnBackendExecute", status));
}

}  // namespace straightline::cudnn
