// SPDX-License-Identifier: Apache-2.0
// Runs a program one statement at a time from its table, as frameworks run a graph: look up, check,
// allocate, call.
#include <algorithm>
#include <cstring>
#include <vector>

#include "expression.h"
#include "host_memory.h"
#include "interpreter_plan.h"
#include "message_writer.h"
#include "program.h"
#include "straightline/abi/device_calls.h"
#include "straightline/abi/queue.h"

namespace straightline {
namespace {

/// The state of one call. Destroying it releases all its memory.
class Interpreter {
 public:
  Interpreter(const sl_program& program, const InterpreterPlan& plan, int32_t phase, sl_ctx* ctx,
              const sl_bindings& io)
      : program_(program),
        desc_(*program.desc),
        plan_(plan),
        phase_(phase),
        ctx_(ctx),
        io_(io),
        addresses_(static_cast<size_t>(desc_.buffer_count)),
        blocks_(static_cast<size_t>(desc_.buffer_count)),
        scalars_(static_cast<size_t>(desc_.statement_count)) {}
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  ~Interpreter() {
    freeAllocated(0);
    for (Block& block : blocks_) {
      releaseBlock(nullptr, &block);
    }
    for (const Event& event : events_) {
      sl_queue_forget(event.event, event.origin);
    }
  }

  int32_t run() {
    sl_program_addresses(&program_, phase_, &io_, nullptr, desc_.buffer_count, addresses_.data());
    const InterpreterPlan::Range range = plan_.phases[phase_];
    for (int32_t i = range.first; i < range.last; i = after(i)) {
      if (!allocate(i) || !execute(i)) {
        return __atomic_load_n(&ctx_->status, __ATOMIC_ACQUIRE);
      }
      for (const int32_t buffer : plan_.frees[static_cast<size_t>(i)]) {
        releaseBlock(nullptr, &blocks_[static_cast<size_t>(buffer)]);
        blocks_[static_cast<size_t>(buffer)] = {};
      }
    }
    return SL_OK;
  }

 private:
  struct Event {
    void* event;
    void* origin;
  };
  /// Allocates the memory of an `alloc` statement; freed where its region ends.
  struct Allocated {
    int32_t buffer;
    int32_t space;
    size_t bytes;
  };

  const sl_statement& at(int32_t i) const { return desc_.statements[i]; }

  /// Returns the statement after `i` and the statements that it encloses.
  int32_t after(int32_t i) const {
    int32_t next = i;
    while (at(next).kind != SL_STATEMENT_END && plan_.jumps[static_cast<size_t>(next)] >= 0) {
      next = plan_.jumps[static_cast<size_t>(next)];
    }
    return next + 1;
  }

  int64_t scalar(const sl_expr& value) const {
    return scalarValue(value, io_.extents, scalars_.data());
  }
  int64_t scalar(const sl_statement& statement, int32_t k) const {
    return scalar(statement.scalars[k]);
  }

  bool stop(int32_t statement, int32_t status, int64_t a = 0, int64_t b = 0, int64_t c = 0) {
    sl_fail(ctx_, status, a, b, c);
    ctx_->statement = statement;
    return false;
  }

  bool failedAt(int32_t statement) {
    if (__atomic_load_n(&ctx_->status, __ATOMIC_ACQUIRE) == SL_OK) {
      return false;
    }
    ctx_->statement = statement;
    return true;
  }

  //===- memory ------------------------------------------------------------===//

  bool allocate(int32_t i) {
    for (const int32_t number : plan_.allocates[static_cast<size_t>(i)]) {
      const sl_buffer& buffer = desc_.buffers[number];
      const int64_t bytes = std::max<int64_t>(sl_expr_value(&buffer.bytes, io_.extents), 1);
      Block& block = blocks_[static_cast<size_t>(number)];
      if (!allocateBlock(nullptr, 0, static_cast<size_t>(bytes), &block)) {
        return stop(i, SL_OUT_OF_MEMORY, bytes);
      }
      addresses_[static_cast<size_t>(number)] =
          static_cast<char*>(block.address) + sl_expr_value(&buffer.lead, io_.extents);
    }
    return true;
  }

