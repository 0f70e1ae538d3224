// SPDX-License-Identifier: Apache-2.0
#include "codegen/entry_points.h"

#include "dialect/kernel/own.h"
#include "dialect/kernel/recorded.h"

#include "codegen/cpp_text.h"
#include "codegen/external_calls.h"
#include "codegen/scalar_printer.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace straightline::codegen {

using kernel::BufferType;
using llvm::StringRef;
using mlir::Operation;
using mlir::TypeAttr;

namespace {

std::string typeName(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// "muli_i64", "cmpi_slt_i64", "extf_bf16_f32": op, predicate, the types of operands and result,
/// each once.
std::string scalarName(Operation* op) {
  std::string name = op->getName().stripDialect().str();
  if (auto compare = llvm::dyn_cast<mlir::arith::CmpIOp>(op)) {
    name += "_" + mlir::arith::stringifyCmpIPredicate(compare.getPredicate()).str();
  } else if (auto compare = llvm::dyn_cast<mlir::arith::CmpFOp>(op)) {
    name += "_" + mlir::arith::stringifyCmpFPredicate(compare.getPredicate()).str();
  }
  llvm::SmallVector<mlir::Type> types(op->getOperandTypes());
  if (!llvm::isa<mlir::arith::CmpIOp, mlir::arith::CmpFOp>(op)) {
    types.append(op->result_type_begin(), op->result_type_end());
  }
  UniqueTexts names;
  for (mlir::Type type : types) {
    names.insert(typeName(type));
  }
  for (const std::string& type : names) {
    name += "_" + type;
  }
  return name;
}

double costOf(Operation* statement) { return kernel::costUsOf(statement).value_or(0); }

void addBuffers(mlir::ArrayAttr types, StringRef prefix, sl_argument_role role,
                llvm::SmallVectorImpl<EntryArgument>& arguments) {
  for (auto [position, type] : llvm::enumerate(types.getAsValueRange<TypeAttr>())) {
    arguments.push_back({prefix.str() + std::to_string(position), role, type});
  }
}

/// The buffers that a launch gives, in the order of the thunk's pointers.
llvm::SmallVector<mlir::Type> buffersOf(kernel::LaunchOp launch) {
  llvm::SmallVector<mlir::Type> types(launch.getInputs().getTypes());
  llvm::append_range(types, launch.getOutputs().getTypes());
  llvm::append_range(types, launch.getWorkspace().getTypes());
  return types;
}

void addOutputs(Operation* entry, mlir::ArrayAttr types,
                llvm::SmallVectorImpl<EntryArgument>& arguments) {
  for (auto [position, type] : llvm::enumerate(types.getAsValueRange<TypeAttr>())) {
    const sl_argument_role role =
        kernel::isOutputRead(entry, position) ? SL_ARGUMENT_READWRITE : SL_ARGUMENT_OUTPUT;
    arguments.push_back({"o" + std::to_string(position), role, type});
  }
}

std::string pointerText(const EntryArgument& argument, size_t position) {
  const bool constant = argument.role == SL_ARGUMENT_INPUT;
  return std::string("static_cast<") + (constant ? "const " : "") +
         cppType(llvm::cast<BufferType>(argument.type).getElementType()) + "*>(pointers[" +
         std::to_string(position) + "])";
}

std::string functionText(const EntryPoint& entry, const std::string& body) {
  // An unused parameter has no name, so that no compiler warns.
  auto parameter = [&](StringRef type, StringRef name) {
    return type.str() + (mentions(body, name) ? " " + name.str() : "");
  };
  return "static void thunk_" + entry.name + "(" + parameter("sl_ctx*", "ctx") + ", " +
         parameter("sl_team", "team") + ", " + parameter("void* const*", "pointers") + ", " +
         parameter("const int64_t*", "scalars") + ") {\n" + body + "}\n";
}

std::string kernelBody(const EntryPoint& entry) {
  llvm::SmallVector<std::string> items = {"ctx", "team"};
  for (auto [position, argument] : llvm::enumerate(argumentsOf(entry))) {
    items.push_back(pointerText(argument, position));
  }
  for (size_t i = 0; i < scalarNamesOf(entry).size(); ++i) {
    items.push_back("scalars[" + std::to_string(i) + "]");
  }
  Writer writer;
  writer.indent();
  writer.call(entry.name + "(", items, ");");
  return writer.take();
}

std::string externalBody(kernel::DeclOp decl) {
  const size_t inputs = decl.getPlan() ? 1 : 0;
  const size_t outputs = inputs + decl.getInputs().size();
  const size_t workspace = outputs + decl.getOutputs().size();
  auto offset = [](size_t count) {
    return count == 0 ? "pointers" : "pointers + " + std::to_string(count);
  };
  Writer writer;
  writer.indent();
  std::string inputsText = offset(inputs);
  const llvm::SmallVector<mlir::StringAttr> names = decl.getScalarNames();
  const llvm::SmallVector<std::string> sizes = sizeTexts(decl, [&](mlir::StringAttr name) {
    return "scalars[" + std::to_string(llvm::find(names, name) - names.begin()) + "]";
  });
  if (!sizes.empty()) {
    writer.call("const int64_t sizes[] = {", sizes, "};");
    llvm::SmallVector<std::string> places;
    for (size_t i = inputs; i < outputs; ++i) {
      places.push_back("pointers[" + std::to_string(i) + "]");
    }
    places.push_back("sizes");
    writer.call("const void* const inputs[] = {", places, "};");
    inputsText = "inputs";
  }
  printRunCall(
      decl,
      {"ctx", "team", decl.getPlan() ? "pointers[0]" : "nullptr", inputsText, offset(outputs),
       decl.getWorkspace().empty() ? "nullptr" : "pointers[" + std::to_string(workspace) + "]"},
      writer);
  return writer.take();
}

std::string planBody(kernel::DeclOp decl) {
  Writer writer;
  writer.indent();
  // One place for each input of the problem; null for inputs that are known only in a call.
  llvm::SmallVector<std::string> places;
  size_t position = 0;
  for (bool constant : decl.getConstants()) {
    places.push_back(constant ? "pointers[" + std::to_string(position++) + "]" : "nullptr");
  }
  if (!places.empty()) {
    writer.call("const void* const constants[] = {", places, "};");
  }
  printPlanCall(decl,
                {"ctx", "&" + problemName(decl), places.empty() ? "nullptr" : "constants",
                 "static_cast<void**>(pointers[" + std::to_string(position) + "])"},
                writer);
  return writer.take();
}

mlir::FailureOr<std::string> scalarBody(const EntryPoint& entry) {
  Operation* op = entry.op;
  Writer writer;
  writer.indent();
  ScalarPrinter printer;
  for (auto [position, operand] : llvm::enumerate(op->getOperands())) {
    const std::string name = "x" + std::to_string(position);
    writer.line("const auto " + name + " = sl::fromBits<" + cppType(operand.getType()) +
                ">(scalars[" + std::to_string(position) + "]);");
    printer.bind(operand, name);
  }
  mlir::FailureOr<std::string> text = printer.expression(op);
  if (failed(text)) {
    return mlir::failure();
  }
  writer.line("sl::toBits<" + cppType(op->getResult(0).getType()) + ">(pointers[0], " + *text +
              ");");
  return writer.take();
}

/// The backend whose kernels codegen/kernels holds for the host.
constexpr char kHostKernels[] = "native";

/// The device of the program beside a kernel.func that runs on one.
llvm::StringRef deviceOf(Operation* entry) {
  auto programs = entry->getParentOfType<mlir::ModuleOp>().getOps<kernel::ProgramOp>();
  return (*programs.begin()).getTarget().getBackend();
}

}  // namespace

std::string backendOf(Operation* entry) {
  if (llvm::isa<kernel::FuncOp>(entry)) {
    return kernel::runsOnDevice(entry) ? deviceOf(entry).str() : kHostKernels;
  }
  auto decl = llvm::dyn_cast<kernel::DeclOp>(entry);
  if (decl && kernel::ownArgumentsOf(decl) && kernel::isOutsideGraph(decl)) {
    return SL_OWN_OUTSIDE_BACKEND;
  }
  return decl ? decl.getRun().split('_').second.split('_').first.str() : "";
}

void EntryPoints::add(Operation* statement, NameTable& names) {
  if (auto launch = llvm::dyn_cast<kernel::LaunchOp>(statement)) {
    Operation* func = launch.getEntryOp();
    const std::string name = launch.getCallee().str();
    add(statement, {SL_ENTRY_KERNEL, func, name, backendOf(func), 0, buffersOf(launch)},
        "k:" + name, name, nullptr);
  } else if (auto call = llvm::dyn_cast<kernel::CallOp>(statement)) {
    Operation* decl = call.getEntryOp();
    const std::string name = call.getCallee().str();
    add(statement, {SL_ENTRY_EXTERNAL, decl, name, backendOf(decl), 0, {}}, "k:" + name, name,
        nullptr);
  } else if (auto plan = llvm::dyn_cast<kernel::PlanOp>(statement)) {
    Operation* decl = kernel::lookupEntry(plan, plan.getCalleeAttr());
    const std::string name = plan.getCallee().str();
    add(statement, {SL_ENTRY_PLAN, decl, "", backendOf(decl), 0, {}}, "p:" + name, name + "_plan",
        &names);
  } else if (!llvm::isa<kernel::KernelDialect>(statement->getDialect()) &&
             !llvm::isa<mlir::arith::ConstantOp>(statement)) {
    const std::string name = scalarName(statement);
    add(statement, {SL_ENTRY_SCALAR, statement, "", "scalar", 0, {}}, "s:" + name, name, &names);
  }
}

void EntryPoints::add(Operation* statement, EntryPoint entry, const std::string& key,
                      StringRef preferred, NameTable* names) {
  const auto [place, isNew] = numbers_.try_emplace(key, static_cast<int>(entries_.size()));
  if (isNew) {
    entry.name = names ? names->unique(preferred) : preferred.str();
    entries_.push_back(entry);
  }
  EntryPoint& known = entries_[place->second];
  for (auto [type, other] : llvm::zip_equal(known.launched, entry.launched)) {
    type = type == other ? type : mlir::Type();
  }
  known.costUs = std::max(known.costUs, costOf(statement));
  ofStatement_[statement] = place->second;
}

const EntryPoint* EntryPoints::of(Operation* statement) const {
  auto place = ofStatement_.find(statement);
  return place == ofStatement_.end() ? nullptr : &entries_[place->second];
}

llvm::SmallVector<EntryArgument> argumentsOf(const EntryPoint& entry) {
  llvm::SmallVector<EntryArgument> arguments;
  if (auto func = llvm::dyn_cast<kernel::FuncOp>(entry.op)) {
    addBuffers(func.getInputs(), "a", SL_ARGUMENT_INPUT, arguments);
    addOutputs(func, func.getOutputs(), arguments);
    addBuffers(func.getWorkspace(), "w", SL_ARGUMENT_WORKSPACE, arguments);
    for (auto [argument, launched] : llvm::zip_equal(arguments, entry.launched)) {
      argument.anySizes = !launched;
      argument.type = launched ? launched : argument.type;
    }
    return arguments;
  }
  if (auto decl = llvm::dyn_cast<kernel::DeclOp>(entry.op)) {
    if (entry.kind == SL_ENTRY_PLAN) {
      for (auto [position, type] : llvm::enumerate(decl.getInputs().getAsValueRange<TypeAttr>())) {
        if (decl.getConstants()[position]) {
          arguments.push_back({"a" + std::to_string(position), SL_ARGUMENT_INPUT, type});
        }
      }
      arguments.push_back({"handle", SL_ARGUMENT_HANDLE, {}});
      return arguments;
    }
    if (decl.getPlan()) {
      arguments.push_back({"handle", SL_ARGUMENT_HANDLE, {}});
    }
    addBuffers(decl.getInputs(), "a", SL_ARGUMENT_INPUT, arguments);
    addOutputs(decl, decl.getOutputs(), arguments);
    addBuffers(decl.getWorkspace(), "w", SL_ARGUMENT_WORKSPACE, arguments);
    return arguments;
  }
  arguments.push_back({"y", SL_ARGUMENT_OUTPUT, entry.op->getResult(0).getType()});
  for (auto [position, type] : llvm::enumerate(entry.op->getOperandTypes())) {
    arguments.push_back({"x" + std::to_string(position), SL_ARGUMENT_VALUE, type});
  }
  return arguments;
}

llvm::SmallVector<mlir::StringAttr> scalarNamesOf(const EntryPoint& entry) {
  if (auto func = llvm::dyn_cast<kernel::FuncOp>(entry.op)) {
    return func.getScalarNames();
  }
  if (auto decl = llvm::dyn_cast<kernel::DeclOp>(entry.op);
      decl && entry.kind == SL_ENTRY_EXTERNAL) {
    return decl.getScalarNames();
  }
  return {};
}

llvm::SmallVector<kernel::ExtentAttr> scalarValuesOf(Operation* statement) {
  if (auto launch = llvm::dyn_cast<kernel::LaunchOp>(statement)) {
    return launch.getScalarValues();
  }
  auto call = llvm::cast<kernel::CallOp>(statement);
  mlir::MLIRContext* context = call.getContext();
  return llvm::map_to_vector(
      llvm::cast<kernel::DeclOp>(call.getEntryOp()).getScalarNames(), [&](mlir::StringAttr name) {
        return kernel::ExtentAttr::get(context, {name}, mlir::getAffineSymbolExpr(0, context));
      });
}

bool canFail(const EntryPoint& entry) {
  return entry.kind == SL_ENTRY_PLAN ||
         (entry.kind != SL_ENTRY_SCALAR && kernel::canFail(entry.op));
}

bool isOutsideGraph(const EntryPoint& entry) {
  return entry.kind == SL_ENTRY_EXTERNAL && kernel::isOutsideGraph(entry.op);
}

std::string imageName(const EntryPoint& entry) { return entry.name + "_image"; }

mlir::FailureOr<std::string> printThunk(const EntryPoint& entry) {
  switch (entry.kind) {
    case SL_ENTRY_KERNEL:
      return functionText(entry, kernelBody(entry));
    case SL_ENTRY_EXTERNAL:
      return functionText(entry, externalBody(llvm::cast<kernel::DeclOp>(entry.op)));
    case SL_ENTRY_PLAN:
      return functionText(entry, planBody(llvm::cast<kernel::DeclOp>(entry.op)));
    case SL_ENTRY_SCALAR: {
      mlir::FailureOr<std::string> body = scalarBody(entry);
      if (failed(body)) {
        return mlir::failure();
      }
      return functionText(entry, *body);
    }
  }
  return mlir::failure();
}

}  // namespace straightline::codegen
