// SPDX-License-Identifier: Apache-2.0
// Passes, in the order in which pipeline.cpp runs them. The flag, the file and the test have the pass's name.
#ifndef STRAIGHTLINE_PASSES_TD
#define STRAIGHTLINE_PASSES_TD

include "passes/pass_base.td"

def FixExtents : OpLevelPass<"fix-extents", "::mlir::ModuleOp"> {
  let summary = "numbers in place of named extents";
  let description = [{
    With sizes `b=8`: op.symbol @b goes, and types and attributes over it are over the number 8. Left as they are: other names,
    those that depend on data among them. It is no part of the pipeline: `specialize` makes the module of a special program by it.
    A user's error: a name that is not there or depends on data, a number beyond its bounds.
  }];
  let options = [ListOption<"sizes", "sizes", "std::string", "name=number">];
}

def VerifyOpLevel : OpLevelPass<"verify-op-level", "::mlir::ModuleOp"> {
  let summary = "check what the op level promises at this stage";
  let description = [{
    Stage "captured": functions hold ops of `op` and `func` only, all values are tensors of static rank and known element
    type, names of inputs, results and parameters are unique (a parameter read twice has one type), every named extent has an
    `op.symbol`; an op marked op.prepare stands in the function's own block and reads nothing of a run. Stage "decomposed":
    moreover no op is left that decompose-ops and fold-batch-norm remove. Stage "fused": moreover elementwise ops, reductions and
    contractions stand in fusions only (index arithmetic of loops excepted).
    The message names the pass that is likely missing.
  }];
  let options = [Option<"stage", "stage", "std::string", "\"captured\"", "captured, decomposed or fused">];
}

def FuseAttention : OpLevelPass<"fuse-attention", "::mlir::func::FuncOp"> {
  let summary = "attention written as two products and a softmax becomes scaled_dot_product_attention";
  let description = [{
    matmul(softmax(matmul(q, permute(k)) * scale + masks), v) -> scaled_dot_product_attention(q, k, v, sum of the masks), where nothing else
    reads what lies between. The scale is a literal, of the scores before masks are added, of q or of k, or a tensor with a number for each
    query or head; the softmax is over the last dim, in float32 or the type of q; there are any number of masks, broadcast, or one condition
    under which scores are kept (where, others -infinity). The dims before the last two of the scores may be taken apart
    and joined on the way: joined images and heads, and windows of images that have a mask each ([windows, h, l, s], by turns). A row that
    its mask leaves nothing of stays NaN (`empty_is_nan`).

    Left as they are: heads larger than the limits, or of a named size; a named number of heads; values of another size than keys; float64;
    modules with a route of matmul or attention to another backend than the target's own.
  }];
  let options = [Option<"largestTf32Head", "largest-tf32-head", "int64_t", "0",
                        "attention of f32 with heads of at most so many features; 0: none">,
                 Option<"largestHalfHead", "largest-half-head", "int64_t", "0",
                        "attention of f16 and bf16 with heads of at most so many features; 0: none">];
}

