// SPDX-License-Identifier: Apache-2.0
#include "codegen/python_printer.h"

#include "codegen/cpp_text.h"
#include "codegen/statement_walk.h"
#include "codegen/storage_printer.h"
#include "dialect/element_type.h"
#include "dialect/kernel/recorded.h"
#include "llvm/ADT/StringExtras.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace straightline::codegen {

using kernel::BufferType;
using llvm::StringRef;
using mlir::LogicalResult;
using mlir::Operation;
using mlir::Value;

namespace {

/// A number that C++ and Python parse to the same double.
std::string floatText(const llvm::APFloat& value) {
  if (value.isNaN() || value.isInfinity()) {
    return std::string("float(\"") + (value.isNegative() ? "-" : "") +
           (value.isNaN() ? "nan" : "inf") + "\")";
  }
  llvm::APFloat exact = value;
  bool inexact = false;
  exact.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return doubleText(exact.convertToDouble());
}

std::string literal(mlir::TypedAttr value) {
  if (auto number = llvm::dyn_cast<mlir::FloatAttr>(value)) {
    return floatText(number.getValue());
  }
  const llvm::APInt integer = llvm::cast<mlir::IntegerAttr>(value).getValue();
  if (value.getType().isInteger(1)) {
    return integer.isZero() ? "False" : "True";
  }
  return llvm::toString(integer, 10, /*Signed=*/!value.getType().isUnsignedInteger());
}

/// The type's name in numpy and torch.
std::string dtypeName(mlir::Type type) {
  if (type.isBF16()) {
    return "bfloat16";
  }
  if (type.isInteger(1)) {
    return "bool";
  }
  if (std::optional<int> code = float8Code(type)) {
    constexpr const char* kNames[] = {"e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"};
    return std::string("float8_") + kNames[*code - 10];
  }
  const std::string width = std::to_string(type.getIntOrFloatBitWidth());
  return (type.isFloat() ? "float" : type.isUnsignedInteger() ? "uint" : "int") + width;
}

const char* roleWord(sl_role role) {
  switch (role) {
    case SL_ROLE_PARAMETER:
      return "parameter";
    case SL_ROLE_STATE:
      return "state";
    case SL_ROLE_PREPARED:
      return "prepared";
    case SL_ROLE_HANDLE:
      return "handle";
    case SL_ROLE_INPUT:
      return "input";
    case SL_ROLE_OUTPUT:
      return "output";
    case SL_ROLE_ARENA:
      return "arena";
    case SL_ROLE_VIEW:
      return "view";
    case SL_ROLE_CONSTANT:
      return "constant";
    case SL_ROLE_RUNTIME:
      return "allocated";
  }
  return "";
}

class Printer final : public StatementPrinter {
 public:
  Printer(kernel::ProgramOp program, const ProgramIndex& index)
      : program_(program), index_(index) {}

  mlir::FailureOr<std::string> print() {
    std::string functions;
    kernel::PrepareOp prepare = program_.getPrepareOp();
    if (prepare && failed(printPhase("prepare", prepare.getBody(), functions))) {
      return mlir::failure();
    }
    if (failed(printPhase("run", program_.getRunOp().getBody(), functions))) {
      return mlir::failure();
    }
    std::set<std::string> backends;
    for (const EntryPoint& entry : index_.entries().all()) {
      backends.insert(entry.backend);
    }
    const std::string imports = backends.empty() ? ""
                                                 : "from straightline.kernels import " +
                                                       llvm::join(backends, ", ") + "\n\n";
    return imports + functions;
  }

 private:
  //===- functions ---------------------------------------------------------===//

  LogicalResult printPhase(const std::string& name, mlir::Region& region, std::string& out) {
    writer_ = Writer(4);
    writer_.indent();
    hasCode_ = {false};
    if (failed(walkStatements(region, index_, /*profile=*/false, *this))) {
      return mlir::failure();
    }
    const std::string statements = writer_.take();
    const std::string code = withoutComments(statements);
    const llvm::StringSet<> words = wordsOf(code);
    Writer locals(4);
    locals.indent();
    auto bind = [&](const std::string& local, const std::string& text) {
      if (words.contains(local)) {
        locals.line(local + " = " + text);
      }
    };
    bind("team", "io.team");
    bind("alone", "io.alone");
    for (size_t queue = 1; queue < index_.queues().size(); ++queue) {
      bind("queue_" + std::to_string(queue), "io.queues[" + std::to_string(queue) + "]");
    }
    const Locals used = localsOf(region, index_);
    for (int extent : used.extents) {
      bind(index_.extentName(kernel::ExtentOp(index_.extents()[extent]).getSymNameAttr()),
           "io.extents[" + std::to_string(extent) + "]");
    }
    if (!used.buffers.empty()) {
      locals.line("buffers = io.buffers");
    }
    for (int buffer : used.buffers) {
      const BufferLine& line = index_.buffers()[buffer];
      if (line.role != SL_ROLE_VIEW && line.role != SL_ROLE_RUNTIME) {
        bind(index_.name(line.value),
             "buffers[" + std::to_string(buffer) + "]  # " + describe(line));
      }
    }
    const std::string whole = locals.take() + statements;
    out += "\ndef " + name + "(io):\n" + (code.empty() ? "    pass\n" : whole) + "\n";
    return mlir::success();
  }

