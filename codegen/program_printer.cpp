// SPDX-License-Identifier: Apache-2.0
#include "codegen/program_printer.h"

#include "codegen/cpp_text.h"
#include "codegen/external_calls.h"
#include "codegen/own_calls.h"
#include "codegen/scalar_printer.h"
#include "codegen/statement_walk.h"
#include "codegen/storage_printer.h"
#include "dialect/kernel/recorded.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace straightline::codegen {

using kernel::BufferType;
using llvm::StringRef;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::Value;

namespace {

class Printer final : public StatementPrinter {
 public:
  Printer(kernel::ProgramOp program, const ProgramIndex& index, bool profile)
      : program_(program), index_(index), profile_(profile) {}

  mlir::FailureOr<ProgramText> print() {
    std::string constants;
    for (auto constant : program_.getBodyBlock()->getOps<kernel::ConstantOp>()) {
      mlir::FailureOr<std::string> text = printConstant(constant, index_);
      if (failed(text)) {
        return mlir::failure();
      }
      constants += *text + "\n";
    }
    ProgramText text;
    mlir::FailureOr<std::string> thunks = printEntries(text);
    if (failed(thunks)) {
      return mlir::failure();
    }
    std::string functions;
    kernel::PrepareOp prepare = program_.getPrepareOp();
    if (prepare && failed(printPhase("sl_program_prepare", prepare.getBody(), functions))) {
      return mlir::failure();
    }
    if (failed(printPhase("sl_program_run", program_.getRunOp().getBody(), functions))) {
      return mlir::failure();
    }
    text.includes = {"#include \"straightline/kernels/program.h\""};
    if (usesOwnKernels_) {
      text.includes.push_back("#include \"straightline/abi/own_kernel.h\"");
    }
    if (usesScalars_) {
      text.includes.push_back("#include \"straightline/kernels/scalar.h\"");
    }
    if (callsSpecialFunction(program_)) {
      text.includes.push_back("#include \"straightline/kernels/special.h\"");
    }
    text.hasPrepare = static_cast<bool>(prepare);
    text.body = constants + *thunks + functions;
    text.externals.assign(externals_.begin(), externals_.end());
    return text;
  }

 private:
  //===- functions ---------------------------------------------------------===//

  /// Prototypes and problems of external entries, and the thunks of all.
  mlir::FailureOr<std::string> printEntries(ProgramText& text) {
    llvm::SetVector<Operation*> decls;
    std::string thunks;
    Writer problems;
    for (const EntryPoint& entry : index_.entries().all()) {
      if (kernel::runsOnDevice(entry.op)) {
        externals_.insert(imageName(entry));
        text.declarations += "extern \"C\" const sl_device_image " + imageName(entry) + ";\n";
        continue;  // the host cannot call it
      }
      mlir::FailureOr<std::string> thunk = printThunk(entry);
      if (failed(thunk)) {
        return mlir::failure();
      }
      thunks += *thunk + "\n";
      usesScalars_ |= entry.kind == SL_ENTRY_SCALAR;
      auto decl = llvm::dyn_cast<kernel::DeclOp>(entry.op);
      if (decl && decls.insert(decl)) {
        usesOwnKernels_ |= isOwnKernel(decl);
        text.declarations += printExternalPrototypes(decl);
        for (StringRef symbol : externalSymbols(decl)) {
          externals_.insert(symbol.str());
        }
      }
      if (entry.kind == SL_ENTRY_PLAN) {
        printProblem(decl, program_.getTarget(), problems);
      }
    }
    return problems.take() + thunks;
  }