def DecomposeOps : OpLevelPass<"decompose-ops", "::mlir::func::FuncOp"> {
  let summary = "rewrite ops without a kernel of their own into others";
  let description = [{
    lstm, gru, rnn -> for each layer and direction one linear over all steps, then an op.for (up to 32 steps of gru and rnn: each by
    itself), or lstm_sequence, gru_sequence or rnn_sequence (where the target has a kernel for all steps); group_norm -> reshape and layer_norm;
    adaptive_avg_pool2d -> mean or avg_pool2d; mean, var and layer_norm over named extents -> sums over a number made of these;
    a transposed convolution of static sizes, one group and no dilation -> an ordinary one
    whose channels are the phases of the stride, interleaved; a convolution of few channels whose patches do not overlap -> one of
    1 x 1 (largest-patch-channels); select -> slice and reshape; select_scatter -> reshape and slice_scatter;
    scaled_dot_product_attention -> matmul, softmax, matmul (unless keep-attention); a reduction over other than the trailing
    dims -> the same over a permuted view; products and attention of fixed sizes without elements, or that sum none -> a constant or
    the bias; arithmetic on f16 and bf16 -> the same in f32, rounded once, as PyTorch does it on a
    cpu. Softmax, norms and the other reductions stay whole.
  }];
  let options = [Option<"keepAttention", "keep-attention", "bool", "false", "leave scaled_dot_product_attention">,
                 Option<"largestAttention", "largest-attention", "int64_t", "-1",
                        "with keep-attention: above so many multiply-adds attention of many queries in f32 becomes products; -1: never">,
                 Option<"keepHalfProducts", "keep-half-products", "bool", "false",
                        "leave linear, matmul and attention of f16 and bf16 to kernels that round once">,
                 Option<"largestTf32Head", "largest-tf32-head", "int64_t", "0",
                        "with keep-attention: attention of f32 with heads of at most so many features stays whole">,
                 Option<"largestPatchChannels", "largest-patch-channels", "int64_t", "0",
                        "up to so many channels a convolution of patches that do not overlap becomes one of 1 x 1; 0: never">];
}

def QuantizedLinears : OpLevelPass<"quantized-linears", "::mlir::func::FuncOp"> {
  let summary = "linears of dequantized tensors over the bytes themselves";
  let description = [{
    A tensor counts as dequantized where it is (q - zero) * scale in f32 (or in f64, rounded to f32): q of i8 or ui8, zero absent or of
    integers (literal, or converted from integers), zero and scale the same along each row (the last dim).

    linear((q - zx) * sx, (w - zw) * sw, bias), up to 65793 features (33025 where the weight has zero points, or is unsigned), becomes
    the linear of the bytes with its sums in i32, which are exact; from them zx times the sums of the weight's rows and zw times those of
    q's (each less its zero point), then the scales, then the bias, in f32: three or four roundings where the linear of floats has one
    for each product. Unsigned bytes become signed ones, 128 less.

    linear(x, w * sw, bias) of another x and a weight of i8 whose zero point is absent or a literal 0 becomes linear(x, w) * sw + bias,
    so that the weight is kept and read as bytes. Sums without the scale may be up to 1 / sw times larger: x beyond 1e34 / features
    overflows.

    convolution((q - zx) * sx, (w - zw) * sw, bias) over one or two static dims, also with zeros around the image (constant_pad_nd), up to as many terms, with one zx and sx, and
    zw and sw of output channels, becomes the convolution of the bytes in the same way: less zx times the sums of those weights that meet the image (a convolution
    of ones, in prepare), and less zw times the sums of what a pixel reads less its zero point (a convolution with a weight of ones). Channels are padded to a multiple of 4, up to 32
    groups of 4 and more channels are convolutions side by side, and a signal is an image of one row. Other groups (depthwise), volumes and named sizes become a convolution of f32 without scales, up
    to 258 terms (514 for signed weights without zero points), below which sums are exact.

    to_dtype(linear(q - zx, w - zw)) with its sums in f64, also reshaped before, and a convolution of this form, which nothing else reads, becomes to_dtype of the same sums in i32, up to as many
    features as above. Not on devices, which have no kernels for bytes.
  }];
}

def HoistInvariants : OpLevelPass<"hoist-invariants", "::mlir::func::FuncOp"> {
  let summary = "what each step of a loop would compute again is computed before the loop";
  let description = [{
    Ops of a `while` or `for` without effects whose operands come from outside, or from such ops, are moved before the loop, from inner loops
    first; from there `split-prepare` may take them. Literals and views alone stay, and follow those that they feed (a copy, where the
    loop reads them too). Elementwise ops stay whose result has more elements than what they read (a broadcast), and all ops of
    torch and own kernels. A loop of no steps computes them in vain.
  }];
}

