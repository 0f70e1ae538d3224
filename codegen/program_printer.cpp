// SPDX-License-Identifier: Apache-2.0
#include "codegen/program_printer.h"

#include "codegen/cpp_text.h"
#include "codegen/external_calls.h"
#include "codegen/scalar_printer.h"
#include "codegen/storage_printer.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace straightline::codegen {

using kernel::BufferType;
using llvm::StringRef;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::Value;

namespace {

class Printer {
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
    std::string functions;
    kernel::PrepareOp prepare = program_.getPrepareOp();
    if (prepare && failed(printPhase("sl_program_prepare", prepare.getBody(), functions))) {
      return mlir::failure();
    }
    if (failed(printPhase("sl_program_run", program_.getRunOp().getBody(), functions))) {
      return mlir::failure();
    }
    ProgramText text;
    text.includes = {"#include \"straightline/kernels/program.h\""};
    if (usesScalars_) {
      text.includes.push_back("#include \"straightline/kernels/scalar.h\"");
    }
    text.hasPrepare = static_cast<bool>(prepare);
    for (kernel::DeclOp decl : decls_) {
      text.declarations += printExternalPrototypes(decl);
      for (StringRef symbol : externalSymbols(decl)) {
        externals_.insert(symbol.str());
      }
    }
    std::string thunks;
    for (Operation* entry : thunks_) {
      thunks += printThunk(entry) + "\n";
    }
    text.body = constants + thunks + functions;
    text.externals.assign(externals_.begin(), externals_.end());
    return text;
  }

 private:
  //===- functions ---------------------------------------------------------===//

  LogicalResult printPhase(const std::string& name, mlir::Region& region, std::string& out) {
    writer_ = Writer();
    writer_.indent();
    printLocals(region, index_, writer_);
    inPrepare_ = llvm::isa<kernel::PrepareOp>(region.getParentOp());
    if (failed(printBlock(region.front()))) {
      return mlir::failure();
    }
    writer_.line("return SL_OK;");
    const std::string body = writer_.take();
    // A parameter without a use has no name, so that nothing warns.
    auto parameter = [&](StringRef type, StringRef parameterName) {
      return type.str() + (mentions(body, parameterName) ? " " + parameterName.str() : "");
    };
    out += "extern \"C\" int32_t " + name + "(" + parameter("sl_ctx*", "ctx") + ", " + parameter("sl_team", "team") +
           ", " + parameter("const sl_bindings*", "io") + ") {\n" + body + "}\n\n";
    return mlir::success();
  }

  static bool mentions(StringRef body, StringRef word) {
    auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_'; };
    for (size_t at = body.find(word); at != StringRef::npos; at = body.find(word, at + 1)) {
      const bool starts = at == 0 || !isWord(body[at - 1]);
      const size_t end = at + word.size();
      if (starts && (end == body.size() || !isWord(body[end]))) {
        return true;
      }
    }
    return false;
  }

  LogicalResult printBlock(mlir::Block& block) {
    for (Operation& op : block) {
      const bool timed = profile_ && llvm::isa<kernel::LaunchOp, kernel::CallOp, kernel::CopyOp, kernel::PlanOp>(op);
      const std::string number = std::to_string(index_.statementNumber(&op));
      printComment(&op);
      if (timed) {
        writer_.line("sl::profile(ctx, team, " + number + ", 1);");
      }
      if (failed(printStatement(&op))) {
        return mlir::failure();
      }
      if (timed) {
        writer_.line("sl::profile(ctx, team, " + number + ", 0);");
      }
      printFailureTest(&op);
    }
    return mlir::success();
  }

