// SPDX-License-Identifier: Apache-2.0
#include "tools/pass_texts.h"

#include <algorithm>

#include "llvm/Support/JSON.h"
#include "mlir/Pass/Pass.h"
#include "tools/links.h"

namespace straightline {
namespace {

NumberedText numberedText(mlir::ModuleOp module) {
  NumberedText result;
  mlir::AsmState::LocationMap lines;
  result.text = printedWithLines(module, &lines, /*uniqueNames=*/true);
  result.numbers.resize(std::count(result.text.begin(), result.text.end(), '\n'));
  module->walk([&](mlir::Operation* op) {
    const unsigned line = lines.lookup(op).first;  // from 1; 0: not printed by itself
    if (line > 0 && line <= result.numbers.size()) {
      result.numbers[line - 1].merge(numbersIn(op->getLoc()));
    }
  });
  return result;
}

mlir::ModuleOp moduleOf(mlir::Operation* op) {
  while (op->getParentOp() != nullptr) {
    op = op->getParentOp();
  }
  return mlir::cast<mlir::ModuleOp>(op);
}

class TextLog final : public mlir::PassInstrumentation {
 public:
  explicit TextLog(PassTexts* texts) : texts_(texts) {}

  void runAfterPass(mlir::Pass* pass, mlir::Operation* op) override {
    if (pass->getArgument().empty()) {
      return;  // MLIR's own around passes of a function
    }
    PassText one{pass->getArgument().str(), pass->getDescription().str(), false, {}};
    NumberedText now = numberedText(moduleOf(op));
    const NumberedText& last = latest();
    one.changed = now.text != last.text || now.numbers != last.numbers;
    if (one.changed) {
      one.after = std::move(now);
    }
    texts_->passes.push_back(std::move(one));
  }

 private:
  const NumberedText& latest() const {
    for (size_t i = texts_->passes.size(); i-- > 0;) {
      if (texts_->passes[i].changed) {
        return texts_->passes[i].after;
      }
    }
    return texts_->before;
  }

  PassTexts* texts_;
};

llvm::json::Object jsonOf(const NumberedText& text) {
  llvm::json::Array ops;
  for (const std::set<int64_t>& numbers : text.numbers) {
    ops.push_back(llvm::json::Array(numbers));
  }
  return llvm::json::Object{{"text", text.text}, {"ops", std::move(ops)}};
}

}  // namespace

PassTexts textBeforePasses(mlir::ModuleOp module) { return {numberedText(module), {}}; }

std::unique_ptr<mlir::PassInstrumentation> recordTexts(PassTexts* texts) {
  return std::make_unique<TextLog>(texts);
}

std::string passesJson(const PassTexts& texts) {
  llvm::json::Array passes;
  for (const PassText& one : texts.passes) {
    llvm::json::Object row{{"name", one.name}, {"summary", one.summary}, {"changed", one.changed}};
    if (one.changed) {
      row["after"] = jsonOf(one.after);
    }
    passes.push_back(std::move(row));
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(
      llvm::json::Object{{"before", jsonOf(texts.before)}, {"passes", std::move(passes)}});
  return text;
}

}  // namespace straightline
