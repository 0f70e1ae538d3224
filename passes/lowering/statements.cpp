// SPDX-License-Identifier: Apache-2.0
// Statements that any rule makes: launches of kernels, copies, fills.
#include "dialect/kernel/own.h"
#include "dialect/kernel/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/contraction_problem.h"
#include "passes/lowering/context.h"
#include "passes/lowering/loops.h"
#include "passes/lowering/scalar_evaluator.h"
#include "passes/routes.h"

namespace straightline::lowering {

using mlir::Location;
using mlir::Operation;
using mlir::Value;

/// Microseconds that a team pays for sharing one kernel: a barrier, and results that lie in another
/// core's cache (measured with two cores: sharing kernels of 0.6 us and more never lost).
static double sharingUs(double threads) { return 0.25 + 0.025 * threads; }

int64_t staticOrDynamic(mlir::AffineExpr expr) {
  return symbolic::constantValue(expr).value_or(SL_DYNAMIC);
}

llvm::SmallVector<int64_t> staticOrDynamic(llvm::ArrayRef<mlir::AffineExpr> exprs) {
  return llvm::map_to_vector(exprs, [](mlir::AffineExpr expr) { return staticOrDynamic(expr); });
}

Body roundedSums(Location loc, mlir::Type element) {
  mlir::Type sum =
      element.getIntOrFloatBitWidth() < 32 ? mlir::Float32Type::get(element.getContext()) : element;
  return {"epilogue", {sum}, [=](mlir::OpBuilder& builder, mlir::ValueRange given) {
            Value result = given[0];
            if (sum != element) {
              result = mlir::arith::TruncFOp::create(builder, loc, element, result);
            }
            return llvm::SmallVector<Value>{result};
          }};
}

/// The kernel of a launch: a new one, or one of equal text that was made before.
kernel::FuncOp LoweringContext::kernelOf(const KernelSpec& spec) {
  auto types = [](llvm::ArrayRef<Value> values) {
    return llvm::map_to_vector(values, [](Value value) { return value.getType(); });
  };
  llvm::SmallVector<llvm::StringRef> regionNames;
  for (const Body& body : spec.bodies) {
    regionNames.push_back(body.name);
  }
  mlir::OpBuilder builder = endOfModule();
  auto schedule = kernel::ScheduleAttr::get(context(), builder.getStringAttr(spec.family),
                                            spec.shape, spec.tune);
  // The location says which ops the kernel was made for; it is not part of the kernel's identity.
  auto function = kernel::FuncOp::create(
      builder, builder.getUnknownLoc(), "kernel", types(spec.inputs), types(spec.outputs),
      types(spec.workspace), schedule, regionNames, spec.ties, spec.canFail);
  llvm::SmallVector<llvm::StringRef> roles(spec.outputs.size(),
                                           spec.updates ? "readwrite" : "write");
  for (kernel::RowAttr row : spec.rows) {
    roles[row.getOutput()] = "readwrite";  // its other rows stay
  }
  function.setOutputRolesAttr(builder.getStrArrayAttr(roles));
  if (spec.source) {
    kernel::setOwnSource(function, spec.source);
  }
  if (!spec.rows.empty()) {
    kernel::setWrittenRows(function, spec.rows);
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
  if (!inserted) {
    function.erase();
    return found->second;
  }
  // A number appended to a name may give the name of another kernel (copy_2 is also a copy of two
  // elements).
  std::string name = spec.name;
  for (unsigned& count = usedNames_[spec.name]; !takenNames_.insert(name).second;) {
    name = spec.name + "_" + std::to_string(++count + 1);
  }
  function.setSymName(name);
  return function;
}

void LoweringContext::recordChoice(Operation* statement, const KernelSpec& spec) {
  if (!spec.choice.empty()) {
    kernel::setChoiceKey(statement, spec.choice);
  }
  if (spec.alternatives) {
    kernel::setAlternatives(statement, spec.alternatives);
  }
  llvm::SmallVector<llvm::StringRef> ops;
  llvm::StringRef(spec.op).split(ops, ", ");
  for (llvm::StringRef op : ops) {
    if (const std::optional<Route> route = routeAt(module(), statement->getLoc(), op)) {
      kernel::setRule(statement, route->text());
      if (targetNamedBy(target_).hasQueue() && givesEmittedToHost(*route, target_.getBackend())) {
        kernel::setOnHost(statement);
      }
      return;
    }
  }
}

kernel::LaunchOp LoweringContext::launch(Location loc, KernelSpec& spec) {
  constexpr llvm::StringLiteral kEmitted = "emitted.";
  if (llvm::StringRef(spec.why).starts_with(kEmitted)) {  // the same names on every target
    spec.why = (emittingBackend(target_.getBackend()) + "." +
                llvm::StringRef(spec.why).drop_front(kEmitted.size()))
                   .str();
  }
  findRows(loc, spec);
  kernel::FuncOp function = kernelOf(spec);
  const auto threads = static_cast<double>(target_.getThreads());
  const double sharedUs = spec.ownCost ? spec.costUs : spec.costUs / threads;
  const double aloneUs = sharedUs * threads;
  const bool shared =
      spec.wholeTeam && (spec.alone ? !*spec.alone : aloneUs - sharedUs >= sharingUs(threads));
  auto launch = kernel::LaunchOp::create(
      builder_, loc, mlir::FlatSymbolRefAttr::get(function.getSymNameAttr()), spec.inputs,
      spec.outputs, spec.workspace, mlir::FlatSymbolRefAttr::get(context(), teamQueue()),
      shared ? mlir::IntegerAttr() : builder_.getI64IntegerAttr(1), builder_.getStringAttr(spec.op),
      builder_.getStringAttr(spec.why));
  recordChoice(launch, spec);
  if (spec.ownCost || !facts_.estimatesStatements) {
    kernel::setCostUs(launch, shared ? sharedUs : aloneUs);
  }
  return launch;
}

/// A copy that exchanges rows and columns, of at most a batch of batches of matrices (lines of
/// images of named sizes), goes to the kernel for that. Returns whether it was one.
static bool launchTranspose(LoweringContext& context, Location loc, Value from, Value to,
                            llvm::StringRef opName) {
  const kernel::BufferType in = typeOf(from);
  const kernel::BufferType out = typeOf(to);
  llvm::SmallVector<Loop> loops =
      makeLoops(context, context.extentsOf(out), {context.stridesOf(in), context.stridesOf(out)});
  orderLoops(context, loops, 1);
  loops = mergeLoops(std::move(loops));
  const mlir::AffineExpr one = context.constant(1);
  const mlir::AffineExpr zero = context.constant(0);
  if (loops.size() < 2 || loops.size() > 4 || loops.back().strides[1] != one ||
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
  const Loop batch = loops.empty() ? Loop{one, {zero, zero}} : loops.pop_back_val();
  const Loop outer = loops.empty() ? Loop{one, {zero, zero}} : loops[0];
  const mlir::AffineExpr matrices = outer.extent * batch.extent;
  Problem problem("transpose", context.target());
  for (size_t operand = 0; operand < 2; ++operand) {
    problem.addOperand(
        in.getElementType(), staticOrDynamic({matrices, rows.extent, cols.extent}),
        staticOrDynamic({batch.strides[operand], rows.strides[operand], cols.strides[operand]}),
        false);
  }
  problem.setInputs(1);
  problem.addAttribute("rows", staticOrDynamic(rows.extent));
  problem.addAttribute("cols", staticOrDynamic(cols.extent));
  const KernelChoice choice = chooseKernel(problem);
  if (!choice.kernel) {
    return false;
  }
  KernelSpec spec;
  spec.family = choice.kernel->family;
  spec.name = "transpose" + (loops.empty() ? sizeName({batch, rows, cols})
                                           : sizeName({outer, batch, rows, cols}));
  spec.op = opName.str();
  spec.why = choice.why;
  spec.costUs = choice.costUs;
  spec.ownCost = true;
  spec.tune = tuneAttributes(context.context(), *choice.kernel, problem);
  auto entry = [&](llvm::StringRef key, mlir::AffineExpr value) {
    return context.named(key, context.number(value));
  };
  spec.shape = {entry("batch", matrices),        entry("rows", rows.extent),
                entry("cols", cols.extent),      entry("inBatch", batch.strides[0]),
                entry("inRow", rows.strides[0]), entry("outBatch", batch.strides[1]),
                entry("outCol", cols.strides[1])};
  if (!loops.empty()) {
    spec.shape.append({entry("inner", batch.extent), entry("inOuter", outer.strides[0]),
                       entry("outOuter", outer.strides[1])});
  }
  spec.inputs = {from};
  spec.outputs = {to};
  context.launch(loc, spec);
  return true;
}

void LoweringContext::copy(Location loc, Value from, Value to, llvm::StringRef opName,
                           llvm::StringRef why) {
  if (!rowsOf(to) && launchTranspose(*this, loc, from, to, opName)) {
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

/// So many elements read and written stay in a core's own caches.
static constexpr double kCached = 128 << 10;

/// How often each result is repeated, where sizes have names: no input changes along the innermost
/// loop, of so many elements, and along the next inputs are contiguous or constant, outputs
/// contiguous. 1: they are not repeated.
static int64_t repeatsOf(llvm::ArrayRef<Loop> loops, size_t inputs) {
  constexpr int64_t kMostRepeats = 8;
  if (loops.size() < 2 || llvm::all_of(loops, [](const Loop& loop) {
        return symbolic::constantValue(loop.extent).has_value();
      })) {
    return 1;
  }
  const Loop &line = loops[loops.size() - 2], &inner = loops.back();
  const std::optional<int64_t> times = symbolic::constantValue(inner.extent);
  if (!times || *times < 2 || *times > kMostRepeats) {
    return 1;
  }
  for (size_t operand = 0; operand < inner.strides.size(); ++operand) {
    const std::optional<int64_t> along = symbolic::constantValue(line.strides[operand]);
    const std::optional<int64_t> step = symbolic::constantValue(inner.strides[operand]);
    const bool isRepeated =
        operand < inputs ? step == 0 && (along == 0 || along == 1) : step == 1 && along == *times;
    if (!isRepeated) {
      return 1;
    }
  }
  return *times;
}

void LoweringContext::launchPointwise(mlir::Location loc, KernelSpec& spec, const Exprs& extents,
                                      llvm::ArrayRef<Exprs> strides) {
  llvm::SmallVector<Loop> loops = makeLoops(*this, extents, strides);
  // the output is written in the order of its memory
  orderLoops(*this, loops, strides.size() - 1);
  loops = mergeLoops(std::move(loops));
  llvm::SmallVector<mlir::Attribute> strideRows;
  for (size_t operand = 0; operand < strides.size(); ++operand) {
    strideRows.push_back(numbers(lowering::stridesOf(loops, operand)));
  }
  spec.family = "pointwise";
  spec.name += sizeName(loops);
  spec.tune = {named("rank", number(static_cast<int64_t>(loops.size()))),
               named("inputs", number(static_cast<int64_t>(spec.inputs.size())))};
  if (const int64_t times = repeatsOf(loops, spec.inputs.size()); times > 1) {
    spec.tune.push_back(named("repeats", number(times)));
  }
  spec.shape = {named("extent", numbers(lowering::extentsOf(loops))),
                named("stride", mlir::ArrayAttr::get(context(), strideRows))};
  const double elements = static_cast<double>(upperBound(product(extents)));
  const double touched = elements * static_cast<double>(spec.inputs.size() + spec.outputs.size());
  spec.costUs = touched * (touched < kCached ? 0.00005 : 0.0002);
  launch(loc, spec);
}

void LoweringContext::fill(Location loc, Value buffer, mlir::TypedAttr value, llvm::StringRef op,
                           llvm::StringRef why) {
  KernelSpec spec;
  spec.name = "fill";
  spec.op = op.str();
  spec.why = why.str();
  spec.outputs = {buffer};
  spec.bodies.push_back({"body", {}, [=](mlir::OpBuilder& builder, mlir::ValueRange) {
                           return llvm::SmallVector<Value>{mlir::arith::ConstantOp::create(
                               builder, builder.getUnknownLoc(), value)};
                         }});
  launchPointwise(loc, spec, extentsOf(typeOf(buffer)), {stridesOf(typeOf(buffer))});
}

void LoweringContext::zeroBorder(Location loc, Value buffer) {
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

}  // namespace straightline::lowering
