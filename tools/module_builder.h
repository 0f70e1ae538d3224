// SPDX-License-Identifier: Apache-2.0
// Builds a module op by op from names and texts; the C++ side of sl_builder (see compiler_abi.h for
// the rules).
#ifndef STRAIGHTLINE_TOOLS_MODULE_BUILDER_H
#define STRAIGHTLINE_TOOLS_MODULE_BUILDER_H

#include <memory>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "tools/diagnostic_log.h"
#include "tools/module_context.h"

namespace straightline {

struct SourceLocation {
  llvm::StringRef module;
  llvm::StringRef file;
  int line = 0;
  llvm::StringRef overload;  ///< the framework's op ("add.Tensor"); empty: none
};

struct FunctionResult {
  int value;
  llvm::StringRef name;
  llvm::StringRef tie;  ///< "alias:TIE" sets op.alias, other texts are op.tie; empty: none
};

class ModuleBuilder {
 public:
  explicit ModuleBuilder(const Stages& stages);
  ~ModuleBuilder();

  Failure symbol(llvm::StringRef name, int64_t min, int64_t max);
  Failure beginFunction(llvm::StringRef name, llvm::ArrayRef<const char*> argumentNames,
                        llvm::ArrayRef<const char*> argumentTypes, int32_t* values);
  Failure attribute(llvm::StringRef name, llvm::StringRef text);
  Failure attributeString(llvm::StringRef name, llvm::StringRef value);
  Failure attributeDense(llvm::StringRef name, llvm::StringRef type, llvm::ArrayRef<char> data);
  Failure op(llvm::StringRef name, llvm::ArrayRef<int32_t> operands,
             llvm::ArrayRef<const char*> resultTypes, llvm::ArrayRef<int32_t> segments,
             bool hasSegments, int regions, const SourceLocation& location, int32_t* results);
  Failure beginRegion(llvm::ArrayRef<const char*> argumentTypes, int32_t* values);
  Failure endRegion(llvm::ArrayRef<int32_t> yields, const SourceLocation& location);
  Failure endFunction(llvm::ArrayRef<FunctionResult> results);
  Failure finish(std::unique_ptr<Module>* out);

 private:
  Failure type(llvm::StringRef text, mlir::Type* out);
  Failure types(llvm::ArrayRef<const char*> texts, llvm::SmallVectorImpl<mlir::Type>* out);
  Failure valuesOf(llvm::ArrayRef<int32_t> numbers, llvm::SmallVectorImpl<mlir::Value>* out) const;
  Failure insideFunction() const;
  int32_t number(mlir::Value value);
  mlir::Location location(const SourceLocation& source);
  /// Appends an op at the insertion point. Takes `state` whole.
  Failure create(mlir::OperationState& state, llvm::StringRef name, mlir::Operation** out);

  std::shared_ptr<ModuleContext> context_;
  DiagnosticLog log_;
  mlir::OpBuilder builder_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  mlir::func::FuncOp function_;
  std::vector<mlir::Value> values_;
  mlir::NamedAttrList pending_;  ///< attributes of the next op
  /// Regions being built, innermost last, each with the block that was being filled when it began.
  std::vector<std::pair<std::unique_ptr<mlir::Region>, mlir::Block*>> open_;
  std::vector<std::unique_ptr<mlir::Region>> ended_;  ///< not yet taken by an op
  llvm::StringMap<mlir::Type> types_;
};

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_MODULE_BUILDER_H