def FoldBatchNorm : OpLevelPass<"fold-batch-norm", "::mlir::func::FuncOp"> {
  let summary = "batch norms into the contraction before them, or into one multiply-add";
  let description = [{
    convolution (or linear of rank 2) + batch_norm, single use, weights and statistics from parameters and constants:
    convolution(x, w * scale, (b - mean) * scale + beta) with scale = gamma / sqrt(var + eps), written as ops, so that they
    land in `prepare`; they are computed in f64 and rounded once. Any other batch_norm becomes x * scale + shift.
  }];
}

def FoldPad : OpLevelPass<"fold-pad", "::mlir::func::FuncOp"> {
  let summary = "padding with zeros into the convolution after it";
  let description = [{
    convolution(constant_pad_nd(x, 0)) -> convolution(x) with the widths added to its padding, where both sides of a spatial
    dim have the same width. Saves the padded copy: the convolution's own border costs no pass over x.
  }];
}

def SplitPrepare : OpLevelPass<"split-prepare", "::mlir::func::FuncOp"> {
  let summary = "mark what depends on parameters and constants only with op.prepare";
  let description = [{
    Something moves only when its chain contains arithmetic or data movement: literals and views alone would only cost memory.
    Literals and views that feed marked ops are marked as well (a copy, when run needs them too). An op whose result, or a
    view of it, is returned stays, for results belong to the caller; where something that moves reads it, it moves and the caller gets a
    copy. With freeze=false parameters are live and move nothing.
  }];
  let options = [Option<"freeze", "freeze", "bool", "true", "parameters are constant between two calls of prepare">];
}

def SplitConcatenations : OpLevelPass<"split-concatenations", "::mlir::func::FuncOp"> {
  let summary = "elementwise ops behind a concatenation of halves are done half by half";
  let description = [{
    Where both halves of a concatenation along the last dim are made from halves of one tensor (rotary embedding), the ops behind it
    and what made that tensor, norms included, work on halves, so that nothing needs to be moved. See passes/split_concatenations.cpp.
  }];
}

def FuseContractions : OpLevelPass<"fuse-contractions", "::mlir::func::FuncOp"> {
  let summary = "linear, matmul and convolution with the elementwise ops after them";
  let description = [{
    The epilogue is the longest run of elementwise ops of the result's shape whose only value seen outside is the last. It ends before an op that
    widens 16 bits if reductions and elementwise ops alone read that.
    A reshape of leading dims between a linear and its elementwise readers moves up to the operand.
    Inputs: the contraction's operands, then those of the epilogue in order of use (a value used by both stands twice).
  }];
}

def FuseReductions : OpLevelPass<"fuse-reductions", "::mlir::func::FuncOp"> {
  let summary = "reductions and norms with the elementwise ops around them";
  let description = [{
    All ops of one fusion share one split of the shape into rows and columns: elementwise ops on whole rows or on one value a
    row, reductions of the trailing dims, and expands of one value a row. Several results are allowed. Where a permute moved the
    dims of one sum, extremum or the like to the end, elementwise ops before it that have no other reader read permuted operands instead.
  }];
}

def FusePointwise : OpLevelPass<"fuse-pointwise", "::mlir::func::FuncOp"> {
  let summary = "elementwise ops of one shape";
  let description = [{
    Grows each group over producers and consumers as long as nothing outside stands between two members. A reshape between
    elementwise ops moves up to the operands where these are contiguous. Index arithmetic of loops (rank 0, from loop indices
    and literals only) stays outside: it becomes scalar statements.
  }];
}

def DecomposeReductions : OpLevelPass<"decompose-reductions", "::mlir::ModuleOp"> {
  let summary = "composite reductions inside fusions become sums, maxima and elementwise ops";
  let description = [{
    softmax, log_softmax, layer_norm, rms_norm, mean, var; inside fusions only, where what belongs together is decided already.
    Refuses (unsupported) a mean over a row whose length is a named extent.
  }];
}

