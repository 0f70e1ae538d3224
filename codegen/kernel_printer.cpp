// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernel_printer.h"

#include "codegen/cpp_text.h"
#include "codegen/names.h"
#include "codegen/scalar_printer.h"
#include "dialect/kernel/recorded.h"

namespace straightline::codegen {

using kernel::BufferType;
using kernel::FuncOp;
using llvm::StringRef;
using mlir::Attribute;
using mlir::StringAttr;
using mlir::TypeAttr;

namespace {

/// Names of the entry's parameters after ctx and team, and their types.
struct Parameters {
  llvm::SmallVector<std::string> declarations;
  llvm::SmallVector<std::string> pointers;
  llvm::DenseMap<StringAttr, std::string> extents;
};

Parameters parametersOf(FuncOp func) {
  Parameters result;
  auto addPointers = [&](mlir::ArrayAttr types, StringRef prefix, StringRef qualifier) {
    for (auto [position, type] : llvm::enumerate(types.getAsValueRange<TypeAttr>())) {
      const std::string name = prefix.str() + std::to_string(position);
      const std::string element = cppType(llvm::cast<BufferType>(type).getElementType());
      result.declarations.push_back(qualifier.str() + element + "* " + name);
      result.pointers.push_back(name);
    }
  };
  addPointers(func.getInputs(), "a", "const ");
  addPointers(func.getOutputs(), "o", "");
  addPointers(func.getWorkspace(), "w", "");
  NameTable names;
  for (const std::string& pointer : result.pointers) {
    names.reserve(pointer);
  }
  for (StringAttr extent : func.getScalarNames()) {
    const std::string name = names.unique(extent.getValue());
    result.extents[extent] = name;
    result.declarations.push_back("int64_t " + name);
  }
  return result;
}

/// A schedule's value under `key`: a string is an enumerator of sl::CamelCase(key).
std::string valueText(StringRef key, Attribute value, const Spelling& spelling) {
  if (auto text = llvm::dyn_cast<StringAttr>(value)) {
    return "sl::" + camelCase(key) + "::" + text.str();
  }
  if (auto extent = llvm::dyn_cast<kernel::ExtentAttr>(value)) {
    return expression(extent.getExpr(), extent.getNames(), spelling);
  }
  if (auto array = llvm::dyn_cast<mlir::ArrayAttr>(value)) {
    std::string items;
    for (Attribute item : array) {
      items += (items.empty() ? "" : ", ") + valueText(key, item, spelling);
    }
    return "{" + items + "}";
  }
  return scalarLiteral(llvm::cast<mlir::TypedAttr>(value));
}

/// `sl::GemmTune{.mr = 6, .nr = 16}`.
std::string structText(const std::string& type, llvm::ArrayRef<mlir::NamedAttribute> values,
                       const Spelling& spelling, size_t column, size_t indent) {
  llvm::SmallVector<std::string> items;
  for (mlir::NamedAttribute value : values) {
    items.push_back("." + value.getName().str() + " = " +
                    valueText(value.getName(), value.getValue(), spelling));
  }
  return type + "{" + wrapped(items, column + type.size() + 1, indent) + "}";
}

/// Whether the family has an overload for constant shapes. It evaluates the shape at compile time:
/// fewer instructions, and a fraction of the time in clang.
bool takesFixedShape(FuncOp func) {
  const StringRef family = func.getSchedule().getFamily().getValue();
  return func.getScalarNames().empty() && !kernel::runsOnDevice(func) &&
         llvm::is_contained({"pointwise", "fill", "zero_border", "row_reduction",
                             "convolution_direct", "convolution", "gemm", "gemm_int8", "matmul"},
                            family);
}

}  // namespace

std::string kernelSignature(FuncOp func) {
  llvm::SmallVector<std::string> items;
  std::string head;
  if (auto threads = func->getAttrOfType<mlir::IntegerAttr>(kernel::kThreadsAttr)) {
    auto cluster = func->getAttrOfType<mlir::IntegerAttr>(kernel::kClusterAttr);
    auto resident = func->getAttrOfType<mlir::IntegerAttr>(kernel::kResidentAttr);
    const mlir::IntegerAttr second = cluster ? cluster : resident;
    head = cluster ? "SL_CLUSTER_KERNEL(" : resident ? "SL_RESIDENT_KERNEL(" : "SL_KERNEL(";
    head += std::to_string(threads.getInt()) +
            (second ? ", " + std::to_string(second.getInt()) : "") + ") ";
  } else {
    items = {"sl_ctx* ctx", "sl_team team"};
    head = "extern \"C\" void ";
  }
  items.append(parametersOf(func).declarations);
  head += func.getSymName().str() + "(";
  return head + wrapped(items, head.size(), 4) + ")";
}

llvm::SmallVector<std::string> kernelIncludes(FuncOp func) {
  llvm::SmallVector<std::string> includes = {"#include \"straightline/kernels/" +
                                             func.getSchedule().getFamily().str() + ".h\""};
  if (!func.getBodies().empty()) {
    includes.push_back("#include \"straightline/kernels/scalar.h\"");
  }
  return includes;
}

mlir::FailureOr<std::string> printKernel(FuncOp func) {
  const Parameters parameters = parametersOf(func);
  kernel::ScheduleAttr schedule = func.getSchedule();
  const std::string family = schedule.getFamily().str();
  const std::string structs = "sl::" + camelCase(family);
  const Spelling spelling = [&](StringAttr name) { return parameters.extents.lookup(name); };
  const std::string head = "  sl::" + family + "<";

  std::string text = kernelSignature(func) + " {\n";
  if (kernel::earlyStartOf(func) == kernel::EarlyStart::atEntry) {
    text += "  sl::awaitPrevious();\n";
  }
  text +=
      head + structText(structs + "Tune", schedule.getTune(), spelling, head.size(), 6) + ">(\n";
  text += kernel::runsOnDevice(func) ? "      " : "      ctx, team,\n      ";
  if (takesFixedShape(func)) {
    text +=
        "sl::Fixed<" + structText(structs + "Shape", schedule.getShape(), spelling, 16, 10) + ">{}";
  } else {
    text += structText(structs + "Shape", schedule.getShape(), spelling, 6, 10);
  }
  for (mlir::Region& region : func.getBodies()) {
    mlir::FailureOr<std::string> lambda = printLambda(region, func.getCanFail(), 6);
    if (failed(lambda)) {
      return mlir::failure();
    }
    text += ",\n      " + *lambda;
  }
  if (!parameters.pointers.empty()) {
    text += ",\n      " + wrapped(parameters.pointers, 6, 6);
  }
  return text + ");\n}\n";
}

}  // namespace straightline::codegen
