// SPDX-License-Identifier: Apache-2.0
#include "passes/lowering/lowering.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/SymbolTable.h"
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

/// Read by something outside prepare, directly or through views.
bool outlivesPrepare(Value tensor) {
  return llvm::any_of(tensor.getUsers(), [](Operation* user) {
    return user->hasTrait<op::View>() ? outlivesPrepare(user->getResult(0)) : !user->hasAttr("op.prepare");
  });
}

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
    : module_(module), function_(function), target_(target), context_(module.getContext()),
      builder_(context_) {
  for (op::SymbolOp symbol : module.getOps<op::SymbolOp>()) {
    names_.push_back(symbol.getSymNameAttr());
    bounds_[symbol.getSymNameAttr()] = {static_cast<int64_t>(symbol.getMin()), static_cast<int64_t>(symbol.getMax())};
  }
  llvm::sort(names_, [](mlir::StringAttr a, mlir::StringAttr b) { return a.getValue() < b.getValue(); });
}

// --- names and sizes -------------------------------------------------------------------------------------------------

AffineExpr Lowering::rebased(AffineExpr expr, llvm::ArrayRef<mlir::StringAttr> from) {
  return symbolic::rebase(expr, from, names_);
}

Exprs Lowering::extentsOf(Value tensor) {
  symbolic::ExprList list = op::extentsOf(llvm::cast<mlir::RankedTensorType>(tensor.getType()));
  return llvm::map_to_vector(list.exprs, [&](AffineExpr expr) { return rebased(expr, list.names); });
}

Exprs Lowering::extentsOf(kernel::BufferType type) {
  return llvm::map_to_vector(type.getExtents(), [&](AffineExpr expr) { return rebased(expr, type.getNames()); });
}

Exprs Lowering::stridesOf(kernel::BufferType type) {
  return llvm::map_to_vector(type.getStrides(), [&](AffineExpr expr) { return rebased(expr, type.getNames()); });
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
  return mlir::ArrayAttr::get(context_, llvm::map_to_vector(exprs, [&](AffineExpr expr) { return number(expr); }));
}

mlir::NamedAttribute Lowering::named(llvm::StringRef key, Attribute value) const {
  return {mlir::StringAttr::get(context_, key), value};
}

bool Lowering::isStatic(const Exprs& exprs) const {
  return llvm::all_of(exprs, [](AffineExpr expr) { return symbolic::constantValue(expr).has_value(); });
}

// --- buffers ---------------------------------------------------------------------------------------------------------

kernel::BufferType Lowering::type(const Exprs& extents, mlir::Type element, const Exprs& strides,
                                  llvm::ArrayRef<int64_t> border) const {
  return kernel::BufferType::get(context_, names_, extents, element, strides, "host", border);
}

kernel::BufferType Lowering::contiguousType(const Exprs& extents, mlir::Type element) const {
  return type(extents, element, rowMajor(extents));
}

Value Lowering::slot(kernel::BufferType type) {
  mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPointToStart(inPrepare_ ? &prepare_.getBody().front() : &run_.getBody().front());
  return kernel::SlotOp::create(builder_, function_.getLoc(), type).getBuffer();
}

Value Lowering::view(Location loc, Value base, kernel::BufferType type, AffineExpr offset,
                     llvm::ArrayRef<std::pair<std::string, Value>> indices) {
  if (indices.empty()) {
    // Views of views are one view: fewer names in the emitted text.
    if (auto inner = base.getDefiningOp<kernel::ViewOp>(); inner && inner.getIndices().empty()) {
      kernel::ExtentAttr before = inner.getOffset();
      return view(loc, inner.getBase(), type, offset + rebased(before.getExpr(), before.getNames()));
    }
    if (offset == constant(0) && typeOf(base) == type) {
      return base;
    }
    return kernel::ViewOp::create(builder_, loc, type, base, kernel::ExtentAttr::get(context_, names_, offset)).getResult();
  }
  llvm::SmallVector<mlir::StringAttr> allNames(names_);
  llvm::SmallVector<llvm::StringRef> indexNames;
  llvm::SmallVector<Value> values;
  for (const auto& [name, value] : indices) {
    indexNames.push_back(name);
    values.push_back(value);
    allNames.push_back(mlir::StringAttr::get(context_, name));
  }
  return kernel::ViewOp::create(builder_, loc, type, base, kernel::ExtentAttr::get(context_, allNames, offset),
                                builder_.getStrArrayAttr(indexNames), values)
      .getResult();
}

