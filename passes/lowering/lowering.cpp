// SPDX-License-Identifier: Apache-2.0
#include "passes/lowering/lowering.h"

#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/contraction_problem.h"
#include "passes/kernel_choice.h"
#include "passes/lowering/loops.h"

namespace straightline::lowering {

using mlir::AffineExpr;
using mlir::Attribute;
using mlir::failure;
using mlir::Location;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::success;
using mlir::Value;

namespace {

/// Stands for "no upper bound" in comparisons of sizes.
constexpr int64_t kUnbounded = int64_t{1} << 40;

/// Inserts before the terminator of a region that may not have one yet.
void toEnd(mlir::OpBuilder& builder, mlir::Block* block) { builder.setInsertionPointToEnd(block); }

bool isAlias(Value tensor) {
  while (Operation* op = tensor.getDefiningOp()) {
    if (!op->hasTrait<op::View>()) {
      return llvm::isa<op::ParameterOp, op::StateOp>(op);
    }
    tensor = op->getOperand(0);
  }
  return true;
}

}  // namespace

Lowering::Lowering(mlir::ModuleOp module, mlir::func::FuncOp function, kernel::TargetAttr target)
    : module_(module),
      function_(function),
      target_(target),
      context_(module.getContext()),
      builder_(context_) {
  for (op::SymbolOp symbol : module.getOps<op::SymbolOp>()) {
    names_.push_back(symbol.getSymNameAttr());
    bounds_[symbol.getSymNameAttr()] = {static_cast<int64_t>(symbol.getMin()),
                                        static_cast<int64_t>(symbol.getMax())};
  }
  llvm::sort(names_,
             [](mlir::StringAttr a, mlir::StringAttr b) { return a.getValue() < b.getValue(); });
}

// --- names and sizes -----------------------------------------------------------------------------

AffineExpr Lowering::rebased(AffineExpr expr, llvm::ArrayRef<mlir::StringAttr> from) {
  return symbolic::rebase(expr, from, names_);
}

Exprs Lowering::extentsOf(Value tensor) {
  symbolic::ExprList list = op::extentsOf(llvm::cast<mlir::RankedTensorType>(tensor.getType()));
  return llvm::map_to_vector(list.exprs,
                             [&](AffineExpr expr) { return rebased(expr, list.names); });
}

Exprs Lowering::extentsOf(kernel::BufferType type) {
  return llvm::map_to_vector(type.getExtents(),
                             [&](AffineExpr expr) { return rebased(expr, type.getNames()); });
}

Exprs Lowering::stridesOf(kernel::BufferType type) {
  return llvm::map_to_vector(type.getStrides(),
                             [&](AffineExpr expr) { return rebased(expr, type.getNames()); });
}

Exprs Lowering::rowMajor(const Exprs& extents) const {
  Exprs strides(extents.size(), constant(1));
  for (int64_t dim = static_cast<int64_t>(extents.size()) - 2; dim >= 0; --dim) {
    strides[dim] = strides[dim + 1] * extents[dim + 1];
  }
  return strides;
}

AffineExpr Lowering::product(llvm::ArrayRef<AffineExpr> extents) const {
  AffineExpr result = constant(1);
  for (AffineExpr extent : extents) {
    result = result * extent;
  }
  return result;
}

int64_t Lowering::upperBound(AffineExpr expr) const {
  std::optional<symbolic::Bounds> bounds = symbolic::bounds(expr, names_, bounds_);
  return bounds ? std::min(bounds->highest, kUnbounded) : kUnbounded;
}

Attribute Lowering::number(int64_t value) const {
  return mlir::IntegerAttr::get(mlir::IntegerType::get(context_, 64), value);
}

Attribute Lowering::number(AffineExpr expr) const {
  if (std::optional<int64_t> value = symbolic::constantValue(expr)) {
    return number(*value);
  }
  return kernel::ExtentAttr::get(context_, names_, expr);
}

Attribute Lowering::numbers(llvm::ArrayRef<AffineExpr> exprs) const {
  return mlir::ArrayAttr::get(
      context_, llvm::map_to_vector(exprs, [&](AffineExpr expr) { return number(expr); }));
}

mlir::NamedAttribute Lowering::named(llvm::StringRef key, Attribute value) const {
  return {mlir::StringAttr::get(context_, key), value};
}

bool Lowering::isStatic(const Exprs& exprs) const {
  return llvm::all_of(exprs,
                      [](AffineExpr expr) { return symbolic::constantValue(expr).has_value(); });
}

// --- statements ----------------------------------------------------------------------------------

/// Microseconds that a team pays for sharing one kernel: a barrier, and results that lie in another
/// core's cache (measured with two cores: sharing kernels of 0.6 us and more never lost).
static double sharingUs(double threads) { return 0.25 + 0.025 * threads; }

kernel::LaunchOp Lowering::launch(Location loc, KernelSpec& spec) {
  constexpr llvm::StringLiteral kNative = "native.";
  if (target_.getBackend() != "cpu" && llvm::StringRef(spec.why).starts_with(kNative)) {
    // the same family there
    spec.why =
        (target_.getBackend() + "." + llvm::StringRef(spec.why).drop_front(kNative.size())).str();
  }
  auto types = [](llvm::ArrayRef<Value> values) {
    return llvm::map_to_vector(values, [](Value value) { return value.getType(); });
  };
  llvm::SmallVector<llvm::StringRef> regionNames;
  for (const Body& body : spec.bodies) {
    regionNames.push_back(body.name);
  }
  mlir::OpBuilder moduleBuilder(context_);
  moduleBuilder.setInsertionPointToEnd(module_.getBody());
  auto schedule = kernel::ScheduleAttr::get(context_, moduleBuilder.getStringAttr(spec.family),
                                            spec.shape, spec.tune);
  // The location says which ops the kernel was made for; it is not part of the kernel's identity.
  auto function = kernel::FuncOp::create(
      moduleBuilder, moduleBuilder.getUnknownLoc(), "kernel", types(spec.inputs),
      types(spec.outputs), types(spec.workspace), schedule, regionNames, spec.ties, spec.canFail);
  if (spec.updates) {
    const llvm::SmallVector<llvm::StringRef> roles(spec.outputs.size(), "readwrite");
    function.setOutputRolesAttr(moduleBuilder.getStrArrayAttr(roles));
  }
  for (auto [body, region] : llvm::zip(spec.bodies, function.getBodies())) {
    mlir::Block* block = region.empty() ? &region.emplaceBlock() : &region.front();
    for (mlir::Type type : body.arguments) {
      block->addArgument(type, function.getLoc());
    }
    mlir::OpBuilder bodyBuilder = mlir::OpBuilder::atBlockEnd(block);
    llvm::SmallVector<Value> results = body.build(bodyBuilder, block->getArguments());
    kernel::YieldOp::create(bodyBuilder, function.getLoc(), results);
  }
  // Integer division is checked, so the kernel can fail.
  function.walk([&](Operation* op) {
    if (llvm::isa<mlir::arith::DivSIOp, mlir::arith::DivUIOp, mlir::arith::FloorDivSIOp,
                  mlir::arith::CeilDivSIOp, mlir::arith::RemSIOp, mlir::arith::RemUIOp>(op)) {
      function.setCanFail(true);
    }
  });
  std::string text;
  llvm::raw_string_ostream(text) << function;
  auto [found, inserted] = functions_.try_emplace(text, function);
  if (inserted) {
    // A number behind a name may give one that another kernel has from the start (copy_2: a copy of
    // two elements).
    std::string name = spec.name;
    for (unsigned& count = usedNames_[spec.name]; !takenNames_.insert(name).second;) {
      name = spec.name + "_" + std::to_string(++count + 1);
    }
    function.setSymName(name);
  } else {
    function.erase();
    function = found->second;
  }
  const auto threads = static_cast<double>(target_.getThreads());
  const double sharedUs = spec.ownCost ? spec.costUs : spec.costUs / threads;
  const double aloneUs = sharedUs * threads;
  const bool shared =
      spec.wholeTeam && (spec.alone ? !*spec.alone : aloneUs - sharedUs >= sharingUs(threads));
  auto launch = kernel::LaunchOp::create(
      builder_, loc, mlir::FlatSymbolRefAttr::get(function.getSymNameAttr()), spec.inputs,
      spec.outputs, spec.workspace, mlir::FlatSymbolRefAttr::get(context_, teamQueue()),
      shared ? mlir::IntegerAttr() : builder_.getI64IntegerAttr(1), builder_.getStringAttr(spec.op),
      builder_.getStringAttr(spec.why));
  if (!spec.choice.empty()) {
    launch->setAttr("kernel.choice", builder_.getStringAttr(spec.choice));
  }
  if (spec.ownCost || target_.getBackend() == "cpu") {  // place-on-cuda estimates the others
    launch->setAttr("kernel.cost_us", builder_.getF64FloatAttr(shared ? sharedUs : aloneUs));
  }
  return launch;
}

/// A copy that exchanges rows and columns, of at most one batch of matrices, goes to the kernel for
/// that. Returns whether it was one.
static bool launchTranspose(Lowering& lowering, Location loc, Value from, Value to,
                            llvm::StringRef opName) {
  const kernel::BufferType in = Lowering::typeOf(from);
  const kernel::BufferType out = Lowering::typeOf(to);
  llvm::SmallVector<Loop> loops = makeLoops(lowering, lowering.extentsOf(out),
                                            {lowering.stridesOf(in), lowering.stridesOf(out)});
  orderLoops(lowering, loops, 1);
  loops = mergeLoops(std::move(loops));
  const mlir::AffineExpr one = lowering.constant(1);
  const mlir::AffineExpr zero = lowering.constant(0);
  if ((loops.size() != 2 && loops.size() != 3) || loops.back().strides[1] != one ||
      in.getElementType() != out.getElementType()) {
    return false;
  }
  const Loop rows = loops.pop_back_val();  // of the input: contiguous in the output
  auto* found = llvm::find_if(loops, [&](const Loop& loop) { return loop.strides[0] == one; });
  if (found == loops.end() || rows.strides[0] == zero) {
    return false;
  }
  const Loop cols = *found;
  loops.erase(found);
  const Loop batch = loops.empty() ? Loop{one, {zero, zero}} : loops[0];
  auto size = [](mlir::AffineExpr expr) {
    return symbolic::constantValue(expr).value_or(SL_DYNAMIC);
  };
  Problem problem("transpose", lowering.target());
  for (size_t operand = 0; operand < 2; ++operand) {
    problem.addOperand(
        in.getElementType(), {size(batch.extent), size(rows.extent), size(cols.extent)},
        {size(batch.strides[operand]), size(rows.strides[operand]), size(cols.strides[operand])},
        false);
  }
  problem.setInputs(1);
  problem.addAttribute("rows", size(rows.extent));
  problem.addAttribute("cols", size(cols.extent));
  const KernelChoice choice = chooseKernel(problem);
  if (!choice.kernel) {
    return false;
  }
  KernelSpec spec;
  spec.family = choice.kernel->family;
  spec.name = "transpose" + sizeName({batch, rows, cols});
  spec.op = opName.str();
  spec.why = choice.why;
  spec.costUs = choice.costUs;
  spec.ownCost = true;
  spec.tune = tuneAttributes(lowering.context(), *choice.kernel, problem);
  auto entry = [&](llvm::StringRef key, mlir::AffineExpr value) {
    return lowering.named(key, lowering.number(value));
  };
  spec.shape = {entry("batch", batch.extent),    entry("rows", rows.extent),
                entry("cols", cols.extent),      entry("inBatch", batch.strides[0]),
                entry("inRow", rows.strides[0]), entry("outBatch", batch.strides[1]),
                entry("outCol", cols.strides[1])};
  spec.inputs = {from};
  spec.outputs = {to};
  lowering.launch(loc, spec);
  return true;
}

void Lowering::copy(Location loc, Value from, Value to, llvm::StringRef opName,
                    llvm::StringRef why) {
  if (launchTranspose(*this, loc, from, to, opName)) {
    return;
  }
  const Exprs extents = extentsOf(typeOf(to));
  KernelSpec spec;
  spec.name = "copy";
  spec.inputs = {from};
  spec.outputs = {to};
  spec.op = opName.str();
  spec.why = why.str();
  mlir::Type scalar = scalarType(typeOf(to).getElementType());
  spec.bodies.push_back({"body", {scalar}, [](mlir::OpBuilder&, mlir::ValueRange arguments) {
                           return llvm::SmallVector<Value>{arguments[0]};
                         }});
  launchPointwise(loc, spec, extents, {stridesOf(typeOf(from)), stridesOf(typeOf(to))});
}

void Lowering::zeroBorder(Location loc, Value buffer) {
  kernel::BufferType bufferType = typeOf(buffer);
  KernelSpec spec;
  spec.name = "zero_border";
  spec.family = "zero_border";
  const Exprs extents = extentsOf(bufferType);
  Exprs low;
  Exprs high;
  for (size_t dim = 0; dim < extents.size(); ++dim) {
    low.push_back(constant(bufferType.getBorder()[2 * dim]));
    high.push_back(constant(bufferType.getBorder()[2 * dim + 1]));
  }
  spec.shape = {named("extent", numbers(extents)), named("stride", numbers(stridesOf(bufferType))),
                named("low", numbers(low)), named("high", numbers(high))};
  spec.tune = {named("rank", number(static_cast<int64_t>(extents.size())))};
  spec.outputs = {buffer};
  spec.op = "zero border";
  spec.why = "the convolution that reads this buffer relies on zeros around it";
  launch(loc, spec);
}

// --- the walk ------------------------------------------------------------------------------------

Exprs Lowering::argumentStrides(mlir::func::FuncOp function, unsigned i, const Exprs& extents) {
  if (auto dims = function.getArgAttrOfType<op::DimsAttr>(i, "op.strides")) {
    return llvm::map_to_vector(dims.getExprs(),
                               [&](AffineExpr expr) { return rebased(expr, dims.getNames()); });
  }
  return rowMajor(extents);
}

LogicalResult Lowering::declareProgram() {
  mlir::OpBuilder builder(context_);
  builder.setInsertionPointToEnd(module_.getBody());
  program_ =
      kernel::ProgramOp::create(builder, function_.getLoc(), function_.getSymName(), target_);
  toEnd(builder, program_.getBodyBlock());
  kernel::QueueOp::create(builder, function_.getLoc(), teamQueue(), "cpu");
  for (mlir::StringAttr name : names_) {
    const symbolic::Bounds bounds = bounds_[name];
    kernel::ExtentOp::create(builder, function_.getLoc(), name.getValue(), bounds.lowest,
                             bounds.highest);
  }
  prepare_ = kernel::PrepareOp::create(builder, function_.getLoc());
  llvm::SmallVector<std::string> inputNames;
  llvm::SmallVector<mlir::Type> inputTypes;
  for (auto [i, argument] : llvm::enumerate(function_.getArguments())) {
    auto name = function_.getArgAttrOfType<mlir::StringAttr>(i, "op.name");
    inputNames.push_back(name ? name.str() : "input" + std::to_string(i));
    const Exprs extents = extentsOf(argument);
    inputTypes.push_back(
        type(extents, llvm::cast<mlir::RankedTensorType>(argument.getType()).getElementType(),
             argumentStrides(function_, i, extents)));
  }
  llvm::SmallVector<std::string> outputNames;
  llvm::SmallVector<mlir::Type> outputTypes;
  llvm::DenseSet<Value> fresh;
  Operation* terminator = function_.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    if (function_.getResultAttr(i, "op.tie") || function_.getResultAttr(i, "op.alias") ||
        isAlias(value)) {
      continue;
    }
    if (!fresh.insert(value).second) {
      continue;  // the same value twice is one output
    }
    auto name = function_.getResultAttrOfType<mlir::StringAttr>(i, "op.name");
    outputOfResult_[i] = inputNames.size() + outputNames.size();
    outputNames.push_back(name ? name.str() : "output" + std::to_string(i));
    outputTypes.push_back(contiguousType(
        extentsOf(value), llvm::cast<mlir::RankedTensorType>(value.getType()).getElementType()));
  }
  llvm::SmallVector<llvm::StringRef> inputs(inputNames.begin(), inputNames.end());
  llvm::SmallVector<llvm::StringRef> outputs(outputNames.begin(), outputNames.end());
  llvm::SmallVector<bool> mutated(inputs.size(), false);
  for (unsigned i = 0; i < terminator->getNumOperands(); ++i) {
    auto tie = function_.getResultAttrOfType<mlir::StringAttr>(i, "op.tie");
    for (size_t j = 0; tie && j < inputs.size(); ++j) {
      mutated[j] = mutated[j] || tie.getValue() == "input:" + inputNames[j];
    }
  }
  run_ = kernel::RunOp::create(builder, function_.getLoc(), inputs, inputTypes, outputs,
                               outputTypes, mutated);
  for (auto [argument, buffer] : llvm::zip(function_.getArguments(), run_.getInputs())) {
    bind(argument, buffer);
  }
  return success();
}

