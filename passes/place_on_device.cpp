// SPDX-License-Identifier: Apache-2.0
// Moves all statements of a program for the host to the queue of a device that calls the host's own
// kernels and has memory of its own: what tests use to have work done late. It is placeOnStream for
// a device that schedules nothing, and then addHostEdges, for its tensors are in host memory.
//
//   launch @k(%x, %p) outs(%y) on @team  ->  copy %x to %d on @stream
//                                            launch @k(%d, %q) outs(%e) on @stream
//                                            copy %e to %y on @stream;  record on @stream;  wait on
//                                            @team
//
// Runs before plan_memory, which plans each space by itself.
#include "passes/host_edges.h"
#include "passes/passes.h"
#include "passes/place_on_stream.h"

namespace straightline::passes {

#define GEN_PASS_DEF_PLACEONDEVICE
#include "passes/passes.h.inc"

namespace {

/// The device as a target; its program stays one for the host, of which kernels are chosen.
class HostKernels final : public Target {
 public:
  explicit HostKernels(llvm::StringRef backend) : backend_(backend) {}

  llvm::StringRef name() const override { return backend_; }
  llvm::StringRef title() const override { return backend_; }
  kernel::TargetAttr attribute(mlir::MLIRContext*, llvm::StringRef,
                               const HostMachine&) const override {
    return {};
  }
  TargetFacts facts(kernel::TargetAttr) const override { return {}; }
  bool hasQueue() const override { return true; }

 private:
  const llvm::StringRef backend_;
};

struct PlaceOnDevicePass : impl::PlaceOnDeviceBase<PlaceOnDevicePass> {
  using PlaceOnDeviceBase::PlaceOnDeviceBase;

  void runOnOperation() override {
    if (backend.empty() || space != backend) {
      getOperation().emitError()
          << "place-on-device needs a backend and its memory space, which has the same name, but "
             "has '"
          << backend << "' and '" << space << "'";
      return signalPassFailure();
    }
    const HostKernels device(backend);
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      if (failed(placeOnStream(program, device, /*hostKernels=*/true)) ||
          failed(addHostEdges(program, /*freeze=*/true))) {
        return signalPassFailure();
      }
    }
  }
};

}  // namespace

}  // namespace straightline::passes
