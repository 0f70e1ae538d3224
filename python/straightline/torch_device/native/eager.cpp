// SPDX-License-Identifier: Apache-2.0
// One boxed kernel for all ops.
// It describes a call by numbers (the op, each tensor's type, dims and order of dims, which sizes
// are equal, and the other arguments' values).
// Then it finds the program for them
// in a table, and runs it. Only a call that the table does not have goes to Python.
#include "eager.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/view_as_complex_native.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "straightline/abi/dlpack.h"
#include "tensors.h"

namespace torch::jit {
// Of torch/csrc/jit/python/pybind_utils.h, whose other contents take longer to compile than this
// whole file.
pybind11::object toPyObject(c10::IValue value);
}  // namespace torch::jit

namespace sl_torch {
namespace {

namespace py = pybind11;

constexpr int kRank = SL_MAX_RANK;
constexpr int kMostExtents = 64, kMostTensors = 64;

// --- keys

/// What a call is, in numbers.
struct Key {
  c10::SmallVector<uint64_t, 40> words{};

  void add(uint64_t word) { words.push_back(word); }
  bool operator==(const Key& other) const { return words == other.words; }
};
struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (uint64_t word : key.words) {
      hash = (hash ^ word) * 0xff51afd7ed558ccdu;
      hash ^= hash >> 32;
    }
    return static_cast<size_t>(hash);
  }
};

enum Tag : uint64_t {
  kTensor = 1,
  kNoTensor,
  kNumber,
  kNone,
  kInt,
  kDouble,
  kBoolean,
  kText,
  kInts,
  kDoubles,
  kBooleans,
  kTensors,
  kOther
};

/// Numbers of sizes in the order in which they occur, from 2 on; 0 and 1 stand for themselves.
struct Labels {
  static constexpr uint64_t kMost = 14;
  c10::SmallVector<int64_t, 16> sizes{};

  uint64_t of(int64_t size) {
    if (size < 2) {
      return static_cast<uint64_t>(size);
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == size) {
        return i + 2;
      }
    }
    sizes.push_back(size);
    return sizes.size() + 1;
  }
};

/// The arguments of a call that are tensors, in row-major order or dense in another one.
struct Call {
  Key key{};
  c10::SmallVector<at::Tensor, 8> tensors{};  ///< in the order of the arguments
  uint64_t complexes = 0;  ///< which of them are the parts of complex ones, [.., 2]: bits
  Labels labels{};
  c10::DeviceIndex device = -1;
  c10::SmallVector<size_t, 2> values{};  ///< words of the key that are values of numbers
};

/// Dims from the outermost to the innermost, 4 bits each; dims of size 1 do not count.
uint64_t orderOf(const at::Tensor& tensor) {
  int order[kRank];
  const int rank = static_cast<int>(tensor.dim());
  for (int i = 0; i < rank; ++i) {
    int at = i;
    for (; at > 0 && tensor.stride(order[at - 1]) < tensor.stride(i) &&
           tensor.size(order[at - 1]) != 1 && tensor.size(i) != 1;
         --at) {
      order[at] = order[at - 1];
    }
    order[at] = i;
  }
  uint64_t packed = 0;
  for (int i = 0; i < rank; ++i) {
    packed |= static_cast<uint64_t>(order[i]) << (4 * i);
  }
  return packed;
}