Value Lowering::root(Value buffer) {
  while (auto view = buffer.getDefiningOp<kernel::ViewOp>()) {
    buffer = view.getBase();
  }
  return buffer;
}

Value Lowering::bufferOf(Value tensor) {
  auto found = buffers_.find(tensor);
  if (found != buffers_.end()) {
    return found->second;
  }
  // Parameters, states and literals are declared when first used, so that unused ones cost nothing.
  Operation* op = tensor.getDefiningOp();
  assert(op && "a block argument is bound when its block is lowered");
  const LogicalResult lowered = lowerConstant(op);
  assert(succeeded(lowered) && "a value is used before it is lowered");
  (void)lowered;
  return buffers_.lookup(tensor);
}

/// True when `tensor` may be written into `storage` although it holds a value that is still read: every reader of the old
/// value stands before the writer, or is the writer itself reading the same element.
bool Lowering::safeInPlace(Value tensor, Value storage) {
  Operation* writer = tensor.getDefiningOp();
  llvm::SmallVector<Value> olds;
  for (auto& [value, buffer] : buffers_) {
    if (value != tensor && root(buffer) == root(storage)) {
      olds.push_back(value);
    }
  }
  for (Value old : olds) {
    for (Operation* user : old.getUsers()) {
      Operation* ancestor = writer->getBlock()->findAncestorOpInBlock(*user);
      if (!ancestor) {
        continue;  // read in an enclosing block, before or after the region: its own check covers it
      }
      if (ancestor->hasTrait<mlir::OpTrait::IsTerminator>()) {
        continue;  // a returned state is the new value
      }
      if (user->hasTrait<op::View>() && ancestor->isBeforeInBlock(writer)) {
        continue;  // the view is bound to the same storage: its users are looked at in their own turn
      }
      if (ancestor == writer) {
        auto fusion = llvm::dyn_cast<op::FusionOp>(writer);
        const bool sameElement = fusion && fusion.getFamily() == "pointwise" && old.getType() == tensor.getType();
        const bool scatter = llvm::isa<op::SliceScatterOp, op::DynamicUpdateSliceOp, op::IndexCopyOp, op::IndexAddOp>(writer) &&
                             writer->getOperand(0) == old && !llvm::is_contained(llvm::drop_begin(writer->getOperands()), old);
        if (sameElement || scatter) {
          continue;
        }
        return false;
      }
      if (writer->isBeforeInBlock(ancestor)) {
        return false;
      }
    }
  }
  return true;
}

Value Lowering::outputArgument(unsigned result) {
  auto found = outputOfResult_.find(result);
  if (found == outputOfResult_.end()) {
    return {};
  }
  return run_.getBody().getArgument(found->second);
}