  static std::string withoutComments(StringRef text) {
    std::string code;
    llvm::SmallVector<StringRef> lines;
    text.split(lines, '\n', -1, /*KeepEmpty=*/false);
    for (StringRef line : lines) {
      const std::string kept = line.split('#').first.rtrim().str();
      code += kept.empty() ? "" : kept + "\n";
    }
    return code;
  }

  /// `parameter "fc.bias": float32[10]`.
  std::string describe(const BufferLine& line) const {
    std::string text = roleWord(line.role);
    if (!line.source.empty()) {
      text += " " + stringLiteral(line.source);
    }
    auto type = llvm::dyn_cast<BufferType>(line.value.getType());
    return type ? text + ": " + typeText(type) : text;
  }

  std::string typeText(BufferType type) const {
    std::string extents;
    for (mlir::AffineExpr extent : type.getExtents()) {
      extents += (extents.empty() ? "" : ", ") + expressionText(extent, type.getNames());
    }
    return dtypeName(type.getElementType()) + "[" + extents + "]";
  }

  std::string expressionText(mlir::AffineExpr expr, llvm::ArrayRef<mlir::StringAttr> names) const {
    return expression(expr, names, extentSpelling(index_), "//");
  }

  std::string nameOf(Value value) const {
    auto constant = value.getDefiningOp<mlir::arith::ConstantOp>();
    return constant ? literal(constant.getValue()) : index_.name(value);
  }

  //===- lines and blocks --------------------------------------------------===//

  void code(const std::string& line) {
    writer_.line(line);
    hasCode_.back() = true;
  }

  void open(const std::string& line) {
    code(line);
    writer_.indent();
    hasCode_.push_back(false);
  }

  void close() {
    if (!hasCode_.back()) {
      writer_.line("pass");
    }
    hasCode_.pop_back();
    writer_.dedent();
  }

  void comment(const std::string& text) override { writer_.line("# " + text); }
  void profile(int, bool) override {}

  //===- statements --------------------------------------------------------===//

  static std::string queueText(QueueUse queue, bool alone) {
    return !queue.isTeam ? "queue_" + std::to_string(queue.number) : alone ? "alone" : "team";
  }

  void call(const EntryCall& call) override {
    llvm::SmallVector<std::string> items = {queueText(call.queue, call.alone)};
    const bool isPlan = call.entry.kind == SL_ENTRY_PLAN;
    if (call.handle && !isPlan) {
      items.push_back(index_.name(call.handle));
    }
    for (llvm::ArrayRef<Value> values : {llvm::ArrayRef(call.inputs), llvm::ArrayRef(call.outputs),
                                         llvm::ArrayRef(call.workspace)}) {
      for (Value value : values) {
        items.push_back(index_.name(value));
      }
    }
    if (isPlan) {
      items.push_back(index_.name(call.handle));
    }
    for (kernel::ExtentAttr value : call.scalars) {
      items.push_back(expressionText(value.getExpr(), value.getNames()));
    }
    if (kernel::runsOnDevice(call.entry.op)) {
      const kernel::ExtentAttr blocks = kernel::blocksOf(call.entry.op);
      auto threads = call.entry.op->getAttrOfType<mlir::IntegerAttr>(kernel::kThreadsAttr);
      items.push_back("grid=" + expressionText(blocks.getExpr(), blocks.getNames()));
      items.push_back("block=" + std::to_string(threads.getInt()));
    }
    writer_.call(call.entry.backend + "." + call.entry.name + "(", items, ")");
    hasCode_.back() = true;
  }

  void stopIfFailed(int statement, bool) override {
    code("io.stop_if_failed(" + std::to_string(statement) + ")");
  }

  void copy(kernel::CopyOp copy, QueueUse queue) override {
    auto type = llvm::cast<BufferType>(copy.getSource().getType());
    code(queueText(queue, false) + ".copy(" + index_.name(copy.getDestination()) + ", " +
         index_.name(copy.getSource()) + ", " + expressionText(type.bytes(), type.getNames()) +
         ")");
  }

  void barrier() override {}  // a call over the team returns when all threads have

  void record(kernel::RecordOp record, QueueUse queue) override {
    code(index_.name(record.getEvent()) + " = " + queueText(queue, false) + ".record()");
  }

