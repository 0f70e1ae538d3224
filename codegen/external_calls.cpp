// SPDX-License-Identifier: Apache-2.0
#include "codegen/external_calls.h"

#include "codegen/own_calls.h"

#include "dialect/kernel/recorded.h"

namespace straightline::codegen {

using kernel::BufferType;
using llvm::StringRef;
using mlir::TypeAttr;

namespace {

constexpr int kMaxRank = 8;  // SL_MAX_RANK

// Of the runtime (straightline.h): sets of handles of which each serves one run at a time.
constexpr llvm::StringLiteral kExclusivePlan = "sl_exclusive_plan",
                              kExclusiveRun = "sl_exclusive_run",
                              kExclusiveDestroy = "sl_exclusive_destroy";

std::string numbersText(llvm::ArrayRef<mlir::AffineExpr> exprs) {
  std::string text;
  for (mlir::AffineExpr expr : exprs) {
    std::optional<int64_t> value = symbolic::constantValue(expr);
    text += (text.empty() ? "" : ", ") + (value ? intLiteral(*value) : "SL_DYNAMIC");
  }
  for (int dim = exprs.size(); dim < kMaxRank; ++dim) {
    text += dim == 0 ? "0" : ", 0";
  }
  return "{" + text + "}";
}

std::string operandText(mlir::Type type, bool constant) {
  auto buffer = llvm::cast<BufferType>(type);
  return "{" + dtypeText(buffer.getElementType()) + ", " + std::to_string(buffer.getRank()) + ", " +
         numbersText(buffer.getExtents()) + ", " + numbersText(buffer.getStrides()) + ", " +
         (constant ? "1" : "0") + "}";
}

void printRows(const std::string& head, llvm::ArrayRef<std::string> rows, Writer& writer) {
  writer.line(head + " = {");
  for (const std::string& row : rows) {
    writer.line("    " + row + ",");
  }
  writer.line("};");
}

/// A string of several lines, one literal each.
std::string linesLiteral(StringRef text) {
  std::string literal;
  while (!text.empty()) {
    const auto [line, rest] = text.split('\n');
    const bool ends = line.size() < text.size();
    std::string quoted = stringLiteral(line);
    quoted.insert(quoted.size() - 1, ends ? "\\n" : "");
    literal += (literal.empty() ? "" : "\n    ") + quoted;
    text = rest;
  }
  return literal;
}

}  // namespace

llvm::SmallVector<StringRef> externalSymbols(kernel::DeclOp decl) {
  llvm::SmallVector<StringRef> symbols = {decl.getRun()};
  if (isOwnKernel(decl)) {
    addOwnSymbols(decl, symbols);
    return symbols;
  }
  for (std::optional<StringRef> symbol : {decl.getPlan(), decl.getDestroy()}) {
    if (symbol) {
      symbols.push_back(*symbol);
    }
  }
  if (kernel::hasExclusiveHandle(decl)) {
    symbols.append(
        {StringRef(kExclusivePlan), StringRef(kExclusiveRun), StringRef(kExclusiveDestroy)});
  }
  return symbols;
}

StringRef destroyerOf(kernel::DeclOp decl) {
  return kernel::hasExclusiveHandle(decl) ? StringRef(kExclusiveDestroy) : *decl.getDestroy();
}

void printRunCall(kernel::DeclOp decl, llvm::SmallVector<std::string> items, Writer& writer) {
  if (isOwnKernel(decl)) {
    writer.call("sl::report(ctx, " + ownCallName(decl) + "(", items, "));");
    return;
  }
  const bool isExclusive = kernel::hasExclusiveHandle(decl);
  if (isExclusive) {
    items.push_back(decl.getRun().str());
  }
  const StringRef called = isExclusive ? StringRef(kExclusiveRun) : decl.getRun();
  writer.call("sl::report(ctx, " + called.str() + "(", items, "));");
}

void printPlanCall(kernel::DeclOp decl, llvm::SmallVector<std::string> items, Writer& writer) {
  const bool isExclusive = kernel::hasExclusiveHandle(decl);
  if (isExclusive) {
    items.append({decl.getPlan()->str(), decl.getDestroy()->str()});
  }
  const StringRef called = isExclusive ? StringRef(kExclusivePlan) : *decl.getPlan();
  writer.call("sl::report(ctx, " + called.str() + "(", items, "));");
}

llvm::SmallVector<std::string> sizeTexts(kernel::DeclOp decl, const Spelling& spelling) {
  return llvm::map_to_vector(decl.getSizes(), [&](kernel::ExtentAttr size) {
    return expression(size.getExpr(), size.getNames(), spelling);
  });
}

std::string printExternalPrototypes(kernel::DeclOp decl) {
  if (isOwnKernel(decl)) {
    return printOwnCall(decl);
  }
  std::string text = "extern \"C\" int32_t " + decl.getRun().str() +
                     "(sl_ctx*, sl_team, void* handle, const void* const* inputs,\n"
                     "                           void* const* outputs, void* workspace);\n";
  if (decl.getPlan()) {
    text += "extern \"C\" int32_t " + decl.getPlan()->str() +
            "(sl_ctx*, const sl_problem*, const void* const* constants, void** handle);\n";
  }
  if (decl.getDestroy()) {
    text += "extern \"C\" void " + decl.getDestroy()->str() + "(void* handle);\n";
  }
  if (kernel::hasExclusiveHandle(decl)) {
    text +=
        "extern \"C\" int32_t sl_exclusive_plan(\n"
        "    sl_ctx*, const sl_problem*, const void* const* constants, void** handles,\n"
        "    int32_t (*plan)(sl_ctx*, const sl_problem*, const void* const*, void**),\n"
        "    void (*destroy)(void*));\n"
        "extern \"C\" int32_t sl_exclusive_run(\n"
        "    sl_ctx*, sl_team, void* handles, const void* const* inputs, void* const* outputs,\n"
        "    void* workspace,\n"
        "    int32_t (*run)(sl_ctx*, sl_team, void*, const void* const*, void* const*, void*));\n"
        "extern \"C\" void sl_exclusive_destroy(void* handles);\n";
  }
  return text;
}

std::string problemName(kernel::DeclOp decl) { return decl.getSymName().str() + "_problem"; }

void printProblem(kernel::DeclOp decl, kernel::TargetAttr target, Writer& writer) {
  llvm::SmallVector<std::string> operands, attributes;
  for (auto [type, constant] :
       llvm::zip(decl.getInputs().getAsValueRange<TypeAttr>(), decl.getConstants())) {
    operands.push_back(operandText(type, constant));
  }
  for (mlir::Type type : decl.getOutputs().getAsValueRange<TypeAttr>()) {
    operands.push_back(operandText(type, false));
  }
  for (mlir::NamedAttribute attribute : decl.getProblem()) {
    const std::string name = stringLiteral(attribute.getName());
    if (attribute.getName() == "variant" || attribute.getName() == "text") {
      continue;  // places of their own
    }
    if (auto value = llvm::dyn_cast<mlir::IntegerAttr>(attribute.getValue())) {
      attributes.push_back("{" + name + ", " + intLiteral(value.getInt()) +
                           ", SL_INT, 0, nullptr}");
    } else if (auto number = llvm::dyn_cast<mlir::FloatAttr>(attribute.getValue())) {
      attributes.push_back("{" + name + ", 0, SL_FLOAT, " +
                           floatLiteral(number.getValue(), number.getType()) + ", nullptr}");
    } else if (auto text = llvm::dyn_cast<mlir::StringAttr>(attribute.getValue())) {
      attributes.push_back("{" + name + ", 0, SL_TEXT, 0, " + stringLiteral(text) + "}");
    }
  }
  const std::string name = decl.getSymName().str();
  printRows("static constexpr sl_operand " + name + "_operands[]", operands, writer);
  if (!attributes.empty()) {
    printRows("static constexpr sl_attribute " + name + "_attributes[]", attributes, writer);
  }
  llvm::SmallVector<std::string> items = {"sizeof(sl_problem)",
                                          stringLiteral(decl.getOp()),
                                          name + "_operands",
                                          std::to_string(decl.getInputs().size()),
                                          std::to_string(decl.getOutputs().size()),
                                          attributes.empty() ? "nullptr" : name + "_attributes",
                                          std::to_string(attributes.size()),
                                          std::to_string(target.getThreads()),
                                          std::to_string(target.getVectorBytes()),
                                          std::to_string(target.getL1()),
                                          std::to_string(target.getL2())};
  items.push_back(decl.getText() ? linesLiteral(decl.getText()) : "nullptr");
  items.push_back(std::to_string(decl.getSizes().size()));
  items.push_back(std::to_string(decl.getVariant()));
  items.push_back(std::to_string(target.getDotBf16()));
  items.push_back(target.isHost() ? "nullptr" : stringLiteral(target.getBackend()));
  items.push_back(std::to_string(target.getFmaBytes()));
  items.push_back("sizeof(sl_operand)");
  items.push_back("sizeof(sl_attribute)");
  writer.call("static constexpr sl_problem " + problemName(decl) + " = {", items, "};\n");
}

}  // namespace straightline::codegen