Value Lowering::wantedDestination(Value tensor) {
  if (inPrepare_) {
    return {};
  }
  const Exprs extents = extentsOf(tensor);
  for (mlir::OpOperand& use : tensor.getUses()) {
    Operation* user = use.getOwner();
    Value place;
    if (llvm::isa<mlir::func::ReturnOp>(user)) {
      const unsigned result = use.getOperandNumber();
      if (auto tie = function_.getResultAttrOfType<mlir::StringAttr>(result, "op.tie")) {
        Value storage = placeOfYield_.lookup(tensor);
        place = storage && safeInPlace(tensor, storage) ? storage : Value();
      } else {
        place = outputArgument(result);
      }
    } else if (llvm::isa<op::YieldOp>(user)) {
      place = placeOfYield_.lookup(tensor);
      place = place && safeInPlace(tensor, place) ? place : Value();
    } else if (llvm::isa<op::ReshapeOp>(user)) {
      Value outer = wantedDestination(user->getResult(0));
      place = outer ? tryReshape(user->getLoc(), outer, extents) : Value();
    } else if (auto permute = llvm::dyn_cast<op::PermuteOp>(user)) {
      if (Value outer = wantedDestination(permute.getResult())) {
        Exprs strides(extents.size());
        const Exprs outerStrides = stridesOf(typeOf(outer));
        for (auto [to, from] : llvm::enumerate(permute.getDims())) {
          strides[from] = outerStrides[to];
        }
        place = view(user->getLoc(), outer, type(extents, typeOf(outer).getElementType(), strides), constant(0));
      }
    } else if (auto cat = llvm::dyn_cast<op::CatOp>(user)) {
      const bool once = llvm::count(cat.getTensors(), tensor) == 1;
      place = once ? catPlace_.lookup({cat, tensor}) : Value();
      if (!place && once && cat->getBlock() == tensor.getParentBlock()) {
        Value whole = destination(cat.getResult());
        const Exprs strides = stridesOf(typeOf(whole));
        AffineExpr at = constant(0);
        for (Value part : cat.getTensors()) {
          const Exprs partExtents = extentsOf(part);
          catPlace_[{cat, part}] = view(user->getLoc(), whole, type(partExtents, typeOf(whole).getElementType(), strides),
                                 at * strides[cat.getDim()]);
          at = at + partExtents[cat.getDim()];
        }
        place = catPlace_.lookup({cat, tensor});
      }
    } else if (llvm::isa<op::SliceScatterOp, op::DynamicUpdateSliceOp, op::IndexCopyOp, op::IndexAddOp>(user) &&
               use.getOperandNumber() == 0 &&
               tensor.hasOneUse()) {
      place = wantedDestination(user->getResult(0));
    }
    if (place) {
      return place;
    }
  }
  return {};
}

Value Lowering::allocatePlain(Value tensor) {
  const Exprs extents = extentsOf(tensor);
  mlir::Type element = llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType();
  Operation* op = tensor.getDefiningOp();
  auto layout = op ? op->getAttrOfType<mlir::DictionaryAttr>("op.layout") : mlir::DictionaryAttr();
  if (!layout) {
    return slot(contiguousType(extents, element));
  }
  auto order = layout.getAs<mlir::DenseI64ArrayAttr>("order").asArrayRef();
  auto border = layout.getAs<mlir::DenseI64ArrayAttr>("border");
  llvm::SmallVector<int64_t> widths(border ? border.asArrayRef() : llvm::ArrayRef<int64_t>());
  Exprs strides(extents.size());
  AffineExpr stride = constant(1);
  for (int64_t dim : llvm::reverse(order)) {
    strides[dim] = stride;
    const int64_t around = widths.empty() ? 0 : widths[2 * dim] + widths[2 * dim + 1];
    stride = stride * (extents[dim] + around);
  }
  if (llvm::all_of(widths, [](int64_t width) { return width == 0; })) {
    widths.clear();
  }
  Value buffer = slot(type(extents, element, strides, widths));
  if (!widths.empty()) {
    zeroBorder(tensor.getLoc(), buffer);
  }
  return buffer;
}

Value Lowering::preparedBuffer(Location loc, const Exprs& extents, mlir::Type element) {
  mlir::OpBuilder::InsertionGuard guard(builder_);
  builder_.setInsertionPoint(prepare_);
  const std::string name = "prepared." + std::to_string(usedNames_["prepared."]++);
  return kernel::PreparedOp::create(builder_, loc, contiguousType(extents, element), builder_.getStringAttr(name),
                                    kernel::ExtentAttr());
}

Value Lowering::viewInPrepare(Value buffer) {
  auto view = buffer.getDefiningOp<kernel::ViewOp>();
  if (!view || !run_->isAncestor(view)) {
    return buffer;
  }
  mlir::OpBuilder builder(context());
  Value base = viewInPrepare(view.getBase());
  builder.setInsertionPointToEnd(&prepare_.getBody().front());
  return kernel::ViewOp::create(builder, view.getLoc(), typeOf(buffer), base, view.getOffset()).getResult();
}

Value Lowering::destination(Value tensor) {
  auto found = buffers_.find(tensor);
  if (found != buffers_.end()) {
    return found->second;
  }
  Value buffer = wantedDestination(tensor);
  if (!buffer && inPrepare_) {
    // Something that run reads outlives prepare; what only prepare reads is scratch.
    if (outlivesPrepare(tensor)) {
      buffer = preparedBuffer(tensor.getLoc(), extentsOf(tensor), llvm::cast<mlir::RankedTensorType>(tensor.getType()).getElementType());
    }
  }
  if (!buffer) {
    buffer = allocatePlain(tensor);
  }
  bind(tensor, buffer);
  return buffer;
}

