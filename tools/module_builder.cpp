// SPDX-License-Identifier: Apache-2.0
#include "tools/module_builder.h"

#include "codegen/jit/compile_program.h"
#include "dialect/op/recorded.h"
#include "dialect/op/size_advice.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Verifier.h"
#include "tools/compiler_abi.h"

namespace straightline {
namespace {

std::string quoted(llvm::StringRef text) { return "'" + text.str() + "'"; }

/// Bytes of one element in sl_builder_attribute_dense, 0 for types that it does not take.
int64_t elementBytes(mlir::Type type) {
  if (type.isInteger(1)) {
    return 1;
  }
  const bool plain = llvm::isa<mlir::IntegerType, mlir::FloatType>(type);
  return plain && type.getIntOrFloatBitWidth() % 8 == 0 ? type.getIntOrFloatBitWidth() / 8 : 0;
}

mlir::DenseElementsAttr denseOf(mlir::ShapedType type, llvm::ArrayRef<char> data) {
  if (data.empty()) {
    return mlir::DenseElementsAttr::get(type, llvm::ArrayRef<mlir::Attribute>());
  }
  if (type.getElementType().isInteger(1)) {
    llvm::SmallVector<bool> bits(data.begin(), data.end());
    return mlir::DenseElementsAttr::get(type, bits);
  }
  return mlir::DenseElementsAttr::getFromRawBuffer(type, data);
}

}  // namespace

ModuleBuilder::ModuleBuilder(const Stages& stages)
    : context_(std::make_shared<ModuleContext>(stages)),
      log_(&context_->context),
      builder_(&context_->context),
      module_(mlir::ModuleOp::create(mlir::UnknownLoc::get(&context_->context))) {
  builder_.setInsertionPointToEnd(module_->getBody());
}

ModuleBuilder::~ModuleBuilder() {
  // Regions that no op has taken hold ops that use values of the function. They are erased before
  // it, after their uses are dropped.
  for (auto& [region, block] : open_) {
    region->dropAllReferences();
  }
  for (std::unique_ptr<mlir::Region>& region : ended_) {
    region->dropAllReferences();
  }
}

Failure ModuleBuilder::type(llvm::StringRef text, mlir::Type* out) {
  mlir::Type& cached = types_[text];
  if (!cached) {
    cached = mlir::parseType(text, &context_->context);
    if (!cached) {
      types_.erase(text);
      return log_.failure(ErrorKind::internal, "builder: not a type: " + quoted(text));
    }
  }
  *out = cached;
  return Failure::none();
}

Failure ModuleBuilder::types(llvm::ArrayRef<const char*> texts,
                             llvm::SmallVectorImpl<mlir::Type>* out) {
  for (const char* text : texts) {
    mlir::Type parsed;
    if (Failure failure = type(text, &parsed); failure.failed()) {
      return failure;
    }
    out->push_back(parsed);
  }
  return Failure::none();
}

Failure ModuleBuilder::valuesOf(llvm::ArrayRef<int32_t> numbers,
                                llvm::SmallVectorImpl<mlir::Value>* out) const {
  for (int32_t number : numbers) {
    if (number < 0 || static_cast<std::size_t>(number) >= values_.size()) {
      return Failure::internal("builder: value " + std::to_string(number) + " of " +
                               std::to_string(values_.size()));
    }
    out->push_back(values_[number]);
  }
  return Failure::none();
}

Failure ModuleBuilder::insideFunction() const {
  return function_ ? Failure::none() : Failure::internal("builder: no function has begun");
}

int32_t ModuleBuilder::number(mlir::Value value) {
  values_.push_back(value);
  return static_cast<int32_t>(values_.size()) - 1;
}

mlir::Location ModuleBuilder::location(const SourceLocation& source) {
  mlir::MLIRContext* context = &context_->context;
  mlir::Location place = mlir::UnknownLoc::get(context);
  if (!source.file.empty()) {
    place = mlir::FileLineColLoc::get(context, source.file, source.line < 0 ? 0 : source.line, 0);
  }
  if (!source.module.empty()) {
    place = mlir::NameLoc::get(builder_.getStringAttr(source.module), place);
  }
  if (!source.overload.empty()) {
    place = mlir::FusedLoc::get(
        context, {place}, op::OverloadAttr::get(context, builder_.getStringAttr(source.overload)));
  }
  return place;
}

Failure ModuleBuilder::create(mlir::OperationState& state, llvm::StringRef name,
                              mlir::Operation** out) {
  if (!state.name.isRegistered()) {
    return Failure::internal("builder: unknown op " + quoted(name));
  }
  mlir::NamedAttrList attributes = state.attributes;
  const auto report = [&] { return mlir::emitError(state.location) << quoted(name) << ": "; };
  if (failed(state.name.verifyInherentAttrs(attributes, report))) {
    return log_.failure(ErrorKind::internal, "builder: wrong attribute");
  }
  *out = builder_.create(state);
  return Failure::none();
}

Failure ModuleBuilder::symbol(llvm::StringRef name, int64_t min, int64_t max) {
  const mlir::OpBuilder::InsertionGuard guard(builder_);
  if (function_) {
    builder_.setInsertionPoint(function_);
  }
  mlir::OperationState state(mlir::UnknownLoc::get(&context_->context),
                             op::SymbolOp::getOperationName());
  state.addAttribute("sym_name", builder_.getStringAttr(name));
  state.addAttribute("min", builder_.getI64IntegerAttr(min));
  state.addAttribute("max", builder_.getI64IntegerAttr(max));
  mlir::Operation* made = nullptr;
  return create(state, op::SymbolOp::getOperationName(), &made);
}

Failure ModuleBuilder::beginFunction(llvm::StringRef name,
                                     llvm::ArrayRef<const char*> argumentNames,
                                     llvm::ArrayRef<const char*> argumentTypes, int32_t* values) {
  if (function_) {
    return Failure::internal("builder: a second function " + quoted(name));
  }
  llvm::SmallVector<mlir::Type> parsed;
  if (Failure failure = types(argumentTypes, &parsed); failure.failed()) {
    return failure;
  }
  function_ = mlir::func::FuncOp::create(builder_, mlir::UnknownLoc::get(&context_->context), name,
                                         builder_.getFunctionType(parsed, {}));
  mlir::Block* body = function_.addEntryBlock();
  for (std::size_t i = 0; i < argumentNames.size(); ++i) {
    op::setNameOfArgument(function_, i, argumentNames[i]);
    values[i] = number(body->getArgument(i));
  }
  // Attributes set before the function began are its advice, and strides of arguments, named by
  // position.
  for (mlir::NamedAttribute strides : std::exchange(pending_, {})) {
    if (strides.getName() == op::kSizeAdviceAttr) {
      op::setSizeAdvice(function_, strides.getValue());
      continue;
    }
    unsigned position = 0;
    if (strides.getName().getValue().getAsInteger(10, position) ||
        position >= argumentNames.size()) {
      return Failure::internal("builder: strides for argument " +
                               quoted(strides.getName().getValue()) + ", which does not exist");
    }
    op::setStridesOfArgument(function_, position, strides.getValue());
  }
  builder_.setInsertionPointToEnd(body);
  return Failure::none();
}

Failure ModuleBuilder::attribute(llvm::StringRef name, llvm::StringRef text) {
  mlir::Attribute parsed = mlir::parseAttribute(text, &context_->context);
  if (!parsed) {
    return log_.failure(ErrorKind::internal,
                        "builder: not an attribute: " + name.str() + " = " + text.str());
  }
  pending_.set(name, parsed);
  return Failure::none();
}

Failure ModuleBuilder::attributeString(llvm::StringRef name, llvm::StringRef value) {
  pending_.set(name, builder_.getStringAttr(value));
  return Failure::none();
}

Failure ModuleBuilder::attributeDense(llvm::StringRef name, llvm::StringRef typeText,
                                      llvm::ArrayRef<char> data) {
  mlir::Type parsed;
  if (Failure failure = type(typeText, &parsed); failure.failed()) {
    return failure;
  }
  auto shaped = llvm::dyn_cast<mlir::RankedTensorType>(parsed);
  if (!shaped || !shaped.hasStaticShape() || elementBytes(shaped.getElementType()) == 0) {
    return Failure::internal("builder: no dense constant of type " + quoted(typeText));
  }
  const int64_t bytes = shaped.getNumElements() * elementBytes(shaped.getElementType());
  if (bytes != static_cast<int64_t>(data.size())) {
    return Failure::internal("builder: constant of type " + quoted(typeText) + " needs " +
                             std::to_string(bytes) + " bytes but has " +
                             std::to_string(data.size()));
  }
  pending_.set(name, denseOf(shaped, data));
  return Failure::none();
}

Failure ModuleBuilder::op(llvm::StringRef name, llvm::ArrayRef<int32_t> operands,
                          llvm::ArrayRef<const char*> resultTypes, llvm::ArrayRef<int32_t> segments,
                          bool hasSegments, int regions, const SourceLocation& source,
                          int32_t* results) {
  if (Failure failure = insideFunction(); failure.failed()) {
    return failure;
  }
  mlir::OperationState state(location(source), name);
  if (Failure failure = valuesOf(operands, &state.operands); failure.failed()) {
    return failure;
  }
  if (Failure failure = types(resultTypes, &state.types); failure.failed()) {
    return failure;
  }
  if (regions < 0 || static_cast<std::size_t>(regions) > ended_.size()) {
    return Failure::internal("builder: " + quoted(name) + " takes " + std::to_string(regions) +
                             " regions of " + std::to_string(ended_.size()));
  }
  state.attributes = std::exchange(pending_, {});
  if (hasSegments) {
    state.attributes.set("operandSegmentSizes", builder_.getDenseI32ArrayAttr(segments));
  }
  for (std::size_t i = ended_.size() - regions; i < ended_.size(); ++i) {
    state.addRegion(std::move(ended_[i]));
  }
  ended_.resize(ended_.size() - regions);
  mlir::Operation* made = nullptr;
  if (Failure failure = create(state, name, &made); failure.failed()) {
    for (std::unique_ptr<mlir::Region>& region : state.regions) {
      region->dropAllReferences();
    }
    return failure;
  }
  for (mlir::OpResult result : made->getResults()) {
    *results++ = number(result);
  }
  return Failure::none();
}

Failure ModuleBuilder::beginRegion(llvm::ArrayRef<const char*> argumentTypes, int32_t* values) {
  if (Failure failure = insideFunction(); failure.failed()) {
    return failure;
  }
  llvm::SmallVector<mlir::Type> parsed;
  if (Failure failure = types(argumentTypes, &parsed); failure.failed()) {
    return failure;
  }
  auto region = std::make_unique<mlir::Region>();
  mlir::Block* block = &region->emplaceBlock();
  for (mlir::Type type : parsed) {
    *values++ = number(block->addArgument(type, mlir::UnknownLoc::get(&context_->context)));
  }
  open_.emplace_back(std::move(region), builder_.getInsertionBlock());
  builder_.setInsertionPointToEnd(block);
  return Failure::none();
}

Failure ModuleBuilder::endRegion(llvm::ArrayRef<int32_t> yields, const SourceLocation& source) {
  if (open_.empty()) {
    return Failure::internal("builder: no region to end");
  }
  mlir::OperationState state(location(source), op::YieldOp::getOperationName());
  if (Failure failure = valuesOf(yields, &state.operands); failure.failed()) {
    return failure;
  }
  mlir::Operation* made = nullptr;
  if (Failure failure = create(state, op::YieldOp::getOperationName(), &made); failure.failed()) {
    return failure;
  }
  builder_.setInsertionPointToEnd(open_.back().second);
  ended_.push_back(std::move(open_.back().first));
  open_.pop_back();
  return Failure::none();
}

Failure ModuleBuilder::endFunction(llvm::ArrayRef<FunctionResult> results) {
  if (Failure failure = insideFunction(); failure.failed()) {
    return failure;
  }
  if (!open_.empty() || !ended_.empty()) {
    return Failure::internal("builder: the function ends with " + std::to_string(open_.size()) +
                             " open and " + std::to_string(ended_.size()) + " unused regions");
  }
  llvm::SmallVector<int32_t> numbers;
  for (const FunctionResult& result : results) {
    numbers.push_back(result.value);
  }
  llvm::SmallVector<mlir::Value> values;
  if (Failure failure = valuesOf(numbers, &values); failure.failed()) {
    return failure;
  }
  mlir::func::ReturnOp::create(builder_, mlir::UnknownLoc::get(&context_->context), values);
  llvm::SmallVector<mlir::Type> types(mlir::ValueRange(values).getTypes());
  function_.setType(builder_.getFunctionType(function_.getArgumentTypes(), types));
  for (std::size_t i = 0; i < results.size(); ++i) {
    op::setNameOfResult(function_, i, results[i].name);
    if (llvm::StringRef tie = results[i].tie; tie.consume_front("alias:")) {
      op::setAliasOfTied(function_, i, tie);
    } else if (!results[i].tie.empty()) {
      op::setTie(function_, i, results[i].tie);
    }
  }
  builder_.setInsertionPointToEnd(module_->getBody());
  return Failure::none();
}

Failure ModuleBuilder::finish(std::unique_ptr<Module>* out) {
  if (!module_) {
    return Failure::internal("builder: finished before");
  }
  if (failed(mlir::verify(*module_))) {
    const Failure failure = log_.failure(ErrorKind::internal, "the module does not verify");
    const std::string path =
        jit::keepText("module", ".mlir",
                      jit::asComments(log_.text()) +
                          printModule(*module_, SL_PRINT_GENERIC | SL_PRINT_LOCATIONS));
    return Failure::internal(failure.message + "; its text is kept in " + path);
  }
  *out = std::make_unique<Module>();
  (*out)->context = context_;
  (*out)->op = std::move(module_);
  values_.clear();
  return Failure::none();
}

}  // namespace straightline
