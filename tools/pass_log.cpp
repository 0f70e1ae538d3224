// SPDX-License-Identifier: Apache-2.0
#include "tools/pass_log.h"

#include <chrono>
#include <cstdio>
#include <vector>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "tools/settings.h"

namespace straightline {
namespace {

using Clock = std::chrono::steady_clock;

/// Ops of the whole module, whatever part of it the pass works on.
int countOps(mlir::Operation* op) {
  mlir::Operation* root = op;
  while (root->getParentOp() != nullptr) {
    root = root->getParentOp();
  }
  int count = -1;  // not the module itself
  root->walk([&](mlir::Operation*) { ++count; });
  return count;
}

class PassLog final : public mlir::PassInstrumentation {
 public:
  void runBeforePass(mlir::Pass*, mlir::Operation* op) override {
    open_.push_back({countOps(op), Clock::now()});
  }
  void runAfterPass(mlir::Pass* pass, mlir::Operation* op) override { end(pass, op, ""); }
  void runAfterPassFailed(mlir::Pass* pass, mlir::Operation* op) override {
    end(pass, op, ", failed");
  }

 private:
  struct Begin {
    int ops;
    Clock::time_point time;
  };

  void end(mlir::Pass* pass, mlir::Operation* op, const char* outcome) {
    const Begin begin = open_.back();
    open_.pop_back();
    if (pass->getArgument().empty()) {
      return;  // MLIR's own around passes of a function
    }
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin.time).count();
    char text[160];
    std::snprintf(text, sizeof text, "%-24s %8.2f ms, %d -> %d ops%s",
                  pass->getArgument().str().c_str(), ms, begin.ops, countOps(op), outcome);
    logLine("passes", text);
  }

  std::vector<Begin> open_;  // passes nest: one of a function runs inside one of the module
};

}  // namespace

std::unique_ptr<mlir::PassInstrumentation> makePassLog() { return std::make_unique<PassLog>(); }

}  // namespace straightline