  /// `// linear, relu: fc (model.py:12)`.
  void printComment(Operation* op) {
    if (llvm::isa<kernel::SlotOp, kernel::ViewOp, kernel::SizeOp, kernel::ReturnOp, kernel::ConditionOp,
                  kernel::BarrierOp>(op) ||
        !llvm::isa<kernel::KernelDialect>(op->getDialect())) {
      return;
    }
    auto name = op->getAttrOfType<mlir::StringAttr>("op");
    const std::string what = name ? name.str() : op->getName().stripDialect().str();
    const std::string source = sourceOf(op->getLoc());
    std::string text = what + (source.empty() ? "" : ": " + source);
    llvm::replace(text, '\n', ' ');
    llvm::replace(text, '\\', '/');  // at the end of a line it would take the next one in
    writer_.line("// " + text);
  }

  void printFailureTest(Operation* op) {
    auto call = llvm::dyn_cast<kernel::KernelCallInterface>(op);
    if ((call && call.canFail()) || llvm::isa<kernel::PlanOp, kernel::AllocOp>(op)) {
      printStop("sl_failed", op);
    }
  }

  void printStop(const std::string& condition, Operation* op) {
    writer_.line("if (" + condition + "(ctx, team)) {");
    writer_.line("  return sl::stop(ctx, team, " + std::to_string(index_.statementNumber(op)) + ");");
    writer_.line("}");
  }

  //===- statements --------------------------------------------------------===//

  LogicalResult printStatement(Operation* op) {
    return llvm::TypeSwitch<Operation*, LogicalResult>(op)
        .Case<kernel::SlotOp, kernel::ReturnOp, mlir::arith::ConstantOp>([](auto) { return mlir::success(); })
        .Case<kernel::LaunchOp>([&](auto launch) { return printLaunch(launch); })
        .Case<kernel::CallOp>([&](auto call) { return printCall(call); })
        .Case<kernel::PlanOp>([&](auto plan) { return printPlan(plan); })
        .Case<kernel::CopyOp>([&](auto copy) { return printCopy(copy); })
        .Case<kernel::BarrierOp>([&](auto) {
          writer_.line("sl_barrier(team);");
          return mlir::success();
        })
        .Case<kernel::RecordOp>([&](auto record) { return printRecord(record); })
        .Case<kernel::WaitOp>([&](auto wait) { return printWait(wait); })
        .Case<kernel::CheckOp>([&](auto check) { return printCheck(check); })
        .Case<kernel::AllocOp>([&](auto alloc) { return printAlloc(alloc); })
        .Case<kernel::ViewOp>([&](auto view) {
          printView(view, index_, writer_);
          return mlir::success();
        })
        .Case<kernel::SizeOp>([&](auto size) {
          kernel::ExtentAttr value = size.getValue();
          printScalar(size.getResult(), expression(value.getExpr(), value.getNames(), extentSpelling(index_)));
          return mlir::success();
        })
        .Case<kernel::LoadOp>([&](auto load) { return printLoad(load); })
        .Case<kernel::IfOp>([&](auto statement) { return printIf(statement); })
        .Case<kernel::ForOp>([&](auto loop) { return printFor(loop); })
        .Case<kernel::WhileOp>([&](auto loop) { return printWhile(loop); })
        .Case<kernel::ConditionOp>([&](auto condition) {
          writer_.line("if (!" + index_.name(condition.getCondition()) + ") {");
          writer_.line("  break;");
          writer_.line("}");
          return mlir::success();
        })
        .Default([&](Operation* scalar) { return printScalarOp(scalar); });
  }

  std::string queueText(mlir::FlatSymbolRefAttr queue) const {
    return "io->queues[" + std::to_string(index_.queueNumber(queue)) + "]";
  }

  bool isTeam(mlir::FlatSymbolRefAttr queue) const {
    return kernel::QueueOp(index_.queues()[index_.queueNumber(queue)]).getBackend() == "cpu";
  }

  llvm::SmallVector<std::string> pointersOf(kernel::KernelCallInterface call) const {
    llvm::SmallVector<std::string> pointers;
    for (mlir::OperandRange operands : {call.getInputs(), call.getOutputs(), call.getWorkspace()}) {
      for (Value buffer : operands) {
        pointers.push_back(index_.name(buffer));
      }
    }
    return pointers;
  }

