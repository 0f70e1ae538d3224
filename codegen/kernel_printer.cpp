// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernel_printer.h"

#include "codegen/own_source.h"

#include "codegen/cpp_text.h"
#include "codegen/names.h"
#include "codegen/scalar_printer.h"
#include "dialect/kernel/own.h"
#include "dialect/kernel/recorded.h"
#include "llvm/ADT/StringSwitch.h"
#include "mlir/IR/Builders.h"

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

/// Whether a value of a shape is made of numbers alone.
bool isKnown(Attribute value) {
  if (auto array = llvm::dyn_cast<mlir::ArrayAttr>(value)) {
    return llvm::all_of(array, isKnown);
  }
  auto extent = llvm::dyn_cast<kernel::ExtentAttr>(value);
  return !extent || extent.getConstant().has_value();
}

/// Whether the family has an overload for constant shapes. It evaluates the shape at compile time:
/// fewer instructions, and a fraction of the time in clang.
bool takesFixedShape(FuncOp func) {
  const StringRef family = func.getSchedule().getFamily().getValue();
  return func.getScalarNames().empty() && kernel::isPrintedAsHost(func) &&
         llvm::is_contained(
             {"pointwise", "fill", "zero_border", "row_reduction", "convolution_direct",
              "convolution", "convolution_int8", "gemm", "gemm_int8", "matmul"},
             family);
}

/// A shape of which one extent alone is no number: `values` with 1 there, and where it stood.
struct BatchedShape {
  llvm::SmallVector<mlir::NamedAttribute> values;
  kernel::ExtentAttr count;
  int64_t dim;
};

/// The values of a family's shape that hold extents which may be found at run time: a list, or one.
StringRef batchedExtents(StringRef family) {
  return llvm::StringSwitch<StringRef>(family)
      .Case("pointwise", "extent")
      .Case("row_reduction", "outer")
      .Case("convolution_direct", "n")
      .Default("");
}

/// Of families with an overload for such shapes.
std::optional<BatchedShape> batchedShape(FuncOp func) {
  kernel::ScheduleAttr schedule = func.getSchedule();
  const StringRef extents = batchedExtents(schedule.getFamily().getValue());
  if (!kernel::isPrintedAsHost(func) || extents.empty()) {
    return std::nullopt;
  }
  mlir::Builder builder(func.getContext());
  BatchedShape found;
  for (mlir::NamedAttribute value : schedule.getShape()) {
    auto array = llvm::dyn_cast<mlir::ArrayAttr>(value.getValue());
    auto count = llvm::dyn_cast<kernel::ExtentAttr>(value.getValue());
    if (count && value.getName() == extents && !count.getConstant()) {
      found.count = count;
      found.dim = 0;
      value.setValue(builder.getI64IntegerAttr(1));
    } else if (array && value.getName() == extents) {
      if (array.size() == 1 && value.getName() == "extent") {
        return std::nullopt;  // a single loop: nothing is known of it
      }
      llvm::SmallVector<Attribute> items(array.begin(), array.end());
      for (auto [dim, item] : llvm::enumerate(items)) {
        auto extent = llvm::dyn_cast<kernel::ExtentAttr>(item);
        if (!extent || extent.getConstant()) {
          continue;
        }
        if (found.count) {
          return std::nullopt;
        }
        found.count = extent;
        found.dim = static_cast<int64_t>(dim);
        item = builder.getI64IntegerAttr(1);
      }
      value.setValue(builder.getArrayAttr(items));
    } else if (!isKnown(value.getValue())) {
      return std::nullopt;
    }
    found.values.push_back(value);
  }
  return found.count ? std::optional(std::move(found)) : std::nullopt;
}

