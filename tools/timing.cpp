// SPDX-License-Identifier: Apache-2.0
#include "tools/timing.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"
#include "straightline/abi/device_calls.h"

namespace straightline {
namespace {

int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Elements from the first to the last one.
int64_t elementsOf(const sl_buffer& buffer) {
  int64_t last = 0;
  for (int32_t dim = 0; dim < buffer.rank; ++dim) {
    const int64_t extent = sl_expr_value(&buffer.extents[dim], nullptr);
    if (extent == 0) {
      return 0;
    }
    last += (extent - 1) * sl_expr_value(&buffer.strides[dim], nullptr);
  }
  return last + 1;
}

/// The statements that bring data into another order (passes/lowering names them so).
bool movesOnly(const sl_statement& statement) {
  return statement.kind == SL_STATEMENT_COPY || llvm::StringSwitch<bool>(statement.op)
                                                    .Cases({"copy", "reorder", "zero border"}, true)
                                                    .Default(false);
}

/// Random numbers repeat after this many: making gigabytes of them takes longer than measuring. It
/// is a prime, so that no two rows of a usual size are equal.
constexpr int64_t kRandomNumbers = 65'537;

template <class T, class Make>
void fill(void* data, int64_t count, Make make) {
  auto* numbers = static_cast<T*>(data);
  std::generate_n(numbers, std::min(count, kRandomNumbers), make);
  for (int64_t i = kRandomNumbers; i < count; i += kRandomNumbers) {
    std::copy_n(numbers, std::min(count - i, kRandomNumbers), numbers + i);
  }
}

template <class T>
void fillRandom(void* data, int64_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<T> range(-1, 1);
  fill<T>(data, count, [&] { return range(random); });
}

/// Numbers of 16 bits with `fraction` bits behind the exponent, between 0.5 and 1 or -1 and -0.5.
void fillRandomHalves(void* data, int64_t count, int fraction, std::mt19937_64& random) {
  const uint16_t oneHalf = static_cast<uint16_t>((fraction == 10 ? 14 : 126) << fraction);
  const uint16_t free = static_cast<uint16_t>(0x8000 | ((1 << fraction) - 1));
  fill<uint16_t>(data, count, [&] { return static_cast<uint16_t>(oneHalf | (random() & free)); });
}

void fillRandom(void* data, int64_t count, sl_dtype type, std::mt19937_64& random) {
  if (type.code == 2 && type.bits == 32) {
    fillRandom<float>(data, count, random);
  } else if (type.code == 2 && type.bits == 64) {
    fillRandom<double>(data, count, random);
  } else if (type.bits == 16 && (type.code == 2 || type.code == 4)) {
    fillRandomHalves(data, count, type.code == 2 ? 10 : 7, random);
  }
}

Failure cannotBeTimed(const std::string& why) {
  return Failure::internal("a candidate cannot be timed: " + why);
}

/// Unsupported if a library has no kernel for it here, which only its plan or a call reports.
Failure failureOf(int32_t status, const char* words) {
  const std::string text = std::string("a candidate fails: ") + words;
  return status == SL_UNSUPPORTED ? Failure::unsupported(text) : Failure::internal(text);
}

}  // namespace

/// Of one memory space.
struct Timing::Memory {
  Memory(const char* in, int32_t number, size_t count)
      : space(in),
        device(number),
        bytes(std::max<size_t>(count, 1)),
        data(sl_alloc(space, device, bytes)) {}
  ~Memory() {
    if (data) {
      sl_free(space, device, data, bytes);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  const char* space;
  int32_t device;
  size_t bytes;
  void* data;
};

Timing::Timing(sl_program* program, bool byStream) : program_(program), byStream_(byStream) {
  sl_program_retain(program);
}

Timing::~Timing() {
  sl_weights_release(weights_);
  if (device_) {
    sl_queue_release(device_);
  }
  memory_.clear();
  sl_program_release(program_);
}

Failure Timing::openQueues(const sl_program_desc& desc) {
  sl_message message{};
  if (sl_queue_team(desc.threads, &team_, &message) != SL_OK) {
    return cannotBeTimed(message.text);
  }
  for (int32_t i = 1; i < desc.queue_count && !device_; ++i) {
    if (sl_queue_create(desc.queues[i], sl_program_device(program_), &device_, &message) != SL_OK) {
      return cannotBeTimed(message.text);
    }
  }
  return Failure::none();
}

void* Timing::makeData(const sl_program_desc& desc, const sl_buffer& buffer,
                       std::mt19937_64& random) {
  const int64_t elements = elementsOf(buffer);
  const auto bytes = static_cast<size_t>(elements) * ((buffer.dtype.bits + 7) / 8);
  memory_.push_back(
      std::make_unique<Memory>(desc.spaces[buffer.space], sl_program_device(program_), bytes));
  const Memory& made = *memory_.back();
  if (!made.data || bytes == 0) {
    return made.data;
  }
  if (buffer.space == 0) {
    std::memset(made.data, 0, bytes);
    fillRandom(made.data, elements, buffer.dtype, random);
    return made.data;
  }
  std::vector<std::byte> host(bytes);
  fillRandom(host.data(), elements, buffer.dtype, random);
  sl_ctx ctx{};
  ctx.size = sizeof(ctx);
  const int32_t status =
      sl_queue_copy(&ctx, device_, made.data, made.space, host.data(), desc.spaces[0], bytes);
  finish();
  return status == SL_OK ? made.data : nullptr;
}

void Timing::finish() {
  if (void* const event = sl_queue_record(device_)) {
    sl_queue_wait(team_, event, device_);
    sl_queue_forget(event, device_);
  }
}

Failure Timing::create(sl_program* program, uint64_t seed, bool byStream,
                       std::unique_ptr<Timing>* out) {
  const sl_program_desc& desc = *sl_program_description(program);
  if (desc.extent_count > 0) {
    return Failure::user(std::string("a program is timed at fixed sizes, but '") +
                         desc.extents[0].name + "' is known per call only");
  }
  std::unique_ptr<Timing> timing(new Timing(program, byStream));
  if (Failure failure = timing->openQueues(desc); failure.failed()) {
    return failure;
  }
  timing->parameters_.resize(desc.parameter_count);
  timing->inputs_.resize(desc.input_count);
  timing->outputs_.resize(desc.output_count);
  std::mt19937_64 random(seed);
  for (int32_t i = 0; i < desc.buffer_count; ++i) {
    const sl_buffer& buffer = desc.buffers[i];
    const bool isParameter = buffer.role == SL_ROLE_PARAMETER || buffer.role == SL_ROLE_STATE;
    if (!isParameter && buffer.role != SL_ROLE_INPUT && buffer.role != SL_ROLE_OUTPUT) {
      continue;
    }
    void* const data = timing->makeData(desc, buffer, random);
    if (!data) {
      return cannotBeTimed(std::string("no memory in '") + desc.spaces[buffer.space] +
                           "' for its data");
    }
    (isParameter                    ? timing->parameters_
     : buffer.role == SL_ROLE_INPUT ? timing->inputs_
                                    : timing->outputs_)[buffer.index] = data;
  }
  for (int32_t i = 0; i < desc.statement_count; ++i) {
    timing->movesOnly_.push_back(movesOnly(desc.statements[i]));
  }
  sl_message message{};
  if (const int32_t status = sl_weights_create(program, timing->parameters_.data(), nullptr,
                                               nullptr, &timing->weights_, &message)) {
    return failureOf(status, message.text);
  }
  *out = std::move(timing);
  return Failure::none();
}

void Timing::onStatement(void* user, int32_t statement, int32_t begin) {
  auto* timing = static_cast<Timing*>(user);
  if (!timing->movesOnly_[statement]) {
    return;
  }
  if (begin != 0) {
    timing->beganNs_ = nowNs();
  } else {
    timing->movedNs_ += nowNs() - timing->beganNs_;
  }
}

int32_t Timing::call(sl_frame* frame, int32_t launch, sl_message* message) {
  const sl_args args{sizeof(sl_args), inputs_.data(), outputs_.data(), nullptr, nullptr, launch};
  sl_ctx ctx{};
  ctx.size = sizeof(ctx);
  ctx.statement = -1;
  ctx.profile = device_ ? nullptr : onStatement;
  ctx.profile_user = this;
  return sl_run(program_, weights_, frame, device_ ? device_ : team_, &args, &ctx, message);
}

Failure Timing::run(double seconds, double* us) {
  if (device_) {
    return runOnDevice(seconds, us);
  }
  const int64_t end = nowNs() + static_cast<int64_t>(seconds * 1e9);
  int64_t least = INT64_MAX;
  sl_message message{};
  sl_frame* frame = nullptr;
  if (sl_frame_lease(program_, nullptr, &frame, &message) != SL_OK) {
    return cannotBeTimed(message.text);
  }
  int32_t status = SL_OK;
  for (int call = 0; status == SL_OK && (call < 2 || nowNs() < end); ++call) {
    movedNs_ = 0;
    const int64_t begin = nowNs();
    status = this->call(frame, SL_LAUNCH_STREAM, &message);
    least = std::min(least, nowNs() - begin - movedNs_);
  }
  sl_frame_return(frame);
  if (status != SL_OK) {
    return failureOf(status, message.text);
  }
  *us = static_cast<double>(least) * 1e-3;
  return Failure::none();
}

Failure Timing::runOnDevice(double seconds, double* us) {
  constexpr int64_t kBatchNs = 500'000, kMostCalls = 1024;
  const int64_t end = nowNs() + static_cast<int64_t>(seconds * 1e9);
  sl_message message{};
  const int32_t launch = !byStream_ && sl_program_graph_nodes(program_, &message) >= 0
                             ? SL_LAUNCH_GRAPH
                             : SL_LAUNCH_STREAM;
  sl_frame* frame = nullptr;
  if (sl_frame_lease_on(program_, device_, launch, nullptr, &frame, &message) != SL_OK) {
    return cannotBeTimed(message.text);
  }
  int32_t status = call(frame, launch, &message);  // this run makes the graph
  finish();
  double least = std::numeric_limits<double>::infinity();
  for (int batch = 0; status == SL_OK && (batch < 2 || nowNs() < end); ++batch) {
    const int64_t begin = nowNs();
    for (int64_t i = 0; status == SL_OK && i < callsABatch_; ++i) {
      status = call(frame, launch, &message);
    }
    finish();
    const int64_t took = nowNs() - begin;
    least = std::min(least, static_cast<double>(took) / static_cast<double>(callsABatch_));
    if (took < kBatchNs && callsABatch_ < kMostCalls) {  // waiting is too large a part of the time
      callsABatch_ *= 2;
    }
  }
  sl_frame_return(frame);
  if (status != SL_OK) {
    return failureOf(status, message.text);
  }
  *us = least * 1e-3;
  return Failure::none();
}

}  // namespace straightline
