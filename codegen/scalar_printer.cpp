// SPDX-License-Identifier: Apache-2.0
#include "codegen/scalar_printer.h"

#include "codegen/cpp_text.h"
#include "dialect/error_kind.h"
#include "dialect/kernel/kernel_dialect.h"
#include "dialect/op/special.h"
#include "llvm/ADT/StringSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace straightline::codegen {

using llvm::StringRef;
using mlir::FailureOr;
using mlir::Operation;
using mlir::Type;
using mlir::Value;

namespace {

/// Infix operators on floats; "" for other ops.
StringRef infixOf(StringRef op) {
  return llvm::StringSwitch<StringRef>(op)
      .Case("arith.addf", "+")
      .Case("arith.subf", "-")
      .Case("arith.mulf", "*")
      .Case("arith.divf", "/")
      .Default("");
}

/// Functions of namespace sl that take the operands as they are; "" for other ops.
StringRef functionOf(StringRef op) {
  return llvm::StringSwitch<StringRef>(op)
      .Case("arith.addi", "add")
      .Case("arith.subi", "subtract")
      .Case("arith.muli", "multiply")
      .Case("arith.divsi", "trunc_divide")
      .Case("arith.floordivsi", "floor_divide")
      .Case("arith.remsi", "fmod")
      .Case("arith.remf", "fmod")
      .Cases({"arith.maximumf", "arith.maxsi"}, "maximum")
      .Cases({"arith.minimumf", "arith.minsi"}, "minimum")
      .Case("arith.maxnumf", "maximum_number")
      .Case("arith.minnumf", "minimum_number")
      .Case("arith.andi", "bitwise_and")
      .Case("arith.ori", "bitwise_or")
      .Case("arith.xori", "bitwise_xor")
      .Case("arith.shli", "shift_left")
      .Case("arith.shrsi", "shift_right")
      .Case("arith.select", "select")
      .Cases({"math.absf", "math.absi"}, "abs")
      .Case("math.exp", "exp")
      .Case("math.exp2", "exp2")
      .Case("math.expm1", "expm1")
      .Case("math.log", "log")
      .Case("math.log2", "log2")
      .Case("math.log1p", "log1p")
      .Case("math.sqrt", "sqrt")
      .Case("math.rsqrt", "rsqrt")
      .Case("math.sin", "sin")
      .Case("math.cos", "cos")
      .Case("math.tan", "tan")
      .Case("math.tanh", "tanh")
      .Case("math.erf", "erf")
      .Case("math.floor", "floor")
      .Case("math.ceil", "ceil")
      .Case("math.trunc", "trunc")
      .Case("math.roundeven", "round_even")
      .Cases({"math.powf", "math.ipowi"}, "pow")
      .Case("math.atan2", "atan2")
      .Case("math.copysign", "copysign")
      .Case("math.fma", "fma")
      .Case("math.isnan", "isnan")
      .Case("math.isinf", "isinf")
      .Case("math.isfinite", "isfinite")
      .Default("");
}

/// Functions that take their operands as unsigned integers; "" for other ops.
StringRef unsignedFunctionOf(StringRef op) {
  return llvm::StringSwitch<StringRef>(op)
      .Case("arith.divui", "trunc_divide")
      .Case("arith.remui", "fmod")
      .Case("arith.maxui", "maximum")
      .Case("arith.minui", "minimum")
      .Case("arith.shrui", "shift_right")
      .Default("");
}

bool isDivision(Operation* op) {
  return llvm::isa<mlir::arith::DivSIOp, mlir::arith::FloorDivSIOp, mlir::arith::RemSIOp,
                   mlir::arith::DivUIOp, mlir::arith::RemUIOp>(op);
}

bool hasNonzeroDivisor(Operation* op) {
  auto constant = op->getOperand(1).getDefiningOp<mlir::arith::ConstantOp>();
  auto value =
      constant ? llvm::dyn_cast<mlir::IntegerAttr>(constant.getValue()) : mlir::IntegerAttr();
  return value && !value.getValue().isZero();
}

bool isByte(mlir::Type type) { return type.isInteger(8); }

bool isConstant(mlir::Value value) {
  return value.getDefiningOp<mlir::arith::ConstantOp>() != nullptr;
}

}  // namespace

bool ScalarPrinter::usesContext(Operation* op) const {
  return checked_ && isDivision(op) && !hasNonzeroDivisor(op);
}

