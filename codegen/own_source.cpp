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

/// The call of a user's kernel: its arguments, and the arrays that lists of the schema are.
class OwnCall {
 public:
  OwnCall(kernel::FuncOp func, llvm::ArrayRef<std::string> pointers, const Spelling& spelling)
      : func_(func), pointers_(pointers), spelling_(spelling) {
    for (mlir::ArrayAttr buffers : {func.getInputs(), func.getOutputs()}) {
      for (mlir::Type type : buffers.getAsValueRange<mlir::TypeAttr>()) {
        elements_.push_back(llvm::cast<kernel::BufferType>(type).getElementType());
      }
    }
  }

  std::string print(mlir::DictionaryAttr source) {
    for (auto text :
         source.getAs<mlir::ArrayAttr>("arguments").getAsValueRange<mlir::StringAttr>()) {
      add(*parseOwnArgument(text));
    }
    const std::string head = "  " + namespaceOf(func_) +
                             "::" + source.getAs<mlir::StringAttr>("function").getValue().str() +
                             "(";
    return arrays_ + head + wrapped(items_, head.size(), 6) + ");\n";
  }

 private:
  void add(const OwnArgument& argument) {
    switch (argument.kind) {
      case OwnArgumentKind::absent:
        items_.push_back("nullptr");
        return;
      case OwnArgumentKind::tensors:
        return addTensors(argument);
      case OwnArgumentKind::integers:
      case OwnArgumentKind::numbers:
        return addNumbers(argument);
      case OwnArgumentKind::text:
        items_.push_back(stringLiteral(argument.text));
        return;
      case OwnArgumentKind::dtype:  // the bytes of sl_dtype: code, bits, and two of lanes
        items_.push_back(
            "uint32_t{" +
            std::to_string(argument.integers[0] | argument.integers[1] << 8 | int64_t{1} << 16) +
            "}");
        return;
      case OwnArgumentKind::size:
        items_.push_back(sizeText(argument.integers.front()));
        return;
    }
  }

  void addTensors(const OwnArgument& argument) {
    llvm::SmallVector<std::string> places;
    bool isNamed = false;
    for (const OwnArgument::Tensor& tensor : argument.tensors) {
      const auto place =
          static_cast<size_t>(tensor.number) + (tensor.isOutput ? func_.getInputs().size() : 0);
      places.push_back(pointers_[place]);
      isNamed |= StringRef(cppType(elements_[place])).starts_with("sl::");
    }
    if (argument.isList) {
      const std::string list = addArray("const void* const", places);
      items_.push_back(list.empty() ? "nullptr" : namespaceOf(func_) + "::Elements{" + list + "}");
      items_.push_back(count(places.size()));
    } else {
      items_.push_back(isNamed ? namespaceOf(func_) + "::Elements{" + places.front() + "}"
                               : places.front());
    }
  }

  void addNumbers(const OwnArgument& argument) {
    llvm::SmallVector<std::string> literals;
    const bool areIntegers = argument.kind == OwnArgumentKind::integers;
    const mlir::Type real = mlir::Float64Type::get(func_.getContext());
    for (int64_t value : argument.integers) {
      literals.push_back(intLiteral(value));
    }
    for (const llvm::APFloat& value : argument.numbers) {
      literals.push_back(floatLiteral(value, real));
    }
    if (argument.isList) {
      const std::string list =
          addArray(areIntegers ? "static constexpr int64_t" : "static constexpr double", literals);
      items_.push_back(list.empty() ? "nullptr" : list);
      items_.push_back(count(literals.size()));
    } else if (areIntegers) {
      items_.push_back(checked("int64_t{" + literals.front() + "}"));
    } else {
      const bool isFinite = argument.numbers[0].isFinite();  // else no type but a float's has it
      items_.push_back(isFinite ? checked(literals.front()) : literals.front());
    }
  }

  /// A number that the compiler refuses where the user's parameter has a type that cannot hold it.
  static std::string checked(const std::string& number) { return "{" + number + "}"; }

  static std::string count(size_t value) {
    return checked("int64_t{" + std::to_string(value) + "}");
  }

  /// The name of an array of the call, or "" where it has no elements.
  std::string addArray(const std::string& type, llvm::ArrayRef<std::string> elements) {
    if (elements.empty()) {
      return "";
    }
    const std::string name = "list" + std::to_string(lists_++);
    const std::string head = "  " + type + " " + name + "[] = {";
    arrays_ += head + wrapped(elements, head.size(), 6) + "};\n";
    return name;
  }

  /// `$N` is one of the sizes in the schedule's shape.
  std::string sizeText(int64_t number) {
    const auto* sizes =
        llvm::find_if(func_.getSchedule().getShape(),
                      [](mlir::NamedAttribute value) { return value.getName() == "sizes"; });
    auto size = llvm::cast<kernel::ExtentAttr>(
        llvm::cast<mlir::ArrayAttr>(sizes->getValue())[static_cast<unsigned>(number)]);
    return checked("static_cast<int64_t>(" +
                   expression(size.getExpr(), size.getNames(), spelling_) + ")");
  }

  kernel::FuncOp func_;
  llvm::ArrayRef<std::string> pointers_;  ///< of inputs and outputs
  const Spelling& spelling_;
  llvm::SmallVector<mlir::Type> elements_;  ///< of inputs and outputs
  llvm::SmallVector<std::string> items_;
  std::string arrays_;
  int lists_ = 0;
};

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
      "/// Memory of elements that our text has another name for than the user's, or a list of "
      "it.\n"
      "struct Elements {\n"
      "  const void* address;\n"
      "  template <class T>\n"
      "  __device__ operator T*() const {\n"
      "    return static_cast<T*>(const_cast<void*>(address));\n"
      "  }\n"
      "};\n";
  text += "}  // namespace " + namespaceOf(func) + "\n";
  // Of NVRTC only warnings, as are other truncations of constants: a number that the type of a
  // parameter cannot hold.
  return text + "#ifdef __CUDACC__\n#pragma nv_diag_error 69, 2361, 2362, 2363, 2364\n#endif\n";
}

std::string ownCallText(kernel::FuncOp func, llvm::ArrayRef<std::string> pointers,
                        const Spelling& spelling) {
  return OwnCall(func, pointers, spelling).print(kernel::ownSourceOf(func));
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
  const size_t addresses =
      func.getInputs().size() + func.getOutputs().size() + func.getWorkspace().size();
  for (size_t i = 0; i < addresses; ++i) {
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
  image.cooperative = source.contains("cooperative");
  return image;
}

}  // namespace straightline::codegen
