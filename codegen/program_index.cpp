// SPDX-License-Identifier: Apache-2.0
#include "codegen/program_index.h"

#include "codegen/cpp_text.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace straightline::codegen {

using kernel::BufferType;
using llvm::StringRef;
using mlir::Operation;
using mlir::Value;

namespace {

/// Name given by the framework module around an op, or "".
StringRef moduleName(mlir::Location location) {
  if (auto name = llvm::dyn_cast<mlir::NameLoc>(location)) {
    return name.getName().getValue();
  }
  if (auto fused = llvm::dyn_cast<mlir::FusedLoc>(location)) {
    for (mlir::Location part : fused.getLocations()) {
      if (StringRef name = moduleName(part); !name.empty()) {
        return name;
      }
    }
  }
  return "";
}

sl_statement_kind kindOf(Operation* op) {
  return llvm::TypeSwitch<Operation*, sl_statement_kind>(op)
      .Case<kernel::LaunchOp>([](auto) { return SL_STATEMENT_LAUNCH; })
      .Case<kernel::CallOp, kernel::PlanOp>([](auto) { return SL_STATEMENT_CALL; })
      .Case<kernel::CopyOp>([](auto) { return SL_STATEMENT_COPY; })
      .Case<kernel::BarrierOp>([](auto) { return SL_STATEMENT_BARRIER; })
      .Case<kernel::RecordOp>([](auto) { return SL_STATEMENT_RECORD; })
      .Case<kernel::WaitOp>([](auto) { return SL_STATEMENT_WAIT; })
      .Case<kernel::CheckOp>([](auto) { return SL_STATEMENT_CHECK; })
      .Case<kernel::AllocOp>([](auto) { return SL_STATEMENT_ALLOC; })
      .Case<kernel::ViewOp>([](auto) { return SL_STATEMENT_VIEW; })
      .Case<kernel::SizeOp>([](auto) { return SL_STATEMENT_SIZE; })
      .Case<kernel::SetExtentOp>([](auto) { return SL_STATEMENT_EXTENT; })
      .Case<kernel::ReturnOp>([](auto) { return SL_STATEMENT_RETURN; })
      .Case<kernel::IfOp>([](auto) { return SL_STATEMENT_IF; })
      .Case<kernel::ForOp>([](auto) { return SL_STATEMENT_FOR; })
      .Case<kernel::WhileOp>([](auto) { return SL_STATEMENT_WHILE; })
      .Default([](Operation*) { return SL_STATEMENT_SCALAR; });
}

}  // namespace

bool isDynamicView(Operation* op) {
  auto view = llvm::dyn_cast_or_null<kernel::ViewOp>(op);
  if (!view || !view.getIndices().empty()) {
    return view != nullptr;
  }
  auto program = view->getParentOfType<kernel::ProgramOp>();
  return program && llvm::any_of(view.getOffset().getNames(),
                                 [&](mlir::StringAttr name) { return program.isComputed(name); });
}

ProgramIndex::ProgramIndex(kernel::ProgramOp program) {
  spaces_.push_back("host");
  auto module = llvm::cast<Operation*>(program->getParentOp());
  for (Operation& op : module->getRegion(0).front()) {
    if (auto symbol = op.getAttrOfType<mlir::StringAttr>(mlir::SymbolTable::getSymbolAttrName())) {
      table_.reserve(symbol.getValue());
      table_.reserve(("thunk_" + symbol.getValue()).str());
    }
    if (auto decl = llvm::dyn_cast<kernel::DeclOp>(op)) {
      table_.reserve(backendOf(decl));
      for (std::optional<StringRef> symbol :
           {std::optional<StringRef>(decl.getRun()), decl.getPlan(), decl.getDestroy()}) {
        table_.reserve(symbol.value_or(""));
      }
      table_.reserve(("call_" + decl.getSymName()).str());
      for (const char* ending : {"_problem", "_operands", "_attributes"}) {
        table_.reserve((decl.getSymName() + ending).str());
      }
    }
  }
  // Of tables, functions and of what stands in the scope of one statement, where a buffer of the
  // same name would be hidden.
  for (const char* name :
       {"after",    "arguments",   "grid",          "inputs",         "outputs",
        "pointers", "scalars",     "sizes",         "arena",          "prepared",
        "buffers",  "statements",  "extents",       "results",        "spaces",
        "queues",   "arena_bytes", "scratch_bytes", "prepared_bytes", "destroy_handles",
        "entries",  "constants",   "sl_program",    "sl_program_run", "sl_program_prepare",
        "native",   "scalar"}) {
    table_.reserve(name);
  }
  addStorage(program);
  if (kernel::PrepareOp prepare = program.getPrepareOp()) {
    addStatements(prepare.getBody().front(), 0);
  }
  kernel::RunOp run = program.getRunOp();
  for (auto [position, input] : llvm::enumerate(run.getInputs())) {
    StringRef name = llvm::cast<mlir::StringAttr>(run.getInputNames()[position]).getValue();
    addBuffer(input, SL_ROLE_INPUT, position, name, name);
  }
  for (auto [position, output] : llvm::enumerate(run.getOutputs())) {
    StringRef name = llvm::cast<mlir::StringAttr>(run.getOutputNames()[position]).getValue();
    addBuffer(output, SL_ROLE_OUTPUT, position, name, name);
  }
  addStatements(run.getBody().front(), 1);
}

