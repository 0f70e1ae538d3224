// SPDX-License-Identifier: Apache-2.0
#include "codegen/table_printer.h"

#include "codegen/cpp_text.h"
#include "codegen/external_calls.h"
#include "codegen/kernel_printer.h"
#include "codegen/own_source.h"
#include "codegen/storage_printer.h"
#include "dialect/kernel/computed_extents.h"
#include "dialect/kernel/own.h"
#include "dialect/kernel/recorded.h"
#include "dialect/kernel/size_advice.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Format.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace straightline::codegen {

using kernel::BufferType;
using kernel::ExtentAttr;
using mlir::AffineExpr;
using mlir::Operation;
using mlir::StringAttr;
using mlir::Value;

namespace {

const char* kindName(sl_statement_kind kind) {
  switch (kind) {
    case SL_STATEMENT_LAUNCH:
      return "SL_STATEMENT_LAUNCH";
    case SL_STATEMENT_CALL:
      return "SL_STATEMENT_CALL";
    case SL_STATEMENT_COPY:
      return "SL_STATEMENT_COPY";
    case SL_STATEMENT_BARRIER:
      return "SL_STATEMENT_BARRIER";
    case SL_STATEMENT_RECORD:
      return "SL_STATEMENT_RECORD";
    case SL_STATEMENT_WAIT:
      return "SL_STATEMENT_WAIT";
    case SL_STATEMENT_CHECK:
      return "SL_STATEMENT_CHECK";
    case SL_STATEMENT_ALLOC:
      return "SL_STATEMENT_ALLOC";
    case SL_STATEMENT_VIEW:
      return "SL_STATEMENT_VIEW";
    case SL_STATEMENT_SIZE:
      return "SL_STATEMENT_SIZE";
    case SL_STATEMENT_IF:
      return "SL_STATEMENT_IF";
    case SL_STATEMENT_FOR:
      return "SL_STATEMENT_FOR";
    case SL_STATEMENT_WHILE:
      return "SL_STATEMENT_WHILE";
    case SL_STATEMENT_ELSE:
      return "SL_STATEMENT_ELSE";
    case SL_STATEMENT_DO:
      return "SL_STATEMENT_DO";
    case SL_STATEMENT_END:
      return "SL_STATEMENT_END";
    case SL_STATEMENT_RETURN:
      return "SL_STATEMENT_RETURN";
    case SL_STATEMENT_SCALAR:
      return "SL_STATEMENT_SCALAR";
    case SL_STATEMENT_EXTENT:
      return "SL_STATEMENT_EXTENT";
  }
  return "";
}

const char* kindName(sl_entry_kind kind) {
  switch (kind) {
    case SL_ENTRY_KERNEL:
      return "SL_ENTRY_KERNEL";
    case SL_ENTRY_EXTERNAL:
      return "SL_ENTRY_EXTERNAL";
    case SL_ENTRY_PLAN:
      return "SL_ENTRY_PLAN";
    case SL_ENTRY_SCALAR:
      return "SL_ENTRY_SCALAR";
  }
  return "";
}

const char* roleName(sl_argument_role role) {
  switch (role) {
    case SL_ARGUMENT_INPUT:
      return "SL_ARGUMENT_INPUT";
    case SL_ARGUMENT_OUTPUT:
      return "SL_ARGUMENT_OUTPUT";
    case SL_ARGUMENT_READWRITE:
      return "SL_ARGUMENT_READWRITE";
    case SL_ARGUMENT_WORKSPACE:
      return "SL_ARGUMENT_WORKSPACE";
    case SL_ARGUMENT_HANDLE:
      return "SL_ARGUMENT_HANDLE";
    case SL_ARGUMENT_VALUE:
      return "SL_ARGUMENT_VALUE";
  }
  return "";
}

const char* roleName(sl_role role) {
  switch (role) {
    case SL_ROLE_PARAMETER:
      return "SL_ROLE_PARAMETER";
    case SL_ROLE_STATE:
      return "SL_ROLE_STATE";
    case SL_ROLE_PREPARED:
      return "SL_ROLE_PREPARED";
    case SL_ROLE_HANDLE:
      return "SL_ROLE_HANDLE";
    case SL_ROLE_INPUT:
      return "SL_ROLE_INPUT";
    case SL_ROLE_OUTPUT:
      return "SL_ROLE_OUTPUT";
    case SL_ROLE_ARENA:
      return "SL_ROLE_ARENA";
    case SL_ROLE_VIEW:
      return "SL_ROLE_VIEW";
    case SL_ROLE_CONSTANT:
      return "SL_ROLE_CONSTANT";
    case SL_ROLE_RUNTIME:
      return "SL_ROLE_RUNTIME";
  }
  return "";
}

/// Inputs and outputs of a statement, as buffers.
struct Operands {
  llvm::SmallVector<Value> inputs, outputs;
};

Operands operandsOf(Operation* op) {
  Operands result;
  auto isBuffer = [](Value value) {
    return llvm::isa<BufferType, kernel::HandleType>(value.getType());
  };
  if (auto call = llvm::dyn_cast<kernel::KernelCallInterface>(op)) {
    if (Value handle = call.getHandleOrNull()) {
      result.inputs.push_back(handle);
    }
    llvm::append_range(result.inputs, call.getInputs());
    llvm::append_range(result.outputs, call.getOutputs());
    llvm::append_range(result.outputs, call.getWorkspace());
  } else if (auto plan = llvm::dyn_cast<kernel::PlanOp>(op)) {
    llvm::append_range(result.inputs, plan.getConstants());
    result.outputs.push_back(plan.getHandle());
  } else if (auto copy = llvm::dyn_cast<kernel::CopyOp>(op)) {
    result.inputs.push_back(copy.getSource());
    result.outputs.push_back(copy.getDestination());
  } else {
    llvm::copy_if(op->getOperands(), std::back_inserter(result.inputs), isBuffer);
    llvm::copy_if(op->getResults(), std::back_inserter(result.outputs), isBuffer);
  }
  return result;
}

class Printer {
 public:
  Printer(kernel::ProgramOp program, const ProgramIndex& index)
      : program_(program), index_(index) {}