/// What the family's template takes: inputs, outputs and workspace. A row that is found on the
/// device (kernel.rows) is `sl::rowAt(o0, a8, 512, 128)`.
llvm::SmallVector<std::string> templateOperands(FuncOp func, llvm::ArrayRef<std::string> pointers) {
  llvm::SmallVector<std::string> items(pointers.take_front(kernel::takenInputsOf(func).size()));
  llvm::SmallVector<std::string> written(pointers.drop_front(func.getInputs().size()));
  for (kernel::RowAttr row : kernel::writtenRowsOf(func)) {
    std::string& output = written[row.getOutput()];
    output = "sl::rowAt" + std::string(row.getWrap() ? "<true>" : "") + "(" + output + ", " +
             pointers[row.getIndex()] + ", " + std::to_string(row.getExtent()) + ", " +
             std::to_string(row.getStride()) + ")";
  }
  items.append(written);
  return items;
}

/// The call of the family's template with these parameters; `firstBlock`: the block of the grid
/// from which on blocks compute this.
mlir::FailureOr<std::string> callText(FuncOp func, const Parameters& parameters,
                                      int64_t firstBlock = 0, size_t indent = 2) {
  kernel::ScheduleAttr schedule = func.getSchedule();
  const std::string family = schedule.getFamily().str();
  const std::string structs = "sl::" + camelCase(family);
  const Spelling spelling = [&](StringAttr name) { return parameters.extents.lookup(name); };
  const std::string head = std::string(indent, ' ') + "sl::" + family + "<";
  const std::string margin(indent + 4, ' ');
  llvm::SmallVector<mlir::NamedAttribute> tune(schedule.getTune());
  if (firstBlock > 0) {
    mlir::Builder builder(func.getContext());
    tune.push_back(builder.getNamedAttr("firstBlock", builder.getI64IntegerAttr(firstBlock)));
  }

  std::string text = head + structText(structs + "Tune", tune, spelling, head.size(), indent + 4) +
                     ">(\n" + margin;
  text += kernel::isPrintedAsHost(func) ? "ctx, team,\n" + margin : "";
  if (takesFixedShape(func)) {
    text += "sl::Fixed<" +
            structText(structs + "Shape", schedule.getShape(), spelling, indent + 14, indent + 8) +
            ">{}";
  } else if (const std::optional<BatchedShape> batched = batchedShape(func)) {
    text += "sl::Batched<" +
            structText(structs + "Shape", batched->values, spelling, indent + 16, indent + 8) +
            ", " + std::to_string(batched->dim) + ">{" +
            valueText("extent", batched->count, spelling) + "}";
  } else {
    text += structText(structs + "Shape", schedule.getShape(), spelling, indent + 4, indent + 8);
  }
  for (mlir::Region& region : func.getBodies()) {
    mlir::FailureOr<std::string> lambda = printLambda(region, func.getCanFail(), indent + 4);
    if (failed(lambda)) {
      return mlir::failure();
    }
    text += ",\n" + margin + *lambda;
  }
  if (!parameters.pointers.empty()) {
    text += ",\n" + margin +
            wrapped(templateOperands(func, parameters.pointers), indent + 4, indent + 4);
  }
  return text + ");\n";
}

/// The parts of a kernel (kernel.parts), of which each block computes one:
///
///   if (blockIdx.x < 4) {
///     sl::scatter_rows<...>(..., a0, a1, o0);
///   } else {
///     sl::scatter_rows<...firstBlock = 4...>(..., a2, a3, o1);
///   }
mlir::FailureOr<std::string> partsText(FuncOp func, llvm::ArrayRef<FuncOp> parts,
                                       const Parameters& parameters) {
  llvm::ArrayRef<std::string> inputs = parameters.pointers, outputs = inputs;
  outputs = outputs.drop_front(func.getInputs().size());
  std::string text;
  int64_t firstBlock = 0;
  for (size_t number = 0; number < parts.size(); ++number) {
    FuncOp part = parts[number];
    Parameters own;
    llvm::append_range(own.pointers, inputs.take_front(part.getInputs().size()));
    llvm::append_range(own.pointers, outputs.take_front(part.getOutputs().size()));
    inputs = inputs.drop_front(part.getInputs().size());
    outputs = outputs.drop_front(part.getOutputs().size());
    mlir::FailureOr<std::string> call = callText(part, own, firstBlock, 4);
    if (failed(call)) {
      return mlir::failure();
    }
    firstBlock += *kernel::blocksOf(part).getConstant();
    const std::string condition =
        number + 1 == parts.size() ? "" : "if (blockIdx.x < " + std::to_string(firstBlock) + ") ";
    text += (text.empty() ? "  " : " else ") + condition + "{\n" + *call + "  }";
  }
  return text + "\n";
}

