// SPDX-License-Identifier: Apache-2.0
// The native backend, and what the problems that it answers consist of. Operands are listed inputs
// first, then outputs; extents and strides are those of the buffers that the kernel will get; [x]
// may be absent. A kernel refuses with a reason what it cannot do; costs are microseconds,
// comparable across the kernels (and backends) that answer one op.
//
// op "linear"
//   x [..., k], weight [n, k], [bias [n]]; y [..., n]
//   attributes: m (product of the leading extents of x, SL_DYNAMIC when not static), n, k
//   native.gemm: weight packed by pack_gemm with the same nr. native.gemv: m <= 4, weight as it is.
//   native.gemm_int8: both int8, y int32, no bias; weight packed by pack_gemm_int8, constant or
//   not.
//   native.gemm_bf16: both bfloat16 (attribute bfloat16), weight packed with pairs = 2; needs
//   AVX512_BF16.
// op "matmul"
//   a [b..., m, k], b [b..., k, n]; c [b..., m, n]; at most 3 batch dims
//   attributes: batch (product), m, n, k; k is static
//   native.matmul: panels of b packed on each call. native.matvec: m = 1 or n = 1; the matrix dense
//   along one of its sides, the
//   vector dense, nothing packed. native.matmul_bf16: both bfloat16 (attribute bfloat16), k even;
//   needs AVX512_BF16.
// op "grouped_matmul"
//   a [m, k], b [groups, k, n], ends [groups]; c [m, n]; or b [k, n]; c [groups, m, n]
//   attributes: batch (groups), m (of groups of rows their mean), n, k (of groups of terms their
//   mean); a's k is static
// op "convolution"
//   x [n, c, h, w], weight [k, c / groups, kh, kw] (transposed: [c, k / groups, kh, kw]), [bias];
//   y [n, k, ho, wo]. Dims in ATen's order, the strides say the layout; 1-D comes as h = kh = 1;
//   output padding shows in ho and wo; n may be dynamic.
//   attributes (defaults): stride_h, stride_w (1), pad_h, pad_w (0), dilation_h, dilation_w (1),
//   groups (1), transposed (0)
//   native.winograd: 3x3, stride 1, padding 1, channels last; weight packed by pack_winograd with
//   the same m, nr, kb. Needs no border; is faster with one. native.convolution: channels last;
//   weight packed by pack_convolution with the same nr. x needs a zero border of at least the
//   padding, and after the image (ho - 1) * stride + (kh - 1) * dilation - pad - (h - 1), likewise
//   in w. native.convolution_direct: anything; weight as it is.
// op "attention"
//   q [b, h, s, d], k [b, hk, t, d], v [b, hk, t, d], [mask, expanded to [b, h, s, t]]; y as q
//   attribute: is_causal
// op "pointwise": any inputs; any outputs.        op "row_reduction": x, any; any.
// op "pool": x; y.                                op "scan": x; y.
// op "topk": x; values, indices.                 op "grid_sample": x, grid; y.
// op "tree_ensemble": x, nodes, weights, [columns]; y.
// op "linalg": x; factor, info. x; factors, pivots, permutation, info. a, b; x. x; factors, taus.
//   x, taus; q.
// op "gather_rows": table, indices; y.            op "gather_elements": x, indices; y.
// op "gather_nd": x, as many index tensors as are indexed; y.
// op "scatter_rows": indices, src; y, which holds the old values.
// op "scatter_nd": index tensors, src; y, which holds the old values.
// op "fill", "zero_border", "iota": no inputs; y.
// op "transpose": x; y = x with rows and columns exchanged. attributes: rows, cols (of x)
// op "pack_gemm", "pack_gemm_int8", "pack_convolution", "pack_winograd": weight; packed weight.
//   These have one kernel each, which accepts all but too high a rank (packs: other dtypes).
//
// gemm, gemv, matmul, matvec and convolution_direct take float32 and float64; winograd, convolution
// and attention float32. An epilogue has at most 4 operands beside the accumulator
// (kMaxEpilogueOperands), and any number of outputs that share one layout.
//
// Workspaces: what `workspace` says is for the team size of the problem. Kernels marked whole_team
// are called by all threads; winograd with mode = 1 uses the team's barrier inside.
#include "backends/native/native.h"

namespace {

// Copied before main starts from objects that are constant-initialised, so the order among files
// does not matter; nothing may read the backend from another static initialiser.
const sl_kernel_desc kKernels[] = {
#define SL_NATIVE_KERNEL(name) sl::native::name,
#include "native_kernels.inc"
#undef SL_NATIVE_KERNEL
};

}  // namespace

extern "C" const sl_backend_desc sl_backend_native = {
    .size = sizeof(sl_backend_desc),
    .abi_version = SL_KERNEL_ABI_VERSION,
    .name = "native",
    .kernels = kKernels,
    .kernel_count = static_cast<int32_t>(sizeof(kKernels) / sizeof(kKernels[0])),
    .device = nullptr,
    .runs_on = nullptr,
};