  LogicalResult printPhase(const std::string& name, mlir::Region& region, std::string& out) {
    writer_ = Writer();
    writer_.indent();
    printLocals(region, index_, writer_);
    readsExtent_.clear();
    readsExtent_.insert_range(localsOf(region, index_).extents);
    inPrepare_ = llvm::isa<kernel::PrepareOp>(region.getParentOp());
    isAlone_ = isForOneThread(region);
    if (failed(walkStatements(region, index_, profile_, *this))) {
      return mlir::failure();
    }
    writer_.line("return SL_OK;");
    std::string body = writer_.take();
    if (isAlone_) {
      const std::string team = mentions(body, "team") ? "  team = sl::alone();\n" : "";
      body =
          "  if (team.index != 0) {  // every statement is thread 0's\n    return SL_OK;\n  }\n" +
          team + body;
    }
    // A parameter without a use has no name, so that nothing warns.
    auto parameter = [&](StringRef type, StringRef parameterName) {
      return type.str() + (mentions(body, parameterName) ? " " + parameterName.str() : "");
    };
    out += "extern \"C\" int32_t " + name + "(" + parameter("sl_ctx*", "ctx") + ", " +
           parameter("sl_team", "team") + ", " + parameter("const sl_bindings*", "io") + ") {\n" +
           body + "}\n\n";
    return mlir::success();
  }

  /// Whether thread 0 does all the work of a phase, so that no thread waits for another. The text
  /// then has no test for thread 0 at each statement and no barrier, each of which is a loop to the
  /// compiler (196 launches: 2.9 s of clang instead of 0.6).
  bool isForOneThread(mlir::Region& region) const {
    bool works = false;
    const mlir::WalkResult result = region.walk([&](Operation* op) {
      auto call = llvm::dyn_cast<kernel::KernelCallInterface>(op);
      auto copy = llvm::dyn_cast<kernel::CopyOp>(op);
      works |= call || copy || llvm::isa<kernel::PlanOp>(op);
      const bool isShared = (call && call.getTeamSize() != 1) || copy;
      const bool onTeam = isShared && isTeam(op->getAttrOfType<mlir::FlatSymbolRefAttr>("queue"));
      return onTeam ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
    });
    return works && !result.wasInterrupted();
  }

  bool isTeam(mlir::FlatSymbolRefAttr queue) const {
    return kernel::QueueOp(index_.queues()[index_.queueNumber(queue)]).isTeam();
  }

  void comment(const std::string& text) override { writer_.line("// " + text); }

  void profile(int statement, bool begins) override {
    writer_.line("sl::profile(ctx, team, " + std::to_string(statement) + ", " +
                 (begins ? "1" : "0") + ");");
  }

  void stopIfFailed(int statement, bool inLibrary) override {
    printStop(inLibrary ? "sl::failedInLibrary" : "sl_failed", statement);
  }

  void printStop(const std::string& condition, int statement) {
    writer_.line("if (" + condition + "(ctx, team)) {");
    writer_.line("  return sl::stop(ctx, team, " + std::to_string(statement) + ");");
    writer_.line("}");
  }

  //===- statements --------------------------------------------------------===//

  static std::string queueText(QueueUse queue) {
    return "io->queues[" + std::to_string(queue.number) + "]";
  }

  llvm::SmallVector<std::string> namesOf(llvm::ArrayRef<Value> buffers) const {
    return llvm::map_to_vector(buffers, [&](Value buffer) { return index_.name(buffer); });
  }

  llvm::SmallVector<std::string> pointersOf(const EntryCall& call) const {
    llvm::SmallVector<std::string> pointers = namesOf(call.inputs);
    pointers.append(namesOf(call.outputs));
    pointers.append(namesOf(call.workspace));
    return pointers;
  }

  llvm::SmallVector<std::string> scalarsOf(const EntryCall& call) const {
    return llvm::map_to_vector(call.scalars, [&](kernel::ExtentAttr value) {
      return expression(value.getExpr(), value.getNames(), extentSpelling(index_));
    });
  }

  /// Affects a graph only. Where the run is not gathered into a graph, and on a team's queue,
  /// statements run in the order of the text.
  void step(QueueUse queue, int64_t number, llvm::ArrayRef<int64_t> after) override {
    externals_.insert("sl_queue_step");
    printGuarded(true, [&] {
      printArray("const int32_t", "after",
                 llvm::map_to_vector(after, [](int64_t step) { return std::to_string(step); }));
      writer_.call("sl_queue_step(",
                   {queueText(queue), std::to_string(number), after.empty() ? "nullptr" : "after",
                    std::to_string(after.size())},
                   ");");
    });
  }

