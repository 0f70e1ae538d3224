// SPDX-License-Identifier: Apache-2.0
// Devices of plug-ins: a target for each backend of the registry that has a device and no folder
// here. Where the device brings a compiler, its kernels are those of the host, each run by one
// core; else it has the external kernels of its backend alone.
#include <map>
#include <memory>
#include <mutex>

#include "dialect/kernel/recorded.h"
#include "llvm/ADT/StringExtras.h"
#include "mlir/IR/Builders.h"
#include "mlir/Pass/Pass.h"
#include "passes/host_edges.h"
#include "passes/kernel_facts.h"
#include "passes/levels/levels.h"
#include "passes/pipeline.h"
#include "passes/place_on_stream.h"
#include "passes/targets/target.h"
#include "straightline/abi/straightline.h"

namespace straightline {

namespace {

/// Gives a program to the device of a plug-in, with copies at its edges where tensors are in host
/// memory.
struct PlaceOnPlugin final : mlir::PassWrapper<PlaceOnPlugin, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlaceOnPlugin)
  PlaceOnPlugin(const Target& target, bool hostEdges, bool freeze)
      : target_(target), hostEdges_(hostEdges), freeze_(freeze) {}
  llvm::StringRef getArgument() const override { return "place-on-plugin"; }

  void runOnOperation() override {
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      if (failed(passes::placeOnStream(program, target_, compilesHostKernels(target_.name()))) ||
          (hostEdges_ && failed(passes::addHostEdges(program, freeze_)))) {
        return signalPassFailure();
      }
    }
  }

 private:
  const Target& target_;
  const bool hostEdges_, freeze_;
};

class PluginTarget final : public Target {
 public:
  PluginTarget(std::string name, const sl_device_desc& device)
      : name_(std::move(name)), hasCompiler_(device.compile != nullptr) {
    properties_.size = sizeof(properties_);
    if (device.properties) {
      device.properties(0, &properties_);
    }
  }

  llvm::StringRef name() const override { return name_; }
  llvm::StringRef title() const override { return name_; }

  MachineSyntax syntax() const override { return {name_ + "[:MACHINE]", ""}; }
  bool hasMachine(llvm::StringRef machine) const override {
    constexpr size_t kLongest = 64;
    return machine.size() <= kLongest && llvm::all_of(machine, [](char c) {
             return llvm::isAlnum(c) || llvm::StringRef("_.+-").contains(c);
           });
  }
  kernel::TargetAttr attribute(mlir::MLIRContext* context, llvm::StringRef machine,
                               const HostMachine&) const override {
    const HostMachine other;  // caches and vectors of the host say nothing about a device
    const auto known = [](int64_t value, int64_t otherwise) {
      return value > 0 ? value : otherwise;
    };
    return kernel::TargetAttr::get(context, name_, machine, other.threads,
                                   known(properties_.vector_bytes, other.vectorBytes),
                                   known(properties_.l1_bytes, other.l1Bytes),
                                   known(properties_.l2_bytes, other.l2Bytes), 0, other.fmaBytes);
  }

  bool hasQueue() const override { return true; }
  bool sharesWithHost() const override { return true; }
  TargetFacts facts(kernel::TargetAttr) const override {
    TargetFacts facts;
    facts.estimatesStatements = true;
    facts.frontEnd.runsFrameworkOps = false;
    return facts;
  }

  void addPasses(PipelinePlace place, mlir::OpPassManager& manager,
                 const PipelineOptions& options) const override {
    if (place == PipelinePlace::beforePlanning) {
      manager.addPass(std::make_unique<PlaceOnPlugin>(*this, options.hostEdges, options.freeze));
      manager.addPass(createVerifyKernelLevelPass());
    }
  }

  std::string whyNoForm(kernel::FuncOp function) const override {
    return hasCompiler_
               ? ""
               : "the device has no kernel for it, and no compiler for a kernel of ours (" +
                     function.getSchedule().getFamily().str() + ")";
  }
  void schedule(kernel::FuncOp function, kernel::TargetAttr) const override {
    mlir::Builder builder(function.getContext());
    function->setAttr(kernel::kBlocksAttr, kernel::ExtentAttr::get(function.getContext(), 1));
    function->setAttr(kernel::kThreadsAttr, builder.getI64IntegerAttr(0));
  }

  double estimateUs(mlir::Operation* statement) const override {
    constexpr double kStartUs = 1, kBytesPerUs = 10'000;
    const double start = properties_.start_us > 0 ? properties_.start_us : kStartUs;
    double work = kernel::costUsOf(statement).value_or(0);
    if (auto copy = llvm::dyn_cast<kernel::CopyOp>(statement)) {
      auto type = llvm::cast<kernel::BufferType>(copy.getSource().getType());
      const int64_t bytes = symbolic::constantValue(type.bytes()).value_or(0);
      work = static_cast<double>(bytes) /
             (properties_.bytes_per_us > 0 ? properties_.bytes_per_us : kBytesPerUs);
    }
    return start + work;
  }

 private:
  const std::string name_;
  const bool hasCompiler_;
  sl_device_properties properties_{};
};

/// A target for each device of the registry that has none of its own; made once, kept for the life
/// of the process.
llvm::SmallVector<const Target*> pluginTargets() {
  static std::mutex mutex;
  static auto* const made = new std::map<std::string, std::unique_ptr<PluginTarget>>;
  const std::lock_guard<std::mutex> lock(mutex);
  llvm::SmallVector<const Target*> targets;
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    const sl_backend_desc& backend = *sl_backend_at(i);
    if (!backend.device || isOwnTarget(backend.name)) {
      continue;
    }
    std::unique_ptr<PluginTarget>& target = (*made)[backend.name];
    if (!target) {
      target = std::make_unique<PluginTarget>(backend.name, *backend.device);
    }
    targets.push_back(target.get());
  }
  return targets;
}

const bool kIsRegistered = (registerTargetSource(pluginTargets), true);

}  // namespace

}  // namespace straightline