void ProgramIndex::addStorage(kernel::ProgramOp program) {
  for (auto extent : program.getBodyBlock()->getOps<kernel::ExtentOp>()) {
    extentNames_[extent.getSymNameAttr()] = table_.unique(extent.getSymName());
    extents_.push_back(extent);
  }
  for (auto queue : program.getBodyBlock()->getOps<kernel::QueueOp>()) {
    table_.reserve("queue_" + std::to_string(queues_.size()));
    queues_.push_back(queue);
  }
  // Parameters are numbered before states, whatever their order in the program.
  auto parameters = program.getBodyBlock()->getOps<kernel::ParameterOp>();
  int parameter = 0;
  int state = std::distance(parameters.begin(), parameters.end());
  int handle = 0;
  int constant = 0;
  for (Operation& op : *program.getBodyBlock()) {
    llvm::TypeSwitch<Operation*>(&op)
        .Case<kernel::ParameterOp>([&](kernel::ParameterOp p) {
          addBuffer(p.getBuffer(), SL_ROLE_PARAMETER, parameter++, p.getName(), p.getName());
        })
        .Case<kernel::StateOp>([&](kernel::StateOp s) {
          addBuffer(s.getBuffer(), SL_ROLE_STATE, state++, s.getName(), s.getName());
        })
        .Case<kernel::PreparedOp>([&](kernel::PreparedOp p) {
          addBuffer(p.getBuffer(), SL_ROLE_PREPARED, -1, p.getName(), p.getName());
        })
        .Case<kernel::HandleOp>([&](kernel::HandleOp h) {
          addBuffer(h.getHandle(), SL_ROLE_HANDLE, handle++, h.getName(),
                    (h.getName() + ".handle").str());
        })
        .Case<kernel::ConstantOp>([&](kernel::ConstantOp c) {
          addBuffer(c.getBuffer(), SL_ROLE_CONSTANT, constant++, "", "constant");
        });
  }
}

void ProgramIndex::addBuffer(Value value, sl_role role, int index, StringRef source,
                             StringRef preferred, bool scratch) {
  bufferNumbers_[value] = static_cast<int>(buffers_.size());
  names_[value] = table_.unique(preferred);
  buffers_.push_back({value, role, index, source.str(), scratch});
  if (auto type = llvm::dyn_cast<BufferType>(value.getType())) {
    if (!llvm::is_contained(spaces_, type.getSpace().str())) {
      spaces_.push_back(type.getSpace().str());
    }
  }
}

void ProgramIndex::addLine(sl_statement_kind kind, Operation* op, int phase, bool first) {
  if (first) {
    statementNumbers_[op] = static_cast<int>(statements_.size());
  }
  statements_.push_back({kind, op, phase});
}

void ProgramIndex::addStatements(mlir::Block& block, int phase) {
  for (Operation& op : block) {
    if (llvm::isa<kernel::ConditionOp>(op)) {
      addLine(SL_STATEMENT_DO, &op, phase);
      continue;
    }
    if (auto slot = llvm::dyn_cast<kernel::SlotOp>(op)) {
      StringRef name = moduleName(slot.getLoc());
      addBuffer(slot.getBuffer(), SL_ROLE_ARENA, -1, "", name.empty() ? "t" : name, phase == 0);
      continue;
    }
    if (auto view = llvm::dyn_cast<kernel::ViewOp>(op)) {
      addBuffer(view.getResult(), SL_ROLE_VIEW, -1, "", name(view.getBase()) + "_view");
    }
    if (auto alloc = llvm::dyn_cast<kernel::AllocOp>(op)) {
      addBuffer(alloc.getBuffer(), SL_ROLE_RUNTIME, -1, "", "allocated");
    }
    if (auto constant = llvm::dyn_cast<mlir::arith::ConstantOp>(op)) {
      names_[constant.getResult()] = scalarLiteral(constant.getValue());
      continue;
    }
    if (llvm::isa<kernel::ViewOp>(op) && !isDynamicView(&op)) {
      continue;
    }
    addLine(kindOf(&op), &op, phase);
    entries_.add(&op, table_);
    for (mlir::OpResult result : op.getResults()) {
      if (!names_.contains(result)) {
        names_[result] = table_.unique(llvm::isa<kernel::RecordOp>(op) ? "event" : "n");
      }
    }
    if (auto loop = llvm::dyn_cast<kernel::ForOp>(op)) {
      names_[loop.getCounter()] = table_.unique("i");
    }
    for (auto [position, region] : llvm::enumerate(op.getRegions())) {
      if (position == 1 && llvm::isa<kernel::IfOp>(op) && !region.empty()) {
        addLine(SL_STATEMENT_ELSE, &op, phase, false);
      }
      if (!region.empty()) {
        addStatements(region.front(), phase);
      }
    }
    if (op.getNumRegions() > 0) {
      addLine(SL_STATEMENT_END, &op, phase, false);
    }
  }
}

int ProgramIndex::spaceNumber(StringRef space) const {
  return static_cast<int>(llvm::find(spaces_, space.str()) - spaces_.begin());
}

int ProgramIndex::queueNumber(mlir::FlatSymbolRefAttr queue) const {
  for (auto [position, op] : llvm::enumerate(queues_)) {
    if (kernel::QueueOp(op).getSymNameAttr() == queue.getAttr()) {
      return static_cast<int>(position);
    }
  }
  return -1;
}

int ProgramIndex::extentNumber(mlir::StringAttr name) const {
  for (auto [position, op] : llvm::enumerate(extents_)) {
    if (kernel::ExtentOp(op).getSymNameAttr() == name) {
      return static_cast<int>(position);
    }
  }
  return -1;
}

int ProgramIndex::count(sl_role role) const {
  return static_cast<int>(
      llvm::count_if(buffers_, [&](const BufferLine& line) { return line.role == role; }));
}

}  // namespace straightline::codegen