def SelectExternalKernels : KernelPass<"select-external-kernels"> {
  let summary = "give ops of any kind to external kernels";
  let description = [{
    op -> op.external with #op.kernel_choice, where the registry has an external kernel with a calling rule for the op's name whose
    description fits (types, layouts, operands that are present, attributes) and that accepts it. It is taken where it is estimated to cost
    less than an emitted kernel for the op by itself, where a route of the module's #op.options names it, and where `prefer` does. A
    route that leaves none is the user's error. Why kernels did not get an op becomes op.refusals. Left alone: contractions,
    attention, views, storage, index arithmetic of loops.
  }];
  let options = [Option<"freeze", "freeze", "bool", "true", "parameters are constant between two calls of prepare, so that a plan may read them">,
                 Option<"prefer", "prefer", "std::string", "\"\"", "backend whose kernels are taken where they accept">,
                 Option<"avoid", "avoid", "std::string", "\"\"", "properties of kernels that are never taken, as a+b (kernel_facts.h); empty: none">,
                 Option<"allow", "allow", "std::string", "\"\"", "backends that kernels may come from, as a+b; empty: all">];
}

def SelectKernels : KernelPass<"select-kernels"> {
  let summary = "choose a kernel for every contraction";
  let description = [{
    Asks the kernel registry: the cheapest kernel that accepts, among those that a route of the module's #op.options leaves; a route
    that leaves none is the user's error. Records it, with the reasons for it and against its rivals, as #op.kernel_choice. A measured
    choice of #op.options, by the key of a contraction of fixed sizes, comes before the cost where it is still a candidate. All fusions
    that no kernel takes are reported before the pass fails (unsupported).
  }];
  let options = [Option<"prefer", "prefer", "std::string", "\"\"", "backend whose kernels are taken where they accept">,
                 Option<"avoid", "avoid", "std::string", "\"\"", "properties of kernels that are never taken, as a+b (kernel_facts.h); empty: none">,
                 Option<"allow", "allow", "std::string", "\"\"", "backends that kernels may come from, as a+b; empty: all">,
                 Option<"list", "list", "bool", "false", "record what there is to measure (op.candidates)">];
}

def GroupProducts : KernelPass<"group-products"> {
  let summary = "products of the same rows become one kernel, of few rows with what makes them";
  let description = [{
    Linears of one x that got a kernel whose problems may be asked as a group, or that have many rows, pairs of them that are operands of one expression, and the norm or the
    elementwise ops that make x for them alone, become one op.fusion of family product_group where the registry has a kernel for the group's op
    that accepts it and costs less. For devices; see passes/group_products.cpp.
  }];
  let options = [Option<"prefer", "prefer", "std::string", "\"\"", "backend whose kernels are taken where they accept">,
                 Option<"avoid", "avoid", "std::string", "\"\"", "properties of kernels that are never taken, as a+b (kernel_facts.h); empty: none">,
                 Option<"allow", "allow", "std::string", "\"\"", "backends that kernels may come from, as a+b; empty: all">];
}

def AssignLayouts : KernelPass<"assign-layouts"> {
  let summary = "channels-last memory and zero borders around convolutions";
  let description = [{
    What a channels-last kernel writes is channels last, and so is what elementwise and pooling ops make of it; a value that
    convolutions read gets the zero border that they rely on. Recorded as #op.layout. Left alone: values whose readers want
    row-major memory.
  }];
}

def LowerToKernel : KernelPass<"lower-to-kernel"> {
  let summary = "values become buffers, fusions become launches";
  let description = [{
    The module's only function becomes a kernel.program of the same name with the kernels that it launches beside it. Views
    cost nothing; results are written where they are wanted; a tied result overwrites its storage in place where no reader
    of the old value is left. See passes/lowering/.
  }];
}

