// SPDX-License-Identifier: Apache-2.0
#include "tools/links.h"

#include <set>
#include <vector>

#include "codegen/cpp_text.h"
#include "codegen/program_index.h"
#include "dialect/kernel/kernel_dialect.h"
#include "dialect/kernel/recorded.h"
#include "llvm/Support/JSON.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "mlir/Pass/Pass.h"

namespace straightline {
namespace {

/// A number is the metadata of a fused location, so that fusing keeps it.
mlir::Location numbered(mlir::Location location, int64_t number) {
  mlir::MLIRContext* context = location.getContext();
  return mlir::FusedLoc::get(context, {location},
                             mlir::IntegerAttr::get(mlir::IntegerType::get(context, 64), number));
}

void collect(mlir::Location location, std::set<int64_t>* numbers) {
  if (auto fused = llvm::dyn_cast<mlir::FusedLoc>(location)) {
    if (auto number = llvm::dyn_cast_or_null<mlir::IntegerAttr>(fused.getMetadata())) {
      numbers->insert(number.getInt());
    }
    for (mlir::Location part : fused.getLocations()) {
      collect(part, numbers);
    }
  } else if (auto named = llvm::dyn_cast<mlir::NameLoc>(location)) {
    collect(named.getChildLoc(), numbers);
  } else if (auto call = llvm::dyn_cast<mlir::CallSiteLoc>(location)) {
    collect(call.getCallee(), numbers);
    collect(call.getCaller(), numbers);
  }
}

std::set<int64_t> numbersWithin(mlir::Operation* op) {
  std::set<int64_t> numbers;
  op->walk([&](mlir::Operation* inner) { collect(inner->getLoc(), &numbers); });
  return numbers;
}

class NumberLog final : public mlir::PassInstrumentation {
 public:
  explicit NumberLog(LostNumbers* lost) : lost_(lost) {}

  void runBeforePass(mlir::Pass*, mlir::Operation* op) override {
    if (first_) {
      present_ = numbersWithin(rootOf(op));
      first_ = false;
    }
  }
  void runAfterPass(mlir::Pass* pass, mlir::Operation* op) override {
    std::set<int64_t> now = numbersWithin(rootOf(op));
    for (const int64_t number : present_) {
      if (now.count(number) == 0) {
        lost_->emplace(number, pass->getArgument().str());
      }
    }
    present_ = std::move(now);
  }

 private:
  static mlir::Operation* rootOf(mlir::Operation* op) {
    while (op->getParentOp() != nullptr) {
      op = op->getParentOp();
    }
    return op;
  }

  LostNumbers* lost_;
  bool first_ = true;
  std::set<int64_t> present_;
};

llvm::json::Array listOf(const std::set<int64_t>& numbers) {
  llvm::json::Array list;
  for (const int64_t number : numbers) {
    list.push_back(number);
  }
  return list;
}

}  // namespace

std::set<int64_t> numbersIn(mlir::Location location) {
  std::set<int64_t> numbers;
  collect(location, &numbers);
  return numbers;
}

std::string printedWithLines(mlir::ModuleOp module, mlir::AsmState::LocationMap* lines,
                             bool uniqueNames) {
  mlir::OpPrintingFlags flags;
  flags.elideLargeElementsAttrs(32);
  flags.elideLargeResourceString(32);
  flags.printUniqueSSAIDs(uniqueNames);
  mlir::AsmState state(module, flags, lines);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, state);
  return text + "\n";
}

void numberOps(mlir::ModuleOp module) {
  int64_t next = 0;
  module->walk<mlir::WalkOrder::PreOrder>(
      [&](mlir::Operation* op) { op->setLoc(numbered(op->getLoc(), next++)); });
}

std::unique_ptr<mlir::PassInstrumentation> watchNumbers(LostNumbers* lost) {
  return std::make_unique<NumberLog>(lost);
}

std::string linksJson(mlir::ModuleOp opLevel, mlir::ModuleOp kernelLevel, const LostNumbers& lost) {
  mlir::AsmState::LocationMap lines;
  llvm::json::Object json;
  json["op_text"] = printedWithLines(opLevel, &lines, /*uniqueNames=*/false);
  llvm::json::Array ops;
  int64_t next = 0;
  opLevel->walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation* op) {
    const auto found = lost.find(next);
    ops.push_back(
        llvm::json::Object{{"id", next++},
                           {"name", op->getName().getStringRef()},
                           {"line", static_cast<int64_t>(lines.lookup(op).first)},
                           {"source", codegen::sourceOf(op->getLoc())},
                           {"lost", found == lost.end() ? std::string() : found->second}});
  });
  json["ops"] = std::move(ops);
  lines.clear();
  json["kernel_text"] = printedWithLines(kernelLevel, &lines, /*uniqueNames=*/false);
  llvm::json::Array statements, kernels, buffers;
  for (kernel::ProgramOp program : kernelLevel.getOps<kernel::ProgramOp>()) {
    const codegen::ProgramIndex index(program);
    const std::vector<codegen::StatementLine>& all = index.statements();
    for (size_t i = 0; i < all.size(); ++i) {
      const std::set<int64_t> numbers = numbersIn(all[i].op->getLoc());
      statements.push_back(
          llvm::json::Object{{"number", static_cast<int64_t>(i)},
                             {"line", static_cast<int64_t>(lines.lookup(all[i].op).first)},
                             {"ops", listOf(numbers)}});
    }
    for (const codegen::BufferLine& buffer : index.buffers()) {
      mlir::Operation* made = buffer.value.getDefiningOp();
      buffers.push_back(llvm::json::Object{
          {"number", index.bufferNumber(buffer.value)},
          {"line", made ? static_cast<int64_t>(lines.lookup(made).first) : int64_t{0}},
          {"name", index.name(buffer.value)}});
    }
  }
  llvm::json::Array others;
  kernelLevel->walk([&](mlir::Operation* op) {
    const std::set<int64_t> numbers = numbersIn(op->getLoc());
    if (!numbers.empty()) {
      others.push_back(llvm::json::Object{{"line", static_cast<int64_t>(lines.lookup(op).first)},
                                          {"ops", listOf(numbers)}});
    }
  });
  json["lines"] = std::move(others);
  for (kernel::FuncOp func : kernelLevel.getOps<kernel::FuncOp>()) {
    mlir::Operation* next = func->getNextNode();
    llvm::json::Array parts;
    for (kernel::FuncOp part : kernel::partsOf(func)) {
      parts.push_back(part.getSymName());
    }
    kernels.push_back(llvm::json::Object{{"name", func.getSymName()},
                                         {"line", static_cast<int64_t>(lines.lookup(func).first)},
                                         {"end", static_cast<int64_t>(lines.lookup(next).first)},
                                         {"parts", std::move(parts)},
                                         {"ops", listOf(numbersWithin(func))}});
  }
  json["statements"] = std::move(statements);
  json["kernels"] = std::move(kernels);
  json["buffers"] = std::move(buffers);
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(json));
  return text;
}

}  // namespace straightline
