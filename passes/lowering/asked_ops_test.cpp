// SPDX-License-Identifier: Apache-2.0
// External kernels are asked about every op of the dialect but those that stand here, which
// docs/design/kernel_choice.md explains.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "passes/external_ops.h"

namespace straightline {
namespace {

/// Asked in select-kernels or in its lowering, with a problem of its own.
const std::set<std::string> kProblemsOfTheirOwn = {"convolution", "linear", "matmul",
                                                   "scaled_dot_product_attention"};
/// Cost nothing: their results are memory of their operands.
const std::set<std::string> kViews = {"expand", "permute", "reshape", "select", "slice"};
/// Memory, and what names sizes.
const std::set<std::string> kStorage = {"constant", "parameter", "set_extent", "state", "symbol"};
/// Control of the program.
const std::set<std::string> kControl = {"check", "for", "fusion", "if", "while", "yield"};
/// Decided already.
const std::set<std::string> kDecided = {"aten", "external", "own_kernel"};
/// On numbers of a kernel's body, not on tensors.
const std::set<std::string> kScalars = {"scalar_special"};

TEST(AskedOps, AllButThese) {
  mlir::MLIRContext context;
  context.loadDialect<op::OpDialect>();
  std::set<std::string> asked, others;
  for (mlir::RegisteredOperationName info :
       context.getRegisteredOperationsByDialect(op::OpDialect::getDialectNamespace())) {
    const std::string name = info.stripDialect().str();
    const bool isAsked = mayBeExternal(name, &context) &&
                         info.hasTrait<mlir::OpTrait::ZeroRegions>() &&
                         !info.hasTrait<mlir::OpTrait::ZeroResults>();
    (isAsked ? asked : others).insert(name);
  }
  std::set<std::string> known;
  for (const auto* names :
       {&kProblemsOfTheirOwn, &kViews, &kStorage, &kControl, &kDecided, &kScalars}) {
    known.insert(names->begin(), names->end());
  }
  EXPECT_EQ(known, others);
  EXPECT_GT(asked.size(), 100u);
}

}  // namespace
}  // namespace straightline