  std::string print(bool hasPrepare) {
    printBuffers();
    printEntries();
    printStatements();
    printExtents();
    printResults();
    printNames();
    printSizes("arena_bytes", SL_ROLE_ARENA, false);
    printSizes("scratch_bytes", SL_ROLE_ARENA, true);
    printSizes("prepared_bytes", SL_ROLE_PREPARED, false);
    printDestroyers();
    printConstants();
    printDescription(hasPrepare);
    std::string steps;
    for (auto& [text, number] : steps_) {
      steps +=
          "static constexpr sl_expr_step e" + std::to_string(number) + "[] = {" + text + "};\n";
    }
    for (auto& [text, number] : lists_) {
      steps += "static constexpr sl_expr l" + std::to_string(number) + "[] = {" + text + "};\n";
    }
    return "// Tables: what an interpreter, a profiler or a loader reads.\nnamespace sl_tables "
           "{\n\n" +
           steps + "\n" + text_ + "\n}  // namespace sl_tables\n";
  }

 private:
  //===- expressions -------------------------------------------------------===//

  /// Steps of an expression; `bound` gives the scalar value behind a name that is no extent,
  /// `numberOf` the number of a name where it is another one than the extent's.
  std::string steps(AffineExpr expr, llvm::ArrayRef<StringAttr> names,
                    llvm::function_ref<Value(StringAttr)> bound = nullptr,
                    llvm::function_ref<int(StringAttr)> numberOf = nullptr) const {
    if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr)) {
      return "{'c', " + intLiteral(constant.getValue()) + "}";
    }
    if (auto symbol = llvm::dyn_cast<mlir::AffineSymbolExpr>(expr)) {
      StringAttr name = names[symbol.getPosition()];
      if (Value value = bound ? bound(name) : Value()) {
        return scalarStep(value);
      }
      return "{'s', " + std::to_string(numberOf ? numberOf(name) : index_.extentNumber(name)) + "}";
    }
    auto binary = llvm::cast<mlir::AffineBinaryOpExpr>(expr);
    const std::string left = steps(binary.getLHS(), names, bound, numberOf);
    const std::string right = steps(binary.getRHS(), names, bound, numberOf);
    switch (expr.getKind()) {
      case mlir::AffineExprKind::Add:
        return left + ", " + right + ", {'+', 0}";
      case mlir::AffineExprKind::Mul:
        return left + ", " + right + ", {'*', 0}";
      case mlir::AffineExprKind::FloorDiv:
        return left + ", " + right + ", {'/', 0}";
      case mlir::AffineExprKind::Mod:
        return left + ", " + right + ", {'%', 0}";
      case mlir::AffineExprKind::CeilDiv:
        return left + ", " + right + ", {'+', 0}, {'c', -1}, {'+', 0}, " + right + ", {'/', 0}";
      case mlir::AffineExprKind::Constant:
      case mlir::AffineExprKind::SymbolId:
      case mlir::AffineExprKind::DimId:
        break;
    }
    return "";
  }

  /// A constant, or the value of the statement that makes it.
  std::string scalarStep(Value value) const {
    if (auto constant = value.getDefiningOp<mlir::arith::ConstantOp>()) {
      if (auto integer = llvm::dyn_cast<mlir::IntegerAttr>(constant.getValue())) {
        return "{'c', " + intLiteral(integer.getValue().getSExtValue()) + "}";
      }
      auto number = llvm::cast<mlir::FloatAttr>(constant.getValue());
      return "{'c', " + std::to_string(number.getValue().bitcastToAPInt().getZExtValue()) + "}";
    }
    Operation* maker = value.getDefiningOp();
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(value)) {
      maker = argument.getOwner()->getParentOp();
    }
    return "{'v', " + std::to_string(index_.statementNumber(maker)) + "}";
  }

  /// An sl_expr over shared steps.
  std::string expr(const std::string& text) {
    const int number = steps_.insert({text, static_cast<int>(steps_.size())}).first->second;
    return "{e" + std::to_string(number) + ", " + std::to_string(llvm::StringRef(text).count('{')) +
           "}";
  }
  std::string expr(AffineExpr value, llvm::ArrayRef<StringAttr> names) {
    return expr(steps(value, names));
  }
  std::string expr(int64_t value) { return expr("{'c', " + intLiteral(value) + "}"); }

  /// An array of expressions, shared by all that hold the same.
  std::string exprList(llvm::ArrayRef<std::string> items) {
    if (items.empty()) {
      return "nullptr";
    }
    return "l" +
           std::to_string(lists_.insert({wrapped(items, 32, 4), static_cast<int>(lists_.size())})
                              .first->second);
  }

  void line(const std::string& text) { text_ += text + "\n"; }

  /// `static constexpr T name[] = {...};` and its name; "nullptr" when it would be empty.
  std::string array(const std::string& type, const std::string& name,
                    llvm::ArrayRef<std::string> items) {
    if (items.empty()) {
      return "nullptr";
    }
    const std::string head = "static constexpr " + type + " " + name + "[] = {";
    line(head + wrapped(items, head.size(), 4) + "};");
    return name;
  }

  void table(const std::string& type, const std::string& name, llvm::ArrayRef<std::string> rows) {
    if (rows.empty()) {
      return;
    }
    line("static constexpr " + type + " " + name + "[] = {");
    for (const std::string& row : rows) {
      line("    " + row + ",");
    }
    line("};\n");
  }

  //===- buffers -----------------------------------------------------------===//

  /// Where the buffer lies in its storage, in bytes.
  std::string offsetOf(const BufferLine& line) {
    auto type = llvm::dyn_cast<BufferType>(line.value.getType());
    if (auto view = line.value.getDefiningOp<kernel::ViewOp>()) {
      // An offset with index values is said by the view's statement.
      return isDynamicView(view) ? expr(0)
                                 : expr(view.getOffset().getExpr() * type.elementBytes(),
                                        view.getOffset().getNames());
    }
    ExtentAttr offset;
    if (auto slot = line.value.getDefiningOp<kernel::SlotOp>()) {
      offset = slot.getOffsetAttr();
    } else if (auto prepared = line.value.getDefiningOp<kernel::PreparedOp>()) {
      offset = prepared.getOffsetAttr();
    }
    if (!offset) {
      return expr(0);
    }
    llvm::SmallVector<StringAttr> names;
    AffineExpr bytes = addressBytes(type, offset, names);
    return expr(bytes, names);
  }

  /// Rank, extents and strides; null: a handle.
  std::string layoutOf(BufferType type) {
    llvm::SmallVector<std::string> extents, strides;
    for (int64_t dim = 0; type && dim < type.getRank(); ++dim) {
      extents.push_back(expr(type.getExtents()[dim], type.getNames()));
      strides.push_back(expr(type.getStrides()[dim], type.getNames()));
    }
    return std::to_string(extents.size()) + ", " + exprList(extents) + ", " + exprList(strides);
  }

  /// Enough for all values of computed extents.
  std::string mostBytes(BufferType type) {
    const ExtentAttr bytes = kernel::largestOf(program_, type.bytes(), type.getNames());
    return expr(bytes.getExpr(), bytes.getNames());
  }

  void printBuffers() {
    llvm::SmallVector<std::string> rows;
    for (const BufferLine& buffer : index_.buffers()) {
      auto type = llvm::dyn_cast<BufferType>(buffer.value.getType());
      const std::string name = index_.name(buffer.value);
      auto view = buffer.value.getDefiningOp<kernel::ViewOp>();
      const int base = view ? index_.bufferNumber(view.getBase()) : -1;
      const bool owns = type && !view && buffer.role != SL_ROLE_RUNTIME;
      rows.push_back("{sizeof(sl_buffer), " + stringLiteral(name) + ", " +
                     stringLiteral(buffer.source) + ", " + roleName(buffer.role) + ", " +
                     std::to_string(type ? index_.spaceNumber(type.getSpace()) : 0) + ", " +
                     std::to_string(buffer.index) + ", " + std::to_string(base) + ", " +
                     (type ? dtypeText(type.getElementType()) : "{0, 8, 1}") + ", " +
                     layoutOf(type) + ", " + offsetOf(buffer) + ", " +
                     (owns ? mostBytes(type) : expr(0)) + ", " +
                     (owns ? expr(type.storageOffsetElems() * type.elementBytes(), type.getNames())
                           : expr(0)) +
                     "}");
    }
    table("sl_buffer", "buffers", rows);
  }

  //===- entries -----------------------------------------------------------===//

  /// The kernel's name in its image.
  static std::string symbolOf(const EntryPoint& entry) {
    return kernel::isOwnImage(entry.op) ? kernel::ownSourceOf(llvm::cast<kernel::FuncOp>(entry.op))
                                              .getAs<StringAttr>("function")
                                              .getValue()
                                              .str()
                                        : entry.name;
  }

  /// What a launch has beside the arguments of its entry: machine code that a user gave has
  /// parameters of its own, a kernel of ours may want dynamic shared memory. Returns the table's
  /// address, "nullptr" for other kernels.
  std::string printOwn(const EntryPoint& entry, kernel::FuncOp func) {
    const int64_t shared = kernel::sharedBytesOf(func);
    if (!kernel::isOwnImage(func) && shared == 0) {
      return "nullptr";
    }
    const llvm::SmallVector<StringAttr> names = ownImageNames(func);
    const OwnImage image =
        kernel::isOwnImage(func) ? ownImageOf(func) : argumentsAsParameters(func, names, shared);
    // Arguments have the numbers that extents have elsewhere.
    const auto over = [&](ExtentAttr value) {
      return expr(steps(value.getExpr(), value.getNames(), nullptr, [&](StringAttr name) {
        return static_cast<int>(llvm::find(names, name) - names.begin());
      }));
    };
    llvm::SmallVector<std::string> rows;
    for (const OwnParameter& parameter : image.parameters) {
      rows.push_back("{" + over(parameter.value) + ", " + std::to_string(parameter.alignment) +
                     "}");
    }
    table("sl_device_parameter", "parameters_" + entry.name, rows);
    table(
        "sl_own_code", "own_" + entry.name,
        {"{sizeof(sl_own_code), " + (rows.empty() ? "nullptr" : "parameters_" + entry.name) + ", " +
         std::to_string(rows.size()) + ", " + std::to_string(image.sharedBytes) + ", " +
         over(image.blocksY) + ", " + over(image.blocksZ) + (image.cooperative ? ", 1}" : ", 0}")});
    return "own_" + entry.name;
  }

  /// Parameters that are the arguments in their order, with `shared` bytes for each block.
  static OwnImage argumentsAsParameters(kernel::FuncOp func, llvm::ArrayRef<StringAttr> names,
                                        int64_t shared) {
    mlir::MLIRContext* context = func.getContext();
    OwnImage image{{}, ExtentAttr::get(context, 1), ExtentAttr::get(context, 1), shared};
    for (StringAttr name : names) {
      image.parameters.push_back(
          {ExtentAttr::get(context, {name}, mlir::getAffineSymbolExpr(0, context)), 1});
    }
    return image;
  }

  void printEntries() {
    llvm::SmallVector<std::string> rows;
    for (const EntryPoint& entry : index_.entries().all()) {
      llvm::SmallVector<std::string> arguments, scalars;
      for (const EntryArgument& argument : argumentsOf(entry)) {
        auto type = llvm::dyn_cast_if_present<BufferType>(argument.type);
        const mlir::Type element = type ? type.getElementType() : argument.type;
        arguments.push_back("{sizeof(sl_argument), " + stringLiteral(argument.name) + ", " +
                            roleName(argument.role) + ", " +
                            std::to_string(type ? index_.spaceNumber(type.getSpace()) : 0) + ", " +
                            (element ? dtypeText(element) : "{0, 8, 1}") + ", " +
                            (argument.anySizes ? "-1, nullptr, nullptr" : layoutOf(type)) + "}");
      }
      for (StringAttr name : scalarNamesOf(entry)) {
        scalars.push_back(stringLiteral(name.getValue()));
      }
      table("sl_argument", "arguments_" + entry.name, arguments);
      const std::string scalarsName = array("const char*", "names_" + entry.name, scalars);
      if (kernel::runsOnDevice(entry.op)) {
        auto kernelFunc = llvm::cast<kernel::FuncOp>(entry.op);
        const ExtentAttr blocks = kernel::blocksOf(entry.op);
        auto threads = entry.op->getAttrOfType<mlir::IntegerAttr>(kernel::kThreadsAttr);
        const std::string own = printOwn(entry, kernelFunc);
        table("sl_device_code", "code_" + entry.name,
              {"{sizeof(sl_device_code), " + stringLiteral(symbolOf(entry)) + ", &" +
               imageName(entry) + ", " + expr(blocks.getExpr(), blocks.getNames()) + ", " +
               std::to_string(threads.getInt()) + ", " +
               std::to_string(arguments.size() + scalars.size()) + ", " +
               (kernel::earlyStartOf(kernelFunc) == kernel::EarlyStart::none ? "0" : "1") + ", " +
               own + "}"});
      }
      std::string cost;
      llvm::raw_string_ostream(cost) << llvm::format("%.3g", entry.costUs);
      rows.push_back("{sizeof(sl_entry), " + stringLiteral(entry.name) + ", " +
                     stringLiteral(entry.backend) + ", " + kindName(entry.kind) + ", " +
                     (canFail(entry) ? "1" : "0") + ", " +
                     (arguments.empty() ? "nullptr" : "arguments_" + entry.name) + ", " +
                     std::to_string(arguments.size()) + ", " + scalarsName + ", " +
                     std::to_string(scalars.size()) + ", " + cost + ", " +
                     (kernel::runsOnDevice(entry.op) ? "nullptr, code_" + entry.name
                                                     : "thunk_" + entry.name + ", nullptr") +
                     "}");
    }
    table("sl_entry", "entries", rows);
  }

  //===- statements --------------------------------------------------------===//

  std::string entryOf(Operation* op) const {
    const EntryPoint* entry = index_.entries().of(op);
    return entry                           ? entry->name
           : llvm::isa<kernel::LoadOp>(op) ? op->getName().getStringRef().str()
                                           : "";
  }

  /// The name for messages: of the ops that the statement came from; of a check its own text.
  std::string opOf(Operation* op) const {
    if (auto check = llvm::dyn_cast<kernel::CheckOp>(op)) {
      return check.getMessage().str();
    }
    if (auto set = llvm::dyn_cast<kernel::SetExtentOp>(op)) {
      return set.getExtent().str();
    }
    auto name = op->getAttrOfType<StringAttr>("op");
    return name ? name.str() : "";
  }

  llvm::SmallVector<std::string> scalarsOf(const StatementLine& statement) {
    llvm::SmallVector<std::string> scalars;
    Operation* op = statement.op;
    if (statement.kind == SL_STATEMENT_ELSE || statement.kind == SL_STATEMENT_END) {
      return scalars;
    }
    if (llvm::isa<kernel::LaunchOp, kernel::CallOp>(op)) {
      for (ExtentAttr value : scalarValuesOf(op)) {
        scalars.push_back(expr(value.getExpr(), value.getNames()));
      }
    } else if (auto size = llvm::dyn_cast<kernel::SizeOp>(op)) {
      scalars.push_back(expr(size.getValue().getExpr(), size.getValue().getNames()));
    } else if (auto copy = llvm::dyn_cast<kernel::CopyOp>(op)) {
      auto type = llvm::cast<BufferType>(copy.getSource().getType());
      scalars.push_back(expr(type.bytes(), type.getNames()));
    } else if (auto alloc = llvm::dyn_cast<kernel::AllocOp>(op)) {
      auto type = llvm::cast<BufferType>(alloc.getBuffer().getType());
      scalars.push_back(alloc.getBytes() ? expr(scalarStep(alloc.getBytes()))
                                         : expr(type.bytes(), type.getNames()));
    } else if (auto wait = llvm::dyn_cast<kernel::WaitOp>(op)) {
      scalars.push_back(expr(scalarStep(wait.getEvent())));
    } else if (auto view = llvm::dyn_cast<kernel::ViewOp>(op)) {
      auto bound = [&](StringAttr name) {
        for (auto [known, value] : llvm::zip(view.getIndexNames(), view.getIndices())) {
          if (known == name) {
            return value;
          }
        }
        return Value();
      };
      const int64_t bytes = llvm::cast<BufferType>(view.getResult().getType()).elementBytes();
      scalars.push_back(
          expr(steps(view.getOffset().getExpr() * bytes, view.getOffset().getNames(), bound)));
    } else {
      for (Value operand : op->getOperands()) {
        if (operand.getType().isIntOrIndexOrFloat()) {
          scalars.push_back(expr(scalarStep(operand)));
        }
      }
      if (auto set = llvm::dyn_cast<kernel::SetExtentOp>(op)) {
        scalars.push_back(expr(index_.extentNumber(set.getExtentAttr().getAttr())));
      }
    }
    return scalars;
  }

  void printStatements() {
    llvm::SmallVector<std::string> rows;
    for (auto [number, statement] : llvm::enumerate(index_.statements())) {
      Operation* op = statement.op;
      auto call = llvm::dyn_cast<kernel::KernelCallInterface>(op);
      const bool starts = statement.kind != SL_STATEMENT_ELSE && statement.kind != SL_STATEMENT_END;
      Operands operands = starts ? operandsOf(op) : Operands();
      llvm::SmallVector<std::string> numbers;
      for (llvm::ArrayRef<Value> values :
           {llvm::ArrayRef(operands.inputs), llvm::ArrayRef(operands.outputs)}) {
        for (Value value : values) {
          numbers.push_back(std::to_string(index_.bufferNumber(value)));
        }
      }
      const std::string suffix = std::to_string(number);
      const std::string operandsName = array("int32_t", "operands_" + suffix, numbers);
      llvm::SmallVector<std::string> scalars = scalarsOf(statement);
      const std::string scalarsName = exprList(scalars);
      auto queue = op->getAttrOfType<mlir::FlatSymbolRefAttr>("queue");
      rows.push_back(
          "{sizeof(sl_statement), " + std::string(kindName(statement.kind)) + ", " +
          std::to_string(queue ? index_.queueNumber(queue) : 0) + ", " +
          std::to_string(statement.phase) + ", " + std::to_string(call ? call.getTeamSize() : 0) +
          ", " + stringLiteral(starts ? entryOf(op) : "") + ", " +
          stringLiteral(starts ? opOf(op) : "") + ", " + stringLiteral(sourceOf(op->getLoc())) +
          ", " + operandsName + ", " + std::to_string(operands.inputs.size()) + ", " +
          std::to_string(operands.outputs.size()) + ", " + scalarsName + ", " +
          std::to_string(scalars.size()) + "}");
    }
    table("sl_statement", "statements", rows);
  }

  //===- the rest ----------------------------------------------------------===//

  /// Of an extent that a statement computes; none: a caller gives it.
  std::string boundOf(kernel::ExtentOp extent) {
    ExtentAttr bound = extent.getBoundAttr();
    return bound ? expr(bound.getExpr(), bound.getNames()) : "{nullptr, 0}";
  }

  void printExtents() {
    llvm::SmallVector<std::string> rows;
    for (kernel::ExtentOp extent : index_.extents()) {
      rows.push_back("{sizeof(sl_extent), " + stringLiteral(extent.getSymName()) + ", " +
                     intLiteral(extent.getMin()) + ", " + intLiteral(extent.getMax()) + ", " +
                     boundOf(extent) + "}");
    }
    table("sl_extent", "extents", rows);
  }

  void printResults() {
    llvm::SmallVector<std::string> rows;
    for (Value result : program_.getRunOp().getReturn().getResults()) {
      rows.push_back("{sizeof(sl_result), " + std::to_string(index_.bufferNumber(result)) + ", " +
                     std::to_string(index_.bufferNumber(kernel::storageRoot(result))) + "}");
    }
    table("sl_result", "results", rows);
  }

  void printNames() {
    llvm::SmallVector<std::string> spaces, queues;
    for (const std::string& space : index_.spaces()) {
      spaces.push_back(stringLiteral(space));
    }
    for (kernel::QueueOp queue : index_.queues()) {
      queues.push_back(stringLiteral(queue.getBackend()));
    }
    array("const char*", "spaces", spaces);
    array("const char*", "queues", queues);
  }

  /// For each space the size of its arena: the largest end of any buffer in it.
  void printSizes(const std::string& name, sl_role role, bool scratch) {
    llvm::SmallVector<std::string> rows;
    for (const std::string& space : index_.spaces()) {
      int64_t known = 0;
      UniqueTexts symbolic;
      for (const BufferLine& buffer : index_.buffers()) {
        auto type = llvm::dyn_cast<BufferType>(buffer.value.getType());
        if (buffer.role != role || buffer.scratch != scratch || type.getSpace() != space) {
          continue;
        }
        ExtentAttr offset = role == SL_ROLE_ARENA
                                ? buffer.value.getDefiningOp<kernel::SlotOp>().getOffsetAttr()
                                : buffer.value.getDefiningOp<kernel::PreparedOp>().getOffsetAttr();
        const ExtentAttr bytes = kernel::largestOf(program_, type.bytes(), type.getNames());
        llvm::SmallVector<StringAttr> names(bytes.getNames());
        AffineExpr end =
            bytes.getExpr() + symbolic::rebase(offset.getExpr(), offset.getNames(), names);
        if (std::optional<int64_t> value = symbolic::constantValue(end)) {
          known = std::max(known, *value);
        } else {
          symbolic.insert(steps(end, names));
        }
      }
      std::string text = "{'c', " + intLiteral(known) + "}";
      for (const std::string& end : symbolic) {
        text += ", " + end + ", {'M', 0}";
      }
      rows.push_back(expr(text));
    }
    array("sl_expr", name, rows);
  }

  /// A handle is destroyed by the function that its kernel.handle names, a set of handles by the
  /// runtime's.
  static llvm::StringRef destroyerOf(kernel::HandleOp handle) {
    for (Operation* user : handle->getUsers()) {
      if (auto plan = llvm::dyn_cast<kernel::PlanOp>(user)) {
        auto decl = llvm::dyn_cast_if_present<kernel::DeclOp>(
            kernel::lookupEntry(plan, plan.getCalleeAttr()));
        return decl && decl.getDestroy() ? codegen::destroyerOf(decl) : handle.getDestroy();
      }
    }
    return handle.getDestroy();
  }

  void printDestroyers() {
    llvm::SmallVector<std::string> names;
    for (const BufferLine& buffer : index_.buffers()) {
      if (auto handle = buffer.value.getDefiningOp<kernel::HandleOp>()) {
        names.push_back(destroyerOf(handle).str());
      }
    }
    if (!names.empty()) {
      const std::string head = "static void (*const destroy_handles[])(void*) = {";
      line(head + wrapped(names, head.size(), 4) + "};");
    }
  }

  void printConstants() {
    llvm::SmallVector<std::string> names;
    for (const BufferLine& buffer : index_.buffers()) {
      if (buffer.role == SL_ROLE_CONSTANT) {
        names.push_back(index_.name(buffer.value));
      }
    }
    array("const void* const", "constants", names);
  }

  std::string targetText() {
    std::string text;
    llvm::raw_string_ostream os(text);
    mlir::Attribute(program_.getTarget()).print(os);
    return text;
  }

  /// Microseconds of a run; 0 where something in it has no estimate, or may run any number of
  /// times.
  static std::string estimate(kernel::RunOp run) {
    double sum = 0;
    const mlir::WalkResult known = run.walk([&](Operation* op) {
      const std::optional<double> cost = kernel::costUsOf(op);
      sum += cost.value_or(0);
      const bool open = llvm::isa<kernel::ForOp, kernel::WhileOp>(op) ||
                        (llvm::isa<kernel::KernelCallInterface>(op) && !cost);
      return open ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
    });
    std::string text;
    llvm::raw_string_ostream(text) << llvm::format("%.3g", known.wasInterrupted() ? 0.0 : sum);
    return text;
  }

  void printDescription(bool hasPrepare) {
    auto counted = [](const std::string& name, size_t count) {
      return (count == 0 ? "nullptr" : name) + ", " + std::to_string(count);
    };
    const size_t handles = index_.count(SL_ROLE_HANDLE);
    kernel::RunOp run = program_.getRunOp();
    auto advised = [advice = kernel::sizeAdviceOf(program_)](unsigned i) {
      return advice ? stringLiteral(llvm::cast<mlir::StringAttr>(advice[i]).getValue())
                    : std::string("nullptr");
    };
    text_ +=
        "\nextern \"C\" {\nextern const sl_program_desc sl_program;\nconst sl_program_desc "
        "sl_program = {\n";
    line("    sizeof(sl_program_desc), SL_ABI_VERSION, " + stringLiteral(program_.getSymName()) +
         ", " + stringLiteral(targetText()) + ",");
    line(std::string("    ") + (hasPrepare ? "sl_program_prepare" : "nullptr") +
         ", sl_program_run,");
    line("    " + counted("buffers", index_.buffers().size()) + ", " +
         counted("statements", index_.statements().size()) + ", " +
         counted("extents", index_.extents().size()) + ",");
    line("    " + counted("results", run.getReturn().getResults().size()) + ", " +
         counted("spaces", index_.spaces().size()) + ", " +
         counted("queues", index_.queues().size()) + ",");
    line(std::string("    arena_bytes, scratch_bytes, prepared_bytes, ") +
         (handles == 0 ? "nullptr" : "destroy_handles") + ",");
    line("    " + std::to_string(index_.count(SL_ROLE_PARAMETER) + index_.count(SL_ROLE_STATE)) +
         ", " + std::to_string(handles) + ", " + std::to_string(run.getInputNames().size()) + ", " +
         std::to_string(run.getOutputNames().size()) + ", " +
         std::to_string(program_.getTarget().getThreads()) + ",");
    line("    " + counted("entries", index_.entries().all().size()) + ", " +
         (index_.count(SL_ROLE_CONSTANT) == 0 ? "nullptr" : "constants") + ", " + estimate(run) +
         ",");
    line("    " + advised(0) + ", " + advised(1) + "};");
    line("}  // extern \"C\"");
  }

  kernel::ProgramOp program_;
  const ProgramIndex& index_;
  std::string text_;
  llvm::MapVector<std::string, int, std::map<std::string, unsigned>> steps_;
  llvm::MapVector<std::string, int, std::map<std::string, unsigned>> lists_;
};

}  // namespace

std::string printTables(kernel::ProgramOp program, const ProgramIndex& index, bool hasPrepare) {
  return Printer(program, index).print(hasPrepare);
}

}  // namespace straightline::codegen
