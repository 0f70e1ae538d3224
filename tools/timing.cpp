// SPDX-License-Identifier: Apache-2.0
#include "tools/timing.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <random>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

namespace straightline {
namespace {

int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
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

template <class T>
void fillRandom(void* data, int64_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<T> range(-1, 1);
  std::generate_n(static_cast<T*>(data), count, [&] { return range(random); });
}

}  // namespace

/// Cache-line aligned, zeroed.
struct Timing::Memory {
  static constexpr std::align_val_t kAlignment{64};
  explicit Memory(size_t bytes) : size(std::max<size_t>(bytes, 1)), data(::operator new(size, kAlignment)) {
    std::fill_n(static_cast<char*>(data), size, 0);
  }
  ~Memory() { ::operator delete(data, kAlignment); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  size_t size;
  void* data;
};

Timing::Timing(sl_program* program) : program_(program) { sl_program_retain(program); }

Timing::~Timing() {
  sl_weights_release(weights_);
  sl_program_release(program_);
}

Failure Timing::create(sl_program* program, uint64_t seed, std::unique_ptr<Timing>* out) {
  const sl_program_desc& desc = *sl_program_description(program);
  if (desc.extent_count > 0) {
    return Failure::user(std::string("a program is timed at fixed sizes, but '") + desc.extents[0].name + "' is known per call only");
  }
  std::unique_ptr<Timing> timing(new Timing(program));
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
    const int64_t elements = elementsOf(buffer);
    timing->memory_.push_back(std::make_unique<Memory>(elements * ((buffer.dtype.bits + 7) / 8)));
    void* const data = timing->memory_.back()->data;
    if (buffer.dtype.code == 2 && buffer.dtype.bits == 32) {
      fillRandom<float>(data, elements, random);
    } else if (buffer.dtype.code == 2 && buffer.dtype.bits == 64) {
      fillRandom<double>(data, elements, random);
    }
    (isParameter                      ? timing->parameters_
     : buffer.role == SL_ROLE_INPUT ? timing->inputs_
                                      : timing->outputs_)[buffer.index] = data;
  }
  for (int32_t i = 0; i < desc.statement_count; ++i) {
    timing->movesOnly_.push_back(movesOnly(desc.statements[i]));
  }
  sl_message message{};
  if (sl_queue_team(desc.threads, &timing->queue_, &message) != SL_OK ||
      sl_weights_create(program, timing->parameters_.data(), nullptr, nullptr, &timing->weights_, &message) != SL_OK) {
    return Failure::internal(std::string("a candidate cannot be timed: ") + message.text);
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

Failure Timing::run(double seconds, double* us) {
  const int64_t end = nowNs() + static_cast<int64_t>(seconds * 1e9);
  int64_t least = INT64_MAX;
  sl_message message{};
  sl_frame* frame = nullptr;
  if (sl_frame_lease(program_, nullptr, &frame, &message) != SL_OK) {
    return Failure::internal(std::string("a candidate cannot be timed: ") + message.text);
  }
  const sl_args args{sizeof(sl_args), inputs_.data(), outputs_.data(), nullptr, nullptr, SL_LAUNCH_STREAM};
  int32_t status = SL_OK;
  for (int call = 0; status == SL_OK && (call < 2 || nowNs() < end); ++call) {
    sl_ctx ctx{};
    ctx.size = sizeof(ctx);
    ctx.statement = -1;
    ctx.profile = onStatement;
    ctx.profile_user = this;
    movedNs_ = 0;
    const int64_t begin = nowNs();
    status = sl_run(program_, weights_, frame, queue_, &args, &ctx, &message);
    least = std::min(least, nowNs() - begin - movedNs_);
  }
  sl_frame_return(frame);
  if (status != SL_OK) {
    return Failure::internal(std::string("a candidate fails: ") + message.text);
  }
  *us = static_cast<double>(least) * 1e-3;
  return Failure::none();
}

}  // namespace straightline