void addTensor(Call& call, const c10::OperatorHandle& op, const at::Tensor& given) {
  if (!given.defined()) {
    call.key.add(kNoTensor);
    return;
  }
  at::Tensor tensor = given;
  if (tensor.device().type() != kType) {
    if (tensor.is_cpu() && tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      const at::Scalar value = tensor.item();
      if (value.isComplex()) {
        const auto parts = value.toComplexDouble();
        uint64_t words[2];
        std::memcpy(words, &parts, sizeof words);
        call.key.add(kNumber | static_cast<uint64_t>(tensor.scalar_type()) << 8);
        call.key.add(words[0]);
        call.key.add(words[1]);
        return;
      }
      const bool integral = value.isIntegral(true);
      const double number = integral ? 0 : value.toDouble();
      uint64_t bits = 0;
      std::memcpy(&bits, &number, sizeof bits);
      call.key.add(kNumber | static_cast<uint64_t>(tensor.scalar_type()) << 8);
      call.values.push_back(call.key.words.size());
      call.key.add(integral ? static_cast<uint64_t>(value.toLong()) : bits);
      return;
    }
    TORCH_CHECK(tensor.is_cpu() && tensor.dim() == 0, "aten::", op.schema().name().substr(6),
                " got a tensor on ", tensor.device(), " and one on ", c10::Device(kType),
                ": move both to one device");
    tensor = tensor.to(c10::Device(kType, call.device < 0 ? currentDevice() : call.device));
  }
  TORCH_CHECK(call.device < 0 || call.device == tensor.device().index(), op.schema().name(),
              " got a tensor on ", c10::Device(kType, call.device), " and one on ", tensor.device(),
              ": move both to one device");
  const bool isComplex = tensor.is_complex();
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.dim() + isComplex <= kRank, op.schema().name(),
                              " of a tensor of ", tensor.dim(), " dims, programs take ",
                              kRank - isComplex);
  call.device = tensor.device().index();
  if (!tensor.is_contiguous() && !tensor.is_non_overlapping_and_dense()) {
    tensor = rowMajor(tensor);
  }
  const uint64_t order = tensor.is_contiguous() ? 0x76543210u : orderOf(tensor);
  uint64_t sizes = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    sizes = sizes << 4 | call.labels.of(tensor.size(dim));
  }
  call.key.add(kTensor | static_cast<uint64_t>(tensor.scalar_type()) << 8 |
               static_cast<uint64_t>(tensor.dim()) << 16 | order << 24);
  call.key.add(sizes);
  if (isComplex) {
    TORCH_CHECK_NOT_IMPLEMENTED(call.tensors.size() < kMostTensors, op.schema().name(), " of ",
                                call.tensors.size() + 1, " tensors with complex ones");
    call.complexes |= uint64_t{1} << call.tensors.size();
    tensor = realParts(tensor);
  }
  call.tensors.push_back(std::move(tensor));
}

void addText(Key& key, const std::string& text) {
  key.add(kText | static_cast<uint64_t>(std::hash<std::string>()(text)) << 8);
}

void addValue(Call& call, const c10::OperatorHandle& op, const c10::IValue& value) {
  Key& key = call.key;
  if (value.isTensor()) {
    addTensor(call, op, value.toTensor());
  } else if (value.isNone()) {
    key.add(kNone);
  } else if (value.isInt()) {
    key.add(kInt);
    key.add(static_cast<uint64_t>(value.toInt()));
  } else if (value.isBool()) {
    key.add(kBoolean | static_cast<uint64_t>(value.toBool()) << 8);
  } else if (value.isDouble()) {
    const double number = value.toDouble();
    uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    key.add(kDouble);
    key.add(bits);
  } else if (value.isString()) {
    addText(key, value.toStringRef());
  } else if (value.isList()) {
    const auto elements = value.toListRef();
    key.add(kTensors | elements.size() << 8);
    for (const c10::IValue& element : elements) {
      addValue(call, op, element);
    }
  } else if (value.isIntList()) {
    const std::vector<int64_t> numbers = value.toIntVector();
    key.add(kInts | numbers.size() << 8);
    for (int64_t number : numbers) {
      key.add(static_cast<uint64_t>(number));
    }
  } else {
    std::ostringstream text;
    text << value;
    key.add(kOther);
    addText(key, text.str());
  }
}

// --- programs

/// A program of one op. Immutable, except `calls`.
struct Program {
  const sl_program* program = nullptr;  ///< NULL: see `dynamic` and `refusal`
  const sl_weights* weights = nullptr;
  const sl_program_desc* desc = nullptr;
  std::vector<int> inputs{};  ///< numbers among the tensors of the call, as the program takes them
  /// of each return of the op: numbers of results, -1 for a tensor that is undefined
  std::vector<std::vector<int>> returns{};
  std::vector<bool> lists{};  ///< whether the return is a list of tensors
  struct Result {
    int output;  ///< among the fresh outputs; -1: it is input `input`
    int input;
    at::ScalarType type;
    bool isComplex = false;  ///< the program gives its parts
  };
  std::vector<Result> results{};
  bool needsSizes = false;  ///< sizes of tensors belong to the key: no program for named ones
  bool onHost = false;      ///< a rule gives the op to the host
  std::string refusal{};    ///< not empty: the op cannot be run
  /// of a refusal: the error of Python's that torch itself raises for such a call, by its name
  std::string error{};
  int64_t number = 0;
  PyObject* owner = nullptr;
  mutable std::atomic<int64_t> calls{0};

  Program() = default;
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (owner && Py_IsInitialized()) {
      py::gil_scoped_acquire gil;
      Py_DECREF(owner);
    }
  }
};
using ProgramRef = std::shared_ptr<const Program>;

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<Key, ProgramRef, KeyHash> programs{};
  std::deque<Key> order{};  ///< the oldest first
  size_t limit = 4096;
  std::atomic<int64_t> built{0};
  PyObject* builder = nullptr;
  /// Of calls with numbers: how many values came with the rest of the key.
  std::unordered_map<Key, int, KeyHash> values{};
};
Table& table() {
  static auto* const instance = new Table;
  return *instance;
}

