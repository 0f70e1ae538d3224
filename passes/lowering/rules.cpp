// SPDX-License-Identifier: Apache-2.0
#include "passes/lowering/rules.h"

namespace straightline::lowering {

#define LOWERING_RULES(function) void function(RuleSet& rules);
#include "passes/lowering/rule_files.inc"
#undef LOWERING_RULES

namespace {

/// The key of a family's rule; it equals no op's name, since those begin with a dialect.
std::string familyKey(llvm::StringRef family) { return ("fusion of " + family).str(); }

}  // namespace

Rule& RuleSet::insert(llvm::StringRef name) {
  auto [found, inserted] = rules_.try_emplace(name);
  if (!inserted) {
    refused_.push_back("a second lowering rule for " + name.str() + " was refused");
    ignored_ = {};
    return ignored_;
  }
  return found->second;
}

Rule& RuleSet::addFamily(llvm::StringRef family, Lower<op::FusionOp> lower) {
  Rule& rule = insert(familyKey(family));
  rule.lower = [lower](mlir::Operation* op, LoweringContext& context) {
    return lower(llvm::cast<op::FusionOp>(op), context);
  };
  return rule;
}

const Rule* RuleSet::find(mlir::Operation* op) const {
  auto fusion = llvm::dyn_cast<op::FusionOp>(op);
  auto found = rules_.find(fusion ? familyKey(fusion.getFamily()) : op->getName().getStringRef());
  return found == rules_.end() ? nullptr : &found->second;
}

const RuleSet& allRules() {
  static const RuleSet rules = [] {
    RuleSet all;
#define LOWERING_RULES(function) function(all);
#include "passes/lowering/rule_files.inc"
#undef LOWERING_RULES
    return all;
  }();
  return rules;
}

}  // namespace straightline::lowering
