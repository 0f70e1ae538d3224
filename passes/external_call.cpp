// SPDX-License-Identifier: Apache-2.0
#include "passes/external_call.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InterleavedRange.h"

namespace straightline {

using mlir::Operation;
using mlir::Value;

namespace {

constexpr llvm::StringLiteral kSegments = "operandSegmentSizes", kOperands = "operands";

struct TypeName {
  sl_type_set type;
  llvm::StringLiteral name;
};
constexpr TypeName kTypeNames[] = {
    {SL_TYPE_F16, "f16"}, {SL_TYPE_BF16, "bf16"}, {SL_TYPE_F32, "f32"}, {SL_TYPE_F64, "f64"},
    {SL_TYPE_I8, "i8"},   {SL_TYPE_U8, "ui8"},    {SL_TYPE_I16, "i16"}, {SL_TYPE_I32, "i32"},
    {SL_TYPE_I64, "i64"}, {SL_TYPE_BOOL, "i1"}};

std::string typeNames(uint32_t types) {
  std::string text;
  for (const TypeName& known : kTypeNames) {
    if ((types & known.type) != 0) {
      text += (text.empty() ? "" : ", ") + known.name.str();
    }
  }
  return text;
}

std::string textOf(mlir::Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return text;
}

/// "operand 1 (weight)", "result 0 (y)".
std::string named(llvm::StringRef what, int64_t number, const sl_operand_facts& facts) {
  const std::string role = facts.role ? std::string(" (") + facts.role + ")" : "";
  return (what + " " + llvm::Twine(number) + role).str();
}

/// Writes an attribute as integers, floats and text; false where it is none of these.
bool tell(llvm::StringRef name, mlir::Attribute value, mlir::NamedAttrList& told) {
  mlir::Builder builder(value.getContext());
  const auto putAll = [&](auto numbers, llvm::StringRef prefix) {
    for (auto [i, number] : llvm::enumerate(numbers)) {
      told.set((prefix + "_" + llvm::Twine(i)).str(), builder.getI64IntegerAttr(number));
    }
    return true;
  };
  if (auto flag = llvm::dyn_cast<mlir::BoolAttr>(value)) {
    told.set(name, builder.getI64IntegerAttr(flag.getValue() ? 1 : 0));
    return true;
  }
  if (auto number = llvm::dyn_cast<mlir::IntegerAttr>(value)) {
    told.set(name, builder.getI64IntegerAttr(number.getInt()));
    return true;
  }
  if (llvm::isa<mlir::FloatAttr, mlir::StringAttr>(value)) {
    told.set(name, value);
    return true;
  }
  if (auto counts = llvm::dyn_cast<mlir::DenseI32ArrayAttr>(value); counts && name == kSegments) {
    return putAll(counts.asArrayRef(), kOperands);
  }
  if (auto numbers = llvm::dyn_cast<mlir::DenseI64ArrayAttr>(value)) {
    return putAll(numbers.asArrayRef(), name);
  }
  return false;
}

/// Whether `name` is `listed`, or one of its elements: "dims_1" of "dims".
bool isListed(llvm::StringRef name, llvm::StringRef listed) {
  return name == listed ||
         (name.consume_front(listed) && name.consume_front("_") && !name.empty() &&
          llvm::all_of(name, [](char letter) { return letter >= '0' && letter <= '9'; }));
}

llvm::ArrayRef<const char*> listedBy(const sl_calling_rule& rule) {
  return {rule.attributes, rule.attributes ? static_cast<size_t>(rule.attribute_count) : 0};
}

size_t countFacts(const sl_kernel_desc& kernel, bool outputs) {
  return static_cast<size_t>(llvm::count_if(
      llvm::ArrayRef(kernel.operands, static_cast<size_t>(std::max(kernel.operand_count, 0))),
      [&](const sl_operand_facts& facts) {
        return ((facts.flags & SL_OPERAND_OUTPUT) != 0) == outputs;
      }));
}

/// What the facts of one operand or result say against its type.
std::string whyNotOf(const std::string& what, Value value, const sl_operand_facts& facts) {
  const auto type = llvm::cast<mlir::RankedTensorType>(value.getType());
  if (facts.types != 0 && (facts.types & typeBit(type.getElementType())) == 0) {
    return what + " is of " + textOf(mlir::TypeAttr::get(type.getElementType())) +
           ", the kernel takes " + typeNames(facts.types);
  }
  if (facts.layouts == SL_LAYOUT_CHANNELS_LAST && type.getRank() < 3) {
    return what + " has rank " + std::to_string(type.getRank()) +
           ", the kernel takes channels last, which is of rank 3 or more";
  }
  return "";
}

/// Why a plan, which runs in prepare, cannot read a tensor that is not known there, and what it can
/// read.
std::string whyNotPlanned(const std::string& what, Value value) {
  Operation* maker = value.getDefiningOp();
  while (maker && maker->hasTrait<op::View>()) {
    value = maker->getOperand(0);
    maker = value.getDefiningOp();
  }
  if (maker && llvm::isa<op::ParameterOp>(maker)) {
    return what +
           " is read by plan, before the first run, but is a parameter that may change between "
           "calls; nearest: freeze=True";
  }
  const std::string is = maker ? "is computed by " + maker->getName().stripDialect().str()
                               : std::string("is an input of the program or a value of a loop");
  return what + " is read by plan, before the first run, but " + is +
         "; nearest: a parameter (freeze=True), a constant, or a view of one";
}

std::string whyNotByRule(const sl_kernel_desc& kernel, const ExternalCall& call) {
  if (!kernel.rule) {
    return "its description has no calling rule";
  }
  const std::string prefix = std::string("sl_") + kernel.backend + "_";
  if (!llvm::StringRef(kernel.run_symbol).starts_with(prefix)) {
    return std::string("its symbol is ") + kernel.run_symbol + ", expected " + prefix +
           "..., from which explain has the backend";
  }
  if (!call.untold.empty()) {
    return call.untold;
  }
  for (const char* listed : listedBy(*kernel.rule)) {
    if (!llvm::is_contained(call.names, listed)) {
      return "its calling rule lists the attribute '" + std::string(listed) + "', " + call.name +
             " has " + (call.names.empty() ? "none" : llvm::interleaved(call.names, ", ").str());
    }
  }
  return "";
}

}  // namespace

ExternalCall describeCall(Operation* operation) {
  ExternalCall call;
  call.name = operation->getName().stripDialect().str();
  mlir::NamedAttrList told;
  for (mlir::StringAttr name : operation->getName().getAttributeNames()) {
    const bool isSegments = name == kSegments;
    call.names.push_back(isSegments ? kOperands.str() : name.str());
    mlir::Attribute value = operation->getInherentAttr(name).value_or(mlir::Attribute());
    if (!value || tell(name, value, told)) {
      continue;
    }
    call.untold = ("the attribute '" + name.getValue() + "' is " + textOf(value) +
                   ", a kernel can be told integers, floats and text")
                      .str();
  }
  auto segments = llvm::dyn_cast_if_present<mlir::DenseI32ArrayAttr>(
      operation->getInherentAttr(kSegments).value_or(mlir::Attribute()));
  for (auto [role, count] :
       llvm::enumerate(segments ? segments.asArrayRef() : llvm::ArrayRef<int32_t>())) {
    call.roles.append(static_cast<size_t>(count), static_cast<int64_t>(role));
  }
  for (unsigned i = 0; !segments && i < operation->getNumOperands(); ++i) {
    call.roles.push_back(i);
  }
  call.told = told.getDictionary(operation->getContext());
  return call;
}

void addTold(Problem& problem, mlir::DictionaryAttr told) {
  for (mlir::NamedAttribute attribute : told) {
    if (auto number = llvm::dyn_cast<mlir::IntegerAttr>(attribute.getValue())) {
      problem.addAttribute(attribute.getName(), number.getInt());
    } else if (auto real = llvm::dyn_cast<mlir::FloatAttr>(attribute.getValue())) {
      problem.addNumber(attribute.getName(), real.getValueAsDouble());
    } else {
      problem.addText(attribute.getName(), llvm::cast<mlir::StringAttr>(attribute.getValue()));
    }
  }
}

llvm::SmallVector<mlir::NamedAttribute> toldToPlan(const sl_kernel_desc& kernel,
                                                   mlir::DictionaryAttr told) {
  llvm::SmallVector<mlir::NamedAttribute> all(told.begin(), told.end());
  if (kernel.rule && kernel.rule->attributes) {
    llvm::erase_if(all, [&](mlir::NamedAttribute attribute) {
      return attribute.getName() != kActivation &&
             llvm::none_of(listedBy(*kernel.rule), [&](const char* listed) {
               return isListed(attribute.getName(), listed);
             });
    });
  }
  return all;
}

sl_operand_facts factsOfRole(const sl_kernel_desc& kernel, int64_t role) {
  const size_t described = countFacts(kernel, /*outputs=*/false);
  return described == 0 ? sl_operand_facts{}
                        : inputFacts(kernel, std::min(static_cast<size_t>(role), described - 1));
}

std::string whyNotCalled(const sl_kernel_desc& kernel, Operation* operation,
                         const ExternalCall& call, llvm::function_ref<bool(Value)> isKnownEarly) {
  if (const std::string why = whyNotByRule(kernel, call); !why.empty()) {
    return why;
  }
  const size_t outputs = countFacts(kernel, /*outputs=*/true);
  if (outputs != 0 && outputs != operation->getNumResults()) {
    return "it describes " + std::to_string(outputs) + " outputs, " + call.name + " has " +
           std::to_string(operation->getNumResults());
  }
  for (size_t role = 0; role < countFacts(kernel, /*outputs=*/false); ++role) {
    const sl_operand_facts facts = inputFacts(kernel, role);
    if ((facts.flags & SL_OPERAND_OPTIONAL) == 0 &&
        !llvm::is_contained(call.roles, static_cast<int64_t>(role))) {
      return named("operand", static_cast<int64_t>(role), facts) +
             " is absent, the kernel needs it";
    }
  }
  for (auto [i, operand] : llvm::enumerate(operation->getOperands())) {
    const sl_operand_facts facts = factsOfRole(kernel, call.roles[i]);
    const std::string what = named("operand", call.roles[i], facts);
    if (const std::string why = whyNotOf(what, operand, facts); !why.empty()) {
      return why;
    }
    if ((facts.flags & SL_OPERAND_PLANNED) != 0 && !isKnownEarly(operand)) {
      return whyNotPlanned(what, operand);
    }
  }
  for (auto [i, result] : llvm::enumerate(operation->getResults())) {
    const sl_operand_facts facts = outputFacts(kernel, i);
    const std::string why =
        whyNotOf(named("result", static_cast<int64_t>(i), facts), result, facts);
    if (!why.empty()) {
      return why;
    }
  }
  return "";
}

}  // namespace straightline