ProgramRef find(const Key& key) {
  const std::shared_lock<std::shared_mutex> lock(table().mutex);
  const auto found = table().programs.find(key);
  return found == table().programs.end() ? nullptr : found->second;
}

ProgramRef keep(const Key& key, ProgramRef made) {
  std::vector<ProgramRef> dropped;  // outlive the lock: Python frees them
  const std::lock_guard<std::shared_mutex> lock(table().mutex);
  const auto [place, isNew] = table().programs.emplace(key, std::move(made));
  const ProgramRef kept = place->second;
  if (isNew) {
    table().order.push_back(key);
  }
  while (table().programs.size() > table().limit) {
    const auto oldest = table().programs.find(table().order.front());
    dropped.push_back(std::move(oldest->second));
    table().programs.erase(oldest);
    table().order.pop_front();
  }
  return kept;
}

at::ScalarType typeOf(sl_dtype dtype) {
  switch (dtype.code) {
    case 0:
      return dtype.bits == 8    ? at::kChar
             : dtype.bits == 16 ? at::kShort
             : dtype.bits == 32 ? at::kInt
                                : at::kLong;
    case 1:
      return at::kByte;
    case 2:
      return dtype.bits == 16 ? at::kHalf : dtype.bits == 32 ? at::kFloat : at::kDouble;
    case 4:
      return at::kBFloat16;
    case 6:
      return at::kBool;
  }
  TORCH_CHECK(false, "a result of type (", int(dtype.code), ", ", int(dtype.bits), ")");
}

sl_dtype typeOf(at::ScalarType type) {
  const auto bits = static_cast<uint8_t>(c10::elementSize(type) * 8);
  const uint8_t code = type == at::kBool          ? 6
                       : type == at::kBFloat16    ? 4
                       : at::isFloatingType(type) ? 2
                       : type == at::kByte        ? 1
                       : at::isComplexType(type)  ? 5
                                                  : 0;
  return {code, bits, 1};
}

/// Which results a program has; a text: why it cannot be used here.
std::string describeResults(Program* made) {
  const sl_program_desc& desc = *made->desc;
  if (desc.input_count != static_cast<int32_t>(made->inputs.size()) ||
      desc.input_count > kMostTensors || desc.extent_count > kMostExtents) {
    return c10::str("its program has ", desc.input_count, " inputs and ", desc.extent_count,
                    " sizes");
  }
  for (int32_t i = 0; i < desc.result_count; ++i) {
    const sl_buffer& buffer = desc.buffers[desc.results[i].buffer];
    const sl_buffer& root = desc.buffers[desc.results[i].root];
    if (buffer.role == SL_ROLE_OUTPUT) {
      made->results.push_back({buffer.index, -1, typeOf(buffer.dtype)});
    } else if (root.role == SL_ROLE_INPUT) {
      made->results.push_back({-1, root.index, typeOf(buffer.dtype)});
    } else {
      return "a result of its program is a view of another one";
    }
  }
  return "";
}

/// An argument for Python; a number that torch has wrapped as a tensor is a number again.
py::object toPython(const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_cpu() &&
      value.toTensor().unsafeGetTensorImpl()->is_wrapped_number()) {
    return torch::jit::toPyObject(c10::IValue(value.toTensor().item()));
  }
  if (value.isTensorList() || value.isOptionalTensorList()) {
    py::list list;
    for (const c10::IValue& element : value.toListRef()) {
      list.append(toPython(element));
    }
    return std::move(list);
  }
  return torch::jit::toPyObject(value);
}

py::object argumentsOf(c10::ArrayRef<c10::IValue> arguments) {
  py::list list;
  for (const c10::IValue& argument : arguments) {
    list.append(toPython(argument));
  }
  return std::move(list);
}

/// The tensors of a call for Python, complex ones as such.
std::vector<at::Tensor> tensorsOf(const Call& call) {
  std::vector<at::Tensor> tensors(call.tensors.begin(), call.tensors.end());
  for (size_t i = 0; i < tensors.size() && call.complexes != 0; ++i) {
    if (i < kMostTensors && (call.complexes >> i & 1) != 0) {
      tensors[i] = at::native::view_as_complex(tensors[i]);
    }
  }
  return tensors;
}

std::string nameOf(const c10::OperatorHandle& op) {
  return op.schema().overload_name().empty()
             ? op.schema().name()
             : op.schema().name() + "." + op.schema().overload_name();
}