  LogicalResult printLaunch(kernel::LaunchOp launch) {
    auto func = llvm::cast<kernel::FuncOp>(launch.getEntryOp());
    llvm::SmallVector<std::string> pointers = pointersOf(launch);
    llvm::SmallVector<std::string> scalars;
    for (mlir::StringAttr name : func.getScalarNames()) {
      scalars.push_back(index_.extentName(name));
    }
    if (!isTeam(launch.getQueueAttr())) {
      thunks_.insert(func);
      printEnqueue(launch.getQueueAttr(), func.getSymName(), pointers, scalars);
      return mlir::success();
    }
    const bool one = launch.getTeamSize() == 1;
    llvm::SmallVector<std::string> items = {"ctx", one ? "sl::alone()" : "team"};
    items.append(pointers);
    items.append(scalars);
    printGuarded(one, [&] { writer_.call(func.getSymName().str() + "(", items, ");"); });
    return mlir::success();
  }

  /// In braces behind a test for thread 0 where only that one takes part.
  void printGuarded(bool guarded, llvm::function_ref<void()> print) {
    if (!guarded) {
      print();
      return;
    }
    writer_.line("if (team.index == 0) {");
    writer_.indent();
    print();
    writer_.dedent();
    writer_.line("}");
  }

  void printArray(const std::string& type, const std::string& name, llvm::ArrayRef<std::string> items) {
    if (!items.empty()) {
      writer_.call(type + " " + name + "[] = {", items, "};");
    }
  }

  void printEnqueue(mlir::FlatSymbolRefAttr queue, StringRef entry, llvm::ArrayRef<std::string> pointers,
                    llvm::ArrayRef<std::string> scalars) {
    externals_.insert("sl_queue_launch");
    printGuarded(true, [&] {
      llvm::SmallVector<std::string> addresses;
      for (const std::string& pointer : pointers) {
        addresses.push_back("sl::address(" + pointer + ")");
      }
      printArray("void* const", "pointers", addresses);
      printArray("const int64_t", "scalars", scalars);
      writer_.call("sl_queue_launch(",
                   {"ctx", queueText(queue), "enqueue_" + entry.str(), pointers.empty() ? "nullptr" : "pointers",
                    std::to_string(pointers.size()), scalars.empty() ? "nullptr" : "scalars",
                    std::to_string(scalars.size())},
                   ");");
    });
  }

  /// In prepare a handle is a place that `plan` writes, in run it is the object.
  std::string handleText(kernel::CallOp call, const char* none) const {
    return call.getHandle() ? (inPrepare_ ? "*" : "") + index_.name(call.getHandle()) : none;
  }

  LogicalResult printCall(kernel::CallOp call) {
    auto decl = llvm::cast<kernel::DeclOp>(call.getEntryOp());
    decls_.insert(decl);
    if (!isTeam(call.getQueueAttr())) {
      thunks_.insert(decl);
      llvm::SmallVector<std::string> pointers;
      pointers.push_back(handleText(call, "static_cast<void*>(nullptr)"));
      pointers.append(pointersOf(call));
      printEnqueue(call.getQueueAttr(), decl.getSymName(), pointers, {});
      return mlir::success();
    }
    const bool one = call.getTeamSize() == 1;
    auto names = [&](mlir::OperandRange operands) {
      return llvm::map_to_vector(operands, [&](Value buffer) { return index_.name(buffer); });
    };
    writer_.line(one ? "if (team.index == 0) {" : "{");
    writer_.indent();
    llvm::SmallVector<std::string> inputs = names(call.getInputs());
    llvm::SmallVector<std::string> sizes = llvm::map_to_vector(decl.getSizes(), [&](kernel::ExtentAttr size) {
      return expression(size.getExpr(), size.getNames(), extentSpelling(index_));
    });
    printArray("const int64_t", "sizes", sizes);
    if (!sizes.empty()) {
      inputs.push_back("sizes");
    }
    printArray("const void* const", "inputs", inputs);
    printArray("void* const", "outputs", names(call.getOutputs()));
    llvm::SmallVector<std::string> items = {
        "ctx", one ? "sl::alone()" : "team", handleText(call, "nullptr"),
        inputs.empty() ? "nullptr" : "inputs", call.getOutputs().empty() ? "nullptr" : "outputs",
        call.getWorkspace().empty() ? "nullptr" : index_.name(call.getWorkspace().front())};
    writer_.call("sl::report(ctx, " + decl.getRun().str() + "(", items, "));");
    writer_.dedent();
    writer_.line("}");
    return mlir::success();
  }

