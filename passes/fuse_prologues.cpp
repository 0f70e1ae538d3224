// SPDX-License-Identifier: Apache-2.0
// Makes the elementwise kernel that computes a weight part of the kernel that packs the weight.
//
//   %t = slot
//   launch @scale(%w, %s) outs(%t)       // t[o, ...] = f(w[o, ...], s[o])
//   launch @pack(%t) outs(%p)
//     ->  launch @pack_mul(%w, %s) outs(%p)     @pack with the lambda f: its prologue
//
// The weight is read once and never written in between, which folds batch norms (and widens stored
// weights) for the time of the packing alone.
#include <map>
#include <optional>

#include "dialect/kernel/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"
#include "mlir/IR/IRMapping.h"
#include "passes/kernel_facts.h"
#include "passes/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_FUSEPROLOGUES
#include "passes/passes.h.inc"

namespace {

using kernel::FuncOp;
using kernel::LaunchOp;
using mlir::Attribute;
using mlir::Operation;
using mlir::Value;

constexpr size_t kMostOperands = 4;  ///< beside the stored weight; kMaxPrologueOperands of pack.h

/// Numbers of an array of the schedule; nullopt where one is an extent with a name.
std::optional<llvm::SmallVector<int64_t>> numbersIn(Attribute value) {
  auto array = llvm::dyn_cast_if_present<mlir::ArrayAttr>(value);
  if (!array || !llvm::all_of(array, llvm::IsaPred<mlir::IntegerAttr>)) {
    return std::nullopt;
  }
  return llvm::map_to_vector(
      array, [](Attribute item) { return llvm::cast<mlir::IntegerAttr>(item).getInt(); });
}

Attribute shapeEntry(FuncOp function, llvm::StringRef key) {
  for (mlir::NamedAttribute entry : function.getSchedule().getShape()) {
    if (entry.getName() == key) {
      return entry.getValue();
    }
  }
  return {};
}

/// Whether the emitting kernel of that family takes a prologue.
bool takesPrologue(FuncOp function, llvm::StringRef backend) {
  const llvm::StringRef family = function.getSchedule().getFamily();
  bool found = false;
  forEachKernel([&](const sl_kernel_desc& kernel) {
    found |=
        backend == kernel.backend && family == kernel.family && has(kernel, SL_KERNEL_PROLOGUE);
  });
  return found && function.getBodies().empty() && function.getInputs().size() == 1 &&
         function.getScalarNames().empty();
}

/// Statements that touch the storage of `buffer`, also through views.
void addUsers(Value buffer, llvm::SmallSetVector<Operation*, 4>& users) {
  for (Operation* user : buffer.getUsers()) {
    if (auto view = llvm::dyn_cast<kernel::ViewOp>(user)) {
      addUsers(view.getResult(), users);
    } else {
      users.insert(user);
    }
  }
}

/// Whether `buffer` begins where its storage does.
bool beginsItsStorage(Value buffer) {
  auto view = buffer.getDefiningOp<kernel::ViewOp>();
  return !view || (view.getIndices().empty() && view.getOffset().getConstant() == 0 &&
                   beginsItsStorage(view.getBase()));
}

/// Whether a statement between the two, which stand in one block, writes what `maker` reads.
bool isOverwrittenBetween(LaunchOp maker, LaunchOp packing) {
  llvm::SmallPtrSet<Value, 4> read;
  for (Value input : maker.getInputs()) {
    read.insert(kernel::storageRoot(input));
  }
  for (Operation* op = maker->getNextNode(); op != packing; op = op->getNextNode()) {
    if (llvm::isa<kernel::ViewOp, kernel::SlotOp>(op)) {
      continue;
    }
    auto call = llvm::dyn_cast<kernel::KernelCallInterface>(op);
    const auto touches = [&](Value buffer) { return read.contains(kernel::storageRoot(buffer)); };
    if (!call || llvm::any_of(call.getOutputs(), touches) ||
        llvm::any_of(call.getWorkspace(), touches)) {
      return true;  // what is no call is not known better
    }
  }
  return false;
}

/// What makes the prologue of an elementwise launch.
struct Prologue {
  LaunchOp maker;
  llvm::SmallVector<unsigned> order;   ///< its inputs: the stored weight, then the others
  llvm::SmallVector<int64_t> strides;  ///< of the others, from one output to the next
};

/// The strides of a maker's inputs as a prologue has them: one input with every element where the
/// result has it, and others that depend on the index in the weight's first dim alone. That dim is
/// the outermost of the memory.
std::optional<Prologue> prologueOf(LaunchOp maker, kernel::BufferType weight) {
  auto function = llvm::cast<FuncOp>(maker.getEntryOp());
  const auto extents = numbersIn(shapeEntry(function, "extent"));
  auto rows = llvm::dyn_cast_if_present<mlir::ArrayAttr>(shapeEntry(function, "stride"));
  if (!extents || !rows || rows.size() != function.getInputs().size() + 1) {
    return std::nullopt;
  }
  llvm::SmallVector<llvm::SmallVector<int64_t>> strides;
  for (Attribute row : rows) {
    const auto numbers = numbersIn(row);
    if (!numbers || numbers->size() != extents->size()) {
      return std::nullopt;
    }
    strides.push_back(*numbers);
  }
  const llvm::SmallVector<int64_t> result = strides.pop_back_val();
  if (llvm::any_of(result, [](int64_t stride) { return stride < 0; })) {
    return std::nullopt;
  }
  const std::optional<int64_t> count = symbolic::constantValue(weight.getExtents().front());
  const std::optional<int64_t> step = symbolic::constantValue(weight.getStrides().front());
  // The maker's loop over the outputs, inside of which all others stay.
  std::optional<size_t> outputs;
  int64_t inside = 0;
  for (size_t dim = 0; dim < extents->size(); ++dim) {
    if (!outputs && result[dim] == step && (*extents)[dim] == count) {
      outputs = dim;
    } else {
      inside += ((*extents)[dim] - 1) * result[dim];
    }
  }
  if (outputs && inside >= *step) {
    outputs.reset();
  }
  Prologue prologue{maker, {}, {}};
  for (unsigned input = 0; input < strides.size(); ++input) {
    const llvm::SmallVector<int64_t>& own = strides[input];
    if (own == result && prologue.order.empty()) {
      prologue.order.push_back(input);
    }
  }
  if (prologue.order.empty()) {
    return std::nullopt;
  }
  for (unsigned input = 0; input < strides.size(); ++input) {
    if (input == prologue.order.front()) {
      continue;
    }
    for (size_t dim = 0; dim < extents->size(); ++dim) {
      if (strides[input][dim] != 0 && outputs != dim) {
        return std::nullopt;  // it depends on more than the output
      }
    }
    prologue.order.push_back(input);
    prologue.strides.push_back(outputs ? strides[input][*outputs] : 0);
  }
  return prologue.strides.size() <= kMostOperands ? std::optional(prologue) : std::nullopt;
}

/// The launch that makes what `packing` packs, where the two can be one.
std::optional<Prologue> findPrologue(LaunchOp packing) {
  const Value read = packing.getInputs().front();
  const Value slot = kernel::storageRoot(read);
  llvm::SmallSetVector<Operation*, 4> users;
  addUsers(slot, users);
  users.remove(packing);
  auto maker = users.size() == 1 ? llvm::dyn_cast<LaunchOp>(users.front()) : LaunchOp();
  if (!slot.getDefiningOp<kernel::SlotOp>() || !maker || !packing.getWorkspace().empty() ||
      maker->getBlock() != packing->getBlock() || !maker->isBeforeInBlock(packing)) {
    return std::nullopt;
  }
  auto function = llvm::cast<FuncOp>(maker.getEntryOp());
  if (function.getSchedule().getFamily() != "pointwise" || function.getCanFail() ||
      maker.getOutputs().size() != 1 || !maker.getWorkspace().empty() ||
      kernel::storageRoot(maker.getOutputs().front()) != slot ||
      maker.getQueueAttr() != packing.getQueueAttr() ||
      !beginsItsStorage(maker.getOutputs().front()) || !beginsItsStorage(read) ||
      isOverwrittenBetween(maker, packing)) {
    return std::nullopt;
  }
  return prologueOf(maker, llvm::cast<kernel::BufferType>(read.getType()));
}

/// "_mul": what the ops of a launch do beside conversions.
std::string suffixOf(LaunchOp maker) {
  std::string text;
  llvm::SmallVector<llvm::StringRef> names;
  maker.getOp().value_or("").split(names, ", ");
  for (llvm::StringRef name : names) {
    text += name == "to_dtype" ? "" : "_" + name.str();
  }
  return text.empty() ? "_to_dtype" : text;
}

struct FuseProloguesPass : impl::FuseProloguesBase<FuseProloguesPass> {
  void runOnOperation() override {
    mlir::SymbolTable symbols(getOperation());
    Made made;
    llvm::SmallSetVector<Operation*, 8> replaced;
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      kernel::PrepareOp prepare = program.getPrepareOp();
      if (!prepare) {
        continue;
      }
      const llvm::StringRef backend = emittingBackend(program.getTarget().getBackend());
      for (LaunchOp packing :
           llvm::make_early_inc_range(prepare.getBody().front().getOps<LaunchOp>())) {
        auto function = llvm::cast<FuncOp>(packing.getEntryOp());
        if (!takesPrologue(function, backend)) {
          continue;
        }
        if (const std::optional<Prologue> prologue = findPrologue(packing)) {
          replaced.insert(function);
          replaced.insert(LaunchOp(prologue->maker).getEntryOp());
          fuse(packing, *prologue, symbols, made);
        }
      }
    }
    getOperation().walk([&](LaunchOp launch) { replaced.remove(launch.getEntryOp()); });
    for (Operation* function : replaced) {
      symbols.erase(function);
    }
  }

