// SPDX-License-Identifier: Apache-2.0
#include "codegen/own_calls.h"

#include "dialect/kernel/own.h"
#include "dialect/own_argument.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

namespace straightline::codegen {

using kernel::BufferType;
using llvm::StringRef;
using mlir::TypeAttr;

namespace {

constexpr llvm::StringLiteral kOwnCall = "sl_own_call", kCudaStream = "sl_cuda_stream";

bool isOnDevice(kernel::DeclOp decl) { return decl->hasAttr(kernel::kRunsOnAttr); }

/// The pieces of `call_k`: one walk over the arguments makes all of them.
class OwnCallPrinter {
 public:
  explicit OwnCallPrinter(kernel::DeclOp decl) : decl_(decl) {
    for (mlir::Type type : decl.getInputs().getAsValueRange<TypeAttr>()) {
      addOperand(llvm::cast<BufferType>(type));
    }
    for (mlir::Type type : decl.getOutputs().getAsValueRange<TypeAttr>()) {
      addOperand(llvm::cast<BufferType>(type));
    }
    for (auto text : kernel::ownArgumentsOf(decl).getAsValueRange<mlir::StringAttr>()) {
      addArgument(*parseOwnArgument(text));
    }
    addRest();
  }

  std::string print() {
    const std::string function = decl_.getRun().str();
    Writer writer;
    writer.line("extern \"C\" void " + function + "(void);  // called by its own type");
    writer.line("extern \"C\" int32_t sl_own_call(");
    writer.line("    sl_ctx*, const char* name, void (*function)(void), const int64_t* integers,");
    writer.line("    int32_t integer_count, const double* numbers, int32_t number_count,");
    writer.line("    int32_t has_status);");
    if (isOnDevice(decl_)) {
      writer.line("extern \"C\" void* sl_cuda_stream(void);");
    }
    writer.line("static int32_t " + ownCallName(decl_) + "(sl_ctx* ctx, sl_team, void*,");
    writer.line("    const void* const* " + std::string(usesInputs_ ? "inputs" : "") +
                ", void* const* " + (usesOutputs_ ? "outputs" : "") + ", void*" +
                (decl_.getWorkspace().empty() ? "" : " workspace") + ") {");
    writer.indent();
    for (const std::string& line : arrays_) {
      writer.line(line);
    }
    if (!extents_.empty()) {
      writer.call(std::string(usesSizes_ ? "const" : "static constexpr") + " int64_t extents[] = {",
                  extents_, "};");
    }
    if (!tensors_.empty()) {
      writer.line("const sl_kernel_tensor tensors[] = {");
      for (const std::string& row : tensors_) {
        writer.line("    " + row + ",");
      }
      writer.line("};");
    }
    if (!integers_.empty()) {
      writer.call("const int64_t integers[] = {", integers_, "};");
    }
    if (!numbers_.empty()) {
      writer.call("static constexpr double numbers[] = {", numbers_, "};");
    }
    writer.call(
        "return sl_own_call(",
        {"ctx", stringLiteral(decl_.getOp()), function, integers_.empty() ? "nullptr" : "integers",
         std::to_string(integers_.size()), numbers_.empty() ? "nullptr" : "numbers",
         std::to_string(numbers_.size()), kernel::hasOwnTrait(decl_, "status") ? "1" : "0"},
        ");");
    writer.dedent();
    writer.line("}");
    return writer.take();
  }

 private:
  /// What the text says of an input or output.
  struct Operand {
    BufferType type;
    llvm::SmallVector<std::string> extents;
  };

  /// Extents that only a call knows are the sizes that run finds behind its inputs, in order.
  void addOperand(BufferType type) {
    Operand operand{type, {}};
    for (mlir::AffineExpr extent : type.getExtents()) {
      const std::optional<int64_t> known = symbolic::constantValue(extent);
      operand.extents.push_back(known ? intLiteral(*known) : sizeText(sizes_++));
    }
    operands_.push_back(std::move(operand));
  }

  std::string sizeText(int64_t number) {
    return "static_cast<const int64_t*>(inputs[" + std::to_string(decl_.getInputs().size()) +
           "])[" + std::to_string(number) + "]";
  }

  void addInteger(std::string value) { integers_.push_back(std::move(value)); }
  void addAddress(const std::string& value) {
    integers_.push_back("reinterpret_cast<int64_t>(" + value + ")");
  }
  void addCount(size_t count) { addInteger(std::to_string(count)); }