Value Lowering::tryReshape(Location loc, Value buffer, const Exprs& to) {
  kernel::BufferType from = typeOf(buffer);
  if (from.hasBorder()) {
    return {};
  }
  // Dims of size one carry no stride; the others are grouped from the left so that products of extents agree, and inside
  // a group the old dims must be mergeable (stride[i] == stride[i + 1] * extent[i + 1]).
  Exprs extents;
  Exprs strides;
  for (auto [extent, stride] : llvm::zip(extentsOf(from), stridesOf(from))) {
    if (extent != constant(1)) {
      extents.push_back(extent);
      strides.push_back(stride);
    }
  }
  Exprs result(to.size(), constant(1));
  size_t old = 0;
  for (size_t dim = 0; dim < to.size();) {
    if (to[dim] == constant(1)) {
      ++dim;
      continue;
    }
    if (old == extents.size()) {
      return {};
    }
    size_t oldEnd = old + 1;
    size_t newEnd = dim + 1;
    AffineExpr oldProduct = extents[old];
    AffineExpr newProduct = to[dim];
    while (oldProduct != newProduct) {
      // Grow the smaller side; sizes that cannot be compared are compared by their bounds.
      if (upperBound(oldProduct) < upperBound(newProduct)) {
        if (oldEnd == extents.size()) {
          return {};
        }
        oldProduct = oldProduct * extents[oldEnd++];
      } else {
        if (newEnd == to.size()) {
          return {};
        }
        newProduct = newProduct * to[newEnd++];
      }
    }
    for (size_t i = old; i + 1 < oldEnd; ++i) {
      if (strides[i] != strides[i + 1] * extents[i + 1]) {
        return {};
      }
    }
    AffineExpr stride = strides[oldEnd - 1];
    for (size_t i = newEnd; i-- > dim;) {
      result[i] = stride;
      stride = stride * to[i];
    }
    old = oldEnd;
    dim = newEnd;
  }
  if (old != extents.size()) {
    return {};
  }
  return view(loc, buffer, type(to, from.getElementType(), result), constant(0));
}

Value Lowering::contiguous(Location loc, Value buffer, llvm::StringRef why) {
  kernel::BufferType from = typeOf(buffer);
  const Exprs extents = extentsOf(from);
  if (!from.hasBorder() && stridesOf(from) == rowMajor(extents)) {
    return buffer;
  }
  Value fresh = slot(contiguousType(extents, from.getElementType()));
  copy(loc, buffer, fresh, "copy", why);
  return fresh;
}

// --- statements ------------------------------------------------------------------------------------------------------

kernel::LaunchOp Lowering::launch(Location loc, KernelSpec& spec) {
  auto types = [](llvm::ArrayRef<Value> values) {
    return llvm::map_to_vector(values, [](Value value) { return value.getType(); });
  };
  llvm::SmallVector<llvm::StringRef> regionNames;
  for (const Body& body : spec.bodies) {
    regionNames.push_back(body.name);
  }
  mlir::OpBuilder moduleBuilder(context_);
  moduleBuilder.setInsertionPointToEnd(module_.getBody());
  auto schedule = kernel::ScheduleAttr::get(context_, moduleBuilder.getStringAttr(spec.family), spec.shape, spec.tune);
  // The location says which ops the kernel was made for; it is not part of the kernel's identity.
  auto function = kernel::FuncOp::create(moduleBuilder, moduleBuilder.getUnknownLoc(), "kernel", types(spec.inputs),
                                         types(spec.outputs), types(spec.workspace), schedule, regionNames, spec.ties,
                                         spec.canFail);
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
    if (llvm::isa<mlir::arith::DivSIOp, mlir::arith::DivUIOp, mlir::arith::FloorDivSIOp, mlir::arith::CeilDivSIOp,
                  mlir::arith::RemSIOp, mlir::arith::RemUIOp>(op)) {
      function.setCanFail(true);
    }
  });
  std::string text;
  llvm::raw_string_ostream(text) << function;
  auto [found, inserted] = functions_.try_emplace(text, function);
  if (inserted) {
    // A number behind a name may give one that another kernel has from the start (copy_2: a copy of two elements).
    std::string name = spec.name;
    for (unsigned& count = usedNames_[spec.name]; !takenNames_.insert(name).second;) {
      name = spec.name + "_" + std::to_string(++count + 1);
    }
    function.setSymName(name);
  } else {
    function.erase();
    function = found->second;
  }
  // A kernel of less than about two microseconds is not worth a barrier and a second thread.
  constexpr double kWorthATeamUs = 2.0;
  auto launch = kernel::LaunchOp::create(
      builder_, loc, mlir::FlatSymbolRefAttr::get(function.getSymNameAttr()), spec.inputs, spec.outputs, spec.workspace,
      mlir::FlatSymbolRefAttr::get(context_, teamQueue()),
      spec.wholeTeam && (spec.alone ? !*spec.alone : spec.costUs >= kWorthATeamUs) ? mlir::IntegerAttr()
                                                                                : builder_.getI64IntegerAttr(1),
      builder_.getStringAttr(spec.op), builder_.getStringAttr(spec.why));
  if (!spec.choice.empty()) {
    launch->setAttr("kernel.choice", builder_.getStringAttr(spec.choice));
  }
  launch->setAttr("kernel.cost_us", builder_.getF64FloatAttr(spec.costUs));
  return launch;
}

