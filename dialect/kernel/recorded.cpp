// SPDX-License-Identifier: Apache-2.0
#include "dialect/kernel/recorded.h"

#include "dialect/alternative.h"
#include "dialect/kernel/own.h"
#include "dialect/kernel/shared_prepared.h"
#include "dialect/kernel/size_advice.h"
#include "dialect/own_argument.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/Builders.h"

namespace straightline::kernel {

using mlir::Operation;

namespace {

constexpr llvm::StringLiteral kCostUs = "kernel.cost_us", kChoice = "kernel.choice",
                              kRule = "kernel.rule", kAlternatives = "kernel.alternatives",
                              kOnHost = "kernel.on_host", kOutsideGraph = "kernel.outside_graph",
                              kExclusiveHandle = "kernel.exclusive_handle",
                              kMadeBy = "kernel.made_by", kOwnArguments = "kernel.own_arguments",
                              kOwnTraits = "kernel.own_traits", kOwnSource = "kernel.own_source",
                              kEveryBranch = "kernel.every_branch",
                              kEarlyStart = "kernel.early_start", kParts = "kernel.parts",
                              kRows = "kernel.rows", kSizeAdvice = "kernel.size_advice";

constexpr llvm::StringLiteral kAtEntry = "at_entry", kInTemplate = "in_template";

}  // namespace

std::optional<double> costUsOf(Operation* statement) {
  auto cost = statement->getAttrOfType<mlir::FloatAttr>(kCostUs);
  return cost ? std::optional(cost.getValueAsDouble()) : std::nullopt;
}
void setCostUs(Operation* statement, double us) {
  statement->setAttr(kCostUs, mlir::Builder(statement->getContext()).getF64FloatAttr(us));
}

llvm::StringRef choiceKeyOf(Operation* statement) {
  auto key = statement->getAttrOfType<mlir::StringAttr>(kChoice);
  return key ? key.getValue() : llvm::StringRef();
}
void setChoiceKey(Operation* statement, llvm::StringRef key) {
  statement->setAttr(kChoice, mlir::StringAttr::get(statement->getContext(), key));
}

llvm::StringRef ruleOf(Operation* statement) {
  auto rule = statement->getAttrOfType<mlir::StringAttr>(kRule);
  return rule ? rule.getValue() : llvm::StringRef();
}
void setRule(Operation* statement, llvm::StringRef rule) {
  statement->setAttr(kRule, mlir::StringAttr::get(statement->getContext(), rule));
}

mlir::ArrayAttr alternativesOf(Operation* statement) {
  return statement->getAttrOfType<mlir::ArrayAttr>(kAlternatives);
}
void setAlternatives(Operation* statement, mlir::ArrayAttr alternatives) {
  statement->setAttr(kAlternatives, alternatives);
}

bool isOnHost(Operation* statement) { return statement->hasAttr(kOnHost); }
void setOnHost(Operation* statement) {
  statement->setAttr(kOnHost, mlir::UnitAttr::get(statement->getContext()));
}

bool isOutsideGraph(Operation* declaration) { return declaration->hasAttr(kOutsideGraph); }
void setOutsideGraph(DeclOp declaration) {
  declaration->setAttr(kOutsideGraph, mlir::UnitAttr::get(declaration.getContext()));
}

llvm::StringRef madeBy(PreparedOp prepared) {
  auto digest = prepared->getAttrOfType<mlir::StringAttr>(kMadeBy);
  return digest ? digest.getValue() : llvm::StringRef();
}
void setMadeBy(PreparedOp prepared, llvm::StringRef digest) {
  prepared->setAttr(kMadeBy, mlir::StringAttr::get(prepared.getContext(), digest));
}

mlir::ArrayAttr sizeAdviceOf(ProgramOp program) {
  return program->getAttrOfType<mlir::ArrayAttr>(kSizeAdvice);
}
void setSizeAdvice(ProgramOp program, mlir::ArrayAttr advice) {
  program->setAttr(kSizeAdvice, advice);
}

bool hasExclusiveHandle(DeclOp declaration) { return declaration->hasAttr(kExclusiveHandle); }
void setExclusiveHandle(DeclOp declaration) {
  declaration->setAttr(kExclusiveHandle, mlir::UnitAttr::get(declaration.getContext()));
}

mlir::ArrayAttr ownArgumentsOf(DeclOp declaration) {
  return declaration->getAttrOfType<mlir::ArrayAttr>(kOwnArguments);
}
bool hasOwnTrait(DeclOp declaration, llvm::StringRef trait) {
  auto traits = declaration->getAttrOfType<mlir::StringAttr>(kOwnTraits);
  return traits && llvm::is_contained(llvm::split(traits.getValue(), ' '), trait);
}
bool isOwnOnHost(DeclOp declaration, bool isOutput, size_t number) {
  const mlir::ArrayAttr arguments = ownArgumentsOf(declaration);
  return arguments &&
         llvm::any_of(arguments.getAsValueRange<mlir::StringAttr>(), [&](llvm::StringRef text) {
           const std::optional<OwnArgument> argument = parseOwnArgument(text);
           return argument->isOnHost && argument->tensors.front().isOutput == isOutput &&
                  argument->tensors.front().number == static_cast<int64_t>(number);
         });
}
void setOwnArguments(DeclOp declaration, mlir::ArrayAttr arguments, llvm::StringRef traits) {
  declaration->setAttr(kOwnArguments, arguments);
  if (!traits.empty()) {
    declaration->setAttr(kOwnTraits, mlir::StringAttr::get(declaration.getContext(), traits));
  }
}

mlir::DictionaryAttr ownSourceOf(FuncOp function) {
  return function->getAttrOfType<mlir::DictionaryAttr>(kOwnSource);
}
bool isOwnImage(Operation* function) {
  auto source = function->getAttrOfType<mlir::DictionaryAttr>(kOwnSource);
  return source && source.contains("image");
}
void setOwnSource(FuncOp function, mlir::DictionaryAttr source) {
  function->setAttr(kOwnSource, source);
}

EarlyStart earlyStartOf(FuncOp function) {
  auto start = function->getAttrOfType<mlir::StringAttr>(kEarlyStart);
  if (!start) {
    return EarlyStart::none;
  }
  return start.getValue() == kAtEntry ? EarlyStart::atEntry : EarlyStart::inTemplate;
}
void setEarlyStart(FuncOp function, EarlyStart start) {
  if (start == EarlyStart::none) {
    function->removeAttr(kEarlyStart);
    return;
  }
  function->setAttr(kEarlyStart,
                    mlir::StringAttr::get(function.getContext(),
                                          start == EarlyStart::atEntry ? kAtEntry : kInTemplate));
}
bool isWrittenEarly(Operation* launch, mlir::Value root) {
  auto statement = llvm::dyn_cast<LaunchOp>(launch);
  const bool isWorkspace =
      statement && llvm::any_of(statement.getWorkspace(), [&](mlir::Value workspace) {
        return storageRoot(workspace) == root;
      });
  auto function = isWorkspace
                      ? llvm::dyn_cast_or_null<FuncOp>(lookupEntry(launch, statement.getEntry()))
                      : FuncOp();
  return function && earlyStartOf(function) == EarlyStart::inTemplate;
}

ExtentAttr blocksOf(Operation* function) {
  return function->getAttrOfType<ExtentAttr>(kBlocksAttr);
}

llvm::SmallVector<FuncOp> partsOf(FuncOp function) {
  llvm::SmallVector<FuncOp> parts;
  if (auto names = function->getAttrOfType<mlir::ArrayAttr>(kParts)) {
    for (auto name : names.getAsRange<mlir::FlatSymbolRefAttr>()) {
      parts.push_back(llvm::dyn_cast_if_present<FuncOp>(
          mlir::SymbolTable::lookupSymbolIn(function->getParentOp(), name)));
    }
  }
  return parts;
}
void setParts(FuncOp function, llvm::ArrayRef<FuncOp> parts) {
  function->setAttr(
      kParts, mlir::ArrayAttr::get(function.getContext(),
                                   llvm::map_to_vector(parts, [](FuncOp part) -> mlir::Attribute {
                                     return mlir::FlatSymbolRefAttr::get(part.getSymNameAttr());
                                   })));
}

llvm::SmallVector<RowAttr> writtenRowsOf(FuncOp function) {
  auto rows = function->getAttrOfType<mlir::ArrayAttr>(kRows);
  return rows ? llvm::to_vector(rows.getAsRange<RowAttr>()) : llvm::SmallVector<RowAttr>();
}
void setWrittenRows(FuncOp function, llvm::ArrayRef<RowAttr> rows) {
  const llvm::SmallVector<mlir::Attribute> attributes(rows.begin(), rows.end());
  function->setAttr(kRows, mlir::ArrayAttr::get(function.getContext(), attributes));
}
llvm::ArrayRef<mlir::Attribute> takenInputsOf(FuncOp function) {
  llvm::SmallDenseSet<int64_t> numbers;
  for (RowAttr row : writtenRowsOf(function)) {
    numbers.insert(row.getIndex());
  }
  return function.getInputs().getValue().drop_back(numbers.size());
}

bool placesEveryBranch(mlir::ModuleOp module) { return module->hasAttr(kEveryBranch); }
void setPlacesEveryBranch(mlir::ModuleOp module) {
  module->setAttr(kEveryBranch, mlir::UnitAttr::get(module.getContext()));
}

//===- where they may stand -------------------------------------------------------------------===//

namespace {

using mlir::Attribute;
using mlir::NamedAttribute;

bool isStatement(Operation* op) {
  return op->getParentOfType<RunOp>() || op->getParentOfType<PrepareOp>();
}
bool isCall(Operation* op) { return llvm::isa<LaunchOp, CallOp>(op); }
bool isKernel(Operation* op) { return llvm::isa<FuncOp>(op); }
bool isDeclaration(Operation* op) { return llvm::isa<DeclOp>(op); }
bool hasPlan(Operation* op) {
  auto declaration = llvm::dyn_cast<DeclOp>(op);
  return declaration && declaration.getPlan() && declaration.getDestroy();
}
bool isPreparedBuffer(Operation* op) { return llvm::isa<PreparedOp>(op); }
bool isProgram(Operation* op) { return llvm::isa<ProgramOp>(op); }
bool isModule(Operation* op) { return llvm::isa<mlir::ModuleOp>(op); }

bool isWhole(Attribute value) {
  auto number = llvm::dyn_cast<mlir::IntegerAttr>(value);
  return number && number.getType().isInteger(64) && number.getInt() >= 0;
}
bool isTime(Attribute value) {
  auto number = llvm::dyn_cast<mlir::FloatAttr>(value);
  return number && number.getType().isF64();
}

bool isEarlyStart(Attribute value) {
  auto text = llvm::dyn_cast<mlir::StringAttr>(value);
  return text && (text.getValue() == kAtEntry || text.getValue() == kInTemplate);
}

bool isWithoutPlan(Operation* op) {
  auto declaration = llvm::dyn_cast<DeclOp>(op);
  return declaration && !declaration.getPlan();
}

bool areOwnArguments(Attribute value) {
  auto texts = llvm::dyn_cast<mlir::ArrayAttr>(value);
  return texts && llvm::all_of(texts, [](Attribute text) {
           auto string = llvm::dyn_cast<mlir::StringAttr>(text);
           return string && parseOwnArgument(string.getValue());
         });
}

bool isOwnSource(Attribute value) {
  auto source = llvm::dyn_cast<mlir::DictionaryAttr>(value);
  return source && source.getAs<mlir::StringAttr>("source") &&
         source.getAs<mlir::StringAttr>("function") && source.getAs<mlir::IntegerAttr>("threads") &&
         source.get("arguments") && areOwnArguments(source.get("arguments"));
}

bool areOwnTraits(Attribute value) {
  auto text = llvm::dyn_cast<mlir::StringAttr>(value);
  return text && llvm::all_of(llvm::split(text.getValue(), ' '), isOwnTrait);
}

bool isParts(Attribute value) {
  auto names = llvm::dyn_cast<mlir::ArrayAttr>(value);
  return names && names.size() > 1 && llvm::all_of(names, llvm::IsaPred<mlir::FlatSymbolRefAttr>);
}

bool isRows(Attribute value) {
  auto rows = llvm::dyn_cast<mlir::ArrayAttr>(value);
  return rows && !rows.empty() && llvm::all_of(rows, llvm::IsaPred<RowAttr>);
}

bool isAdvice(Attribute value) {
  auto texts = llvm::dyn_cast<mlir::ArrayAttr>(value);
  return texts && texts.size() == 2 && llvm::all_of(texts, llvm::IsaPred<mlir::StringAttr>);
}

bool areAlternatives(Attribute value) {
  auto rows = llvm::dyn_cast<mlir::ArrayAttr>(value);
  return rows && llvm::all_of(rows, isAlternative);
}

template <typename Kind>
bool isA(Attribute value) {
  return llvm::isa<Kind>(value);
}

/// An attribute that passes record: what it is, and on which ops it may stand.
struct Recorded {
  llvm::StringLiteral name, place;
  bool (*mayStandOn)(Operation*);
  llvm::StringLiteral kind;
  bool (*isOfKind)(Attribute);
};

constexpr Recorded kRecorded[] = {
    {kCostUs, "a statement", isStatement, "an f64", isTime},
    {kChoice, "a launch or a call", isCall, "a string", isA<mlir::StringAttr>},
    {kRule, "a launch or a call", isCall, "a string", isA<mlir::StringAttr>},
    {kAlternatives, "a launch or a call", isCall, "an array of {kernel, said, us}",
     areAlternatives},
    {kOnHost, "a launch or a call", isCall, "a unit attribute", isA<mlir::UnitAttr>},
    {kSizeAdvice, "a kernel.program", isProgram, "an array of two strings", isAdvice},
    {kOutsideGraph, "a kernel.decl", isDeclaration, "a unit attribute", isA<mlir::UnitAttr>},
    {kExclusiveHandle, "a kernel.decl with a plan", hasPlan, "a unit attribute",
     isA<mlir::UnitAttr>},
    {kMadeBy, "a kernel.prepared", isPreparedBuffer, "a string", isA<mlir::StringAttr>},
    {kOwnArguments, "a kernel.decl without a plan", isWithoutPlan, "an array of arguments",
     areOwnArguments},
    {kOwnSource, "a kernel.func", isKernel, "a source with function, threads and arguments",
     isOwnSource},
    {kOwnTraits, "a kernel.decl without a plan", isWithoutPlan, "status, stream, device or outside",
     areOwnTraits},
    {kEveryBranch, "the module", isModule, "a unit attribute", isA<mlir::UnitAttr>},
    {kEarlyStart, "a kernel.func", isKernel, "\"at_entry\" or \"in_template\"", isEarlyStart},
    {kParts, "a kernel.func", isKernel, "an array of two or more symbols", isParts},
    {kRows, "a kernel.func", isKernel, "an array of #kernel.row", isRows},
    {kRunsOnAttr, "a kernel.decl", isDeclaration, "a string", isA<mlir::StringAttr>},
    {kBlocksAttr, "a kernel.func", isKernel, "a #kernel.extent", isA<ExtentAttr>},
    {kThreadsAttr, "a kernel.func", isKernel, "an i64 of at least 0", isWhole},
    {kClusterAttr, "a kernel.func", isKernel, "an i64 of at least 0", isWhole},
    {kResidentAttr, "a kernel.func", isKernel, "an i64 of at least 0", isWhole},
    {kSharedAttr, "a kernel.func", isKernel, "an i64 of at least 0", isWhole},
    {kStepAttr, "a statement", isStatement, "an i64 of at least 0", isWhole},
    {kAfterAttr, "a statement", isStatement, "an array<i64>", isA<mlir::DenseI64ArrayAttr>},
    {kBranchAttr, "a statement", isStatement, "an i64 of at least 0", isWhole},
};

/// The known name that differs from `name` in the fewest letters.
llvm::StringRef nearestTo(llvm::StringRef name) {
  return llvm::min_element(kRecorded,
                           [&](const Recorded& a, const Recorded& b) {
                             return name.edit_distance(a.name) < name.edit_distance(b.name);
                           })
      ->name;
}

}  // namespace

llvm::LogicalResult KernelDialect::verifyOperationAttribute(Operation* op,
                                                            NamedAttribute attribute) {
  const llvm::StringRef name = attribute.getName().getValue();
  const auto* known =
      llvm::find_if(kRecorded, [&](const Recorded& recorded) { return recorded.name == name; });
  if (known == std::end(kRecorded)) {
    return op->emitError() << "attribute '" << name << "' of '" << op->getName()
                           << "' is not one that passes record; the nearest is '" << nearestTo(name)
                           << "' (recorded_c1)";
  }
  if (!known->mayStandOn(op)) {
    return op->emitError() << "attribute '" << name << "' stands on '" << op->getName()
                           << "', expected on " << known->place << " (recorded_c2)";
  }
  if (!known->isOfKind(attribute.getValue())) {
    return op->emitError() << "attribute '" << name << "' of '" << op->getName() << "' is "
                           << attribute.getValue() << ", expected " << known->kind
                           << " (recorded_c3)";
  }
  return llvm::success();
}

llvm::LogicalResult KernelDialect::verifyRegionArgAttribute(Operation* op, unsigned, unsigned index,
                                                            NamedAttribute attribute) {
  return op->emitError() << "attribute '" << attribute.getName().getValue()
                         << "' stands on argument #" << index << " of '" << op->getName()
                         << "', expected on no argument (recorded_c4)";
}

llvm::LogicalResult KernelDialect::verifyRegionResultAttribute(Operation* op, unsigned,
                                                               unsigned index,
                                                               NamedAttribute attribute) {
  return op->emitError() << "attribute '" << attribute.getName().getValue()
                         << "' stands on result #" << index << " of '" << op->getName()
                         << "', expected on no result (recorded_c4)";
}

}  // namespace straightline::kernel