LogicalResult Lowering::run() {
  if (failed(declareProgram())) {
    return failure();
  }
  mlir::Block& block = function_.getBody().front();
  inPrepare_ = true;
  toEnd(builder_, &prepare_.getBody().front());
  for (Operation& op : block.without_terminator()) {
    if (op.hasAttr("op.prepare") && failed(lowerOp(&op))) {
      return failure();
    }
  }
  inPrepare_ = false;
  toEnd(builder_, &run_.getBody().front());
  // Tied results: the storage that the new value is to be written to.
  Operation* terminator = block.getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    auto tie = function_.getResultAttrOfType<mlir::StringAttr>(i, "op.tie");
    if (!tie) {
      continue;
    }
    auto [kind, name] = tie.getValue().split(':');
    Value storage;
    if (kind == "input") {
      for (auto [j, argument] : llvm::enumerate(function_.getArguments())) {
        auto argumentName = function_.getArgAttrOfType<mlir::StringAttr>(j, "op.name");
        storage = argumentName && argumentName.getValue() == name ? bufferOf(argument) : storage;
      }
    } else {
      function_.walk([&, name = name](op::StateOp state) {
        storage = state.getName() == name ? bufferOf(state.getResult()) : storage;
      });
    }
    if (!storage) {
      return function_.emitError() << "result " << i << " is tied to '" << tie.getValue()
                                   << "', which the function does not have";
    }
    placeOfYield_[value] = storage;
  }
  if (failed(lowerBlock(block)) || failed(finishReturn())) {
    return failure();
  }
  demotePrepared();
  if (prepare_.getBody().front().empty()) {
    prepare_.erase();
  }
  function_.erase();
  for (op::SymbolOp symbol : llvm::make_early_inc_range(module_.getOps<op::SymbolOp>())) {
    symbol.erase();
  }
  return success();
}

