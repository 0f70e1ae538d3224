// SPDX-License-Identifier: Apache-2.0
#include "dialect/op/recorded.h"

#include <algorithm>

#include "dialect/alternative.h"
#include "dialect/op/size_advice.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/InterleavedRange.h"

namespace straightline::op {

using mlir::Attribute;
using mlir::FunctionOpInterface;
using mlir::ModuleOp;
using mlir::NamedAttribute;
using mlir::Operation;
using mlir::StringAttr;
using mlir::UnitAttr;

namespace {

constexpr llvm::StringLiteral kKernel = "op.kernel", kLayout = "op.layout", kStrides = "op.strides",
                              kLiveParameters = "op.live_parameters", kName = "op.name",
                              kTie = "op.tie", kAlias = "op.alias", kTarget = "op.target",
                              kOptions = "op.options", kResidentBytes = "op.resident_bytes",
                              kRefusals = "op.refusals", kSmallImages = "op.small_images";

constexpr llvm::StringLiteral kState = "state:", kInput = "input:";

}  // namespace

//===- on an op -------------------------------------------------------------------------------===//

bool isPrepared(Operation* op) { return op->hasAttr(kPrepare); }
void setPrepared(Operation* op) { op->setAttr(kPrepare, UnitAttr::get(op->getContext())); }
void clearPrepared(Operation* op) { op->removeAttr(kPrepare); }

KernelChoiceAttr kernelChoiceOf(Operation* op) {
  return op->getAttrOfType<KernelChoiceAttr>(kKernel);
}
void setKernelChoice(Operation* op, KernelChoiceAttr choice) { op->setAttr(kKernel, choice); }

llvm::SmallVector<SmallImagesAttr> smallImagesOf(Operation* op) {
  const auto all = op->getAttrOfType<mlir::ArrayAttr>(kSmallImages);
  return all ? llvm::SmallVector<SmallImagesAttr>(all.getAsRange<SmallImagesAttr>())
             : llvm::SmallVector<SmallImagesAttr>();
}
void setSmallImages(Operation* op, llvm::ArrayRef<SmallImagesAttr> small) {
  if (small.empty()) {
    op->removeAttr(kSmallImages);
    return;
  }
  op->setAttr(kSmallImages,
              mlir::ArrayAttr::get(op->getContext(),
                                   llvm::SmallVector<Attribute>(small.begin(), small.end())));
}

mlir::ArrayAttr refusalsOf(Operation* op) { return op->getAttrOfType<mlir::ArrayAttr>(kRefusals); }
void addRefusals(Operation* op, mlir::ArrayAttr refusals) {
  const mlir::ArrayAttr before = refusalsOf(op);
  llvm::SmallVector<Attribute> all;
  if (before) {
    llvm::append_range(all, before);
  }
  for (Attribute each : refusals) {
    if (!llvm::is_contained(all, each)) {  // else of a pass that has run before
      all.push_back(each);
    }
  }
  op->setAttr(kRefusals, mlir::ArrayAttr::get(op->getContext(), all));
}

LayoutAttr layoutOf(Operation* op) { return op->getAttrOfType<LayoutAttr>(kLayout); }
void setLayout(Operation* op, llvm::ArrayRef<int64_t> order, llvm::ArrayRef<int64_t> border) {
  const bool none = llvm::all_of(border, [](int64_t width) { return width == 0; });
  op->setAttr(kLayout,
              LayoutAttr::get(op->getContext(), order, none ? llvm::ArrayRef<int64_t>() : border));
}

DimsAttr stridesOf(Operation* op) { return op->getAttrOfType<DimsAttr>(kStrides); }
DimsAttr stridesOfArgument(FunctionOpInterface function, unsigned argument) {
  return function.getArgAttrOfType<DimsAttr>(argument, kStrides);
}
DimsAttr stridesOfResult(FunctionOpInterface function, unsigned result) {
  return function.getResultAttrOfType<DimsAttr>(result, kStrides);
}
void setStrides(Operation* op, DimsAttr strides) { op->setAttr(kStrides, strides); }
void setStridesOfArgument(FunctionOpInterface function, unsigned argument, Attribute strides) {
  function.setArgAttr(argument, kStrides, strides);
}
void setStridesOfResult(FunctionOpInterface function, unsigned result, DimsAttr strides) {
  function.setResultAttr(result, StringAttr::get(function.getContext(), kStrides), strides);
}

//===- on a function --------------------------------------------------------------------------===//

bool isSizeAdvice(Attribute value) {
  auto texts = llvm::dyn_cast<mlir::ArrayAttr>(value);
  return texts && texts.size() == 2 && llvm::all_of(texts, llvm::IsaPred<StringAttr>);
}
mlir::ArrayAttr sizeAdviceOf(FunctionOpInterface function) {
  return function->getAttrOfType<mlir::ArrayAttr>(kSizeAdviceAttr);
}
void setSizeAdvice(FunctionOpInterface function, Attribute advice) {
  function->setAttr(kSizeAdviceAttr, advice);
}

bool hasLiveParameters(FunctionOpInterface function) { return function->hasAttr(kLiveParameters); }
void setLiveParameters(FunctionOpInterface function) {
  function->setAttr(kLiveParameters, UnitAttr::get(function.getContext()));
}

StringAttr nameOfArgument(FunctionOpInterface function, unsigned argument) {
  return function.getArgAttrOfType<StringAttr>(argument, kName);
}
StringAttr nameOfResult(FunctionOpInterface function, unsigned result) {
  return function.getResultAttrOfType<StringAttr>(result, kName);
}
void setNameOfArgument(FunctionOpInterface function, unsigned argument, llvm::StringRef name) {
  function.setArgAttr(argument, kName, StringAttr::get(function.getContext(), name));
}
void setNameOfResult(FunctionOpInterface function, unsigned result, llvm::StringRef name) {
  mlir::MLIRContext* context = function.getContext();
  function.setResultAttr(result, StringAttr::get(context, kName), StringAttr::get(context, name));
}

std::optional<Tie> tieOf(FunctionOpInterface function, unsigned result) {
  auto tie = function.getResultAttrOfType<StringAttr>(result, kTie);
  if (!tie) {
    return std::nullopt;
  }
  const llvm::StringRef text = tie.getValue();
  return Tie{text.starts_with(kState), text.split(':').second, text};
}
void setTie(FunctionOpInterface function, unsigned result, llvm::StringRef text) {
  mlir::MLIRContext* context = function.getContext();
  function.setResultAttr(result, StringAttr::get(context, kTie), StringAttr::get(context, text));
}

bool isAliasOfTied(FunctionOpInterface function, unsigned result) {
  return static_cast<bool>(function.getResultAttr(result, kAlias));
}
llvm::StringRef aliasedTie(FunctionOpInterface function, unsigned result) {
  const auto tie = function.getResultAttrOfType<StringAttr>(result, kAlias);
  return tie ? tie.getValue() : llvm::StringRef();
}
void setAliasOfTied(FunctionOpInterface function, unsigned result, llvm::StringRef tie) {
  mlir::MLIRContext* context = function.getContext();
  function.setResultAttr(result, StringAttr::get(context, kAlias), StringAttr::get(context, tie));
}

//===- on a module ----------------------------------------------------------------------------===//

Attribute targetOf(ModuleOp module) { return module->getAttr(kTarget); }
void setTarget(ModuleOp module, Attribute target) { module->setAttr(kTarget, target); }

OptionsAttr optionsOf(ModuleOp module) {
  auto options = module->getAttrOfType<OptionsAttr>(kOptions);
  return options ? options : OptionsAttr::get(module.getContext(), {}, {}, {}, {});
}
void setOptions(ModuleOp module, OptionsAttr options) {
  if (options == OptionsAttr::get(module.getContext(), {}, {}, {}, {})) {
    module->removeAttr(kOptions);
  } else {
    module->setAttr(kOptions, options);
  }
}

std::optional<int64_t> residentBytesOf(ModuleOp module) {
  auto bytes = module->getAttrOfType<mlir::IntegerAttr>(kResidentBytes);
  return bytes ? std::optional(bytes.getInt()) : std::nullopt;
}
void setResidentBytes(ModuleOp module, int64_t bytes) {
  module->setAttr(kResidentBytes, mlir::Builder(module.getContext()).getI64IntegerAttr(bytes));
}

std::optional<llvm::SmallVector<MeasurementAttr>> candidatesOf(ModuleOp module) {
  auto rows = module->getAttrOfType<mlir::ArrayAttr>(kCandidates);
  return rows ? std::optional(llvm::to_vector(rows.getAsRange<MeasurementAttr>())) : std::nullopt;
}
void setCandidates(ModuleOp module, llvm::ArrayRef<MeasurementAttr> measurements) {
  const llvm::SmallVector<Attribute> rows(measurements.begin(), measurements.end());
  module->setAttr(kCandidates, mlir::ArrayAttr::get(module.getContext(), rows));
}

void clearOpLevel(ModuleOp module) {
  module->removeAttr(kTarget);
  module->removeAttr(kOptions);
}

//===- attributes -----------------------------------------------------------------------------===//

KernelChoiceAttr KernelChoiceAttr::withKey(llvm::StringRef key) const {
  return get(getContext(), StringAttr::get(getContext(), key), getEstimated(), getKernel(),
             getVariant(), getAlone(), getWhy(), getTunables(), getCostUs(), getAlternatives());
}

KernelChoiceAttr KernelChoiceAttr::withWhy(llvm::StringRef why) const {
  return get(getContext(), getKey(), getEstimated(), getKernel(), getVariant(), getAlone(),
             StringAttr::get(getContext(), why), getTunables(), getCostUs(), getAlternatives());
}

KernelChoiceAttr KernelChoiceAttr::withKernel(llvm::StringRef kernel, int64_t variant,
                                              llvm::StringRef why) const {
  return get(getContext(), getKey(), getEstimated(), StringAttr::get(getContext(), kernel), variant,
             getAlone(), StringAttr::get(getContext(), why), getTunables(), getCostUs(),
             getAlternatives());
}

KernelChoiceAttr KernelChoiceAttr::withMeasured(llvm::StringRef kernel, int64_t variant,
                                                std::optional<bool> alone,
                                                llvm::StringRef why) const {
  mlir::Builder builder(getContext());
  return get(getContext(), getKey(), estimatedKernel(), builder.getStringAttr(kernel), variant,
             alone ? builder.getBoolAttr(*alone) : mlir::BoolAttr(), builder.getStringAttr(why),
             getTunables(), getCostUs(), getAlternatives());
}

KernelChoiceAttr KernelChoiceAttr::withAlternatives(mlir::ArrayAttr alternatives) const {
  return get(getContext(), getKey(), getEstimated(), getKernel(), getVariant(), getAlone(),
             getWhy(), getTunables(), getCostUs(), alternatives);
}

KernelChoiceAttr KernelChoiceAttr::withTunables(mlir::DictionaryAttr tunables,
                                                double costUs) const {
  return get(getContext(), getKey(), getEstimated(), getKernel(), getVariant(), getAlone(),
             getWhy(), tunables, mlir::Builder(getContext()).getF64FloatAttr(costUs),
             getAlternatives());
}

OptionsAttr OptionsAttr::withTf32(llvm::StringRef tf32) const {
  return get(getContext(), StringAttr::get(getContext(), tf32), getLaunch(), getRoutes(),
             getChoices());
}

OptionsAttr OptionsAttr::withLaunch(llvm::StringRef launch) const {
  return get(getContext(), getTf32(), StringAttr::get(getContext(), launch), getRoutes(),
             getChoices());
}

OptionsAttr OptionsAttr::withRoutes(mlir::ArrayAttr routes) const {
  return get(getContext(), getTf32(), getLaunch(), routes, getChoices());
}

OptionsAttr OptionsAttr::withChoices(mlir::DictionaryAttr choices) const {
  return get(getContext(), getTf32(), getLaunch(), getRoutes(), choices);
}

llvm::LogicalResult LayoutAttr::verify(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                       llvm::ArrayRef<int64_t> order,
                                       llvm::ArrayRef<int64_t> border) {
  const auto rank = static_cast<int64_t>(order.size());
  llvm::SmallVector<int64_t> sorted(order);
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, rank))) {
    return emitError() << "layout: order [" << llvm::interleaved(order).str()
                       << "] is no permutation of " << rank << " dims (layout_c1)";
  }
  if (!border.empty() && (border.size() != 2 * order.size() ||
                          llvm::any_of(border, [](int64_t width) { return width < 0; }))) {
    return emitError() << "layout: border [" << llvm::interleaved(border).str() << "], expected "
                       << 2 * rank << " numbers, none negative (layout_c2)";
  }
  return llvm::success();
}

