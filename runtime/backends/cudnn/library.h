// SPDX-License-Identifier: Apache-2.0
// cuDNN 9, opened when it is first used; building needs nothing of it. Prototypes and numbers are
// those of its graph API (https://docs.nvidia.com/deeplearning/cudnn/backend, cudnn_graph.h of
// 9.28); the declarations are ours.
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_CUDNN_LIBRARY_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_CUDNN_LIBRARY_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <span>
#include <string>
#include <utility>

namespace straightline::cudnn {

struct Handle_;
using Handle = Handle_*;

using Status = int;
inline constexpr Status kSuccess = 0;
/// of what the library has no engine for; up to 3999
inline constexpr Status kNotSupported = 3000;

/// cudnnDataType_t.
enum Type : int { kFloat32 = 0, kFloat16 = 2, kInt32 = 4, kBfloat16 = 9, kBoolean = 11 };
/// cudnnPointwiseMode_t.
enum Pointwise : int {
  kAdd = 0,
  kMultiply = 1,
  kDivide = 6,
  kSubtract = 9,
  kExp = 13,
  kLog = 15,
  kRelu = 100,
  kIsNotLess = 303,
  kIndex = 501,
  kChoose = 601,
};
/// cudnnReduceTensorOp_t.
enum Reduction : int { kSum = 0, kMaximum = 3 };
/// cudnnConvolutionMode_t: a framework's convolution does not flip the filter.
inline constexpr int kCrossCorrelation = 1;
/// cudnnBackendHeurMode_t: engines by their estimated time, and fallback engines for graphs that
/// the others do not support.
enum Heuristic : int { kByTime = 3, kFallback = 2 };
/// cudnnBackendNumericalNote_t.
enum NumericalNote : int {
  kTensorCore = 0,
  kDownConvertsInputs = 1,
  kReducedPrecision = 2,
  kFft = 3,
  kNondeterministic = 4,
  kWinograd = 5,
  kLastWinograd = 8,
};

/// cudnnBackendDescriptorType_t.
enum Kind : int {
  kPointwiseDescriptor = 0,
  kConvolutionDescriptor = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristics = 4,
  kExecutionPlan = 5,
  kConvolutionForward = 10,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmulDescriptor = 18,
  kMatmulOperation = 19,
  kReductionDescriptor = 21,
  kReductionOperation = 22,
};

/// cudnnBackendAttributeType_t.
enum ValueType : int {
  kOfHandle = 0,
  kOfDataType = 1,
  kOfBoolean = 2,
  kOfInt64 = 3,
  kOfFloat = 4,
  kOfAddress = 6,
  kOfConvolutionMode = 7,
  kOfHeuristicMode = 8,
  kOfNanPropagation = 10,
  kOfNumericalNote = 11,
  kOfPointwiseMode = 14,
  kOfDescriptor = 15,
  kOfReduction = 18,
};

/// cudnnBackendAttributeName_t, by the library's names without their common prefix.
enum Attribute : int {
  kPointwiseMode = 0,
  kPointwisePrecision = 1,
  kPointwiseNan = 2,
  kPointwiseAxis = 9,
  kConvolutionCompute = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPostPaddings = 104,
  kConvolutionPrePaddings = 105,
  kConvolutionSpatialDims = 106,
  kHeuristicsMode = 200,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kOperationPointwise = 750,
  kOperationX = 751,
  kOperationB = 752,
  kOperationY = 753,
  kOperationT = 758,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDims = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorVirtual = 907,
  kTensorByValue = 908,
  kPackIds = 1000,
  kPackAddresses = 1001,
  kPackWorkspace = 1003,
  kEngineNotes = 1303,
  kMatmulCompute = 1500,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kOperationMatmul = 1523,
  kReductionOperator = 1600,
  kReductionCompute = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kOperationReduction = 1612,
};

/// (what it returns, member, symbol, parameters)
#define SL_CUDNN(ENTRY)                                                                            \
  ENTRY(Status, create, cudnnCreate, (Handle * handle))                                            \
  ENTRY(Status, setStream, cudnnSetStream, (Handle handle, void* stream))                          \
  ENTRY(const char*, statusText, cudnnGetErrorString, (Status status))                             \
  ENTRY(Status, descriptorCreate, cudnnBackendCreateDescriptor, (int kind, void** made))           \
  ENTRY(Status, descriptorDestroy, cudnnBackendDestroyDescriptor, (void* descriptor))              \
  ENTRY(Status, set, cudnnBackendSetAttribute,                                                     \
        (void* descriptor, int attribute, int type, int64_t count, const void* values))            \
  ENTRY(Status, get, cudnnBackendGetAttribute,                                                     \
        (void* descriptor, int attribute, int type, int64_t wanted, int64_t* count, void* values)) \
  ENTRY(Status, finalize, cudnnBackendFinalize, (void* descriptor))                                \
  ENTRY(Status, execute, cudnnBackendExecute, (Handle handle, void* plan, void* pack))

/// The functions.
struct Functions {
#define SL_CUDNN_MEMBER(result, member, symbol, parameters) result(*member) parameters = nullptr;
  SL_CUDNN(SL_CUDNN_MEMBER)
#undef SL_CUDNN_MEMBER
  std::string error;  ///< why it cannot be used, with the library's name; empty when it can
};

/// Opened by the first call; any thread may call it. Check `error` first.
const Functions& library();

/// The handle of a device, of this process. It has one stream at a time: `mutex` is held from
/// setStream to the end of execute.
struct DeviceHandle {
  int32_t number = 0;  ///< of the device
  Handle handle = nullptr;
  std::mutex mutex;
};

/// Made by the first call for a device; any thread may call it. Null, with the reason, when there
/// is none. The device's context must be current and the library open.
DeviceHandle* handleOf(int32_t device, std::string* error);

/// Why the library cannot be opened, without using the device; empty when it can.
std::string whyMissing();
/// Its name and version, or "" where it is missing.
std::string versionText();

/// "cuDNN: cudnnBackendExecute fails with 5001 (CUDNN_STATUS_...)".
std::string words(const char* function, Status status);

/// One of the library's descriptors, destroyed with this object. The first failure is kept in
/// `status`; later calls do nothing. One thread at a time.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(Kind kind);
  Descriptor(Descriptor&& other) noexcept { *this = std::move(other); }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    std::swap(status_, other.status_);
    return *this;
  }
  ~Descriptor();

  Descriptor& put(Attribute attribute, ValueType type, int64_t count, const void* values);
  Descriptor& put(Attribute attribute, std::initializer_list<int64_t> values) {
    return put(attribute, kOfInt64, static_cast<int64_t>(values.size()), values.begin());
  }
  Descriptor& put(Attribute attribute, std::span<const int64_t> values) {
    return put(attribute, kOfInt64, static_cast<int64_t>(values.size()), values.data());
  }
  /// One number of an enumeration.
  Descriptor& put(Attribute attribute, ValueType type, int value) {
    return put(attribute, type, 1, &value);
  }
  Descriptor& put(Attribute attribute, float value) { return put(attribute, kOfFloat, 1, &value); }
  /// The other one must live as long as this one.
  Descriptor& put(Attribute attribute, const Descriptor& other);
  /// Makes it final: from here on it is read only, and other descriptors may refer to it.
  Descriptor& finish();

  void* raw() const { return raw_; }
  Status status() const { return status_; }
  explicit operator bool() const { return raw_ && status_ == kSuccess; }

 private:
  void* raw_ = nullptr;
  Status status_ = kSuccess;
};

}  // namespace straightline::cudnn

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_CUDNN_LIBRARY_H