def PlaceOnDevice : KernelPass<"place-on-device"> {
  let summary = "move the statements of a program to the queue and memory of a device";
  let description = [{
    Inputs and parameters are copied there, results back; events order the two queues. See passes/place_on_device.cpp.
  }];
  let options = [Option<"backend", "backend", "std::string", "\"\"", "backend of the queue">,
                 Option<"space", "space", "std::string", "\"\"", "memory space of the backend's device">];
}

def FusePrologues : KernelPass<"fuse-prologues"> {
  let summary = "compute a weight while it is packed";
  let description = [{
    Of prepare: an elementwise launch whose result a packing alone reads becomes the prologue of that packing, a lambda of its kernel, where the
    kernel's description has SL_KERNEL_PROLOGUE. One operand has each element where the result has it; the others have one element for each
    index of the weight's first dim, which is the outermost of its memory. Refuses: a result that something else reads, a packing that has a prologue,
    operands that depend on more than the output, more than four of them, an operand that is written in between.
  }];
}

def OrderPrepare : KernelPass<"order-prepare"> {
  let summary = "make scratch of prepare just before it is read";
  let description = [{
    A launch of prepare that writes slots only moves to just before the first statement that touches what it writes or writes
    what it touches. The scratch of prepare is then as large as its largest step, not as all weights together.
  }];
}

def BandPools : KernelPass<"band-pools"> {
  let summary = "compute the image that a max pool reads a band of rows at a time";
  let description = [{
    A convolution whose result one max pool alone reads, in channels-last memory of at least 2 MiB, is launched once for each band of rows, each time followed by
    the pool of that band. The image's slot becomes one band (at most 1 MiB), with the rows before it that the pool's first windows
    reach. Each element is computed once, by the same arithmetic. Refuses: other kernels than the families `convolution` and `pool`, kernels of a device or
    with run-time scalars, more than one image, a pool that is dilated, whose windows overlap by other than its padding or whose rows do not
    cover the image exactly, an epilogue that reads another image, another use of the image, statements between the two that are not zero borders, rows that no
    number of bands divides into at least 4.
  }];
}

def ShareKernels : KernelPass<"share-kernels"> {
  let summary = "one kernel for all sizes of equal kernels of prepare, or of equal copies of run";
  let description = [{
    Three or more functions that prepare alone launches, and that are equal but for numbers in their shapes, become one; of run, sixteen
    or more that copy alone, for what computes is worth its constants there. The numbers that differ are its run-time scalars, and each
    launch gives its own (`sizes`). Left as they are: fewer functions, functions that the other phase launches too, functions with named
    extents, and functions of a device, whose grid is counted from named extents.
  }];
  let options = [Option<"copies", "copies", "bool", "false", "those of run that copy, in place of those of prepare">];
}

def ReuseInPlace : KernelPass<"reuse-in-place"> {
  let summary = "write results over operands that die there";
  let description = [{
    Where a kernel's ties say that an output may share the storage of an input. Refuses: storage that is not a slot, different
    types, another operand in the same storage that is not tied, an operand that is read again (also by the next round of a
    loop), a result that is written before.
  }];
}

def PlanMemory : KernelPass<"plan-memory"> {
  let summary = "place slots in arenas and prepared buffers in the weights";
  let description = [{
    Best fit over live ranges, largest first, 64-byte aligned, borders included; sizes known only per call share classes whose
    offsets are sums evaluated per call.
  }];
}

def PoisonSlots : KernelPass<"poison-slots"> {
  let summary = "fill every arena slot with NaN before its first use (debugging)";
  let description = "After plan-memory: what reads memory that nobody has written gives NaN. See passes/poison_slots.cpp.";
}

def InsertBarriers : KernelPass<"insert-barriers"> {
  let summary = "separate dependent statements of a team";
  let description = [{
    A barrier before each statement that depends on one which another thread may still be running; after plan-memory, because
    two slots in the same place are a dependence too. Nothing for a team of one.
  }];
}

#endif  // STRAIGHTLINE_PASSES_TD
