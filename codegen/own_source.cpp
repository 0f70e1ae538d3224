// SPDX-License-Identifier: Apache-2.0
#include "codegen/own_source.h"

#include "dialect/kernel/own.h"
#include "dialect/own_argument.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "mlir/IR/Builders.h"

namespace straightline::codegen {

using llvm::StringRef;

namespace {

StringRef sourceTextOf(kernel::FuncOp func) {
  return kernel::ownSourceOf(func).getAs<mlir::StringAttr>("source").getValue();
}

bool isInclude(StringRef line) {
  line = line.ltrim();
  return line.consume_front("#") && line.ltrim().starts_with("include");
}

/// A line in which kernels are device functions. `__launch_bounds__` is of kernels alone.
std::string asDeviceCode(StringRef line) {
  constexpr std::pair<StringRef, StringRef> kWords[] = {{"__global__", "__device__"},
                                                        {"__launch_bounds__", "SL_OF_A_KERNEL"}};
  std::string text = line.str();
  for (const auto& [from, to] : kWords) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

std::string namespaceOf(kernel::FuncOp func) { return func.getSymName().str() + "_source"; }

/// Text of one argument that is no tensor; `sizes` of the schedule's shape are what `$N` means.
std::string constantText(const OwnArgument& argument, kernel::FuncOp func,
                         const Spelling& spelling) {
  if (argument.kind == OwnArgumentKind::numbers) {
    return floatLiteral(argument.numbers.front(), mlir::Float64Type::get(func.getContext()));
  }
  if (argument.kind == OwnArgumentKind::size) {
    const auto* sizes =
        llvm::find_if(func.getSchedule().getShape(),
                      [](mlir::NamedAttribute value) { return value.getName() == "sizes"; });
    auto size = llvm::cast<kernel::ExtentAttr>(llvm::cast<mlir::ArrayAttr>(
        sizes->getValue())[static_cast<unsigned>(argument.integers.front())]);
    return "static_cast<int64_t>(" + expression(size.getExpr(), size.getNames(), spelling) + ")";
  }
  return "int64_t{" + intLiteral(argument.integers.front()) + "}";
}

}  // namespace

llvm::SmallVector<std::string> ownIncludes(kernel::FuncOp func) {
  llvm::SmallVector<std::string> includes = {"#include \"straightline/kernels/vector.h\""};
  for (StringRef line : llvm::split(sourceTextOf(func), '\n')) {
    if (isInclude(line)) {
      includes.push_back(line.trim().str());
    }
  }
  return includes;
}

std::string ownSourceText(kernel::FuncOp func) {
  std::string text =
      std::string(kOwnSourceMark) +
      kernel::ownSourceOf(func).getAs<mlir::StringAttr>("function").getValue().str() +
      "\n#undef SL_OF_A_KERNEL\n#define SL_OF_A_KERNEL(...)\nnamespace " + namespaceOf(func) +
      " {\n";
  for (StringRef line : llvm::split(sourceTextOf(func), '\n')) {
    text += isInclude(line) ? "\n" : asDeviceCode(line) + "\n";
  }
  text +=
      "/// Memory of elements that our text has another name for than the user's.\n"
      "struct Elements {\n"
      "  const void* address;\n"
      "  template <class T>\n"
      "  __device__ operator T*() const {\n"
      "    return static_cast<T*>(const_cast<void*>(address));\n"
      "  }\n"
      "};\n";
  return text + "}  // namespace " + namespaceOf(func) + "\n";
}

std::string ownCallText(kernel::FuncOp func, llvm::ArrayRef<std::string> pointers,
                        const Spelling& spelling) {
  mlir::DictionaryAttr source = kernel::ownSourceOf(func);
  const size_t inputs = func.getInputs().size();
  llvm::SmallVector<std::string> items;
  for (auto text : source.getAs<mlir::ArrayAttr>("arguments").getAsValueRange<mlir::StringAttr>()) {
    const OwnArgument argument = *parseOwnArgument(text);
    if (argument.kind == OwnArgumentKind::absent) {
      items.push_back("nullptr");
    } else if (argument.kind == OwnArgumentKind::tensors) {
      const OwnArgument::Tensor& tensor = argument.tensors.front();
      const auto number = static_cast<size_t>(tensor.number);
      const std::string& pointer = pointers[tensor.isOutput ? inputs + number : number];
      auto buffers = (tensor.isOutput ? func.getOutputs() : func.getInputs())
                         .getAsValueRange<mlir::TypeAttr>();
      const mlir::Type element =
          llvm::cast<kernel::BufferType>(*std::next(buffers.begin(), tensor.number))
              .getElementType();
      const bool isNamed = StringRef(cppType(element)).starts_with("sl::");
      items.push_back(isNamed ? namespaceOf(func) + "::Elements{" + pointer + "}" : pointer);
    } else {
      items.push_back(constantText(argument, func, spelling));
    }
  }
  const std::string head = "  " + namespaceOf(func) +
                           "::" + source.getAs<mlir::StringAttr>("function").getValue().str() + "(";
  return head + wrapped(items, head.size(), 6) + ");\n";
}

std::string ownImageText(kernel::FuncOp func) {
  constexpr size_t kColumns = 96;
  mlir::DictionaryAttr source = kernel::ownSourceOf(func);
  std::string text = std::string(kOwnImageMark) +
                     source.getAs<mlir::StringAttr>("function").getValue().str() + "\n";
  for (StringRef line : llvm::split(sourceTextOf(func).rtrim(), '\n')) {
    text += line.empty() ? "//\n" : "// " + line.str() + "\n";
  }
  // No comment: those are not part of what the cache knows a unit by.
  text += "constexpr char " + func.getSymName().str() + "_base64[]" + kOwnImageBegin;
  for (StringRef rest = source.getAs<mlir::StringAttr>("image").getValue(); !rest.empty();
       rest = rest.drop_front(std::min(rest.size(), kColumns))) {
    text += "    \"" + rest.take_front(kColumns).str() + "\"\n";
  }
  return text + "    \"\";\n";
}

llvm::SmallVector<mlir::StringAttr> ownImageNames(kernel::FuncOp func) {
  mlir::Builder builder(func.getContext());
  llvm::SmallVector<mlir::StringAttr> names;
  for (size_t i = 0; i < func.getInputs().size() + func.getOutputs().size(); ++i) {
    names.push_back(builder.getStringAttr("%" + std::to_string(i)));
  }
  llvm::append_range(names, func.getScalarNames());
  return names;
}

OwnImage ownImageOf(kernel::FuncOp func) {
  mlir::MLIRContext* context = func.getContext();
  mlir::DictionaryAttr source = kernel::ownSourceOf(func);
  const llvm::SmallVector<mlir::StringAttr> names = ownImageNames(func);
  const auto constant = [&](int64_t value) {
    return kernel::ExtentAttr::get(context, {}, mlir::getAffineConstantExpr(value, context));
  };
  const auto number = [&](mlir::Attribute value) {
    auto extent = llvm::dyn_cast<kernel::ExtentAttr>(value);
    return extent ? extent : constant(llvm::cast<mlir::IntegerAttr>(value).getInt());
  };
  const auto shape = [&](StringRef key) {
    const auto* found =
        llvm::find_if(func.getSchedule().getShape(),
                      [&](mlir::NamedAttribute value) { return value.getName() == key; });
    return llvm::cast<mlir::ArrayAttr>(found->getValue());
  };
  OwnImage image;
  auto alignments = source.getAs<mlir::DenseI64ArrayAttr>("alignments").asArrayRef();
  auto texts = source.getAs<mlir::ArrayAttr>("arguments").getAsValueRange<mlir::StringAttr>();
  for (auto [text, alignment] : llvm::zip_equal(texts, alignments)) {
    const OwnArgument argument = *parseOwnArgument(text);
    kernel::ExtentAttr value = constant(0);  // an absent tensor
    if (argument.kind == OwnArgumentKind::tensors) {
      const OwnArgument::Tensor& tensor = argument.tensors.front();
      const auto place = static_cast<size_t>(tensor.number) +
                         (tensor.isOutput ? func.getInputs().size() : size_t{0});
      value =
          kernel::ExtentAttr::get(context, {names[place]}, mlir::getAffineSymbolExpr(0, context));
    } else if (argument.kind == OwnArgumentKind::size) {
      value = number(shape("sizes")[static_cast<unsigned>(argument.integers.front())]);
    } else if (argument.kind == OwnArgumentKind::integers) {
      value = constant(argument.integers.front());
    }
    image.parameters.push_back({value, alignment});
  }
  image.blocksY = number(shape("more_blocks")[0]);
  image.blocksZ = number(shape("more_blocks")[1]);
  image.sharedBytes = source.getAs<mlir::IntegerAttr>("shared_bytes").getInt();
  return image;
}

}  // namespace straightline::codegen