llvm::LogicalResult SmallImagesAttr::verify(
    llvm::function_ref<mlir::InFlightDiagnostic()> emitError, StringAttr, StringAttr, int64_t below,
    int64_t images, int64_t height, int64_t width) {
  if (std::min({below, images, height, width}) < 1) {
    return emitError() << "small_images: below = " << below << " for a result of " << images
                       << " x " << height << " x " << width
                       << ", expected positive numbers (small_images_c1)";
  }
  return llvm::success();
}

llvm::LogicalResult OptionsAttr::verify(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                        StringAttr tf32, StringAttr launch, mlir::ArrayAttr routes,
                                        mlir::DictionaryAttr choices) {
  if (tf32 && !llvm::StringSwitch<bool>(tf32)
                   .Cases({"convolution", "matmul", "convolution+matmul"}, true)
                   .Default(false)) {
    return emitError() << "options: tf32 is " << tf32
                       << ", expected convolution, matmul or convolution+matmul (options_c1)";
  }
  if (launch && launch.getValue() != "stream") {
    return emitError() << "options: launch is " << launch << ", expected \"stream\" (options_c2)";
  }
  if (routes && !llvm::all_of(routes, llvm::IsaPred<RouteAttr>)) {
    return emitError() << "options: routes are " << routes
                       << ", expected a list of #op.route (options_c3)";
  }
  if (choices && !llvm::all_of(choices, [](NamedAttribute choice) {
        return llvm::isa<StringAttr>(choice.getValue());
      })) {
    return emitError() << "options: choices are " << choices
                       << ", expected strings by key (options_c4)";
  }
  return llvm::success();
}