std::string ScalarPrinter::constant(Operation* op) const {
  mlir::TypedAttr value = llvm::cast<mlir::arith::ConstantOp>(op).getValue();
  const std::string literal = scalarLiteral(value);
  if (like_.name.empty()) {
    return value.getType().isInteger(1) ? literal : cppType(value.getType()) + "(" + literal + ")";
  }
  if (like_.type == value.getType() && !hasSignOfBuffer(like_.type)) {
    return "sl::constant(" + like_.name + ", " + literal + ")";
  }
  return "sl::constantAs<" + cppType(value.getType()) + ">(" + like_.name + ", " + literal + ")";
}

bool ScalarPrinter::hasSignOfBuffer(mlir::Type type) const {
  return isByte(type) ||
         (mixesSigns_ && type.isSignlessInteger() && type.getIntOrFloatBitWidth() >= 16);
}

std::string ScalarPrinter::operand(Operation* op, unsigned i) const {
  const mlir::Value value = op->getOperand(i);
  // A value from a buffer has the buffer's type, uint8_t or int8_t; all other numbers of 8 bits are
  // int8_t.
  Operation* maker = value.getDefiningOp();
  const bool isComputed =
      maker && llvm::isa<mlir::arith::ArithDialect, mlir::math::MathDialect>(maker->getDialect());
  return hasSignOfBuffer(value.getType()) && !isComputed ? "sl::signed_of(" + nameOf(value) + ")"
                                                         : nameOf(value);
}

std::string ScalarPrinter::unsignedForm(StringRef function, Operation* op) const {
  const std::string context = usesContext(op) ? "ctx, " : "";
  const std::string name = (usesContext(op) ? "checked_" : "") + function.str();
  // Casts the result back to the type of the operands, to match other signed values.
  return "sl::bitcast<decltype(" + operand(op, 0) + ")>(sl::" + name + "(" + context +
         "sl::unsigned_of(" + stored(op, 0) + "), sl::unsigned_of(" + stored(op, 1) + ")))";
}

FailureOr<std::string> ScalarPrinter::conversion(Operation* op) const {
  const std::string type = cppType(op->getResult(0).getType());
  const std::string from = stored(op, 0);
  const bool fromBool = op->getOperand(0).getType().isInteger(1);
  if (llvm::isa<mlir::arith::BitcastOp>(op)) {
    return "sl::bitcast<sl::Wide<" + type + ", sl::kLanes<decltype(" + from + ")>>>(" + from + ")";
  }
  if (llvm::isa<mlir::arith::TruncIOp>(op) && op->getResult(0).getType().isInteger(1)) {
    return "sl::cast<bool>(sl::bitwise_and(" + from + ", sl::constant(" + from + ", 1)))";
  }
  if (llvm::isa<mlir::arith::ExtSIOp, mlir::arith::SIToFPOp>(op) && fromBool) {
    return "sl::negate(sl::cast<" + type + ">(" + from + "))";
  }
  if (llvm::isa<mlir::arith::ExtUIOp, mlir::arith::UIToFPOp>(op) && !fromBool) {
    return "sl::cast<" + type + ">(sl::unsigned_of(" + from + "))";
  }
  if (llvm::isa<mlir::arith::ExtSIOp, mlir::arith::SIToFPOp>(op)) {
    return "sl::cast<" + type + ">(" + operand(op, 0) + ")";
  }
  return "sl::cast<" + type + ">(" + from + ")";
}