  void* address(int32_t number) const {
    const sl_buffer& buffer = desc_.buffers[number];
    if (buffer.role != SL_ROLE_VIEW || dynamicView(number)) {
      return addresses_[static_cast<size_t>(number)];
    }
    return static_cast<char*>(address(buffer.base)) + sl_expr_value(&buffer.offset, io_.extents);
  }

  /// Whether the buffer is a view whose address a statement makes: only such views have an address
  /// of their own instead of an offset into another buffer.
  bool dynamicView(int32_t number) const {
    return plan_.dynamicViews[static_cast<size_t>(number)] != 0;
  }

  //===- statements --------------------------------------------------------===//

  /// Runs the statements [first, last), then frees what they have allocated.
  bool block(int32_t first, int32_t last) {
    const size_t kept = allocated_.size();
    bool fine = true;
    for (int32_t i = first; fine && i < last; i = after(i)) {
      fine = execute(i);
    }
    freeAllocated(kept);
    return fine;
  }

  void freeAllocated(size_t kept) {
    while (allocated_.size() > kept) {
      const Allocated& memory = allocated_.back();
      sl_free(desc_.spaces[memory.space], program_.device,
              addresses_[static_cast<size_t>(memory.buffer)], memory.bytes);
      allocated_.pop_back();
    }
  }

  bool execute(int32_t i) {
    const sl_statement& s = at(i);
    switch (static_cast<sl_statement_kind>(s.kind)) {
      case SL_STATEMENT_LAUNCH:
      case SL_STATEMENT_CALL:
        return call(i);
      case SL_STATEMENT_COPY:
        return copy(i);
      case SL_STATEMENT_RECORD:
        record(i);
        return true;
      case SL_STATEMENT_WAIT:
        wait(s);
        return true;
      case SL_STATEMENT_CHECK:
        return scalar(s, 0) != 0 || stop(i, SL_CHECK_FAILED);
      case SL_STATEMENT_ALLOC:
        return alloc(i);
      case SL_STATEMENT_VIEW:
        addresses_[static_cast<size_t>(s.operands[1])] =
            static_cast<char*>(address(s.operands[0])) + scalar(s, 0);
        return true;
      case SL_STATEMENT_SIZE:
        scalars_[static_cast<size_t>(i)] = scalar(s, 0);
        return true;
      case SL_STATEMENT_EXTENT:
        return sl_program_set_extent(&program_, ctx_, &io_, i, scalar(s, 0)) == SL_OK;
      case SL_STATEMENT_SCALAR:
        compute(i);
        return true;
      case SL_STATEMENT_IF:
        return branch(i);
      case SL_STATEMENT_FOR:
        return count(i);
      case SL_STATEMENT_WHILE:
        return loop(i);
      case SL_STATEMENT_BARRIER:  // a call over the team returns when all threads have
      case SL_STATEMENT_ELSE:
      case SL_STATEMENT_DO:
      case SL_STATEMENT_END:
      case SL_STATEMENT_RETURN:
        return true;
    }
    return stop(i, SL_INTERNAL, s.kind);
  }

  bool isTeam(const sl_statement& s) const {
    return !program_.queueDevices[static_cast<size_t>(s.queue)];
  }

  /// The checks that a framework does before it calls a kernel: equal type, equal layout where the
  /// kernel has one.
  bool matches(const sl_argument& wanted, int32_t number) const {
    const sl_buffer& buffer = desc_.buffers[number];
    if (wanted.role == SL_ARGUMENT_HANDLE) {
      return buffer.role == SL_ROLE_HANDLE;
    }
    if (buffer.dtype.code != wanted.dtype.code || buffer.dtype.bits != wanted.dtype.bits ||
        buffer.space != wanted.space) {
      return false;
    }
    if (wanted.rank < 0) {
      return true;
    }
    if (buffer.rank != wanted.rank) {
      return false;
    }
    for (int32_t d = 0; d < buffer.rank; ++d) {
      const int64_t extent = sl_expr_value(&buffer.extents[d], io_.extents);
      if (extent != sl_expr_value(&wanted.extents[d], io_.extents) ||
          (extent > 1 && sl_expr_value(&buffer.strides[d], io_.extents) !=
                             sl_expr_value(&wanted.strides[d], io_.extents))) {
        return false;
      }
    }
    return true;
  }