  void call(const EntryCall& call) override {
    if (call.entry.kind == SL_ENTRY_PLAN) {
      printPlan(call);
    } else if (kernel::runsOnDevice(call.entry.op)) {
      printStart(call);
    } else if (!call.queue.isTeam) {
      printEnqueue(call);
    } else if (call.entry.kind == SL_ENTRY_EXTERNAL) {
      printExternal(call);
    } else {
      llvm::SmallVector<std::string> items = {"ctx", call.alone ? "sl::alone()" : "team"};
      items.append(pointersOf(call));
      items.append(scalarsOf(call));
      printGuarded(call.alone && !isAlone_,
                   [&] { writer_.call(call.entry.name + "(", items, ");"); });
    }
  }

  /// Begins a scope of thread 0, or of the whole team.
  std::string scope(bool alone) const {
    return alone && !isAlone_ ? "if (team.index == 0) {" : "{";
  }

  /// In braces after a test for thread 0 if only that thread takes part.
  void printGuarded(bool guarded, llvm::function_ref<void()> print) {
    if (!guarded) {
      print();
      return;
    }
    writer_.line(scope(true));
    writer_.indent();
    print();
    writer_.dedent();
    writer_.line("}");
  }

  void printArray(const std::string& type, const std::string& name,
                  llvm::ArrayRef<std::string> items) {
    if (!items.empty()) {
      writer_.call(type + " " + name + "[] = {", items, "};");
    }
  }

  /// Prints the start of a device's kernel with its grid. The call copies the arguments.
  void printStart(const EntryCall& call) {
    externals_.insert("sl_queue_start");
    printGuarded(true, [&] {
      const kernel::ExtentAttr blocks = kernel::blocksOf(call.entry.op);
      auto threads = call.entry.op->getAttrOfType<mlir::IntegerAttr>(kernel::kThreadsAttr);
      llvm::SmallVector<std::string> places = pointersOf(call);
      places.append(scalarsOf(call));
      for (std::string& place : places) {
        place = "sl::place(" + place + ")";
      }
      writer_.line("const sl_grid grid = {.size = sizeof(sl_grid), .blocks = " +
                   expression(blocks.getExpr(), blocks.getNames(), extentSpelling(index_)) +
                   ", .threads = " + std::to_string(threads.getInt()) + ", .shared_bytes = 0};");
      printArray("void* const", "arguments", places);
      writer_.call("sl_queue_start(",
                   {"ctx", queueText(call.queue),
                    "io->kernels[" + std::to_string(index_.entries().number(call.entry)) + "]",
                    "&grid", places.empty() ? "nullptr" : "arguments"},
                   ");  // " + call.entry.name);
    });
  }

  void printEnqueue(const EntryCall& call) {
    const std::string enqueue = isOutsideGraph(call.entry) ? "sl_queue_call" : "sl_queue_launch";
    externals_.insert(enqueue);
    printGuarded(true, [&] {
      llvm::SmallVector<std::string> pointers;
      if (call.handle) {
        pointers.push_back(handleText(call));
      }
      pointers.append(pointersOf(call));
      for (std::string& pointer : pointers) {
        pointer = "sl::address(" + pointer + ")";
      }
      const llvm::SmallVector<std::string> scalars = scalarsOf(call);
      printArray("void* const", "pointers", pointers);
      printArray("const int64_t", "scalars", scalars);
      writer_.call(enqueue + "(",
                   {"ctx", queueText(call.queue), "thunk_" + call.entry.name,
                    pointers.empty() ? "nullptr" : "pointers", std::to_string(pointers.size()),
                    scalars.empty() ? "nullptr" : "scalars", std::to_string(scalars.size())},
                   ");");
    });
  }

  /// In prepare a handle is the place that `plan` writes; in run it is the object.
  std::string handleText(const EntryCall& call) const {
    return call.handle ? (inPrepare_ ? "*" : "") + index_.name(call.handle) : "nullptr";
  }