/// Has Python compile the op for these arguments.
ProgramRef build(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments,
                 const Call& call, bool dynamic) {
  checkProcess(call.device);  // the compiler's threads are not in a forked process, either
  py::gil_scoped_acquire gil;
  auto made = std::make_shared<Program>();
  try {
    const py::object answer =
        py::handle(table().builder)
            .attr("build")(nameOf(op), argumentsOf(arguments), py::cast(tensorsOf(call)), dynamic);
    if (py::isinstance<py::str>(answer)) {
      made->needsSizes = dynamic;
      made->refusal = answer.cast<std::string>();
      return made;
    }
    if (py::isinstance<py::dict>(answer)) {
      made->error = answer["error"].cast<std::string>();
      made->refusal = answer["text"].cast<std::string>();
      made->needsSizes = dynamic;
      return made;
    }
    if (answer.is_none()) {
      made->onHost = true;
      return made;
    }
    const auto parts = answer.cast<py::tuple>();
    made->program = reinterpret_cast<const sl_program*>(parts[0].cast<uintptr_t>());
    made->weights = reinterpret_cast<const sl_weights*>(parts[1].cast<uintptr_t>());
    made->desc = sl_program_description(made->program);
    made->inputs = parts[2].cast<std::vector<int>>();
    for (const py::handle one : parts[3]) {
      const bool isList = py::isinstance<py::list>(one);
      made->lists.push_back(isList);
      made->returns.push_back(isList ? one.cast<std::vector<int>>()
                                     : std::vector<int>{one.cast<int>()});
    }
    made->number = parts[4].cast<int64_t>();
    made->owner = py::object(parts[5]).release().ptr();
    made->refusal = describeResults(made.get());
    for (const py::handle complex : parts[6]) {
      if (made->refusal.empty()) {
        made->results.at(complex.cast<size_t>()).isComplex = true;
      }
    }
    made->needsSizes = dynamic && !made->refusal.empty();
    ++table().built;
  } catch (const py::error_already_set& error) {
    const std::string text = error.what();
    if (error.matches(PyExc_KeyboardInterrupt)) {
      throw;
    }
    TORCH_CHECK(false, nameOf(op), ": ", text);
  }
  return made;
}

// --- runs

void pushResults(const Program& program, const std::vector<at::Tensor>& results,
                 torch::jit::Stack* stack) {
  for (size_t i = 0; i < program.returns.size(); ++i) {
    const std::vector<int>& numbers = program.returns[i];
    if (!program.lists[i]) {
      const int number = numbers[0];
      stack->emplace_back(number < 0 ? at::Tensor() : results[static_cast<size_t>(number)]);
      continue;
    }
    c10::List<at::Tensor> list;
    for (int number : numbers) {
      list.push_back(results[static_cast<size_t>(number)]);
    }
    stack->emplace_back(std::move(list));
  }
}

at::Tensor resultOf(const Program& program, size_t i, const int64_t* extents, const Call& call,
                    void** outputs) {
  int64_t shape[kRank], strides[kRank], offset = 0;
  sl_program_result(program.program, static_cast<int32_t>(i), extents, shape, strides, &offset);
  const Program::Result& result = program.results[i];
  const auto rank =
      static_cast<size_t>(program.desc->buffers[program.desc->results[i].buffer].rank);
  if (result.output >= 0) {
    at::Tensor fresh = emptyStrided(call.device, {shape, rank}, {strides, rank}, result.type);
    outputs[result.output] = fresh.data_ptr();
    return fresh;
  }
  // A function's result shares no memory with its arguments.
  const at::Tensor& root =
      call.tensors[static_cast<size_t>(program.inputs[static_cast<size_t>(result.input)])];
  const at::Tensor alias =
      root.as_strided({shape, rank}, {strides, rank},
                      root.storage_offset() + offset / static_cast<int64_t>(root.element_size()));
  at::Tensor copy = emptyStrided(call.device, alias.sizes(), {}, alias.scalar_type());
  copyOnDevice(copy, alias);
  return copy;
}

