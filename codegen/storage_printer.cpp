// SPDX-License-Identifier: Apache-2.0
#include "codegen/storage_printer.h"

#include "dialect/element_type.h"
#include "dialect/error_kind.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

namespace straightline::codegen {

using kernel::BufferType;
using mlir::AffineExpr;
using mlir::StringAttr;
using mlir::Value;

namespace {

std::string storageLiteral(const llvm::APFloat& value, mlir::Type type) {
  if (type.isBF16() || type.isF16()) {
    return "{" + std::to_string(value.bitcastToAPInt().getZExtValue()) + "u}";
  }
  if (float8Code(type)) {
    return std::to_string(value.bitcastToAPInt().getSExtValue());  // of int8_t
  }
  return floatLiteral(value, type);
}

/// Buffers and extents that a region needs before its first statement, in the order of the index.
struct Used {
  llvm::SetVector<Value> values;
  llvm::SetVector<StringAttr> extents;
};

void useType(mlir::Type type, Used& used) {
  if (auto buffer = llvm::dyn_cast<BufferType>(type)) {
    for (StringAttr name : buffer.getNames()) {
      used.extents.insert(name);
    }
  }
}

void useExtents(mlir::Operation* op, Used& used) {
  auto useExtent = [&](kernel::ExtentAttr extent, mlir::ArrayAttr bound) {
    for (StringAttr name : extent.getNames()) {
      if (!llvm::is_contained(bound, mlir::Attribute(name))) {
        used.extents.insert(name);
      }
    }
  };
  mlir::ArrayAttr none = mlir::ArrayAttr::get(op->getContext(), {});
  if (auto view = llvm::dyn_cast<kernel::ViewOp>(op)) {
    useExtent(view.getOffset(), view.getIndexNames());
  } else if (auto size = llvm::dyn_cast<kernel::SizeOp>(op)) {
    useExtent(size.getValue(), none);
  } else if (auto set = llvm::dyn_cast<kernel::SetExtentOp>(op)) {
    auto program = op->getParentOfType<kernel::ProgramOp>();
    for (auto extent : program.getBodyBlock()->getOps<kernel::ExtentOp>()) {
      if (extent.getSymNameAttr() == set.getExtentAttr().getAttr()) {
        useExtent(extent.getBoundAttr(), none);
      }
    }
  } else if (llvm::isa<kernel::LaunchOp, kernel::CallOp>(op)) {
    for (kernel::ExtentAttr value : scalarValuesOf(op)) {
      useExtent(value, none);
    }
  } else if (llvm::isa<kernel::CopyOp>(op)) {
    useType(op->getOperand(0).getType(), used);
  } else if (auto alloc = llvm::dyn_cast<kernel::AllocOp>(op)) {
    if (!alloc.getBytes()) {
      useType(alloc.getBuffer().getType(), used);
    }
  } else if (auto load = llvm::dyn_cast<kernel::LoadOp>(op)) {
    for (AffineExpr stride : llvm::cast<BufferType>(load.getBuffer().getType()).getStrides()) {
      for (auto [position, name] :
           llvm::enumerate(llvm::cast<BufferType>(load.getBuffer().getType()).getNames())) {
        if (stride.isFunctionOfSymbol(position)) {
          used.extents.insert(name);
        }
      }
    }
  }
}

}  // namespace

bool isAddressNeeded(kernel::ViewOp view) {
  return llvm::any_of(view->getUsers(), [](mlir::Operation* user) {
    auto next = llvm::dyn_cast<kernel::ViewOp>(user);
    return next ? isAddressNeeded(next) : !llvm::isa<kernel::ReturnOp>(user);
  });
}

namespace {

Used usedIn(mlir::Region& region) {
  Used used;
  region.walk([&](mlir::Operation* op) {
    auto view = llvm::dyn_cast<kernel::ViewOp>(op);
    if (llvm::isa<kernel::ReturnOp>(op) || (view && !isAddressNeeded(view))) {
      return;
    }
    useExtents(op, used);
    for (Value operand : op->getOperands()) {
      if (llvm::isa<BufferType, kernel::HandleType>(operand.getType())) {
        used.values.insert(operand);
      }
    }
  });
  return used;
}

/// Slot or prepared data: its offset and the name of its arena in io.
struct Placed {
  kernel::ExtentAttr offset;
  const char* arenas;
};

Placed placeOf(Value value) {
  if (auto slot = value.getDefiningOp<kernel::SlotOp>()) {
    return {slot.getOffsetAttr(), "arenas"};
  }
  if (auto prepared = value.getDefiningOp<kernel::PreparedOp>()) {
    return {prepared.getOffsetAttr(), "prepared"};
  }
  return {{}, nullptr};
}

void printPlaced(Value value, const Placed& place, bool readOnly, const ProgramIndex& index,
                 Writer& writer) {
  auto type = llvm::cast<BufferType>(value.getType());
  llvm::SmallVector<StringAttr> names;
  AffineExpr bytes = addressBytes(type, place.offset, names);
  const std::string name = index.name(value);
  const std::string constant = symbolic::constantValue(bytes) ? "constexpr" : "const";
  const std::string element = (readOnly ? "const " : "") + cppType(type.getElementType());
  writer.line(constant + " int64_t " + name +
              "_at = " + expression(bytes, names, extentSpelling(index)) + ";");
  writer.line(element + "* const " + name + " = sl::at<" + element + ">(io->" + place.arenas + "[" +
              std::to_string(index.spaceNumber(type.getSpace())) + "], " + name + "_at);");
}

void printLocal(const BufferLine& line, bool inPrepare, const ProgramIndex& index, Writer& writer) {
  const std::string name = index.name(line.value);
  const std::string position = "[" + std::to_string(line.index) + "]";
  if (line.role == SL_ROLE_HANDLE) {
    writer.line(inPrepare ? "void** const " + name + " = const_cast<void**>(&io->handles" +
                                position + ");"
                          : "void* const " + name + " = io->handles" + position + ";");
    return;
  }
  const bool readOnly = isReadOnly(line.value, inPrepare);
  const std::string pointer =
      std::string(readOnly ? "const " : "") +
      cppType(llvm::cast<BufferType>(line.value.getType()).getElementType()) + "*";
  const std::string head = pointer + " const " + name + " = static_cast<" + pointer + ">(";
  switch (line.role) {
    case SL_ROLE_PARAMETER:
      writer.line(head + "io->parameters" + position + ");");
      return;
    case SL_ROLE_STATE:
      writer.line(head + (readOnly ? "io->parameters" + position + ");"
                                   : "const_cast<void*>(io->parameters" + position + "));"));
      return;
    case SL_ROLE_INPUT:
      writer.line(head + "io->inputs" + position + ");");
      return;
    case SL_ROLE_OUTPUT:
      writer.line(head + "io->outputs" + position + ");");
      return;
    case SL_ROLE_PREPARED:
    case SL_ROLE_ARENA:
      printPlaced(line.value, placeOf(line.value), readOnly, index, writer);
      return;
    case SL_ROLE_HANDLE:
    case SL_ROLE_VIEW:  // printed where they stand
    case SL_ROLE_RUNTIME:
    case SL_ROLE_CONSTANT:  // the name of an array
      return;
  }
}

}  // namespace

Spelling extentSpelling(const ProgramIndex& index) {
  return [&index](StringAttr name) { return index.extentName(name); };
}

AffineExpr addressBytes(BufferType type, kernel::ExtentAttr offset,
                        llvm::SmallVectorImpl<StringAttr>& names) {
  names.assign(type.getNames().begin(), type.getNames().end());
  AffineExpr bytes = type.storageOffsetElems() * type.elementBytes();
  return bytes + symbolic::rebase(offset.getExpr(), offset.getNames(), names);
}

bool isReadOnly(Value buffer, bool inPrepare) {
  Value root = kernel::storageRoot(buffer);
  if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(root)) {
    auto run = llvm::cast<kernel::RunOp>(argument.getOwner()->getParentOp());
    return argument.getArgNumber() < run.getInputNames().size() &&
           !run.getMutatedInputs()[argument.getArgNumber()];
  }
  mlir::Operation* owner = root.getDefiningOp();
  return llvm::isa<kernel::ParameterOp, kernel::ConstantOp>(owner) ||
         (inPrepare ? llvm::isa<kernel::StateOp>(owner) : llvm::isa<kernel::PreparedOp>(owner));
}

