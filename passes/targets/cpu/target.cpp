// SPDX-License-Identifier: Apache-2.0
// Threads of a team on the host. Lowering and the kernels' own descriptions say all that there is
// to say about its kernels, so it adds no pass and no schedule.
#include "passes/targets/target.h"

namespace straightline {

namespace {

class CpuTarget final : public Target {
 public:
  llvm::StringRef name() const override { return "cpu"; }
  llvm::StringRef title() const override { return "CPU"; }

  kernel::TargetAttr attribute(mlir::MLIRContext* context, llvm::StringRef,
                               const HostMachine& host) const override {
    return kernel::TargetAttr::get(context, name(), host.cpu, host.threads, host.vectorBytes,
                                   host.l1Bytes, host.l2Bytes, host.dotBf16 ? 1 : 0, host.fmaBytes);
  }

  TargetFacts facts(kernel::TargetAttr) const override {
    TargetFacts facts;
    facts.frontEnd.sumsNamedExtents = true;
    return facts;
  }

  std::string measuredOn(kernel::TargetAttr target) const override {
    return std::to_string(target.getThreads());
  }
};

const TargetRegistration<CpuTarget> kRegistration;

}  // namespace

}  // namespace straightline
