// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_TOOLS_REGISTER_ALL_H
#define STRAIGHTLINE_TOOLS_REGISTER_ALL_H

namespace mlir {
class DialectRegistry;
}  // namespace mlir

namespace straightline {

/// Every dialect that our modules may hold.
void registerAllDialects(mlir::DialectRegistry& registry);
/// Our passes and the upstream ones that our pipeline uses. Once a process.
void registerAllPasses();

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_REGISTER_ALL_H