mlir::FailureOr<std::string> printConstant(kernel::ConstantOp op, const ProgramIndex& index) {
  auto elements = llvm::dyn_cast<mlir::DenseElementsAttr>(op.getValue());
  if (!elements) {
    return emitUnsupported(op) << "literal data of kind "
                               << op.getValue().getAbstractAttribute().getName()
                               << ", expected dense elements";
  }
  mlir::Type type = elements.getElementType();
  llvm::SmallVector<std::string> items;
  if (llvm::isa<mlir::FloatType>(type)) {
    for (const llvm::APFloat& value : elements.getValues<llvm::APFloat>()) {
      items.push_back(storageLiteral(value, type));
    }
  } else {
    for (const llvm::APInt& value : elements.getValues<llvm::APInt>()) {
      items.push_back(intLiteral(value, type));
    }
  }
  if (items.empty()) {
    items.push_back("{}");  // an array has at least one element
  }
  const std::string head =
      "alignas(64) static constexpr " + cppType(type) + " " + index.name(op.getBuffer()) + "[] = {";
  return head + wrapped(items, head.size(), 4) + "};\n";
}

Locals localsOf(mlir::Region& region, const ProgramIndex& index) {
  Used used = usedIn(region);
  // An offset may itself use extents.
  for (Value value : used.values) {
    Placed place = placeOf(value);
    if (place.arenas) {
      llvm::SmallVector<StringAttr> names;
      AffineExpr bytes = addressBytes(llvm::cast<BufferType>(value.getType()), place.offset, names);
      for (auto [position, name] : llvm::enumerate(names)) {
        if (bytes.isFunctionOfSymbol(position)) {
          used.extents.insert(name);
        }
      }
    }
  }
  Locals locals;
  for (auto [position, extent] : llvm::enumerate(index.extents())) {
    if (used.extents.contains(kernel::ExtentOp(extent).getSymNameAttr())) {
      locals.extents.push_back(static_cast<int>(position));
    }
  }
  for (auto [position, line] : llvm::enumerate(index.buffers())) {
    if (used.values.contains(line.value)) {
      locals.buffers.push_back(static_cast<int>(position));
    }
  }
  return locals;
}