/// Prepared storage that only prepare reads (a folded weight that was then packed) becomes scratch
/// of prepare.
void Lowering::demotePrepared() {
  for (auto prepared :
       llvm::make_early_inc_range(program_.getBodyBlock()->getOps<kernel::PreparedOp>())) {
    llvm::SmallVector<Value> worklist = {prepared.getBuffer()};
    bool readByRun = false;
    while (!worklist.empty()) {
      for (Operation* user : worklist.pop_back_val().getUsers()) {
        readByRun |= run_->isAncestor(user);
        if (auto view = llvm::dyn_cast<kernel::ViewOp>(user)) {
          worklist.push_back(view.getResult());
        }
      }
    }
    if (!readByRun) {
      builder_.setInsertionPointToStart(&prepare_.getBody().front());
      auto scratch =
          kernel::SlotOp::create(builder_, prepared.getLoc(), typeOf(prepared.getBuffer()));
      prepared.getBuffer().replaceAllUsesWith(scratch.getBuffer());
      prepared.erase();
    }
  }
}

/// The buffer of a view of tied storage, made anew over that storage: the value itself may have
/// been computed elsewhere and copied there. Null when `tensor` is no view of it, or one that the
/// strides of the storage do not allow.
Value Lowering::viewOfTied(Value tensor) {
  if (Value storage = placeOfYield_.lookup(tensor)) {
    buffers_[tensor] = storage;
    return storage;
  }
  Operation* op = tensor.getDefiningOp();
  Value base = op && op->hasTrait<op::View>() ? viewOfTied(op->getOperand(0)) : Value();
  if (!base) {
    return {};
  }
  if (Value made = buffers_.lookup(tensor); made && root(made) == root(base)) {
    return made;
  }
  buffers_.erase(tensor);
  if (failed(lowerView(op))) {
    return {};
  }
  Value made = bufferOf(tensor);
  return root(made) == root(base) ? made : Value();
}