  void printExternal(const EntryCall& call) {
    writer_.line(scope(call.alone));
    writer_.indent();
    auto decl = llvm::cast<kernel::DeclOp>(call.entry.op);
    llvm::SmallVector<std::string> inputs = namesOf(call.inputs);
    const llvm::SmallVector<std::string> sizes = sizeTexts(decl, extentSpelling(index_));
    printArray("const int64_t", "sizes", sizes);
    if (!sizes.empty()) {
      inputs.push_back("sizes");
    }
    printArray("const void* const", "inputs", inputs);
    printArray("void* const", "outputs", namesOf(call.outputs));
    llvm::SmallVector<std::string> items = {
        "ctx",
        call.alone ? "sl::alone()" : "team",
        handleText(call),
        inputs.empty() ? "nullptr" : "inputs",
        call.outputs.empty() ? "nullptr" : "outputs",
        call.workspace.empty() ? "nullptr" : index_.name(call.workspace.front())};
    printRunCall(decl, items, writer_);
    writer_.dedent();
    writer_.line("}");
  }

  void printPlan(const EntryCall& call) {
    auto decl = llvm::cast<kernel::DeclOp>(call.entry.op);
    printGuarded(true, [&] {
      // One place for each input of the problem; null for inputs that are known only in a call.
      llvm::SmallVector<std::string> places;
      auto constants = call.inputs.begin();
      for (bool constant : decl.getConstants()) {
        places.push_back(constant ? index_.name(*constants++) : "nullptr");
      }
      printArray("const void* const", "constants", places);
      printPlanCall(decl,
                    {"ctx", "&" + problemName(decl), places.empty() ? "nullptr" : "constants",
                     index_.name(call.handle)},
                    writer_);
    });
  }

  std::string bytesText(BufferType type) const {
    return expression(type.bytes(), type.getNames(), extentSpelling(index_));
  }

  void copy(kernel::CopyOp copy, QueueUse queue) override {
    auto source = llvm::cast<BufferType>(copy.getSource().getType());
    auto destination = llvm::cast<BufferType>(copy.getDestination().getType());
    const std::string from = index_.name(copy.getSource());
    const std::string to = index_.name(copy.getDestination());
    if (queue.isTeam) {
      writer_.line("sl::copy(team, " + to + ", " + from + ", " + bytesText(source) + ");");
      return;
    }
    externals_.insert("sl_queue_copy");
    printGuarded(true, [&] {
      writer_.call("sl_queue_copy(",
                   {"ctx", queueText(queue), to, stringLiteral(destination.getSpace()), from,
                    stringLiteral(source.getSpace()), "size_t(" + bytesText(source) + ")"},
                   ");");
    });
  }

  void barrier() override { writer_.line("sl_barrier(team);"); }

  void record(kernel::RecordOp record, QueueUse queue) override {
    externals_.insert("sl_queue_record");
    externals_.insert("sl_queue_forget");
    externals_.insert("sl_queue_wait");  // sl::Event mentions it
    writer_.line("const sl::Event " + index_.name(record.getEvent()) + "(team, " +
                 queueText(queue) + ");");
  }

  void wait(kernel::WaitOp wait, QueueUse queue) override {
    writer_.line(index_.name(wait.getEvent()) + ".wait(team, " + queueText(queue) + ");");
  }

  void check(kernel::CheckOp check, int statement) override {
    writer_.line("if (!" + index_.name(check.getCondition()) + ") {  // " +
                 stringLiteral(check.getMessage()));
    writer_.line("  return sl::checkFailed(ctx, team, " + std::to_string(statement) + ");");
    writer_.line("}");
  }

  void alloc(kernel::AllocOp alloc) override {
    externals_.insert("sl_alloc");
    externals_.insert("sl_free");
    auto type = llvm::cast<BufferType>(alloc.getBuffer().getType());
    const std::string name = index_.name(alloc.getBuffer());
    const std::string bytes = alloc.getBytes() ? index_.name(alloc.getBytes()) : bytesText(type);
    writer_.call(
        "const sl::Allocation " + name + "_memory(",
        {"ctx", "team", index_.name(alloc.getCell()), stringLiteral(type.getSpace()), bytes}, ");");
    const std::string pointer = cppType(type.getElementType()) + "*";
    writer_.line(pointer + " const " + name + " = static_cast<" + pointer + ">(" + name +
                 "_memory.address());");
  }

  void view(kernel::ViewOp view) override { printView(view, index_, writer_); }

  //===- scalars -----------------------------------------------------------===//

