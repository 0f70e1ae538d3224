// SPDX-License-Identifier: Apache-2.0
// Graphs of the library, the engine chosen for one, and its runs: shared by all kernels of this
// backend.
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_CUDNN_ENGINE_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_CUDNN_ENGINE_H

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/driver.h"
#include "library.h"
#include "straightline/abi/kernel.h"

namespace straightline::cudnn {

/// bytes; the alignment of addresses that fast engines require
inline constexpr int64_t kFullAlignment = 16;
inline constexpr int64_t kMostElements = (int64_t{1} << 31) - 1;  ///< of a tensor

/// Writes the message into ctx. Returns the status.
int32_t fail(sl_ctx* ctx, int32_t status, const std::string& text);
/// The handle that plans use on a device whose context is current; null with the reason: no driver,
/// no context, no library.
DeviceHandle* usable(const cuda::OpenDevice& device, const cuda::Entered& entered,
                     std::string* error);
/// For `accepts`, 1 or 0 with the reason: on a machine with NVIDIA's driver the library must be
/// installed, too.
int32_t isThere(char* reason, size_t bytes);
/// cudnnDataType_t of a float of 16 or 32 bits.
Type typeOf(sl_dtype dtype);

using Four = std::array<int64_t, 4>;

/// A tensor of four dims, in elements. A virtual one is between two operations and has no address;
/// one passed by value is a number at a host address.
struct TensorFacts {
  int64_t id;
  Type type;
  Four dims, strides;
  int64_t alignment = kFullAlignment;  ///< bytes
  bool isVirtual = false;
  bool isByValue = false;
};

/// An elementwise operation of up to three operands. All descriptors must outlive the graph.
struct PointwiseFacts {
  Pointwise mode;
  const Descriptor* x;
  const Descriptor* b = nullptr;
  const Descriptor* t = nullptr;  ///< of a selection: where x is taken, else b
  Type precision = kFloat32;
  int64_t axis = -1;  ///< of kIndex
};

/// An engine with its execution plan, and the graph that it was chosen for.
struct Engine {
  DeviceHandle* device = nullptr;  ///< of the process
  std::deque<Descriptor> parts;    ///< of the graph
  Descriptor config, plan;
};

/// Addresses for runs of an engine, kept between runs. One thread at a time.
struct Pack {
  Descriptor descriptor;
  std::vector<const void*> addresses;
};

/// Builds a graph, part by part. The engine owns the parts; the first failure is kept. The caller
/// holds the mutex of the engine's device.
class GraphBuilder {
 public:
  explicit GraphBuilder(Engine* engine) : engine_(engine) {}

 protected:
  const Descriptor& keep(Descriptor made);
  /// Appends an operation.
  void add(Descriptor operation) { operations_.push_back(keep(std::move(operation)).raw()); }
  const Descriptor& tensor(const TensorFacts& facts);
  void pointwise(const PointwiseFacts& facts, const Descriptor& result);
  const Descriptor& finishGraph();
  Status status() const { return status_; }

 private:
  Engine* engine_;
  std::vector<void*> operations_;
  Status status_ = kSuccess;
};

/// Chooses the first engine among the heuristics' proposals that sums products of unrounded factors
/// in float32, always in the same order, and needs no more than the given workspace. `exact`: also
/// refuses engines that round float32 to TF32. `variant`: skips so many suitable engines; where
/// there are no others, the first one is chosen. The caller holds the mutex of the engine's device.
/// Returns a status of the library.
Status choose(const Descriptor& graph, std::initializer_list<Heuristic> modes, bool exact,
              int64_t mostWorkspace, int32_t variant, Engine* engine);

/// Whether all addresses are multiples of kFullAlignment.
bool areAligned(std::span<const void* const> addresses);

/// Enqueues the engine's work on the stream of this call. `addresses` belong to the tensors named
/// in `ids`, in order. SL_OK, or a failure in ctx.
int32_t enqueue(sl_ctx* ctx, const Engine& engine, Pack* pack, std::span<const int64_t> ids,
                std::vector<const void*> addresses, const void* workspace);

}  // namespace straightline::cudnn

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_CUDNN_ENGINE_H