LogicalResult Lowering::finishReturn() {
  Operation* terminator = function_.getBody().front().getTerminator();
  // Results with storage of their own first: a tied result may be copied over what they are views
  // of.
  llvm::SmallVector<Value> results(terminator->getNumOperands());
  llvm::DenseMap<Value, Value> returned;
  const auto outlives = [&](Value buffer) {
    Value owner = root(buffer);
    return llvm::is_contained(run_.getInputs(), owner) ||
           (owner.getDefiningOp() &&
            llvm::isa<kernel::ParameterOp, kernel::StateOp>(owner.getDefiningOp()));
  };
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    if (function_.getResultAttr(i, "op.tie") || function_.getResultAttr(i, "op.alias")) {
      continue;
    }
    Value buffer = bufferOf(value);
    if (isAlias(value) && outlives(buffer)) {
      results[i] = buffer;
      continue;
    }
    auto [seen, first] = returned.try_emplace(value, Value());
    if (first) {  // the same value twice is the same output twice
      seen->second = freshResult(i, buffer);
    }
    results[i] = seen->second;
  }
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    if (!function_.getResultAttr(i, "op.tie")) {
      continue;
    }
    Value buffer = bufferOf(value);
    Value storage = placeOfYield_.lookup(value);
    if (buffer != storage) {
      copy(terminator->getLoc(), buffer, storage, "copy",
           "the old value is still read after the new one is made");
    }
  }
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    if (function_.getResultAttr(i, "op.alias")) {
      Value made = viewOfTied(value);
      results[i] = made ? made : freshResult(i, bufferOf(value));
    }
  }
  llvm::erase(results, Value());  // tied results are not results for the user
  kernel::ReturnOp::create(builder_, terminator->getLoc(), results);
  return success();
}

