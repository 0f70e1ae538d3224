// SPDX-License-Identifier: Apache-2.0
#include "interpreter_plan.h"

#include <algorithm>
#include <cstring>

#include "message_writer.h"
#include "program.h"

namespace straightline {
namespace {

class Planner {
 public:
  Planner(const sl_program& program, InterpreterPlan* plan, sl_message* message)
      : desc_(*program.desc), plan_(*plan), message_(message), ownsArena_(!program.asynchronous) {}

  bool make() {
    for (int32_t i = 0; i < desc_.entry_count; ++i) {
      plan_.entries.emplace(desc_.entries[i].name, &desc_.entries[i]);
    }
    const auto count = static_cast<size_t>(desc_.statement_count);
    plan_.jumps.assign(count, -1);
    plan_.allocates.resize(count);
    plan_.frees.resize(count);
    outermost_.resize(count);
    plan_.dynamicViews.assign(static_cast<size_t>(desc_.buffer_count), 0);
    findPhases();
    if (!matchRegions() || !checkEntries()) {
      return false;
    }
    if (ownsArena_) {
      findLifetimes();
    }
    return true;
  }

 private:
  bool fail(int32_t statement, const char* what, const char* name) {
    MessageWriter(message_)
        .text("program '")
        .text(desc_.name)
        .text("' cannot be interpreted: statement ")
        .number(statement)
        .text(what)
        .text(name);
    return false;
  }

  void findPhases() {
    int32_t first = 0;
    while (first < desc_.statement_count && desc_.statements[first].phase == 0) {
      ++first;
    }
    plan_.phases[0] = {0, first};
    plan_.phases[1] = {first, desc_.statement_count};
  }

  /// Jumps, and by statement the outermost region around it.
  bool matchRegions() {
    struct Open {
      int32_t statement;
      int32_t middle;  ///< ELSE or DO, -1 until seen
    };
    std::vector<Open> open;
    for (int32_t i = 0; i < desc_.statement_count; ++i) {
      const int32_t kind = desc_.statements[i].kind;
      if (kind == SL_STATEMENT_IF || kind == SL_STATEMENT_FOR || kind == SL_STATEMENT_WHILE) {
        open.push_back({i, -1});
      }
      outermost_[i] = open.empty() ? i : open.front().statement;
      if (kind == SL_STATEMENT_ELSE || kind == SL_STATEMENT_DO) {
        if (open.empty() || open.back().middle >= 0) {
          return fail(i, " divides no region", "");
        }
        open.back().middle = i;
      } else if (kind == SL_STATEMENT_END) {
        if (open.empty()) {
          return fail(i, " ends no region", "");
        }
        const Open region = open.back();
        open.pop_back();
        const bool isIf = desc_.statements[region.statement].kind == SL_STATEMENT_IF;
        plan_.jumps[region.statement] = isIf && region.middle >= 0 ? region.middle : i;
        if (region.middle >= 0) {
          plan_.jumps[region.middle] = i;
        }
      }
    }
    return open.empty() || fail(open.back().statement, " opens a region without an end", "");
  }

  bool checkEntries() {
    for (int32_t i = 0; i < desc_.statement_count; ++i) {
      const sl_statement& s = desc_.statements[i];
      if (s.kind == SL_STATEMENT_VIEW && s.outputs == 1) {
        plan_.dynamicViews[static_cast<size_t>(s.operands[s.inputs])] = 1;
      }
      const bool calls =
          s.kind == SL_STATEMENT_LAUNCH || s.kind == SL_STATEMENT_CALL ||
          (s.kind == SL_STATEMENT_SCALAR && std::strcmp(s.entry, "kernel.load") != 0);
      if (!calls) {
        continue;
      }
      const auto found = plan_.entries.find(s.entry);
      if (found == plan_.entries.end()) {
        return fail(i, " calls an entry that the program does not list: ", s.entry);
      }
      const sl_entry& entry = *found->second;
      if (!entry.thunk && !entry.code) {
        return fail(i, " calls an entry without code: ", s.entry);
      }
      const bool scalar = entry.kind == SL_ENTRY_SCALAR;
      const int32_t operands = scalar ? s.scalar_count + 1 : s.inputs + s.outputs;
      if (operands != entry.argument_count || (!scalar && s.scalar_count != entry.scalar_count)) {
        return fail(i, " gives another number of arguments than its entry takes: ", s.entry);
      }
    }
    return true;
  }

  /// The arena buffer whose storage a buffer uses, or -1.
  int32_t arenaRoot(int32_t buffer) const {
    while (buffer >= 0 && desc_.buffers[buffer].role == SL_ROLE_VIEW) {
      buffer = desc_.buffers[buffer].base;
    }
    return buffer >= 0 && desc_.buffers[buffer].role == SL_ROLE_ARENA ? buffer : -1;
  }

  void findLifetimes() {
    struct Life {
      int32_t first = -1, last = -1;
    };
    std::vector<Life> lives(static_cast<size_t>(desc_.buffer_count));
    for (int32_t i = 0; i < desc_.statement_count; ++i) {
      const sl_statement& s = desc_.statements[i];
      for (int32_t k = 0; k < s.inputs + s.outputs; ++k) {
        const int32_t root = arenaRoot(s.operands[k]);
        if (root < 0) {
          continue;
        }
        Life& life = lives[static_cast<size_t>(root)];
        life.first = life.first < 0 ? outermost_[i] : life.first;
        life.last = outermost_[i];
      }
    }
    for (int32_t b = 0; b < desc_.buffer_count; ++b) {
      const Life& life = lives[static_cast<size_t>(b)];
      if (life.first >= 0) {
        plan_.allocates[static_cast<size_t>(life.first)].push_back(b);
        plan_.frees[static_cast<size_t>(life.last)].push_back(b);
      }
    }
  }

  const sl_program_desc& desc_;
  InterpreterPlan& plan_;
  sl_message* message_;
  const bool ownsArena_;
  /// by statement: the outermost region around it, or itself
  std::vector<int32_t> outermost_;
};

}  // namespace

bool makeInterpreterPlan(const sl_program& program, InterpreterPlan* plan, sl_message* message) {
  return Planner(program, plan, message).make();
}

}  // namespace straightline