void printLocals(mlir::Region& region, const ProgramIndex& index, Writer& writer) {
  const bool inPrepare = llvm::isa<kernel::PrepareOp>(region.getParentOp());
  const Locals locals = localsOf(region, index);
  // Computed ones begin at their bounds, which are over the others. No thread reads them from `io`,
  // where thread 0 may have been already.
  for (const bool computed : {false, true}) {
    for (int extent : locals.extents) {
      kernel::ExtentOp op = index.extents()[extent];
      const kernel::ExtentAttr bound = op.getBoundAttr();
      const std::string name = index.extentName(op.getSymNameAttr());
      if (bound && computed) {
        writer.line("int64_t " + name + " = " +
                    expression(bound.getExpr(), bound.getNames(), extentSpelling(index)) + ";");
      } else if (!bound && !computed) {
        writer.line("const int64_t " + name + " = io->extents[" + std::to_string(extent) + "];");
      }
    }
  }
  for (int buffer : locals.buffers) {
    printLocal(index.buffers()[buffer], inPrepare, index, writer);
  }
}

std::string loadPlace(kernel::LoadOp load, const ProgramIndex& index, const ValueSpelling& name) {
  auto type = llvm::cast<BufferType>(load.getBuffer().getType());
  std::string place;
  for (auto [stride, position] : llvm::zip(type.getStrides(), load.getIndices())) {
    const std::string step = expression(stride, type.getNames(), extentSpelling(index));
    const std::string at = name(position);
    const bool simple = llvm::all_of(step, [](char c) { return llvm::isAlnum(c) || c == '_'; });
    place += (place.empty() ? "" : " + ") +
             (step == "1" ? at : at + " * " + (simple ? step : "(" + step + ")"));
  }
  return place.empty() ? "0" : place;
}

Spelling viewSpelling(kernel::ViewOp view, const ProgramIndex& index, ValueSpelling name) {
  return [view, &index, name = std::move(name)](StringAttr symbol) mutable {
    for (auto [bound, value] : llvm::zip(view.getIndexNames(), view.getIndices())) {
      if (bound == symbol) {
        return name(value);
      }
    }
    return index.extentName(symbol);
  };
}

void printView(kernel::ViewOp view, const ProgramIndex& index, Writer& writer) {
  if (!isAddressNeeded(view)) {
    return;
  }
  auto base = llvm::cast<BufferType>(view.getBase().getType());
  auto result = llvm::cast<BufferType>(view.getResult().getType());
  kernel::ExtentAttr offset = view.getOffset();
  std::string address = index.name(view.getBase());
  if (offset.getConstant() != 0) {
    const Spelling spelling =
        viewSpelling(view, index, [&](Value value) { return index.name(value); });
    address += " + " + expression(offset.getExpr(), offset.getNames(), spelling);
  }
  const bool inPrepare = view->getParentOfType<kernel::PrepareOp>() != nullptr;
  const std::string pointer = std::string(isReadOnly(view.getResult(), inPrepare) ? "const " : "") +
                              cppType(result.getElementType()) + "*";
  if (cppType(base.getElementType()) != cppType(result.getElementType())) {
    address = "reinterpret_cast<" + pointer + ">(" + address + ")";
  }
  writer.line(pointer + " const " + index.name(view.getResult()) + " = " + address + ";");
}

}  // namespace straightline::codegen