  bool call(int32_t i) {
    const sl_statement& s = at(i);
    const sl_entry& entry = *plan_.entries.find(s.entry)->second;
    pointers_.clear();
    for (int32_t k = 0; k < entry.argument_count; ++k) {
      if (!matches(entry.arguments[k], s.operands[k])) {
        return stop(i, SL_INTERNAL, k, s.operands[k]);
      }
      void* pointer = address(s.operands[k]);
      // In prepare a handle's address is the place that `plan` writes.
      const bool stored = phase_ == 0 && entry.kind == SL_ENTRY_EXTERNAL &&
                          entry.arguments[k].role == SL_ARGUMENT_HANDLE;
      pointers_.push_back(stored ? *static_cast<void**>(pointer) : pointer);
    }
    numbers_.clear();
    for (int32_t k = 0; k < s.scalar_count; ++k) {
      numbers_.push_back(scalar(s, k));
    }
    if (entry.code) {
      start(s, entry);
    } else if (isTeam(s) || entry.kind == SL_ENTRY_PLAN) {
      const bool alone = s.team == 1 || entry.kind == SL_ENTRY_PLAN;
      sl_queue_run(ctx_, io_.queues[0], entry.thunk, pointers_.data(), numbers_.data(), alone);
    } else {
      const auto enqueue = sl_entry_is_outside_graph(&entry) ? sl_queue_call : sl_queue_launch;
      enqueue(ctx_, io_.queues[s.queue], entry.thunk, pointers_.data(), entry.argument_count,
              numbers_.data(), s.scalar_count);
    }
    return !entry.can_fail || !failedAt(i);
  }

  /// A kernel of a device: its arguments are 8 bytes each, the addresses first.
  void start(const sl_statement& s, const sl_entry& entry) {
    arguments_.clear();
    for (void*& pointer : pointers_) {
      arguments_.push_back(&pointer);
    }
    for (int64_t& number : numbers_) {
      arguments_.push_back(&number);
    }
    const sl_grid grid{sizeof(sl_grid), sl_expr_value(&entry.code->blocks, io_.extents),
                       entry.code->threads, 0};
    const auto number = static_cast<size_t>(&entry - desc_.entries);
    sl_queue_start(ctx_, io_.queues[s.queue], io_.kernels[number], &grid, arguments_.data());
  }

  bool copy(int32_t i) {
    const sl_statement& s = at(i);
    const int32_t from = s.operands[0];
    const int32_t to = s.operands[1];
    const auto bytes = static_cast<size_t>(scalar(s, 0));
    if (isTeam(s)) {
      std::memcpy(address(to), address(from), bytes);
      return true;
    }
    sl_queue_copy(ctx_, io_.queues[s.queue], address(to), desc_.spaces[desc_.buffers[to].space],
                  address(from), desc_.spaces[desc_.buffers[from].space], bytes);
    return true;
  }

  void record(int32_t i) {
    void* queue = io_.queues[at(i).queue];
    void* event = sl_queue_record(queue);
    scalars_[static_cast<size_t>(i)] = static_cast<int64_t>(events_.size());
    events_.push_back({event, queue});
  }

  void wait(const sl_statement& s) {
    const Event& event = events_[static_cast<size_t>(scalar(s, 0))];
    sl_queue_wait(io_.queues[s.queue], event.event, event.origin);
  }

  bool alloc(int32_t i) {
    const sl_statement& s = at(i);
    const int32_t buffer = s.operands[s.inputs];
    const int32_t space = desc_.buffers[buffer].space;
    const int64_t bytes = scalar(s, 0);
    void* made = sl_alloc(desc_.spaces[space], program_.device, static_cast<size_t>(bytes));
    if (!made) {
      return stop(i, SL_OUT_OF_MEMORY, bytes);
    }
    addresses_[static_cast<size_t>(buffer)] = made;
    allocated_.push_back({buffer, space, static_cast<size_t>(bytes)});
    return true;
  }