/// SL_OK, or SL_INVALID_ARGUMENT: the program does not take these sizes. Raises what else fails.
int32_t run(const c10::OperatorHandle& op, const Program& program, const Call& call,
            std::vector<at::Tensor>* results) {
  sl_tensor inputs[kMostTensors];
  void* data[kMostTensors];
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const at::Tensor& tensor = call.tensors[static_cast<size_t>(program.inputs[i])];
    data[i] = tensor.data_ptr();
    inputs[i] = {data[i],
                 tensor.sizes().data(),
                 tensor.strides().data(),
                 static_cast<int32_t>(tensor.dim()),
                 typeOf(tensor.scalar_type()),
                 SL_DLPACK_EXTENSION,
                 call.device};
  }
  int64_t extents[kMostExtents] = {};
  sl_message message;
  int32_t status = sl_program_guard(program.program, inputs,
                                    static_cast<int32_t>(program.inputs.size()), extents, &message);
  if (status == SL_INVALID_ARGUMENT) {
    return status;
  }
  void* outputs[kMostTensors];
  for (size_t i = 0; i < program.results.size(); ++i) {
    results->push_back(resultOf(program, i, extents, call, outputs));
  }
  sl_queue* queue = currentQueue(call.device);
  sl_frame* frame = nullptr;
  status = sl_frame_lease_on(const_cast<sl_program*>(program.program), queue, SL_LAUNCH_STREAM,
                             extents, &frame, &message);
  if (status != SL_OK) {
    raise(status, message.text);
  }
  sl_args args = {};
  args.size = sizeof args;
  args.inputs = data;
  args.outputs = outputs;
  args.extents = extents;
  args.launch = SL_LAUNCH_STREAM;
  sl_ctx ctx = newContext(call.device);
  status = sl_run(program.program, program.weights, frame, queue, &args, &ctx, &message);
  sl_frame_return(frame);
  if (status != SL_OK) {
    raise(status, c10::str(nameOf(op), ": ", message.text));
  }
  for (size_t i = 0; i < results->size(); ++i) {
    if (program.results[i].isComplex) {
      (*results)[i] = at::native::view_as_complex((*results)[i]);
    }
  }
  ++program.calls;
  return SL_OK;
}

[[noreturn]] void refuse(const c10::OperatorHandle& op, const std::string& why) {
  C10_THROW_ERROR(NotImplementedError,
                  c10::str(nameOf(op), " cannot run on ", c10::Device(kType), ": ", why));
}

[[noreturn]] void refuse(const c10::OperatorHandle& op, const Program& program) {
  if (program.error == "IndexError") {
    C10_THROW_ERROR(IndexError, program.refusal);
  } else if (program.error == "ValueError") {
    C10_THROW_ERROR(ValueError, program.refusal);
  } else if (program.error == "TypeError") {
    C10_THROW_ERROR(TypeError, program.refusal);
  } else if (!program.error.empty()) {
    C10_THROW_ERROR(Error, program.refusal);
  }
  refuse(op, program.refusal);
}

/// A call that the table does not have, or whose sizes its program does not take.
ProgramRef prepared(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, Call* call,
                    ProgramRef known) {
  if (!known && call->labels.sizes.size() + 2 <= Labels::kMost) {
    known = keep(call->key, build(op, arguments, *call, true));
  }
  if (known && !known->needsSizes) {
    return known;
  }
  call->key.add(kOther);
  for (const at::Tensor& tensor : call->tensors) {
    for (int64_t size : tensor.sizes()) {
      call->key.add(static_cast<uint64_t>(size));
    }
  }
  const ProgramRef exact = find(call->key);
  return exact ? exact : keep(call->key, build(op, arguments, *call, false));
}

/// Makes indices of masks: each by as many tensors of numbers as it has dims. Indices on the CPU
/// are moved to the tensor that they index.
void expandMasks(torch::jit::Stack* stack, size_t count) {
  const at::Device device = (stack->end() - static_cast<int64_t>(count))->toTensor().device();
  c10::IValue& indices = *(stack->end() - static_cast<int64_t>(count) + 1);
  c10::List<std::optional<at::Tensor>> expanded;
  bool found = false;
  for (const c10::IValue& element : indices.toListRef()) {
    auto index = element.toOptional<at::Tensor>();
    if (index && index->defined() && index->is_cpu() && device.type() == kType) {
      index = index->to(device);
      found = true;
    }
    if (!index || !index->defined() ||
        (index->scalar_type() != at::kBool && index->scalar_type() != at::kByte)) {
      expanded.push_back(index);
      continue;
    }
    found = true;
    const at::Tensor numbers = index->nonzero();
    for (int64_t dim = 0; dim < index->dim(); ++dim) {
      expanded.push_back(numbers.select(1, dim));
    }
  }
  if (found) {
    indices = std::move(expanded);
  }
}

// --- numbers that change from call to call (a learning rate)

constexpr int kProgramsByValue = 3;

/// Ops whose arguments of type Scalar may be a tensor of the device (decompositions.py:
/// BY_TENSOR).
bool takesNumbersAsTensors(const c10::OperatorHandle& op) {
  const std::string name = nameOf(op);
  return name == "aten::addcdiv" || name == "aten::addcmul" || name == "aten::lerp.Scalar";
}

bool isNumber(const c10::OperatorHandle& op, size_t i, const c10::IValue& value) {
  if (value.isTensor()) {
    return value.toTensor().defined() && value.toTensor().is_cpu() &&
           value.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
  }
  return (value.isDouble() || value.isInt()) &&
         op.schema().arguments()[i].type()->kind() == c10::TypeKind::NumberType;
}

