// SPDX-License-Identifier: Apache-2.0
// Builds program descriptions by hand, as an emitted unit would contain them. For tests only.
#ifndef STRAIGHTLINE_RUNTIME_TEST_DESCRIPTION_H
#define STRAIGHTLINE_RUNTIME_TEST_DESCRIPTION_H

#include <deque>
#include <string>
#include <vector>

#include "straightline/abi/straightline.h"

namespace straightline::testing {

inline constexpr sl_dtype kFloat32{2, 32, 1};
inline constexpr sl_dtype kFloat64{2, 64, 1};
inline constexpr sl_dtype kInt64{0, 64, 1};

/// Owns every table of one description; must outlive the program made from it. Not movable or
/// copyable: its tables point to each other.
class DescriptionBuilder {
 public:
  DescriptionBuilder() {
    spaces_.push_back("host");
    queues_.push_back("cpu");
  }
  DescriptionBuilder(const DescriptionBuilder&) = delete;
  DescriptionBuilder& operator=(const DescriptionBuilder&) = delete;

  sl_expr expression(std::vector<sl_expr_step> steps) {
    steps_.push_back(std::move(steps));
    return {steps_.back().data(), static_cast<int64_t>(steps_.back().size())};
  }
  sl_expr constant(int64_t value) { return expression({{'c', value}}); }
  sl_expr symbol(int64_t extent) { return expression({{'s', extent}}); }

  int32_t extent(const char* name, int64_t min, int64_t max) {
    return computedExtent(name, min, max, {});
  }
  int32_t computedExtent(const char* name, int64_t min, int64_t max, sl_expr bound) {
    extents_.push_back({sizeof(sl_extent), name, min, max, bound});
    return static_cast<int32_t>(extents_.size()) - 1;
  }

  int32_t space(const char* name) {
    spaces_.push_back(name);
    return static_cast<int32_t>(spaces_.size()) - 1;
  }
  int32_t queue(const char* backend) {
    queues_.push_back(backend);
    return static_cast<int32_t>(queues_.size()) - 1;
  }

  /// Strides left out are row-major over constant extents. Returns the buffer's number.
  int32_t buffer(sl_role role, const char* name, sl_dtype dtype, std::vector<sl_expr> extents,
                 std::vector<sl_expr> strides = {}, int32_t base = -1, sl_expr offset = {}) {
    if (strides.empty() && !extents.empty()) {
      int64_t stride = 1;
      strides.resize(extents.size());
      for (size_t d = extents.size(); d-- > 0;) {
        strides[d] = constant(stride);
        stride *= d > 0 ? sl_expr_value(&extents[d], nullptr) : 1;
      }
    }
    expressions_.push_back(std::move(extents));
    const auto& kept = expressions_.back();
    expressions_.push_back(std::move(strides));
    sl_buffer b{};
    b.size = sizeof(b);
    b.name = name;
    b.source = name;
    b.role = role;
    b.index = role == SL_ROLE_INPUT       ? inputs_++
              : role == SL_ROLE_OUTPUT    ? outputs_++
              : role == SL_ROLE_PARAMETER ? parameters_++
              : role == SL_ROLE_STATE     ? parameters_++
                                          : -1;
    b.base = base;
    b.dtype = dtype;
    b.rank = static_cast<int32_t>(kept.size());
    b.extents = kept.data();
    b.strides = expressions_.back().data();
    b.offset = offset;
    buffers_.push_back(b);
    return static_cast<int32_t>(buffers_.size()) - 1;
  }

  int32_t input(const char* name, sl_dtype dtype, std::vector<sl_expr> extents,
                std::vector<sl_expr> strides = {}) {
    return buffer(SL_ROLE_INPUT, name, dtype, std::move(extents), std::move(strides));
  }

  void result(int32_t buffer, int32_t root) {
    results_.push_back({sizeof(sl_result), buffer, root});
  }

  void statement(sl_statement_kind kind, const char* op, const char* source,
                 const char* entry = "kernel") {
    sl_statement s{};
    s.size = sizeof(s);
    s.kind = kind;
    s.phase = 1;
    s.entry = entry;
    s.op = op;
    s.source = source;
    statements_.push_back(s);
  }

  /// The statement that gives an extent its value, and what its table says of that.
  void setExtent(sl_expr value, int32_t extent, const char* source) {
    statement(SL_STATEMENT_EXTENT, extents_[static_cast<size_t>(extent)].name, source, "");
    expressions_.push_back({value, constant(extent)});
    statements_.back().scalars = expressions_.back().data();
    statements_.back().scalar_count = 2;
  }