/// Whether `buffer` has every element where `place` has it: both over one storage, from one offset
/// on, with strides that differ where there is one element only.
bool Lowering::isSamePlace(Value buffer, Value place) {
  const auto start = [&](Value value) -> std::pair<Value, Attribute> {
    auto view = value.getDefiningOp<kernel::ViewOp>();
    const Attribute zero = kernel::ExtentAttr::get(context_, 0);
    return view ? std::pair<Value, Attribute>(
                      view.getIndices().empty() ? view.getBase() : Value(view), view.getOffset())
                : std::pair<Value, Attribute>(value, zero);
  };
  if (start(buffer) != start(place) || extentsOf(typeOf(buffer)) != extentsOf(typeOf(place))) {
    return false;
  }
  const Exprs strides = stridesOf(typeOf(buffer)), wanted = stridesOf(typeOf(place));
  return llvm::all_of(llvm::enumerate(extentsOf(typeOf(place))), [&](auto extent) {
    return extent.value() == constant(1) || strides[extent.index()] == wanted[extent.index()];
  });
}

/// The output argument of result `i`, holding what `buffer` holds.
Value Lowering::freshResult(unsigned i, Value buffer) {
  Value place = outputArgument(i);
  if (!place) {
    // A view that the strides of its base did not allow after all: a fresh output, added at the
    // end.
    llvm::SmallVector<Attribute> outputNames(run_.getOutputNames().getValue());
    outputNames.push_back(builder_.getStringAttr("output" + std::to_string(i)));
    run_.setOutputNamesAttr(builder_.getArrayAttr(outputNames));
    place = run_.getBody().addArgument(
        contiguousType(extentsOf(typeOf(buffer)), typeOf(buffer).getElementType()), run_.getLoc());
  }
  if (!isSamePlace(buffer, place)) {
    copy(run_.getLoc(), buffer, place, "copy", "a result has storage of its own");
  }
  return place;
}