llvm::LogicalResult RouteAttr::verify(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                      StringAttr, mlir::ArrayAttr targets, StringAttr, StringAttr) {
  if (targets.empty() || !llvm::all_of(targets, llvm::IsaPred<StringAttr>)) {
    return emitError() << "route: targets are " << targets
                       << ", expected one or more names (route_c1)";
  }
  return llvm::success();
}

llvm::LogicalResult MeasurementAttr::verify(
    llvm::function_ref<mlir::InFlightDiagnostic()> emitError, StringAttr, StringAttr,
    mlir::ArrayAttr candidates, mlir::DenseF64ArrayAttr atEdgeUs) {
  if (static_cast<int64_t>(candidates.size()) != atEdgeUs.size() ||
      !llvm::all_of(candidates, llvm::IsaPred<StringAttr>)) {
    return emitError() << "measurement: candidates " << candidates << " with " << atEdgeUs.size()
                       << " at_edge_us, expected one for each string (measurement_c1)";
  }
  return llvm::success();
}

//===- where they may stand -------------------------------------------------------------------===//

namespace {

/// What an attribute was called or written as before it got a type; empty: it is none of those.
llvm::StringRef writtenNow(llvm::StringRef name) {
  return llvm::StringSwitch<llvm::StringRef>(name)
      .Case("op.why", "op.kernel = #op.kernel_choice<kernel, why>")
      .Case("op.choice", "op.kernel = #op.kernel_choice<key, kernel, why>")
      .Case("op.estimated", "op.kernel = #op.kernel_choice<estimated, kernel, why>")
      .Case("op.variant", "op.kernel = #op.kernel_choice<kernel, variant, why>")
      .Case("op.alone", "op.kernel = #op.kernel_choice<kernel, alone, why>")
      .Case("op.tune", "op.kernel = #op.kernel_choice<kernel, why, tunables>")
      .Case("op.cost_us", "op.kernel = #op.kernel_choice<kernel, why, cost_us>")
      .Case("op.routes", "op.options = #op.options<routes>")
      .Case("op.choices", "op.options = #op.options<choices>")
      .Case("op.tf32", "op.options = #op.options<tf32>")
      .Case("op.launch", "op.options = #op.options<launch>")
      .Default("");
}

/// What `name` must be and where it may stand, in words; empty where there is no such attribute.
llvm::StringRef expectedOf(llvm::StringRef name) {
  return llvm::StringSwitch<llvm::StringRef>(name)
      .Case(kPrepare, "a unit attribute")
      .Case(kKernel, "#op.kernel_choice on an op.fusion or op.external")
      .Case(kSmallImages, "a list of #op.small_images by growing `below` on an op.fusion")
      .Case(kRefusals, "an array of {kernel, said, op, us} on an op of this dialect")
      .Case(kLayout, "#op.layout with an entry a dim on an op with one result")
      .Case(kStrides, "#op.dims on an op.parameter or op.state")
      .Case(kLiveParameters, "a unit attribute of a function")
      .Case(kSizeAdviceAttr, "an array of two strings of a function")
      .Case(kTarget, "#kernel.target on the module")
      .Case(kOptions, "#op.options on the module")
      .Case(kResidentBytes, "an i64 on the module")
      .Case(kCandidates, "an array of #op.measurement on the module")
      .Default("");
}

bool isLayoutOf(Operation* op, Attribute value) {
  auto layout = llvm::dyn_cast<LayoutAttr>(value);
  auto type = op->getNumResults() == 1
                  ? llvm::dyn_cast<mlir::RankedTensorType>(op->getResult(0).getType())
                  : mlir::RankedTensorType();
  return layout && type && type.getRank() == static_cast<int64_t>(layout.getOrder().size());
}

bool areRefusals(Attribute value) {
  auto rows = llvm::dyn_cast<mlir::ArrayAttr>(value);
  return rows && llvm::all_of(rows, [](Attribute each) {
           return isAlternative(each) &&
                  llvm::cast<mlir::DictionaryAttr>(each).getAs<StringAttr>("op");
         });
}

/// One or more, by growing `below`.
bool areSmallImages(Attribute value) {
  auto all = llvm::dyn_cast<mlir::ArrayAttr>(value);
  if (!all || all.empty() || !llvm::all_of(all, llvm::IsaPred<SmallImagesAttr>)) {
    return false;
  }
  return llvm::is_sorted(all, [](Attribute a, Attribute b) {
    return llvm::cast<SmallImagesAttr>(a).getBelow() <= llvm::cast<SmallImagesAttr>(b).getBelow();
  });
}

bool isAsExpected(Operation* op, llvm::StringRef name, Attribute value) {
  if (name == kPrepare) {
    return llvm::isa<UnitAttr>(value);
  }
  if (name == kKernel) {
    return llvm::isa<FusionOp, ExternalOp>(op) && llvm::isa<KernelChoiceAttr>(value);
  }
  if (name == kSmallImages) {
    return llvm::isa<FusionOp>(op) && areSmallImages(value);
  }
  if (name == kRefusals) {
    return llvm::isa<OpDialect>(op->getDialect()) && areRefusals(value);
  }
  if (name == kLayout) {
    return isLayoutOf(op, value);
  }
  if (name == kStrides) {
    return llvm::isa<ParameterOp, StateOp>(op) && llvm::isa<DimsAttr>(value);
  }
  if (name == kLiveParameters) {
    return llvm::isa<FunctionOpInterface>(op) && llvm::isa<UnitAttr>(value);
  }
  if (name == kSizeAdviceAttr) {
    return llvm::isa<FunctionOpInterface>(op) && isSizeAdvice(value);
  }
  if (!llvm::isa<ModuleOp>(op)) {
    return false;
  }
  if (name == kTarget) {  // of a dialect that this one does not know
    return value.getAbstractAttribute().getName() == "kernel.target";
  }
  if (name == kResidentBytes) {
    auto bytes = llvm::dyn_cast<mlir::IntegerAttr>(value);
    return bytes && bytes.getType().isInteger(64);
  }
  if (name == kCandidates) {
    auto rows = llvm::dyn_cast<mlir::ArrayAttr>(value);
    return rows && llvm::all_of(rows, llvm::IsaPred<MeasurementAttr>);
  }
  return llvm::isa<OptionsAttr>(value);
}

}  // namespace