  void handle(void (*destroy)(void*)) { destroy_.push_back(destroy); }
  void arena(int32_t space, sl_expr bytes) { put(&arena_, space, bytes); }
  void scratch(int32_t space, sl_expr bytes) { put(&scratch_, space, bytes); }
  void prepared(int32_t space, sl_expr bytes) { put(&prepared_, space, bytes); }
  void threads(int32_t count) { threads_ = count; }
  void advise(const char* fixed, const char* bounds) {
    fixedAdvice_ = fixed;
    boundsAdvice_ = bounds;
  }

  sl_program_desc* build(sl_entry_fn run, sl_entry_fn prepare = nullptr) {
    const auto zero = constant(0);
    arena_.resize(spaces_.size(), zero);
    scratch_.resize(spaces_.size(), zero);
    prepared_.resize(spaces_.size(), zero);
    desc_ = {};
    desc_.size = sizeof(desc_);
    desc_.abi_version = SL_ABI_VERSION;
    desc_.name = "forward";
    desc_.target = "cpu";
    desc_.prepare = prepare;
    desc_.run = run;
    desc_.buffers = buffers_.data();
    desc_.buffer_count = static_cast<int32_t>(buffers_.size());
    desc_.statements = statements_.data();
    desc_.statement_count = static_cast<int32_t>(statements_.size());
    desc_.extents = extents_.data();
    desc_.extent_count = static_cast<int32_t>(extents_.size());
    desc_.results = results_.data();
    desc_.result_count = static_cast<int32_t>(results_.size());
    desc_.spaces = spaces_.data();
    desc_.space_count = static_cast<int32_t>(spaces_.size());
    desc_.queues = queues_.data();
    desc_.queue_count = static_cast<int32_t>(queues_.size());
    desc_.arena_bytes = arena_.data();
    desc_.scratch_bytes = scratch_.data();
    desc_.prepared_bytes = prepared_.data();
    desc_.destroy_handle = destroy_.data();
    desc_.handle_count = static_cast<int32_t>(destroy_.size());
    desc_.parameter_count = parameters_;
    desc_.input_count = inputs_;
    desc_.output_count = outputs_;
    desc_.threads = threads_;
    desc_.fixed_size_advice = fixedAdvice_;
    desc_.size_bounds_advice = boundsAdvice_;
    return &desc_;
  }

 private:
  void put(std::vector<sl_expr>* table, int32_t space, sl_expr bytes) {
    const auto i = static_cast<size_t>(space);
    if (table->size() <= i) {
      table->resize(i + 1, constant(0));
    }
    (*table)[i] = bytes;
  }

  std::deque<std::vector<sl_expr_step>> steps_;
  std::deque<std::vector<sl_expr>> expressions_;
  std::vector<sl_buffer> buffers_;
  std::vector<sl_statement> statements_;
  std::vector<sl_extent> extents_;
  std::vector<sl_result> results_;
  std::vector<const char*> spaces_;
  std::vector<const char*> queues_;
  std::vector<sl_expr> arena_, scratch_, prepared_;
  std::vector<void (*)(void*)> destroy_;
  int32_t parameters_ = 0, inputs_ = 0, outputs_ = 0, threads_ = 1;
  const char* fixedAdvice_ = nullptr;
  const char* boundsAdvice_ = nullptr;
  sl_program_desc desc_{};
};

/// What one call needs, leased and returned.
class Call {
 public:
  Call(sl_program* program, sl_weights* weights, sl_queue* queue,
       sl_launch launch = SL_LAUNCH_STREAM, const sl_executor* executor = nullptr)
      : program_(program), weights_(weights), queue_(queue), launch_(launch), executor_(executor) {}

  int32_t operator()(std::vector<void*> inputs, std::vector<void*> outputs,
                     std::vector<int64_t> extents = {}) {
    sl_frame* frame = nullptr;
    if (const int32_t status =
            sl_frame_lease_on(program_, queue_, launch_, extents.data(), &frame, &message)) {
      return status;
    }
    ctx = {};
    ctx.size = sizeof(ctx);
    const sl_args args{sizeof(sl_args), inputs.data(), outputs.data(),
                       extents.data(),  executor_,     launch_};
    const int32_t status = sl_run(program_, weights_, frame, queue_, &args, &ctx, &message);
    sl_frame_return(frame);
    return status;
  }

  sl_ctx ctx{};
  sl_message message{};

 private:
  sl_program* program_;
  sl_weights* weights_;
  sl_queue* queue_;
  sl_launch launch_;
  const sl_executor* executor_;
};

}  // namespace straightline::testing

#endif  // STRAIGHTLINE_RUNTIME_TEST_DESCRIPTION_H