LogicalResult Lowering::lowerBlock(mlir::Block& block) {
  for (Operation& op : block.without_terminator()) {
    if (!op.hasAttr("op.prepare") && failed(lowerOp(&op))) {
      return failure();
    }
  }
  return success();
}

LogicalResult Lowering::lowerOp(Operation* op) {
  if (auto fusion = llvm::dyn_cast<op::FusionOp>(op)) {
    // Nothing is computed for results without elements; kernels and their costs are made for at
    // least one.
    if (llvm::all_of(op->getResults(), [&](Value result) {
          return llvm::is_contained(extentsOf(result), constant(0));
        })) {
      for (Value result : op->getResults()) {
        destination(result);
      }
      return success();
    }
    if (fusion.getFamily() == "pointwise") {
      return lowerPointwise(fusion);
    }
    if (fusion.getFamily() == "row_reduction") {
      return lowerRowReduction(fusion);
    }
    if (fusion.getFamily() == "product_group") {
      return lowerProductGroup(fusion);
    }
    return lowerContraction(fusion);
  }
  if (llvm::isa<op::ElementwiseOpInterface>(op)) {
    if (!extentsOf(op->getResult(0)).empty()) {
      return op->emitOpError("stands outside a fusion: fuse_pointwise must come before");
    }
    return success();  // index arithmetic: scalar statements, made where the index is used
  }
  if (llvm::isa<op::IfOp, op::ForOp, op::WhileOp>(op)) {
    return lowerControl(op);
  }
  return lowerStructure(op);
}

std::string Lowering::opNames(op::FusionOp fusion) {
  std::string names;
  for (Operation& op : fusion.getBody().front().without_terminator()) {
    if (llvm::isa<op::ExpandOp, op::ReshapeOp, op::FullOp, op::ConstantOp>(op)) {
      continue;
    }
    names += (names.empty() ? "" : ", ") + op.getName().stripDialect().str();
  }
  return names.empty() ? "copy" : names;
}

}  // namespace straightline::lowering