  void printScalar(Value result, const std::string& text) {
    writer_.line("const " + cppType(result.getType()) + " " + index_.name(result) + " = " + text +
                 ";");
  }

  void size(kernel::SizeOp size) override {
    kernel::ExtentAttr value = size.getValue();
    printScalar(size.getResult(),
                expression(value.getExpr(), value.getNames(), extentSpelling(index_)));
  }

  void load(kernel::LoadOp load) override {
    auto name = [&](Value value) { return index_.name(value); };
    printScalar(load.getResult(),
                index_.name(load.getBuffer()) + "[" + loadPlace(load, index_, name) + "]");
  }

  void setExtent(kernel::SetExtentOp set, int statement) override {
    mlir::StringAttr symbol = set.getExtentAttr().getAttr();
    const int number = index_.extentNumber(symbol);
    kernel::ExtentOp extent = index_.extents()[number];
    kernel::ExtentAttr bound = extent.getBoundAttr();
    const std::string value = index_.name(set.getValue());
    const std::string limits =
        intLiteral(extent.getMin()) + ", " +
        expression(bound.getExpr(), bound.getNames(), extentSpelling(index_));
    writer_.line("if (sl::isOutside(" + value + ", " + limits + ")) {");
    writer_.line("  return sl::extentFailed(ctx, team, " + std::to_string(statement) + ", " +
                 value + ", " + limits + ");");
    writer_.line("}");
    writer_.line("sl::setExtent(team, io, " + std::to_string(number) + ", " + value + ");");
    if (readsExtent_.contains(number)) {
      writer_.line(index_.extentName(symbol) + " = " + value + ";");
    }
  }

  LogicalResult scalar(Operation* op, const EntryPoint&) override {
    ScalarPrinter printer;
    for (Value operand : op->getOperands()) {
      const bool literal =
          operand.getDefiningOp<mlir::arith::ConstantOp>() && !operand.getType().isInteger(1);
      const std::string name = index_.name(operand);
      printer.bind(operand, literal ? cppType(operand.getType()) + "(" + name + ")" : name);
    }
    mlir::FailureOr<std::string> text = printer.expression(op);
    if (failed(text)) {
      return mlir::failure();
    }
    printScalar(op->getResult(0), *text);
    return mlir::success();
  }

  //===- control flow ------------------------------------------------------===//

  void open(const std::string& line) {
    writer_.line(line);
    writer_.indent();
  }

  void close(const std::string& line) {
    writer_.dedent();
    writer_.line(line);
  }

  void beginIf(kernel::IfOp op) override { open("if (" + index_.name(op.getCondition()) + ") {"); }

  void beginElse() override {
    close("} else {");
    writer_.indent();
  }

  void endIf() override { close("}"); }

  void beginFor(kernel::ForOp loop) override {
    const std::string counter = index_.name(loop.getCounter());
    open("for (int64_t " + counter + " = " + index_.name(loop.getLower()) + "; " + counter + " < " +
         index_.name(loop.getUpper()) + "; " + counter + " += " + index_.name(loop.getStep()) +
         ") {");
  }

  void beginWhile() override { open("while (true) {"); }

  void condition(kernel::ConditionOp condition) override {
    writer_.line("if (!" + index_.name(condition.getCondition()) + ") {");
    writer_.line("  break;");
    writer_.line("}");
  }

  void endLoop(int statement) override {
    printStop("sl::cancelled", statement);
    close("}");
  }

  void endBlock(mlir::Block&) override {}  // scopes do that

  kernel::ProgramOp program_;
  const ProgramIndex& index_;
  bool profile_;
  llvm::SmallDenseSet<int> readsExtent_;  ///< extents that have a local in the phase
  Writer writer_;
  bool usesScalars_ = false, usesOwnKernels_ = false;
  bool inPrepare_ = false;
  bool isAlone_ = false;  ///< the phase is for one thread
  UniqueTexts externals_;
};

}  // namespace

mlir::FailureOr<ProgramText> printProgram(kernel::ProgramOp program, const ProgramIndex& index,
                                          bool profile) {
  return Printer(program, index, profile).print();
}

}  // namespace straightline::codegen