  LogicalResult printPlan(kernel::PlanOp plan) {
    auto decl = llvm::cast<kernel::DeclOp>(lookupEntry(plan, plan.getCalleeAttr()));
    decls_.insert(decl);
    printGuarded(true, [&] {
      printProblem(decl, program_.getTarget(), writer_);
      // One place per input of the problem, null for those that are only known per call.
      llvm::SmallVector<std::string> places;
      auto constants = plan.getConstants().begin();
      for (bool constant : decl.getConstants()) {
        places.push_back(constant ? index_.name(*constants++) : "nullptr");
      }
      printArray("const void* const", "constants", places);
      writer_.call("sl::report(ctx, " + decl.getPlan()->str() + "(",
                   {"ctx", "&problem", places.empty() ? "nullptr" : "constants", index_.name(plan.getHandle())}, "));");
    });
    return mlir::success();
  }

  std::string bytesText(BufferType type) const {
    return expression(type.bytes(), type.getNames(), extentSpelling(index_));
  }

  LogicalResult printCopy(kernel::CopyOp copy) {
    auto source = llvm::cast<BufferType>(copy.getSource().getType());
    auto destination = llvm::cast<BufferType>(copy.getDestination().getType());
    const std::string from = index_.name(copy.getSource());
    const std::string to = index_.name(copy.getDestination());
    if (isTeam(copy.getQueueAttr())) {
      writer_.line("sl::copy(team, " + to + ", " + from + ", " + bytesText(source) + ");");
      return mlir::success();
    }
    externals_.insert("sl_queue_copy");
    printGuarded(true, [&] {
      writer_.call("sl_queue_copy(",
                   {"ctx", queueText(copy.getQueueAttr()), to, stringLiteral(destination.getSpace()), from,
                    stringLiteral(source.getSpace()), "size_t(" + bytesText(source) + ")"},
                   ");");
    });
    return mlir::success();
  }

  LogicalResult printRecord(kernel::RecordOp record) {
    externals_.insert("sl_queue_record");
    externals_.insert("sl_queue_forget");
    externals_.insert("sl_queue_wait");  // sl::Event mentions it
    writer_.line("const sl::Event " + index_.name(record.getEvent()) + "(team, " + queueText(record.getQueueAttr()) +
                 ");");
    return mlir::success();
  }

  LogicalResult printWait(kernel::WaitOp wait) {
    writer_.line(index_.name(wait.getEvent()) + ".wait(team, " + queueText(wait.getQueueAttr()) + ");");
    return mlir::success();
  }

  LogicalResult printCheck(kernel::CheckOp check) {
    writer_.line("if (!" + index_.name(check.getCondition()) + ") {  // " + stringLiteral(check.getMessage()));
    writer_.line("  return sl::checkFailed(ctx, team, " + std::to_string(index_.statementNumber(check)) + ");");
    writer_.line("}");
    return mlir::success();
  }