/// A copy that exchanges rows and columns, of at most one batch of matrices, goes to the kernel for that. Returns whether it
/// was one.
static bool launchTranspose(Lowering& lowering, Location loc, Value from, Value to, llvm::StringRef opName) {
  const kernel::BufferType in = Lowering::typeOf(from);
  const kernel::BufferType out = Lowering::typeOf(to);
  llvm::SmallVector<Loop> loops =
      makeLoops(lowering, lowering.extentsOf(out), {lowering.stridesOf(in), lowering.stridesOf(out)});
  orderLoops(lowering, loops, 1);
  loops = mergeLoops(std::move(loops));
  const mlir::AffineExpr one = lowering.constant(1);
  const mlir::AffineExpr zero = lowering.constant(0);
  if ((loops.size() != 2 && loops.size() != 3) || loops.back().strides[1] != one || in.getElementType() != out.getElementType()) {
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
  auto size = [](mlir::AffineExpr expr) { return symbolic::constantValue(expr).value_or(SL_DYNAMIC); };
  Problem problem("transpose", lowering.target());
  for (size_t operand = 0; operand < 2; ++operand) {
    problem.addOperand(in.getElementType(), {size(batch.extent), size(rows.extent), size(cols.extent)},
                       {size(batch.strides[operand]), size(rows.strides[operand]), size(cols.strides[operand])}, false);
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
  spec.tune = tuneAttributes(lowering.context(), *choice.kernel, problem);
  auto entry = [&](llvm::StringRef key, mlir::AffineExpr value) { return lowering.named(key, lowering.number(value)); };
  spec.shape = {entry("batch", batch.extent),        entry("rows", rows.extent),          entry("cols", cols.extent),
                entry("inBatch", batch.strides[0]),  entry("inRow", rows.strides[0]),
                entry("outBatch", batch.strides[1]), entry("outCol", cols.strides[1])};
  spec.inputs = {from};
  spec.outputs = {to};
  lowering.launch(loc, spec);
  return true;
}

void Lowering::copy(Location loc, Value from, Value to, llvm::StringRef opName, llvm::StringRef why) {
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

// --- the walk --------------------------------------------------------------------------------------------------------

Exprs Lowering::argumentStrides(mlir::func::FuncOp function, unsigned i, const Exprs& extents) {
  if (auto dims = function.getArgAttrOfType<op::DimsAttr>(i, "op.strides")) {
    return llvm::map_to_vector(dims.getExprs(), [&](AffineExpr expr) { return rebased(expr, dims.getNames()); });
  }
  return rowMajor(extents);
}

LogicalResult Lowering::declareProgram() {
  mlir::OpBuilder builder(context_);
  builder.setInsertionPointToEnd(module_.getBody());
  program_ = kernel::ProgramOp::create(builder, function_.getLoc(), function_.getSymName(), target_);
  toEnd(builder, program_.getBodyBlock());
  kernel::QueueOp::create(builder, function_.getLoc(), teamQueue(), "cpu");
  for (mlir::StringAttr name : names_) {
    const symbolic::Bounds bounds = bounds_[name];
    kernel::ExtentOp::create(builder, function_.getLoc(), name.getValue(), bounds.lowest, bounds.highest);
  }
  prepare_ = kernel::PrepareOp::create(builder, function_.getLoc());
  llvm::SmallVector<std::string> inputNames;
  llvm::SmallVector<mlir::Type> inputTypes;
  for (auto [i, argument] : llvm::enumerate(function_.getArguments())) {
    auto name = function_.getArgAttrOfType<mlir::StringAttr>(i, "op.name");
    inputNames.push_back(name ? name.str() : "input" + std::to_string(i));
    const Exprs extents = extentsOf(argument);
    inputTypes.push_back(type(extents, llvm::cast<mlir::RankedTensorType>(argument.getType()).getElementType(),
                              argumentStrides(function_, i, extents)));
  }
  llvm::SmallVector<std::string> outputNames;
  llvm::SmallVector<mlir::Type> outputTypes;
  llvm::DenseSet<Value> fresh;
  Operation* terminator = function_.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    if (function_.getResultAttr(i, "op.tie") || function_.getResultAttr(i, "op.alias") || isAlias(value)) {
      continue;
    }
    if (!fresh.insert(value).second) {
      continue;  // the same value twice is one output
    }
    auto name = function_.getResultAttrOfType<mlir::StringAttr>(i, "op.name");
    outputOfResult_[i] = inputNames.size() + outputNames.size();
    outputNames.push_back(name ? name.str() : "output" + std::to_string(i));
    outputTypes.push_back(contiguousType(extentsOf(value), llvm::cast<mlir::RankedTensorType>(value.getType()).getElementType()));
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
  run_ = kernel::RunOp::create(builder, function_.getLoc(), inputs, inputTypes, outputs, outputTypes, mutated);
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
      return function_.emitError() << "result " << i << " is tied to '" << tie.getValue() << "', which the function does not have";
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

/// Prepared storage that only prepare reads (a folded weight that was then packed) becomes scratch of prepare.
void Lowering::demotePrepared() {
  for (auto prepared : llvm::make_early_inc_range(program_.getBodyBlock()->getOps<kernel::PreparedOp>())) {
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
      auto scratch = kernel::SlotOp::create(builder_, prepared.getLoc(), typeOf(prepared.getBuffer()));
      prepared.getBuffer().replaceAllUsesWith(scratch.getBuffer());
      prepared.erase();
    }
  }
}

/// The buffer of a view of tied storage, made anew over that storage: the value itself may have been computed elsewhere and
/// copied there. Null when `tensor` is no view of it, or one that the strides of the storage do not allow.
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
  // Results with storage of their own first: a tied result may be copied over what they are views of.
  llvm::SmallVector<Value> results(terminator->getNumOperands());
  llvm::DenseMap<Value, Value> returned;
  const auto outlives = [&](Value buffer) {
    Value owner = root(buffer);
    return llvm::is_contained(run_.getInputs(), owner) ||
           (owner.getDefiningOp() && llvm::isa<kernel::ParameterOp, kernel::StateOp>(owner.getDefiningOp()));
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
      copy(terminator->getLoc(), buffer, storage, "copy", "the old value is still read after the new one is made");
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

/// The output argument of result `i`, holding what `buffer` holds.
Value Lowering::freshResult(unsigned i, Value buffer) {
  Value place = outputArgument(i);
  if (!place) {
    // A view that the strides of its base did not allow after all: a fresh output, added at the end.
    llvm::SmallVector<Attribute> outputNames(run_.getOutputNames().getValue());
    outputNames.push_back(builder_.getStringAttr("output" + std::to_string(i)));
    run_.setOutputNamesAttr(builder_.getArrayAttr(outputNames));
    place = run_.getBody().addArgument(contiguousType(extentsOf(typeOf(buffer)), typeOf(buffer).getElementType()), run_.getLoc());
  }
  if (buffer != place) {
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
    // Nothing is computed for results without elements; kernels and their costs are made for at least one.
    if (llvm::all_of(op->getResults(), [&](Value result) { return llvm::is_contained(extentsOf(result), constant(0)); })) {
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