llvm::LogicalResult OpDialect::verifyOperationAttribute(Operation* operation,
                                                        NamedAttribute attribute) {
  const llvm::StringRef name = attribute.getName().getValue();
  if (const llvm::StringRef now = writtenNow(name); !now.empty()) {
    return operation->emitError() << "attribute '" << name << "' is now part of " << now
                                  << " (op_c1)";
  }
  const llvm::StringRef expected = expectedOf(name);
  if (expected.empty()) {
    return operation->emitError()
           << "attribute '" << name
           << "' is not one of an operation's: op.prepare, op.kernel, op.layout, op.strides, "
              "op.refusals, op.live_parameters, op.size_advice, op.target, op.options, "
              "op.resident_bytes and "
              "op.candidates are "
              "(op_c1)";
  }
  if (!isAsExpected(operation, name, attribute.getValue())) {
    return operation->emitError() << "attribute '" << name << "' of '" << operation->getName()
                                  << "' is " << attribute.getValue() << ", expected " << expected
                                  << " (op_c4)";
  }
  return llvm::success();
}

llvm::LogicalResult OpDialect::verifyRegionArgAttribute(Operation* operation, unsigned,
                                                        unsigned index, NamedAttribute attribute) {
  const llvm::StringRef name = attribute.getName().getValue();
  const Attribute value = attribute.getValue();
  if ((name == kName && llvm::isa<StringAttr>(value)) ||
      (name == kStrides && llvm::isa<DimsAttr>(value))) {
    return llvm::success();
  }
  return operation->emitError() << "attribute '" << name << "' of argument #" << index
                                << " is neither 'op.name' with a string nor 'op.strides' with "
                                   "#op.dims (op_c2)";
}

llvm::LogicalResult OpDialect::verifyRegionResultAttribute(Operation* operation, unsigned,
                                                           unsigned index,
                                                           NamedAttribute attribute) {
  const llvm::StringRef name = attribute.getName().getValue();
  const Attribute value = attribute.getValue();
  auto text = llvm::dyn_cast<StringAttr>(value);
  const bool isTie =
      text && (text.getValue().starts_with(kInput) || text.getValue().starts_with(kState));
  if ((name == kName && text) || (name == kTie && isTie) ||
      (name == kAlias && (llvm::isa<UnitAttr>(value) || isTie)) ||
      (name == kStrides && llvm::isa<DimsAttr>(value))) {
    return llvm::success();
  }
  return operation->emitError()
         << "attribute '" << name << "' of result #" << index
         << " is neither 'op.name' nor 'op.tie' with \"input:NAME\" or \"state:NAME\" nor "
            "'op.alias' (op_c3)";
}

}  // namespace straightline::op