  void wait(kernel::WaitOp wait, QueueUse queue) override {
    code(queueText(queue, false) + ".wait(" + index_.name(wait.getEvent()) + ")");
  }

  void check(kernel::CheckOp check, int statement) override {
    std::string message = stringLiteral(check.getMessage());
    open("if not " + nameOf(check.getCondition()) + ":  # " + message);
    code("io.check_failed(" + std::to_string(statement) + ")");
    close();
  }

  void alloc(kernel::AllocOp alloc) override {
    auto type = llvm::cast<BufferType>(alloc.getBuffer().getType());
    code(index_.name(alloc.getBuffer()) + " = io.alloc(" + numberOf(alloc.getBuffer()) + ", " +
         (alloc.getBytes() ? nameOf(alloc.getBytes())
                           : expressionText(type.bytes(), type.getNames())) +
         ")  # " + typeText(type));
  }

  void view(kernel::ViewOp view) override {
    if (!isAddressNeeded(view)) {
      return;
    }
    kernel::ExtentAttr offset = view.getOffset();
    const Spelling spelling =
        viewSpelling(view, index_, [&](Value value) { return nameOf(value); });
    const std::string place = expression(offset.getExpr(), offset.getNames(), spelling, "//");
    const std::string name = index_.name(view.getResult());
    const std::string base = index_.name(view.getBase());
    const std::string type = typeText(llvm::cast<BufferType>(view.getResult().getType()));
    if (isPlaced(view)) {
      code(name + " = buffers[" + numberOf(view.getResult()) + "]  # " + base +
           (place == "0" ? "" : " + " + place) + ": " + type);
    } else {
      code(name + " = " + base + ".view(" + numberOf(view.getResult()) + ", " + place + ")  # " +
           type);
    }
  }

  /// Whether the view's address is known before the first statement.
  static bool isPlaced(kernel::ViewOp view) {
    for (Operation* op = view; auto next = llvm::dyn_cast_or_null<kernel::ViewOp>(op);
         op = next.getBase().getDefiningOp()) {
      if (isDynamicView(next) || next.getBase().getDefiningOp<kernel::AllocOp>()) {
        return false;
      }
    }
    return true;
  }

  std::string numberOf(Value buffer) const { return std::to_string(index_.bufferNumber(buffer)); }

  //===- scalars -----------------------------------------------------------===//

  void size(kernel::SizeOp size) override {
    kernel::ExtentAttr value = size.getValue();
    code(index_.name(size.getResult()) + " = " + expressionText(value.getExpr(), value.getNames()));
  }

  void load(kernel::LoadOp load) override {
    const std::string place = loadPlace(load, index_, [&](Value value) { return nameOf(value); });
    code(index_.name(load.getResult()) + " = " + index_.name(load.getBuffer()) + "[" + place + "]");
  }

  void setExtent(kernel::SetExtentOp set, int statement) override {
    code(index_.extentName(set.getExtentAttr().getAttr()) + " = io.set_extent(" +
         std::to_string(statement) + ", " + nameOf(set.getValue()) + ")");
  }

  LogicalResult scalar(Operation* op, const EntryPoint& entry) override {
    llvm::SmallVector<std::string> items =
        llvm::map_to_vector(op->getOperands(), [&](Value v) { return nameOf(v); });
    writer_.call(index_.name(op->getResult(0)) + " = " + entry.backend + "." + entry.name + "(",
                 items, ")");
    hasCode_.back() = true;
    return mlir::success();
  }

  //===- control flow ------------------------------------------------------===//

  void beginIf(kernel::IfOp op) override { open("if " + nameOf(op.getCondition()) + ":"); }

  void beginElse() override {
    close();
    open("else:");
  }

  void endIf() override { close(); }

  void beginFor(kernel::ForOp loop) override {
    open("for " + index_.name(loop.getCounter()) + " in range(" + nameOf(loop.getLower()) + ", " +
         nameOf(loop.getUpper()) + ", " + nameOf(loop.getStep()) + "):");
  }

  void beginWhile() override { open("while True:"); }

  void condition(kernel::ConditionOp condition) override {
    open("if not " + nameOf(condition.getCondition()) + ":");
    code("break");
    close();
  }

  void endLoop(int statement) override {
    code("io.back_edge(" + std::to_string(statement) + ")");
    close();
  }

  void endBlock(mlir::Block& block) override {
    for (auto alloc : block.getOps<kernel::AllocOp>()) {
      code("del " + index_.name(alloc.getBuffer()));
    }
  }

  kernel::ProgramOp program_;
  const ProgramIndex& index_;
  Writer writer_;
  std::vector<bool> hasCode_ = {false};  ///< by open block: whether a statement stands in it
};

}  // namespace

mlir::FailureOr<std::string> printPython(kernel::ProgramOp program, const ProgramIndex& index) {
  return Printer(program, index).print();
}

}  // namespace straightline::codegen