void describe(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, Call* call) {
  call->key.add(reinterpret_cast<uintptr_t>(&op.schema()));
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor() && argument.toTensor().defined() &&
        argument.toTensor().device().type() == kType) {
      call->device = argument.toTensor().device().index();
      break;
    }
  }
  for (const c10::IValue& argument : arguments) {
    addValue(*call, op, argument);
    if (argument.isDouble()) {
      call->values.push_back(call->key.words.size() - 1);
    }
  }
  if (call->device < 0) {
    call->device = currentDevice();
  }
}

/// Whether so many values came with the rest of the key that one program should take them all.
bool hasManyValues(const Call& call) {
  if (call.values.empty()) {
    return false;
  }
  Key rest = call.key;
  for (size_t word : call.values) {
    rest.words[word] = 0;
  }
  const std::lock_guard<std::shared_mutex> lock(table().mutex);
  if (table().values.size() > 4 * table().limit) {
    table().values.clear();
  }
  return ++table().values[rest] > kProgramsByValue;
}

/// The arguments with each number as a tensor of the device; false: there is none that may be.
bool numbersAsTensors(const c10::OperatorHandle& op, std::vector<c10::IValue>* arguments,
                      c10::DeviceIndex device) {
  bool isDouble = false, found = false;
  for (const c10::IValue& argument : *arguments) {
    isDouble = isDouble || (argument.isTensor() && argument.toTensor().defined() &&
                            argument.toTensor().scalar_type() == at::kDouble &&
                            argument.toTensor().device().type() == kType);
  }
  const bool scalars = takesNumbersAsTensors(op);
  for (size_t i = 0; i < arguments->size(); ++i) {
    c10::IValue& argument = (*arguments)[i];
    if (!isNumber(op, i, argument) || (!argument.isTensor() && !scalars)) {
      continue;
    }
    const at::Scalar value = argument.isTensor() ? argument.toTensor().item() : argument.toScalar();
    if (value.isBoolean() || value.isComplex()) {
      continue;
    }
    const bool integral = argument.isTensor() && value.isIntegral(false);
    at::Tensor number = emptyStrided(device, {}, {},
                                     integral   ? at::kLong
                                     : isDouble ? at::kDouble
                                                : at::kFloat);
    number.fill_(value);
    argument = std::move(number);
    found = true;
  }
  return found;
}

void countHostCall(const c10::OperatorHandle& op);

/// Runs a function: its arguments on the stack become its results.
void runFunction(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  if (count > 1 && op.schema().arguments()[1].name() == "indices" &&
      (stack->end() - static_cast<int64_t>(count) + 1)->isList()) {
    expandMasks(stack, count);
  }
  c10::ArrayRef<c10::IValue> arguments(stack->data() + stack->size() - count, count);
  std::vector<c10::IValue> changed;
  Call call;
  describe(op, arguments, &call);
  ProgramRef program = find(call.key);
  if (!program && hasManyValues(call)) {
    changed = arguments.vec();
    if (numbersAsTensors(op, &changed, call.device)) {
      arguments = changed;
      call = Call();
      describe(op, arguments, &call);
      program = find(call.key);
    }
  }
  if (!program || program->needsSizes) {
    program = prepared(op, arguments, &call, program);
  }
  if (program->onHost) {
    countHostCall(op);
    return at::native::cpu_fallback(op, stack);
  }
  std::vector<at::Tensor> results;
  if (program->refusal.empty() && run(op, *program, call, &results) != SL_OK) {
    // Sizes out of the program's bounds: one for exactly these.
    auto exact = std::make_shared<Program>();
    exact->needsSizes = true;
    program = prepared(op, arguments, &call, exact);
    if (program->refusal.empty() && run(op, *program, call, &results) != SL_OK) {
      refuse(op, "its program does not take the tensors that it was made for");
    }
  }
  if (!program->refusal.empty()) {
    refuse(op, *program);
  }
  torch::jit::drop(*stack, count);
  pushResults(*program, results, stack);
}

// --- ops that write their arguments, and ops that are refused

struct Plan {
  enum Kind { kFunction = 0, kMutates = 1, kRefused = 2, kOnHost = 3 };
  int kind = kFunction;
  std::string text{};
  std::vector<int> mutated{};
  std::optional<c10::OperatorHandle> function{};
  size_t argumentCount = 0;  ///< of the function
  mutable std::atomic<int64_t> hostCalls{0};
};

struct Plans {
  std::shared_mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<Plan>> byOp{};
  std::map<const void*, std::string> names{};
};
Plans& plans() {
  static auto* const instance = new Plans;
  return *instance;
}

