// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit.h"

#include "codegen/cpp_text.h"
#include "codegen/kernel_printer.h"
#include "codegen/program_printer.h"
#include "codegen/python_printer.h"
#include "codegen/table_printer.h"
#include "dialect/kernel/own.h"
#include "llvm/ADT/SetVector.h"

namespace straightline::codegen {
namespace {

/// Kernels that only prepare starts (packing, casts, folding) are compiled in units of this many.
/// Of the 57 ms that such a kernel takes by itself, NVRTC takes 23 to start and 13 to read the
/// headers. Larger units would gain little, and keep one thread busy when the others are done.
constexpr size_t kPreparedTogether = 8;

/// Kernels that a program, or a phase of it, launches, in the order of first use.
llvm::SetVector<kernel::FuncOp> launchedFuncs(mlir::Operation* root) {
  llvm::SetVector<kernel::FuncOp> funcs;
  root->walk<mlir::WalkOrder::PreOrder>([&](kernel::LaunchOp launch) {
    if (auto func = llvm::dyn_cast_or_null<kernel::FuncOp>(launch.getEntryOp())) {
      funcs.insert(func);
    }
  });
  return funcs;
}

/// The text relies on these conditions; the verifier of the planned level reports violations in
/// more detail.
mlir::LogicalResult checkPlanned(kernel::ProgramOp program) {
  mlir::WalkResult result = program.walk([](mlir::Operation* op) {
    auto slot = llvm::dyn_cast<kernel::SlotOp>(op);
    auto prepared = llvm::dyn_cast<kernel::PreparedOp>(op);
    if ((slot && !slot.getOffsetAttr()) || (prepared && !prepared.getOffsetAttr())) {
      op->emitOpError() << "has no offset: the program is not planned (emit_c1)";
      return mlir::WalkResult::interrupt();
    }
    return mlir::WalkResult::advance();
  });
  return mlir::failure(result.wasInterrupted());
}

/// "cuda sm_90", "sim".
std::string machineOf(kernel::TargetAttr target) {
  return target.getBackend().str() + (target.getCpu().empty() ? "" : " " + target.getCpu().str());
}

std::string headline(kernel::ProgramOp program, const std::string& comment) {
  kernel::TargetAttr target = program.getTarget();
  return comment + " Program " + program.getSymName().str() + " for " + machineOf(target) +
         ", threads: " + std::to_string(target.getThreads()) + ".\n";
}

/// The first line of a device's kernels in the listing.
std::string deviceHeadline(kernel::ProgramOp program) {
  kernel::TargetAttr target = program.getTarget();
  const bool isHostText = llvm::any_of(launchedFuncs(program), [](kernel::FuncOp func) {
    return kernel::runsOnDevice(func) && kernel::isPrintedAsHost(func);
  });
  return isHostText ? "// C++ for the compiler of " + machineOf(target) + ".\n"
                    : "// CUDA C++ for " + target.getCpu().str() + ".\n";
}

/// Adds a kernel to the last of `units` if there is room, else begins a new one.
void addTogether(const std::string& kernel, const std::string& text,
                 std::vector<DeviceUnit>* units) {
  if (units->empty() || units->back().kernels.size() == kPreparedTogether) {
    units->emplace_back();
  }
  units->back().kernels.push_back(kernel);
  units->back().text += text;
}

std::string lines(const UniqueTexts& includes) {
  std::string text;
  for (const std::string& include : includes) {
    text += include + "\n";
  }
  return text + "\n";
}

}  // namespace

mlir::FailureOr<Emitted> emitProgram(mlir::ModuleOp module, const EmitOptions& options) {
  auto programs = module.getOps<kernel::ProgramOp>();
  if (programs.empty() || std::next(programs.begin()) != programs.end()) {
    return module.emitError() << "has " << std::distance(programs.begin(), programs.end())
                              << " kernel.program, expected 1";
  }
  kernel::ProgramOp program = *programs.begin();
  if (failed(checkPlanned(program))) {
    return mlir::failure();
  }
  ProgramIndex index(program);
  mlir::FailureOr<ProgramText> text = printProgram(program, index, options.profile);
  if (failed(text)) {
    return mlir::failure();
  }

  Emitted emitted;
  UniqueTexts includes;
  UniqueTexts deviceIncludes;
  std::string kernels;
  std::string deviceKernels;
  std::string prototypes;
  const llvm::SetVector<kernel::FuncOp> started = launchedFuncs(program.getRunOp());
  std::vector<DeviceUnit> prepared;
  for (kernel::FuncOp func : launchedFuncs(program)) {
    mlir::FailureOr<std::string> body = printKernel(func);
    if (failed(body)) {
      return mlir::failure();
    }
    const bool onDevice = kernel::runsOnDevice(func);
    UniqueTexts own;
    for (const std::string& include : kernelIncludes(func)) {
      own.insert(include);
      (onDevice ? deviceIncludes : includes).insert(include);
    }
    if (onDevice) {
      deviceKernels += *body + "\n";
      const std::string name = func.getSymName().str();
      if (kernel::isOwnImage(func)) {
        emitted.deviceUnits.push_back({{name}, *body});
      } else if (started.contains(func)) {
        emitted.deviceUnits.push_back({{name}, lines(own) + *body});
      } else {
        addTogether(name, lines(own) + *body, &prepared);
      }
      continue;
    }
    kernels += *body + "\n";
    prototypes += kernelSignature(func) + ";\n";
    emitted.kernels.push_back({func.getSymName().str(),
                               lines(own) + *body,
                               {},
                               /*runsOnce=*/!started.contains(func)});
    text->externals.push_back(func.getSymName().str());
  }
  llvm::append_range(emitted.deviceUnits, prepared);
  const std::string tables = printTables(program, index, text->hasPrepare);
  auto separated = [](const std::string& part) { return part.empty() ? part : part + "\n"; };

  UniqueTexts programIncludes;
  programIncludes.insert(text->includes.begin(), text->includes.end());
  includes.insert(text->includes.begin(), text->includes.end());
  emitted.program = {program.getSymName().str(),
                     headline(program, "//") + lines(programIncludes) +
                         separated(prototypes + text->declarations) + text->body + tables,
                     text->externals};
  mlir::FailureOr<std::string> python = printPython(program, index);
  if (failed(python)) {
    return mlir::failure();
  }
  emitted.python = headline(program, "#") + *python;
  if (!emitted.deviceUnits.empty()) {
    emitted.device = program.getTarget().getBackend().str();
    emitted.arch = program.getTarget().getCpu().str();
    emitted.listing = deviceHeadline(program) + lines(deviceIncludes) + deviceKernels + "// C++.\n";
  }
  emitted.listing += headline(program, "//") + lines(includes) + kernels +
                     separated(text->declarations) + text->body + tables;
  return emitted;
}

}  // namespace straightline::codegen
