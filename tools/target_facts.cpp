// SPDX-License-Identifier: Apache-2.0
#include "tools/target_facts.h"

#include "llvm/Support/JSON.h"
#include "tools/pipeline_options.h"

namespace straightline {
namespace {

/// Calls `ask(target, its attribute)`.
template <class Ask>
Failure asked(const std::string& name, Ask ask) {
  CompileOptions options;
  options.target = name;
  if (Failure failure = checkTarget(options); failure.failed()) {
    return failure;
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<kernel::KernelDialect>();
  const auto [target, machine] = targetIn(options);
  ask(*target, target->attribute(&context, machine, {}));
  return Failure::none();
}

}  // namespace

Failure targetFacts(const std::string& target, std::string* json) {
  return asked(target, [&](const Target& found, kernel::TargetAttr attribute) {
    const TargetFacts facts = found.facts(attribute);
    const FrontEndFacts& own = facts.frontEnd;
    llvm::raw_string_ostream(*json) << llvm::json::Value(
        llvm::json::Object{{"multiplies_bytes", facts.multipliesBytes},
                           {"sums_named_extents", own.sumsNamedExtents},
                           {"sums_named_groups", own.sumsNamedGroups},
                           {"copies_elements", own.copiesElements},
                           {"rolls_by_rows", own.rollsByRows},
                           {"convolves_few_channels", own.convolvesFewChannels},
                           {"most_compared_pairs", own.mostComparedPairs},
                           {"most_matrix_rows", own.mostMatrixRows},
                           {"computes_halves_wide", own.computesHalvesWide},
                           {"interpolates_by_scale", own.interpolatesByScale},
                           {"resamples_bytes_as_integers", own.resamplesBytesAsIntegers},
                           {"runs_framework_ops", own.runsFrameworkOps}});
  });
}

Failure nearestTopk(const std::string& target, const TopkProblem& problem, std::string* nearest) {
  return asked(target, [&](const Target& found, kernel::TargetAttr attribute) {
    *nearest = found.nearestTopk(problem, attribute);
  });
}

}  // namespace straightline
