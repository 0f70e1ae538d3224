// SPDX-License-Identifier: Apache-2.0
// What passes record for each other, as attributes. recorded.h has the functions that read and write them, and
// says on which ops each of them may stand. Their classes are declared apart from the ops, for those who need them.
#ifndef STRAIGHTLINE_OP_RECORDED_TD
#define STRAIGHTLINE_OP_RECORDED_TD

include "dialect/op/op_dialect_base.td"

def Op_KernelChoiceAttr : AttrDef<Op_Dialect, "KernelChoice"> {
  let mnemonic = "kernel_choice";
  let summary = "the kernel chosen for a fusion or an external op";
  let description = [{
    `op.kernel = #op.kernel_choice<kernel = "native.gemm", why = "native.gemm: estimated 2.10 us">` on an op.fusion or op.external.
    select-kernels, group-products and select-external-kernels record it; the lowering reads it.

    - `key`: the problem of a contraction of fixed sizes, by which measured choices are looked up
    - `estimated`: the kernel that the estimates choose, where a measured choice replaced it
    - `kernel`, `variant`: the kernel's name in the registry, and which of its variants (0: the one that its estimates choose)
    - `alone`: whether thread 0 does it alone; absent: the estimates decide
    - `tunables`, `cost_us`: settings of the kernel of a product group, and its estimated microseconds
    - `alternatives`: what the other kernels said, a dictionary each: `kernel`, `said`, and `us` where it would take the problem
  }];
  let parameters = (ins
    OptionalParameter<"::mlir::StringAttr">:$key,
    OptionalParameter<"::mlir::StringAttr">:$estimated,
    "::mlir::StringAttr":$kernel,
    DefaultValuedParameter<"int64_t", "0">:$variant,
    OptionalParameter<"::mlir::BoolAttr">:$alone,
    "::mlir::StringAttr":$why,
    OptionalParameter<"::mlir::DictionaryAttr">:$tunables,
    OptionalParameter<"::mlir::FloatAttr">:$cost_us,
    OptionalParameter<"::mlir::ArrayAttr">:$alternatives);
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$kernel, "::llvm::StringRef":$why), [{
    return $_get($_ctxt, ::mlir::StringAttr(), ::mlir::StringAttr(), ::mlir::StringAttr::get($_ctxt, kernel), 0,
                 ::mlir::BoolAttr(), ::mlir::StringAttr::get($_ctxt, why), ::mlir::DictionaryAttr(), ::mlir::FloatAttr(),
                 ::mlir::ArrayAttr());
  }]>];
  let extraClassDeclaration = [{
    /// The kernel that the estimates choose.
    ::mlir::StringAttr estimatedKernel() const { return getEstimated() ? getEstimated() : getKernel(); }
    KernelChoiceAttr withKey(::llvm::StringRef key) const;
    KernelChoiceAttr withWhy(::llvm::StringRef why) const;
    KernelChoiceAttr withKernel(::llvm::StringRef kernel, int64_t variant, ::llvm::StringRef why) const;
    /// The choice of a measurement in place of this one, which becomes `estimated`.
    KernelChoiceAttr withMeasured(::llvm::StringRef kernel, int64_t variant, ::std::optional<bool> alone,
                                  ::llvm::StringRef why) const;
    KernelChoiceAttr withAlternatives(::mlir::ArrayAttr alternatives) const;
    KernelChoiceAttr withTunables(::mlir::DictionaryAttr tunables, double costUs) const;
  }];
  let assemblyFormat = "`<` struct(params) `>`";
}

def Op_SmallImagesAttr : AttrDef<Op_Dialect, "SmallImages"> {
  let mnemonic = "small_images";
  let summary = "another kernel of a convolution, for calls with few pixels";
  let description = [{
    `op.small_images = [#op.small_images<kernel = "native.convolution", why = "native.convolution: estimated 210.0 us", below = 16,
    images = 1, height = 2, width = 2>]` on an op.fusion around a convolution whose image sizes only a call knows. A call whose result
    has fewer than `below` pixels (images x height x width) runs this kernel, tuned for a result of the given sizes. Of several the
    first that fits is taken; calls that fit none run the kernel of op.kernel. select-kernels records it; the lowering makes branches.

    - (small_images_c1) `below`, `images`, `height` and `width` are positive
  }];
  let parameters = (ins
    "::mlir::StringAttr":$kernel,
    "::mlir::StringAttr":$why,
    "int64_t":$below,
    "int64_t":$images,
    "int64_t":$height,
    "int64_t":$width);
  let genVerifyDecl = 1;
  let assemblyFormat = "`<` struct(params) `>`";
}

