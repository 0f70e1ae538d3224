// SPDX-License-Identifier: Apache-2.0
// Passes that target.cpp adds to the pipeline, in that order.
#ifndef STRAIGHTLINE_PASSES_TARGETS_CUDA_PASSES_TD
#define STRAIGHTLINE_PASSES_TARGETS_CUDA_PASSES_TD

include "passes/pass_base.td"

def FoldLayerScale : OpLevelPass<"fold-layer-scale", "::mlir::func::FuncOp"> {
  let summary = "a factor for each column of a linear moves into its weight, and a residual before the permute behind it";
  let description = [{
    As ConvNeXt and many vision transformers have them, so that the linear's kernel, or a library's, adds the residual itself.
    permute(linear(x, w, b)) * expand(scale) -> permute(linear(x, w * scale, b * scale)), computed in float64 in prepare, for float32 where all
    three are known before the first run (not with freeze=false). r + permute(linear(...)) -> permute(inverse permute(r) + linear(...)) where r
    is such a permute, too, or a convolution's result, which lies channels last. Refuses linears and permutes with other readers.
  }];
  let options = [Option<"freeze", "freeze", "bool", "true", "false: parameters count as inputs">];
}

def SplitReductions : OpLevelPass<"split-reductions", "::mlir::func::FuncOp"> {
  let summary = "few long rows become parts that a device reduces side by side, then the parts";
  let description = [{
    sum, amax, amin, prod, any, all, argmax, argmin, and what is written as these (mean, var, softmax, norms), of at most 16 rows that are too
    long for the blocks of a cluster, and of up to some ten thousand rows that lie side by side. The merge has a fixed order. Several reduced
    dims are cut as one where that is a view of all that the elementwise ops before the reduction read; where something is repeated, turned or
    sliced along them, one of them is cut, which is a view always, so that nothing of the size of what is reduced is written. Refuses named
    extents, lengths (or, of the latter, dims) without a divisor near the number of parts wanted, and reduced dims that are not neighbours in
    memory. cumsum along the last dim of at most 16 rows of 16,384 and more likewise. See split_reductions.cpp.
  }];
  let options = [Option<"arch", "arch", "std::string", "\"sm_90\"", "the device's architecture">];
}

def OrientWeights : OpLevelPass<"orient-weights", "::mlir::func::FuncOp"> {
  let summary = "weights [k, n] of products of few rows are turned once, in prepare";
  let description = [{
    For a device, up to 16 rows, numbers of at most 32 bits. matmul(x, w [k, n]) -> linear(x, clone(permute(w))), and the same for a linear
    whose weight is a turned one, where w is known before the first run (not with freeze=false); matmul(x, permute(w [n, k])) -> linear(x, w)
    for any w. A mask of attention that is known before the first run and does not lie along the keys is laid so, too (Swin's bias).
    Refuses batched products, named rows, and matmuls with a route that linears do not have.
  }];
}

def ShortenChains : OpLevelPass<"shorten-chains", "::mlir::func::FuncOp"> {
  let summary = "ops of run on few elements are written so that fewer kernels compute them on a device";
  let description = [{
    A chain of small kernels takes a launch each. f(cat(x, x)) -> cat(f(x), f(x)), and a slice of a concatenation that is one of its parts is
    that part (tables of a rotary embedding); f(expand(x)) -> expand(f(x)) for one operand, where several ops read f and an elementwise op makes
    x; expand(f(x)) -> f(expand(x)) where x is one element; an iota is written once, by prepare. Refuses values that are returned. See
    shorten_chains.cpp.
  }];
}

def PlaceOnCuda : KernelPass<"place-on-cuda"> {
  let summary = "move a program whose tensors are on an NVIDIA device to the caller's stream";
  let description = [{
    Storage gets the space "cuda", launches the queue @stream and a grid; nothing is copied but literals. Reports every kernel
    without a CUDA form. See passes/place_on_stream.h.
  }];
}

def GroupLaunches : KernelPass<"group-launches"> {
  let summary = "small kernels that do not need each other become one launch on an NVIDIA device";
  let description = [{
    Launches in run of the families pointwise, row_reduction, iota, gather_* and scatter_*, of one of these or of several, with at most
    eight parts, each a part of the grid. The parts touch nothing in common that one of them writes, nor does what stands between them; that
    is launches alone, 16 at most.
    Refuses what is estimated above 4 us; grids of named extents, clusters, or more blocks together than processors; rows of
    different numbers of threads above a warp; and kernels of which one needs work of more than 4.2 us that the other does not. See group_launches.cpp.
  }];
}

def PlaceBranches : KernelPass<"place-branches"> {
  let summary = "record which statements of a program on an NVIDIA device its graph may run concurrently";
  let description = [{
    Statements of run get kernel.step and kernel.after where independent branches are long and of similar length by estimate, or where two small
    kernels stand between the same two kernels. Stream launches and programs without these attributes run in the order of the text. See place_branches.cpp.
  }];
}

#endif  // STRAIGHTLINE_PASSES_TARGETS_CUDA_PASSES_TD