/// What a device starts (sl_device_source): unpacks the arguments of a kernel that is printed as
/// the host's are.
///
///   extern "C" void relu_4x4_start(sl_ctx* ctx, sl_team team, void* const* arguments) {
///     relu_4x4(ctx, team, *static_cast<const float**>(arguments[0]), ...);
///   }
std::string startText(FuncOp func, const Parameters& parameters) {
  llvm::SmallVector<std::string> items = {"ctx", "team"};
  for (auto [position, declaration] : llvm::enumerate(parameters.declarations)) {
    const StringRef type = StringRef(declaration).rsplit(' ').first;
    items.push_back("*static_cast<" + type.str() + "*>(arguments[" + std::to_string(position) +
                    "])");
  }
  const std::string head = "  " + func.getSymName().str() + "(";
  return "extern \"C\" void " + func.getSymName().str() +
         "_start(sl_ctx* ctx, sl_team team, void* const* arguments) {\n" + head +
         wrapped(items, head.size(), 6) + ");\n}\n";
}

}  // namespace

std::string kernelSignature(FuncOp func) {
  llvm::SmallVector<std::string> items;
  std::string head;
  if (!kernel::isPrintedAsHost(func)) {
    auto threads = func->getAttrOfType<mlir::IntegerAttr>(kernel::kThreadsAttr);
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
  if (kernel::isOwnImage(func)) {
    return {};
  }
  if (kernel::ownSourceOf(func)) {
    return ownIncludes(func);
  }
  llvm::SmallVector<FuncOp> functions = kernel::partsOf(func);
  if (functions.empty()) {
    functions.push_back(func);
  }
  llvm::SmallVector<std::string> includes;
  for (FuncOp each : functions) {
    includes.push_back("#include \"straightline/kernels/" + each.getSchedule().getFamily().str() +
                       ".h\"");
    if (!each.getBodies().empty()) {
      includes.push_back("#include \"straightline/kernels/scalar.h\"");
    }
    if (callsSpecialFunction(each)) {
      includes.push_back("#include \"straightline/kernels/special.h\"");
    }
  }
  return includes;
}

mlir::FailureOr<std::string> printKernel(FuncOp func) {
  if (kernel::isOwnImage(func)) {
    return ownImageText(func);
  }
  const Parameters parameters = parametersOf(func);
  if (kernel::ownSourceOf(func)) {
    return ownSourceText(func) + kernelSignature(func) + " {\n" +
           ownCallText(func, parameters.pointers,
                       [&](mlir::StringAttr name) { return parameters.extents.lookup(name); }) +
           "}\n";
  }
  std::string text = kernelSignature(func) + " {\n";
  if (kernel::earlyStartOf(func) == kernel::EarlyStart::atEntry) {
    text += "  sl::awaitPrevious();\n";
  }
  const llvm::SmallVector<FuncOp> parts = kernel::partsOf(func);
  mlir::FailureOr<std::string> body =
      parts.empty() ? callText(func, parameters) : partsText(func, parts, parameters);
  if (failed(body)) {
    return mlir::failure();
  }
  text += *body + "}\n";
  return kernel::runsOnDevice(func) && kernel::isPrintedAsHost(func)
             ? text + startText(func, parameters)
             : text;
}

}  // namespace straightline::codegen