FailureOr<std::string> ScalarPrinter::comparison(Operation* op) const {
  const std::string a = operand(op, 0);
  const std::string b = operand(op, 1);
  auto call = [&](StringRef name) { return "sl::" + name.str() + "(" + a + ", " + b + ")"; };
  auto negated = [&](StringRef name) { return "sl::logical_not(" + call(name) + ")"; };
  auto isUnsigned = [&](StringRef name) {
    return "sl::" + name.str() + "(sl::unsigned_of(" + stored(op, 0) + "), sl::unsigned_of(" +
           stored(op, 1) + "))";
  };
  const std::string unordered = "sl::logical_or(sl::isnan(" + a + "), sl::isnan(" + b + "))";
  if (auto compare = llvm::dyn_cast<mlir::arith::CmpIOp>(op)) {
    switch (compare.getPredicate()) {
      case mlir::arith::CmpIPredicate::eq:
        return call("eq");
      case mlir::arith::CmpIPredicate::ne:
        return call("ne");
      case mlir::arith::CmpIPredicate::slt:
        return call("lt");
      case mlir::arith::CmpIPredicate::sle:
        return call("le");
      case mlir::arith::CmpIPredicate::sgt:
        return call("gt");
      case mlir::arith::CmpIPredicate::sge:
        return call("ge");
      case mlir::arith::CmpIPredicate::ult:
        return isUnsigned("lt");
      case mlir::arith::CmpIPredicate::ule:
        return isUnsigned("le");
      case mlir::arith::CmpIPredicate::ugt:
        return isUnsigned("gt");
      case mlir::arith::CmpIPredicate::uge:
        return isUnsigned("ge");
    }
  }
  switch (llvm::cast<mlir::arith::CmpFOp>(op).getPredicate()) {
    case mlir::arith::CmpFPredicate::OEQ:
      return call("eq");
    case mlir::arith::CmpFPredicate::OLT:
      return call("lt");
    case mlir::arith::CmpFPredicate::OLE:
      return call("le");
    case mlir::arith::CmpFPredicate::OGT:
      return call("gt");
    case mlir::arith::CmpFPredicate::OGE:
      return call("ge");
    case mlir::arith::CmpFPredicate::UNE:
      return call("ne");
    case mlir::arith::CmpFPredicate::ULT:
      return negated("ge");
    case mlir::arith::CmpFPredicate::ULE:
      return negated("gt");
    case mlir::arith::CmpFPredicate::UGT:
      return negated("le");
    case mlir::arith::CmpFPredicate::UGE:
      return negated("lt");
    case mlir::arith::CmpFPredicate::ONE:
      return "sl::logical_and(" + call("ne") + ", sl::logical_not(" + unordered + "))";
    case mlir::arith::CmpFPredicate::UEQ:
      return "sl::logical_or(" + call("eq") + ", " + unordered + ")";
    case mlir::arith::CmpFPredicate::UNO:
      return unordered;
    case mlir::arith::CmpFPredicate::ORD:
      return "sl::logical_not(" + unordered + ")";
    case mlir::arith::CmpFPredicate::AlwaysFalse:
      return "sl::constantAs<bool>(" + a + ", false)";
    case mlir::arith::CmpFPredicate::AlwaysTrue:
      return "sl::constantAs<bool>(" + a + ", true)";
  }
  return mlir::failure();
}

/// A quotient whose last bits are free, in a kernel of a device: division rounded to nearest takes
/// a dozen instructions there.
static bool mayUseReciprocal(mlir::arith::DivFOp division) {
  return mlir::arith::bitEnumContainsAll(division.getFastmath(),
                                         mlir::arith::FastMathFlags::arcp) &&
         kernel::runsOnDevice(division->getParentOfType<kernel::FuncOp>());
}

FailureOr<std::string> ScalarPrinter::expression(Operation* op) const {
  StringRef name = op->getName().getStringRef();
  if (llvm::isa<mlir::arith::ConstantOp>(op)) {
    return constant(op);
  }
  if (llvm::isa<mlir::arith::NegFOp>(op)) {
    return "-" + operand(op, 0);
  }
  if (llvm::isa<mlir::arith::CmpIOp, mlir::arith::CmpFOp>(op)) {
    return comparison(op);
  }
  if (llvm::isa<mlir::arith::SIToFPOp, mlir::arith::UIToFPOp, mlir::arith::FPToSIOp,
                mlir::arith::FPToUIOp, mlir::arith::ExtFOp, mlir::arith::TruncFOp,
                mlir::arith::ExtSIOp, mlir::arith::ExtUIOp, mlir::arith::TruncIOp,
                mlir::arith::IndexCastOp, mlir::arith::IndexCastUIOp, mlir::arith::BitcastOp>(op)) {
    return conversion(op);
  }
  if (llvm::isa<mlir::math::FPowIOp>(op)) {
    return "sl::pow(" + operand(op, 0) + ", sl::cast<" + cppType(op->getOperand(0).getType()) +
           ">(" + operand(op, 1) + "))";
  }
  if (llvm::isa<mlir::math::ClampFOp>(op)) {
    return "sl::minimum(" + operand(op, 2) + ", sl::maximum(" + operand(op, 1) + ", " +
           operand(op, 0) + "))";
  }
  if (llvm::isa<mlir::arith::MaximumFOp, mlir::arith::MinimumFOp>(op) &&
      isConstant(op->getOperand(1))) {
    // Order matters: handling NaN in the first operand costs instructions.
    return "sl::" + functionOf(name).str() + "(" + operand(op, 1) + ", " + operand(op, 0) + ")";
  }
  auto division = llvm::dyn_cast<mlir::arith::DivFOp>(op);
  if (division && mayUseReciprocal(division)) {
    return "sl::ratio(" + operand(op, 0) + ", " + operand(op, 1) + ")";
  }
  if (StringRef infix = infixOf(name); !infix.empty()) {
    return operand(op, 0) + " " + infix.str() + " " + operand(op, 1);
  }
  if (StringRef function = unsignedFunctionOf(name); !function.empty()) {
    return unsignedForm(function, op);
  }
  auto special = llvm::dyn_cast<op::ScalarSpecialOp>(op);
  StringRef function = special ? special.getFunction() : functionOf(name);
  if (function.empty()) {
    return emitUnsupported(op) << "no C++ spelling for the scalar operation " << name;
  }
  std::string text = "sl::" + std::string(usesContext(op) ? "checked_" : "") + function.str() + "(";
  text += usesContext(op) ? "ctx, " : "";
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    text += (i == 0 ? "" : ", ") + operand(op, i);
  }
  return text + ")";
}