  void addArgument(const OwnArgument& argument) {
    switch (argument.kind) {
      case OwnArgumentKind::tensors:
        return addTensors(argument);
      case OwnArgumentKind::absent:
        return addInteger("0");
      case OwnArgumentKind::integers: {
        const auto literals =
            llvm::map_to_vector(argument.integers, [](int64_t value) { return intLiteral(value); });
        return argument.isList ? addList("int64_t", literals) : addInteger(literals.front());
      }
      case OwnArgumentKind::numbers: {
        const mlir::Type type = mlir::Float64Type::get(decl_.getContext());
        const auto literals = llvm::map_to_vector(
            argument.numbers,
            [&](const llvm::APFloat& value) { return floatLiteral(value, type); });
        return argument.isList ? addList("double", literals) : numbers_.push_back(literals.front());
      }
      case OwnArgumentKind::text:
        return addAddress(stringLiteral(argument.text));
      case OwnArgumentKind::dtype:  // the bytes of sl_dtype: code, bits, and two of lanes
        return addInteger(
            std::to_string(argument.integers[0] | argument.integers[1] << 8 | int64_t{1} << 16));
      case OwnArgumentKind::size:
        usesInputs_ = true;
        return addInteger(sizeText(sizes_ + argument.integers.front()));
    }
    llvm_unreachable("every kind of argument is printed");
  }

  void addList(const std::string& type, llvm::ArrayRef<std::string> literals) {
    const std::string name = "list" + std::to_string(arrays_.size());
    if (literals.empty()) {
      addInteger("0");
    } else {
      arrays_.push_back("static constexpr " + type + " " + name + "[] = {" +
                        wrapped(literals, 40, 4) + "};");
      addAddress("&" + name + "[0]");
    }
    addCount(literals.size());
  }

  void addTensors(const OwnArgument& argument) {
    const size_t first = tensors_.size();
    for (const OwnArgument::Tensor& tensor : argument.tensors) {
      const auto place = static_cast<size_t>(tensor.number);
      const size_t inputs = decl_.getInputs().size();
      const Operand& operand = operands_[tensor.isOutput ? inputs + place : place];
      (tensor.isOutput ? usesOutputs_ : usesInputs_) = true;
      const std::string at = "[" + std::to_string(place) + "]";
      const std::string data = tensor.isOutput ? "outputs" + at : "sl::address(inputs" + at + ")";
      const size_t begin = extents_.size();
      for (const std::string& extent : operand.extents) {
        const bool isSize = StringRef(extent).starts_with("static_cast");
        usesSizes_ |= isSize;
        usesInputs_ |= isSize;
        extents_.push_back(extent);
      }
      if (operand.extents.empty()) {
        extents_.push_back("1");  // a place for a pointer that is not NULL
      }
      tensors_.push_back("{" + data + ", extents + " + std::to_string(begin) + ", " +
                         std::to_string(operand.extents.size()) + ", " +
                         dtypeText(operand.type.getElementType()) + "}");
    }
    if (argument.tensors.empty()) {
      addInteger("0");
    } else {
      addAddress("&tensors[" + std::to_string(first) + "]");
    }
    if (argument.isList) {
      addCount(argument.tensors.size());
    }
  }

  void addRest() {
    for (mlir::Type type : decl_.getWorkspace().getAsValueRange<TypeAttr>()) {
      addAddress("workspace");
      addCount(static_cast<size_t>(
          *symbolic::constantValue(llvm::cast<BufferType>(type).getExtents().front())));
    }
    if (kernel::hasOwnTrait(decl_, "stream")) {
      if (isOnDevice(decl_)) {
        addAddress("sl_cuda_stream()");
      } else {
        addInteger("0");
      }
    }
  }

  kernel::DeclOp decl_;
  llvm::SmallVector<Operand> operands_;
  int64_t sizes_ = 0;  ///< extents among the sizes
  bool usesInputs_ = false, usesOutputs_ = false, usesSizes_ = false;
  llvm::SmallVector<std::string> integers_, numbers_;  ///< arguments, by the registers they take
  llvm::SmallVector<std::string> arrays_, extents_, tensors_;
};

}  // namespace

bool isOwnKernel(kernel::DeclOp decl) { return kernel::ownArgumentsOf(decl) != nullptr; }

std::string ownCallName(kernel::DeclOp decl) { return "call_" + decl.getSymName().str(); }

void addOwnSymbols(kernel::DeclOp decl, llvm::SmallVectorImpl<StringRef>& symbols) {
  symbols.push_back(kOwnCall);
  if (isOnDevice(decl) && kernel::hasOwnTrait(decl, "stream")) {
    symbols.push_back(kCudaStream);
  }
}

std::string printOwnCall(kernel::DeclOp decl) { return OwnCallPrinter(decl).print(); }

}  // namespace straightline::codegen
