// SPDX-License-Identifier: Apache-2.0
// The rules of the lowering from `op` (values) to `kernel` (buffers and statements): one an op,
// registered by the op's type, and one a family of fusions. A rule stands in the file of its family
// (attention.cpp, pool.cpp, ...), whose last function registers it:
//
//   LogicalResult lowerFlip(op::FlipOp flip, LoweringContext& context) { ... }
//
//   void registerViewsRules(RuleSet& rules) { rules.add(lowerFlip); }
//
// The build lists the files (RULE_FILES in passes/lowering/CMakeLists.txt) and makes the calls of
// allRules() of that list. There are no static registrars: a linker drops an object file of a
// static library that nothing refers to, and a test wants a set with rules of its own choice.
#ifndef STRAIGHTLINE_PASSES_LOWERING_RULES_H
#define STRAIGHTLINE_PASSES_LOWERING_RULES_H

#include <functional>
#include <string>

#include "dialect/op/op_dialect.h"
#include "llvm/ADT/StringMap.h"

namespace straightline::lowering {

class LoweringContext;

struct Rule {
  /// Makes the statements of the op. Null: the op makes none where it stands.
  std::function<mlir::LogicalResult(mlir::Operation*, LoweringContext&)> lower;
  /// Binds the op's result when it is first read (parameters, states, literals: those that nothing
  /// reads cost nothing).
  std::function<mlir::LogicalResult(mlir::Operation*, LoweringContext&)> declare;
  /// Where the op wants an operand to be written, or null: a part of a concatenation is written
  /// into the whole.
  std::function<mlir::Value(mlir::OpOperand&, LoweringContext&)> place;
  /// The result is operand 0 with some elements replaced: it may be written in its storage, where
  /// no later op reads the old value.
  bool updatesFirstOperand = false;
  /// The result that is the operand with some elements replaced, or null: as above, for operands of
  /// any number.
  std::function<mlir::Value(mlir::OpOperand&)> updated;
  /// Each element of a result is computed from the same element of the operands that have its type:
  /// it may be written over such an operand.
  bool isElementwise = false;
  /// Its results may be written into a row that the kernel finds when it runs
  /// (LoweringContext::rowPlace).
  bool writesRows = false;
  /// Operands whose elements are all equal are printed as literals: they need no storage.
  bool readsLiterals = false;
  /// The dims of a result, outermost first, in the order in which it is to lie where no user has a
  /// place for it. Null or empty: row-major.
  std::function<llvm::SmallVector<int64_t>(mlir::Value)> order;
};

class RuleSet {
 public:
  template <typename Op>
  using Lower = mlir::LogicalResult (*)(Op, LoweringContext&);

  /// The rule of `Op`, for the caller to add what else it has. An op has one rule: a second one is
  /// refused, and each lowering with this set fails and says so.
  template <typename Op>
  Rule& add(Lower<Op> lower) {
    Rule& rule = insert(Op::getOperationName());
    rule.lower = [lower](mlir::Operation* op, LoweringContext& context) {
      return lower(llvm::cast<Op>(op), context);
    };
    return rule;
  }
  /// An op that makes no statement where it stands: `declare` binds its result when it is first
  /// read.
  template <typename Op>
  Rule& addDeclared(Lower<Op> declare) {
    Rule& rule = insert(Op::getOperationName());
    rule.declare = [declare](mlir::Operation* op, LoweringContext& context) {
      return declare(llvm::cast<Op>(op), context);
    };
    return rule;
  }
  /// The rule of fusions of `family`.
  Rule& addFamily(llvm::StringRef family, Lower<op::FusionOp> lower);

  using FindPlace = mlir::Value (*)(mlir::Value tensor, LoweringContext&);
  /// Asked in order for a place of a value for which no user has one.
  void addPlaceFinder(FindPlace find) { finders_.push_back(find); }

  /// Of the op, or of the fusion's family; null where there is none.
  const Rule* find(mlir::Operation* op) const;
  llvm::ArrayRef<FindPlace> placeFinders() const { return finders_; }
  /// Rules that were refused, as texts of errors.
  llvm::ArrayRef<std::string> refused() const { return refused_; }

 private:
  Rule& insert(llvm::StringRef name);

  llvm::StringMap<Rule> rules_;
  llvm::SmallVector<FindPlace> finders_;
  llvm::SmallVector<std::string> refused_;
  Rule ignored_;  ///< what a caller writes to whose rule was refused
};

/// The rules of all files.
const RuleSet& allRules();

}  // namespace straightline::lowering

#endif  // STRAIGHTLINE_PASSES_LOWERING_RULES_H