bool callsSpecialFunction(mlir::Operation* operation) {
  return operation->walk([](op::ScalarSpecialOp) { return mlir::WalkResult::interrupt(); })
      .wasInterrupted();
}

/// Whether some buffer of a kernel holds unsigned integers of 16 bits or more.
static bool readsUnsigned(mlir::Region& region) {
  auto func = region.getParentOfType<kernel::FuncOp>();
  auto isUnsigned = [](mlir::Attribute attribute) {
    mlir::Type type = llvm::cast<mlir::TypeAttr>(attribute).getValue();
    mlir::Type element = llvm::cast<kernel::BufferType>(type).getElementType();
    return element.isUnsignedInteger() && element.getIntOrFloatBitWidth() >= 16;
  };
  return func && (llvm::any_of(func.getInputs(), isUnsigned) ||
                  llvm::any_of(func.getOutputs(), isUnsigned));
}

FailureOr<std::string> printLambda(mlir::Region& region, bool checked, size_t indent) {
  mlir::Block& block = region.front();
  // Constants take the lanes of the first argument, or of the first result where there is none.
  mlir::ValueRange lanes = block.getNumArguments() > 0
                               ? mlir::ValueRange(block.getArguments())
                               : mlir::ValueRange(block.getTerminator()->getOperands());
  ScalarPrinter::Like like;
  if (!lanes.empty()) {
    like = {block.getNumArguments() > 0 ? "x0" : "y0", lanes.front().getType()};
  }
  ScalarPrinter printer(like, checked, readsUnsigned(region));
  for (auto [position, argument] : llvm::enumerate(block.getArguments())) {
    printer.bind(argument, "x" + std::to_string(position));
  }
  const std::string margin = "\n" + std::string(indent + 2, ' ');
  std::string body;
  bool usesContext = false;
  int temporaries = 0;
  for (Operation& op : block.without_terminator()) {
    usesContext |= printer.usesContext(&op);
    FailureOr<std::string> text = printer.expression(&op);
    if (failed(text)) {
      return mlir::failure();
    }
    if (llvm::isa<mlir::arith::ConstantOp>(op)) {
      printer.bind(op.getResult(0), *text);
      continue;
    }
    const std::string name = "t" + std::to_string(temporaries++);
    body += margin + "auto " + name + " = " + *text + ";";
    printer.bind(op.getResult(0), name);
  }
  std::string results;
  for (auto [position, value] : llvm::enumerate(block.getTerminator()->getOperands())) {
    body += margin + "y" + std::to_string(position) + " = " + printer.nameOf(value) + ";";
    results += (results.empty() ? "auto& y" : ", auto& y") + std::to_string(position);
  }
  std::string parameters;
  for (mlir::BlockArgument argument : block.getArguments()) {
    // Constants may name argument 0 to take its lanes, although the region does not use
    // it.
    const bool named = body.find(printer.nameOf(argument)) != std::string::npos;
    parameters +=
        (parameters.empty() ? "auto" : ", auto") + (named ? " " + printer.nameOf(argument) : "");
  }
  parameters += parameters.empty() || results.empty() ? "" : ", ";
  return std::string(usesContext ? "[ctx](" : "[](") + parameters + results + ") SL_LAMBDA {" +
         body + "\n" + std::string(indent, ' ') + "}";
}

}  // namespace straightline::codegen