  using Made = std::map<std::string, FuncOp>;  ///< by text without the name

  static FuncOp functionOf(LaunchOp packing, const Prologue& prologue, mlir::SymbolTable& symbols,
                           Made& made) {
    auto packer = llvm::cast<FuncOp>(packing.getEntryOp());
    auto maker = llvm::cast<FuncOp>(LaunchOp(prologue.maker).getEntryOp());
    mlir::OpBuilder builder(packer);
    llvm::SmallVector<mlir::Type> types;
    for (unsigned input : prologue.order) {
      types.push_back(llvm::cast<mlir::TypeAttr>(maker.getInputs()[input]).getValue());
    }
    const kernel::ScheduleAttr schedule = packer.getSchedule();
    llvm::SmallVector<mlir::NamedAttribute> shape(schedule.getShape());
    if (!prologue.strides.empty()) {
      shape.push_back(
          builder.getNamedAttr("prologueStride", builder.getI64ArrayAttr(prologue.strides)));
    }
    auto function =
        FuncOp::create(builder, builder.getUnknownLoc(), "kernel", types,
                       llvm::map_to_vector(packer.getOutputs().getAsValueRange<mlir::TypeAttr>(),
                                           [](mlir::Type type) { return type; }),
                       {},
                       kernel::ScheduleAttr::get(builder.getContext(), schedule.getFamily(), shape,
                                                 schedule.getTune()),
                       {"prologue"}, {}, packer.getCanFail());
    function.setOutputRolesAttr(packer.getOutputRolesAttr());
    mlir::Region& region = function.getBodies().front();
    mlir::Block* block = region.empty() ? &region.emplaceBlock() : &region.front();
    mlir::Block& body = maker.getBodies().front().front();
    mlir::IRMapping mapping;
    for (unsigned input : prologue.order) {
      const mlir::BlockArgument given = body.getArgument(input);
      mapping.map(given, block->addArgument(given.getType(), given.getLoc()));
    }
    builder.setInsertionPointToEnd(block);
    for (Operation& op : body) {
      builder.clone(op, mapping);
    }
    std::string text;
    llvm::raw_string_ostream(text) << function;
    const auto [found, isNew] = made.try_emplace(text, function);
    if (!isNew) {
      function.erase();
      return found->second;
    }
    function->remove();  // the table inserts it under a name of its own
    function.setSymName(packer.getSymName().str() + suffixOf(prologue.maker));
    symbols.insert(function, packer->getIterator());
    return function;
  }