const Plan& foundPlan(const c10::OperatorHandle& op) {
  const void* key = &op.schema();
  {
    const std::shared_lock<std::shared_mutex> lock(plans().mutex);
    const auto found = plans().byOp.find(key);
    if (found != plans().byOp.end()) {
      return *found->second;
    }
  }
  checkProcess(currentDevice());
  auto made = std::make_unique<Plan>();
  {
    py::gil_scoped_acquire gil;
    const auto answer = py::handle(table().builder).attr("plan")(nameOf(op)).cast<py::tuple>();
    made->kind = answer[0].cast<int>();
    made->text = answer[1].cast<std::string>();
    made->mutated = answer[2].cast<std::vector<int>>();
  }
  if (made->kind == Plan::kMutates) {
    const auto dot = made->text.find('.');
    made->function = c10::Dispatcher::singleton().findSchemaOrThrow(
        made->text.substr(0, dot).c_str(),
        dot == std::string::npos ? "" : made->text.substr(dot + 1).c_str());
    made->argumentCount = made->function->schema().arguments().size();
  }
  const std::lock_guard<std::shared_mutex> lock(plans().mutex);
  plans().names[key] = nameOf(op);
  return *plans().byOp.emplace(key, std::move(made)).first->second;
}

/// A plan lives as long as the process, so a thread may keep where it is.
const Plan& planOf(const c10::OperatorHandle& op) {
  constexpr size_t kKept = 256;
  static thread_local std::array<std::pair<const void*, const Plan*>, kKept> kept{};
  const void* key = &op.schema();
  auto& place = kept[(reinterpret_cast<uintptr_t>(key) >> 6) % kKept];
  if (place.first != key) {
    place = {key, &foundPlan(op)};
  }
  return *place.second;
}

void countHostCall(const c10::OperatorHandle& op) { ++planOf(op).hostCalls; }

/// Gives an argument the value of a result, with the sizes of the result where it is an `out`.
void writeBack(const c10::OperatorHandle& op, const at::Tensor& to, const at::Tensor& result,
               bool isOut) {
  TORCH_CHECK(at::canCast(result.scalar_type(), to.scalar_type()), "result type ",
              result.scalar_type(), " can't be cast to the desired output type ", to.scalar_type());
  if (isOut) {
    at::native::resize_output(to, result.sizes());
  } else {
    TORCH_CHECK(to.sizes() == result.sizes(), nameOf(op), ": output with shape ", to.sizes(),
                " doesn't match the broadcast shape ", result.sizes());
  }
  at::assert_no_internal_overlap(to);
  copyOnDevice(to, result);
}

void runMutating(const c10::OperatorHandle& op, const Plan& plan, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size();
  const std::vector<c10::IValue> arguments(stack->end() - static_cast<int64_t>(count),
                                           stack->end());
  torch::jit::Stack own;
  for (size_t i = 0; i < count && own.size() < plan.argumentCount; ++i) {
    if (!schema.arguments()[i].is_out()) {
      own.push_back(arguments[i]);
    }
  }
  runFunction(*plan.function, &own);
  torch::jit::drop(*stack, count);
  for (size_t i = 0; i < plan.mutated.size(); ++i) {
    const auto number = static_cast<size_t>(plan.mutated[i]);
    const at::Tensor target = arguments[number].toTensor();
    const OnDevice on(target.device().index());
    writeBack(op, target, own[i].toTensor(), schema.arguments()[number].is_out());
    if (i < schema.returns().size()) {
      stack->push_back(target);
    }
  }
}

// --- fused optimizers

constexpr const char* kFused[] = {"_fused_adam_", "_fused_adamw_", "_fused_sgd_",
                                  "_fused_adagrad_"};

/// A step of a fused optimizer: a program for each parameter, by the function of that name that
/// takes the learning rate as a tensor, so that another rate is no other program.
void fused(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size();
  std::vector<c10::IValue> arguments(stack->end() - static_cast<int64_t>(count), stack->end());
  torch::jit::drop(*stack, count);
  const c10::List<at::Tensor> parameters = arguments[0].toTensorList();
  if (parameters.empty()) {
    return;
  }
  const auto function = c10::Dispatcher::singleton().findSchemaOrThrow(
      schema.name().substr(0, schema.name().size() - 1).c_str(), "tensor_lr");
  const at::Tensor first = parameters.get(0);
  bool isScaled = false;
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = schema.arguments()[i].name();
    if (name == "lr" && arguments[i].isDouble()) {
      const auto type = first.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
      at::Tensor rate = emptyStrided(first.device().index(), {}, {}, type);
      arguments[i] = rate.fill_(arguments[i].toDouble());
    }
    isScaled = isScaled || (name == "grad_scale" && arguments[i].isTensor());
  }
  for (size_t p = 0; p < parameters.size(); ++p) {
    torch::jit::Stack own;
    for (const c10::IValue& argument : arguments) {
      if (!argument.isTensorList()) {
        own.push_back(argument);
        continue;
      }
      c10::List<at::Tensor> one;
      if (p < argument.toTensorList().size()) {
        one.push_back(argument.toTensorList().get(p));
      }
      own.emplace_back(std::move(one));
    }
    runFunction(function, &own);
    for (size_t i = 0; i < own.size(); ++i) {
      const c10::List<at::Tensor> results = own[i].toTensorList();
      if (!results.empty() && (i != 1 || isScaled)) {  // 1: gradients, written where unscaled
        const at::Tensor target = arguments[i].toTensorList().get(p);
        const OnDevice on(target.device().index());
        writeBack(op, target, results.get(0), false);
      }
    }
  }
}