def Op_LayoutAttr : AttrDef<Op_Dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "the memory layout of an op's result";
  let description = [{
    `op.layout = #op.layout<order = [0, 2, 3, 1], border = [0, 0, 0, 0, 1, 1, 1, 1]>` on an op with one result: dims from the
    slowest to the fastest, and zero elements (before, after) each dim. Without `border` there are none. assign-layouts records
    it; the lowering allocates by it.

    - (layout_c1) `order` is a permutation of the dims
    - (layout_c2) `border` has two numbers a dim, none negative
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$order, OptionalArrayRefParameter<"int64_t">:$border);
  let genVerifyDecl = 1;
  let assemblyFormat = "`<` `order` `=` `[` $order `]` (`,` `border` `=` `[` $border^ `]`)? `>`";
}

def Op_RouteAttr : AttrDef<Op_Dialect, "Route"> {
  let mnemonic = "route";
  let summary = "which kernels or backends must run some ops, and who said so";
  let description = [{
    `#op.route<op = "linear", targets = ["native.gemm"], where = "layers.*.attn", by = "routes.txt:3">`: the first target that takes an op runs it.
    An element of `routes` in `#op.options`, or the metadata of a fused location, where the rule was written for the overload from which the op was
    captured; then `op` is the op's name. passes/routes.h says what each part may be.

    - (route_c1) `targets` is a list of names, not empty
  }];
  let parameters = (ins "::mlir::StringAttr":$op, "::mlir::ArrayAttr":$targets, OptionalParameter<"::mlir::StringAttr">:$where,
                        "::mlir::StringAttr":$by);
  let genVerifyDecl = 1;
  let assemblyFormat = "`<` struct(params) `>`";
}

def Op_OverloadAttr : AttrDef<Op_Dialect, "Overload"> {
  let mnemonic = "overload";
  let summary = "the framework's op from which an op was captured";
  let description = "`loc(fused<#op.overload<\"add.Tensor\">>[...])`: metadata of a location. Routes may name it.";
  let parameters = (ins "::mlir::StringAttr":$name);
  let assemblyFormat = "`<` $name `>`";
}

def Op_OptionsAttr : AttrDef<Op_Dialect, "Options"> {
  let mnemonic = "options";
  let summary = "what the user asked of kernels";
  let description = [{
    `op.options = #op.options<tf32 = "convolution", launch = "stream", routes = [#op.route<op = "linear", targets = ["native"], by = "routes.txt:3">]>` on the module, so that a printed module contains everything that decides about its kernels. Whoever compiles it records it;
    select-kernels and the lowering read it, and lower-to-kernel removes it.

    - (options_c1) `tf32`, which products of float32 may be rounded to TF32, is convolution or matmul, joined by +
    - (options_c2) `launch` is "stream": kernels are launched one by one, never as a graph
    - (options_c3) `routes` is a list of #op.route: of those that name an op the first counts
    - (options_c4) `choices` holds measured choices: the text of a candidate by the key of a problem
  }];
  let parameters = (ins
    OptionalParameter<"::mlir::StringAttr">:$tf32,
    OptionalParameter<"::mlir::StringAttr">:$launch,
    OptionalParameter<"::mlir::ArrayAttr">:$routes,
    OptionalParameter<"::mlir::DictionaryAttr">:$choices);
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    OptionsAttr withTf32(::llvm::StringRef tf32) const;
    OptionsAttr withLaunch(::llvm::StringRef launch) const;
    OptionsAttr withRoutes(::mlir::ArrayAttr routes) const;
    OptionsAttr withChoices(::mlir::DictionaryAttr choices) const;
  }];
  let assemblyFormat = "`<` struct(params) `>`";
}

def Op_MeasurementAttr : AttrDef<Op_Dialect, "Measurement"> {
  let mnemonic = "measurement";
  let summary = "a contraction whose kernel may be chosen by measuring";
  let description = [{
    A row of the module's `op.candidates`, which select-kernels makes when a measurement is wanted and `explain` prints: the key of the problem, the
    contraction as a module of its own, the candidates as text, the estimates' choice first, and what each costs more at a graph's edge.

    - (measurement_c1) there is one `at_edge_us` a candidate, and every candidate is a string
  }];
  let parameters = (ins "::mlir::StringAttr":$key, "::mlir::StringAttr":$module, "::mlir::ArrayAttr":$candidates,
                        "::mlir::DenseF64ArrayAttr":$at_edge_us);
  let genVerifyDecl = 1;
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif  // STRAIGHTLINE_OP_RECORDED_TD