  static void fuse(LaunchOp packing, const Prologue& prologue, mlir::SymbolTable& symbols,
                   Made& made) {
    LaunchOp maker = prologue.maker;
    FuncOp function = functionOf(packing, prologue, symbols, made);
    const auto inputs = llvm::map_to_vector(
        prologue.order, [&](unsigned input) -> Value { return maker.getInputs()[input]; });
    mlir::OpBuilder builder(packing);
    const std::string op = (maker.getOp().value_or("") + ", " + packing.getOp().value_or("")).str();
    auto fused =
        LaunchOp::create(builder, builder.getFusedLoc({maker.getLoc(), packing.getLoc()}),
                         mlir::FlatSymbolRefAttr::get(function.getSymNameAttr()), inputs,
                         packing.getOutputs(), {}, packing.getQueueAttr(), packing.getTeamAttr(),
                         builder.getStringAttr(op), packing.getWhyAttr());
    fused->setDiscardableAttrs(packing->getDiscardableAttrDictionary());
    const Value slot = kernel::storageRoot(packing.getInputs().front());
    packing.erase();
    maker.erase();
    eraseUnread(slot);
  }

  static void eraseUnread(Value buffer) {
    for (Operation* user : llvm::make_early_inc_range(buffer.getUsers())) {
      eraseUnread(llvm::cast<kernel::ViewOp>(user).getResult());
    }
    buffer.getDefiningOp()->erase();
  }
};

}  // namespace

}  // namespace straightline::passes