// --- tensors of other layouts, which the device does not have

template <c10::DispatchKey key>
void refuseLayout(const c10::OperatorHandle& op, torch::jit::Stack*) {
  constexpr bool isNested = key == c10::DispatchKey::NestedTensorPrivateUse1;
  constexpr bool isQuantized = key == c10::DispatchKey::QuantizedPrivateUse1;
  refuse(op, c10::str(isNested      ? "nested tensors of strided layout"
                      : isQuantized ? "quantized tensors"
                                    : "sparse tensors",
                      " are not supported there; nearest: ",
                      isNested      ? "layout=torch.jagged, or padded tensors"
                      : isQuantized ? "dense tensors of floats"
                                    : "dense tensors (to_dense() on the cpu)"));
}

template <c10::DispatchKey key>
void refuseAll() {
  static auto* const library =
      new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  library->fallback(torch::CppFunction::makeFromBoxedFunction<&refuseLayout<key>>());
}

void refuseOtherLayouts() {
  refuseAll<c10::DispatchKey::SparsePrivateUse1>();
  refuseAll<c10::DispatchKey::SparseCsrPrivateUse1>();
  refuseAll<c10::DispatchKey::QuantizedPrivateUse1>();
  refuseAll<c10::DispatchKey::NestedTensorPrivateUse1>();
}

void boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Plan& plan = planOf(op);
  switch (plan.kind) {
    case Plan::kFunction:
      return runFunction(op, stack);
    case Plan::kMutates:
      return runMutating(op, plan, stack);
    case Plan::kOnHost:
      ++plan.hostCalls;
      return at::native::cpu_fallback(op, stack);
    default:
      refuse(op, plan.text);
  }
}

}  // namespace

void setBuilder(PyObject* builder, size_t limit) {
  Py_INCREF(builder);
  table().builder = builder;
  table().limit = limit;
}

void registerOps(const std::vector<std::string>& ops) {
  static auto* const all = new torch::Library(torch::Library::IMPL, "_",
                                              c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFromBoxedFunction<&boxed>());
  static auto* const aten = new torch::Library(torch::Library::IMPL, "aten",
                                               c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  refuseOtherLayouts();
  for (const char* op : kFused) {
    for (const char* overload : {"", ".tensor_lr"}) {
      const std::string name = std::string(op) + overload;
      if (c10::Dispatcher::singleton().findOp(
              {std::string("aten::") + op, *overload ? overload + 1 : ""})) {
        aten->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&fused>());
      }
    }
  }
  for (const std::string& op : ops) {
    aten->impl(op.c_str(), torch::CppFunction::makeFromBoxedFunction<&boxed>());
  }
}

std::vector<std::tuple<int64_t, int64_t>> programCalls() {
  std::vector<std::tuple<int64_t, int64_t>> all;
  const std::shared_lock<std::shared_mutex> lock(table().mutex);
  for (const auto& [key, program] : table().programs) {
    if (program->program) {
      all.emplace_back(program->number, program->calls.load());
    }
  }
  return all;
}

std::vector<std::tuple<std::string, int64_t>> hostCalls() {
  std::vector<std::tuple<std::string, int64_t>> all;
  const std::shared_lock<std::shared_mutex> lock(plans().mutex);
  for (const auto& [key, plan] : plans().byOp) {
    if (plan->hostCalls > 0) {
      all.emplace_back(plans().names[key], plan->hostCalls.load());
    }
  }
  return all;
}

int64_t programsBuilt() { return table().built; }

void forgetPrograms() {
  std::unordered_map<Key, ProgramRef, KeyHash> dropped;  // outlives the lock: Python frees them
  const std::lock_guard<std::shared_mutex> lock(table().mutex);
  dropped.swap(table().programs);
  table().order.clear();
}

}  // namespace sl_torch
