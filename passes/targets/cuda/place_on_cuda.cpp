// SPDX-License-Identifier: Apache-2.0
#include "passes/place_on_stream.h"
#include "passes/targets/cuda/passes.h"

namespace straightline::passes {

#define GEN_PASS_DEF_PLACEONCUDA
#include "passes/targets/cuda/passes.h.inc"

namespace {

struct PlaceOnCudaPass : impl::PlaceOnCudaBase<PlaceOnCudaPass> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<kernel::ProgramOp>()) {
      if (failed(placeOnStream(program, targetNamed("cuda")))) {
        return signalPassFailure();
      }
    }
  }
};

}  // namespace

}  // namespace straightline::passes
