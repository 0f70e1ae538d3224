// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_ONEDNN_INNER_PRODUCT_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_ONEDNN_INNER_PRODUCT_H

#include "straightline/abi/straightline.h"

namespace straightline::onednn {

/// y[M,N] = x[M,K] * weight[N,K]^T + bias[N], optionally through relu (attribute "relu" = 1).
/// float32.
extern const sl_kernel_desc kInnerProduct;

/// Whether an implementation of oneDNN, by the name that it gives itself ("brgemm:avx512_core",
/// "gemm:jit", "ref:any"), is its plain reference code, which is never worth a call.
bool isReferenceName(const char* implementation);

}  // namespace straightline::onednn

// Entry points that emitted text calls (kernel.h gives their signatures). `constants` and `inputs`
// are in the order of the problem's inputs: x, weight, bias; places of operands that are not
// constant are not read.
extern "C" {
SL_API int32_t sl_onednn_inner_product_plan(sl_ctx* ctx, const sl_problem* problem,
                                            const void* const* constants, void** handle);
SL_API int32_t sl_onednn_inner_product_run(sl_ctx* ctx, sl_team team, void* handle,
                                           const void* const* inputs, void* const* outputs,
                                           void* workspace);
SL_API void sl_onednn_inner_product_plan_destroy(void* handle);
}

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_ONEDNN_INNER_PRODUCT_H