  void compute(int32_t i) {
    const sl_statement& s = at(i);
    int64_t& result = scalars_[static_cast<size_t>(i)];
    if (s.inputs == 1) {  // kernel.load
      const sl_buffer& buffer = desc_.buffers[s.operands[0]];
      int64_t place = 0;
      for (int32_t k = 0; k < s.scalar_count; ++k) {
        place += scalar(s, k) * sl_expr_value(&buffer.strides[k], io_.extents);
      }
      const size_t bytes = buffer.dtype.bits / 8;
      result = 0;
      std::memcpy(
          &result,
          static_cast<const char*>(address(s.operands[0])) + place * static_cast<int64_t>(bytes),
          bytes);
      return;
    }
    const sl_entry& entry = *plan_.entries.find(s.entry)->second;
    numbers_.clear();
    for (int32_t k = 0; k < s.scalar_count; ++k) {
      numbers_.push_back(scalar(s, k));
    }
    int64_t made = 0;
    void* place = &made;
    entry.thunk(ctx_, sl_team{nullptr, 0, 1}, &place, numbers_.data());
    result = made;
  }

  //===- control flow ------------------------------------------------------===//

  bool branch(int32_t i) {
    const int32_t middle = plan_.jumps[static_cast<size_t>(i)];
    if (scalar(at(i), 0) != 0) {
      return block(i + 1, middle);
    }
    return at(middle).kind != SL_STATEMENT_ELSE ||
           block(middle + 1, plan_.jumps[static_cast<size_t>(middle)]);
  }

  bool backEdge(int32_t i) {
    if (ctx_->cancel && __atomic_load_n(ctx_->cancel, __ATOMIC_RELAXED) != 0) {
      sl_fail(ctx_, SL_CANCELLED, 0, 0, 0);
    }
    return !failedAt(i);
  }

  bool count(int32_t i) {
    const sl_statement& s = at(i);
    const int64_t upper = scalar(s, 1);
    const int64_t step = scalar(s, 2);
    for (int64_t counter = scalar(s, 0); counter < upper; counter += step) {
      scalars_[static_cast<size_t>(i)] = counter;
      if (!block(i + 1, plan_.jumps[static_cast<size_t>(i)]) || !backEdge(i)) {
        return false;
      }
    }
    return true;
  }

  bool loop(int32_t i) {
    int32_t middle = i + 1;
    while (at(middle).kind != SL_STATEMENT_DO) {
      middle = after(middle);
    }
    for (;;) {
      if (!block(i + 1, middle)) {
        return false;
      }
      if (scalar(at(middle), 0) == 0) {
        return true;
      }
      if (!block(middle + 1, plan_.jumps[static_cast<size_t>(middle)]) || !backEdge(i)) {
        return false;
      }
    }
  }

  const sl_program& program_;
  const sl_program_desc& desc_;
  const InterpreterPlan& plan_;
  const int32_t phase_;
  sl_ctx* const ctx_;
  const sl_bindings& io_;
  std::vector<void*> addresses_;  ///< by buffer, null until known
  std::vector<Block> blocks_;     ///< by buffer: memory of its own
  std::vector<int64_t> scalars_;  ///< by statement; for RECORD a position in events_
  std::vector<Event> events_;
  std::vector<Allocated> allocated_;
  std::vector<void*> pointers_;   ///< of the statement at hand
  std::vector<void*> arguments_;  ///< where a device's kernel finds them
  std::vector<int64_t> numbers_;
};

int32_t interpret(void*, const sl_program* program, int32_t phase, sl_ctx* ctx,
                  const sl_bindings* bindings) {
  return Interpreter(*program, *program->interpreter, phase, ctx, *bindings).run();
}

}  // namespace

bool interpretable(const sl_program& program, sl_message* message) {
  std::call_once(program.interpreterOnce, [&] {
    auto plan = std::make_unique<InterpreterPlan>();
    if (makeInterpreterPlan(program, plan.get(), nullptr)) {
      program.interpreter = std::move(plan);
    }
  });
  InterpreterPlan none;
  // the words again
  return program.interpreter || makeInterpreterPlan(program, &none, message);
}

const sl_executor kInterpreter{sizeof(sl_executor), interpret, nullptr};

}  // namespace straightline

const sl_executor* sl_interpreter(void) { return &straightline::kInterpreter; }