  LogicalResult printAlloc(kernel::AllocOp alloc) {
    externals_.insert("sl_alloc");
    externals_.insert("sl_free");
    auto type = llvm::cast<BufferType>(alloc.getBuffer().getType());
    const std::string name = index_.name(alloc.getBuffer());
    const std::string bytes = alloc.getBytes() ? index_.name(alloc.getBytes()) : bytesText(type);
    writer_.call("const sl::Allocation " + name + "_memory(",
                 {"ctx", "team", index_.name(alloc.getCell()), stringLiteral(type.getSpace()), bytes}, ");");
    const std::string pointer = cppType(type.getElementType()) + "*";
    writer_.line(pointer + " const " + name + " = static_cast<" + pointer + ">(" + name + "_memory.address());");
    return mlir::success();
  }

  //===- scalars -----------------------------------------------------------===//

  void printScalar(Value result, const std::string& text) {
    writer_.line("const " + cppType(result.getType()) + " " + index_.name(result) + " = " + text + ";");
  }

  LogicalResult printLoad(kernel::LoadOp load) {
    auto type = llvm::cast<BufferType>(load.getBuffer().getType());
    std::string place;
    for (auto [stride, index] : llvm::zip(type.getStrides(), load.getIndices())) {
      const std::string step = expression(stride, type.getNames(), extentSpelling(index_));
      const std::string at = index_.name(index);
      const bool simple = llvm::all_of(step, [](char c) { return llvm::isAlnum(c) || c == '_'; });
      place += (place.empty() ? "" : " + ") +
               (step == "1" ? at : at + " * " + (simple ? step : "(" + step + ")"));
    }
    printScalar(load.getResult(), index_.name(load.getBuffer()) + "[" + (place.empty() ? "0" : place) + "]");
    return mlir::success();
  }

  LogicalResult printScalarOp(Operation* op) {
    usesScalars_ = true;
    ScalarPrinter printer;
    for (Value operand : op->getOperands()) {
      const bool literal = operand.getDefiningOp<mlir::arith::ConstantOp>() && !operand.getType().isInteger(1);
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

  LogicalResult printNested(mlir::Region& region) {
    writer_.indent();
    LogicalResult result = printBlock(region.front());
    writer_.dedent();
    return result;
  }

  /// All threads leave a loop at the same iteration, and none starts the next before all have ended this one.
  void printBackEdge(Operation* loop) {
    writer_.indent();
    printStop("sl::cancelled", loop);
    writer_.dedent();
    writer_.line("}");
  }

  LogicalResult printIf(kernel::IfOp op) {
    writer_.line("if (" + index_.name(op.getCondition()) + ") {");
    if (failed(printNested(op.getThenRegion()))) {
      return mlir::failure();
    }
    if (!op.getElseRegion().empty()) {
      writer_.line("} else {");
      if (failed(printNested(op.getElseRegion()))) {
        return mlir::failure();
      }
    }
    writer_.line("}");
    return mlir::success();
  }

  LogicalResult printFor(kernel::ForOp loop) {
    const std::string counter = index_.name(loop.getCounter());
    writer_.line("for (int64_t " + counter + " = " + index_.name(loop.getLower()) + "; " + counter + " < " +
                 index_.name(loop.getUpper()) + "; " + counter + " += " + index_.name(loop.getStep()) + ") {");
    if (failed(printNested(loop.getBody()))) {
      return mlir::failure();
    }
    printBackEdge(loop);
    return mlir::success();
  }

  LogicalResult printWhile(kernel::WhileOp loop) {
    writer_.line("while (true) {");
    if (failed(printNested(loop.getBefore())) || failed(printNested(loop.getBody()))) {
      return mlir::failure();
    }
    printBackEdge(loop);
    return mlir::success();
  }

  kernel::ProgramOp program_;
  const ProgramIndex& index_;
  bool profile_;
  Writer writer_;
  bool usesScalars_ = false;
  bool inPrepare_ = false;
  llvm::SetVector<Operation*> thunks_;
  llvm::SetVector<kernel::DeclOp> decls_;
  UniqueTexts externals_;
};

}  // namespace

mlir::FailureOr<ProgramText> printProgram(kernel::ProgramOp program, const ProgramIndex& index, bool profile) {
  return Printer(program, index, profile).print();
}

}  // namespace straightline::codegen
