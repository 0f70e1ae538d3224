// SPDX-License-Identifier: Apache-2.0
// The module and program structure, and the ops that name storage.
#ifndef STRAIGHTLINE_DIALECT_KERNEL_STORAGE_TD
#define STRAIGHTLINE_DIALECT_KERNEL_STORAGE_TD

include "dialect/kernel/kernel_attributes.td"
include "dialect/kernel/kernel_types.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Kernel_ProgramOp : Kernel_Op<"program",
    [Symbol, SymbolTable, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "queues, extents, storage, then at most one prepare and exactly one run";
  let arguments = (ins SymbolNameAttr:$sym_name, Kernel_TargetAttr:$target);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `target` `(` $target `)` attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "TargetAttr":$target)>];
  let extraClassDeclaration = [{
    ::mlir::Block* getBodyBlock() { return &getBody().front(); }
    /// Null when there is nothing to prepare.
    PrepareOp getPrepareOp();
    RunOp getRunOp();
    /// Bounds of every named extent.
    ::straightline::symbolic::BoundsMap getExtentBounds();
    /// Whether a statement of run gives the extent its value (kernel.set_extent).
    bool isComputed(::mlir::StringAttr extent);
  }];
}

def Kernel_QueueOp : Kernel_Op<"queue", [Symbol, HasParent<"ProgramOp">]> {
  let summary = "an order of execution: the caller's team (the first queue) or a device's stream";
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$backend);
  let assemblyFormat = "$sym_name `backend` `(` $backend `)` attr-dict";
  let extraClassDeclaration = [{
    /// Whether it is the caller's team, and not the queue of a device.
    bool isTeam() { return getBackend() == kHostBackend; }
  }];
}

def Kernel_ExtentOp : Kernel_Op<"extent", [Symbol, HasParent<"ProgramOp">]> {
  let summary = "a named extent with its bounds, known per call";
  let description = [{
    With `bound` it is one that a statement of run computes (kernel.set_extent); until then it has the bound's value, which no
    call exceeds.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$min, I64Attr:$max, OptionalAttr<Kernel_ExtentAttr>:$bound);
  let assemblyFormat = [{
    $sym_name `min` `(` $min `)` `max` `(` $max `)` (`bound` `` custom<Expr>($bound)^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Kernel_ParameterOp : Kernel_Op<"parameter", [HasParent<"ProgramOp">]> {
  let summary = "framework storage that is never written while run runs";
  let arguments = (ins StrAttr:$name);
  let results = (outs Kernel_Buffer:$buffer);
  let assemblyFormat = "$name attr-dict `:` qualified(type($buffer))";
}

def Kernel_StateOp : Kernel_Op<"state", [HasParent<"ProgramOp">]> {
  let summary = "framework storage that the program updates in place";
  let arguments = (ins StrAttr:$name);
  let results = (outs Kernel_Buffer:$buffer);
  let assemblyFormat = "$name attr-dict `:` qualified(type($buffer))";
}

def Kernel_PreparedOp : Kernel_Op<"prepared", [HasParent<"ProgramOp">]> {
  let summary = "written by prepare, read only in run; offset in bytes inside its space's prepared arena";
  let arguments = (ins StrAttr:$name, OptionalAttr<Kernel_ExtentAttr>:$offset);
  let results = (outs Kernel_Buffer:$buffer);
  let assemblyFormat = "$name (`offset` `` custom<Expr>($offset)^)? attr-dict `:` qualified(type($buffer))";
}

def Kernel_HandleOp : Kernel_Op<"handle", [HasParent<"ProgramOp">]> {
  let summary = "a library object: made by `plan` in prepare, destroyed with the weights";
  let arguments = (ins StrAttr:$name, StrAttr:$destroy);
  let results = (outs Kernel_Handle:$handle);
  let assemblyFormat = "$name `destroy` `(` $destroy `)` attr-dict";
}

def Kernel_ConstantOp : Kernel_Op<"constant", [HasParent<"ProgramOp">]> {
  let summary = "literal data inside the program (host space, row-major)";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Kernel_Buffer:$buffer);
  let assemblyFormat = "$value attr-dict `:` qualified(type($buffer))";
  let hasVerifier = 1;
}

def Kernel_PrepareOp : Kernel_Op<"prepare", [HasParent<"ProgramOp">, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "runs once per set of weights";
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins)>];
}

def Kernel_RunOp : Kernel_Op<"run", [HasParent<"ProgramOp">, SingleBlock]> {
  let summary = "runs per call; block arguments are the inputs, then the fresh outputs";
  let description = [{
    `(%x "x": T, %cache "cache" readwrite: T) outs(%y "y": T)`: an input that the program updates in place is marked
    `readwrite` (`mutated_inputs`, one flag per input); all others are read only.
  }];
  let arguments = (ins StrArrayAttr:$input_names, StrArrayAttr:$output_names, DenseBoolArrayAttr:$mutated_inputs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::ArrayRef<::llvm::StringRef>":$inputNames, "::mlir::TypeRange":$inputTypes,
                                 "::llvm::ArrayRef<::llvm::StringRef>":$outputNames, "::mlir::TypeRange":$outputTypes,
                                 CArg<"::llvm::ArrayRef<bool>", "{}">:$mutatedInputs)>];
  let extraClassDeclaration = [{
    ::mlir::Block::BlockArgListType getInputs() {
      return getBody().getArguments().take_front(getInputNames().size());
    }
    ::mlir::Block::BlockArgListType getOutputs() {
      return getBody().getArguments().drop_front(getInputNames().size());
    }
    ReturnOp getReturn();
  }];
}

def Kernel_FuncOp : Kernel_Op<"func", [Symbol, IsolatedFromAbove]> {
  let summary = "a kernel that we make: a family with its schedule and scalar regions";
  let description = [{
    ```mlir
    kernel.func @relu(!kernel.buffer<8xf32>) outs(!kernel.buffer<8xf32>)
        schedule(<"pointwise", shape = {n = 8}, tune = {}>) ties([0 -> 0])
        lambda body(%x: f32) {
      %zero = arith.constant 0.0 : f32
      %y = arith.maximumf %x, %zero : f32
      kernel.yield %y : f32
    }
    ```
    An output is `readwrite` when the kernel reads what was there. `ties` lists (input -> output)
    pairs whose storage may be shared element by element.

    Of the types of operands the element type and the space count; extents and strides are those of each launch, and the
    numbers that the kernel is made for stand in its schedule. One function so serves buffers of different sizes. The builder leaves sizes out.
    Names in `shape` are run-time scalars: the program's named extents, or the function's own where its launches have `sizes`.
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name, TypeArrayAttr:$inputs, TypeArrayAttr:$outputs, StrArrayAttr:$output_roles,
    TypeArrayAttr:$workspace, Kernel_ScheduleAttr:$schedule, DenseI64ArrayAttr:$ties, UnitAttr:$can_fail,
    StrArrayAttr:$region_names);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    // Roles all "write", no ties, no regions yet: set them with the setters, addRegion before. Types are
    // kept without sizes.
    OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::TypeRange":$inputs, "::mlir::TypeRange":$outputs,
                   "::mlir::TypeRange":$workspace, "ScheduleAttr":$schedule,
                   "::llvm::ArrayRef<::llvm::StringRef>":$regionNames,
                   CArg<"::llvm::ArrayRef<Tie>", "{}">:$ties, CArg<"bool", "false">:$canFail)>];
  let extraClassDeclaration = [{
    /// Region `name`, or null.
    ::mlir::Region* getBodyNamed(::llvm::StringRef name);
    /// Names of the extents that the schedule's shape uses, in order of first use: the scalars of the entry.
    ::llvm::SmallVector<::mlir::StringAttr> getScalarNames();
  }];
}

def Kernel_DeclOp : Kernel_Op<"decl", [Symbol]> {
  let summary = "an external entry: operands, attributes, workspace, effects and its C symbols";
  let description = [{
    `constants` says which inputs are known at prepare time; `plan` gets those. Without a `plan`
    symbol there is no handle and `run` gets NULL for it. The problem's attributes are integers, floats and strings;
    its `text` is a string for the kernel alone, and `sizes` an array of #kernel.extent: numbers known per call, which `run` finds behind its inputs.
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name, TypeArrayAttr:$inputs, DenseBoolArrayAttr:$constants, TypeArrayAttr:$outputs,
    StrArrayAttr:$output_roles, TypeArrayAttr:$workspace, StrAttr:$op, DictionaryAttr:$problem,
    StrAttr:$run, OptionalAttr<StrAttr>:$plan, OptionalAttr<StrAttr>:$destroy, UnitAttr:$can_fail);
  let extraClassDeclaration = [{
    /// Numbers known per call that `run` finds behind its inputs.
    ::llvm::SmallVector<ExtentAttr> getSizes();
    /// Names of the extents that the sizes use, in order of first use: the scalars of the entry.
    ::llvm::SmallVector<::mlir::StringAttr> getScalarNames();
    /// What the kernel alone reads; null when there is nothing.
    ::mlir::StringAttr getText() { return getProblem().getAs<::mlir::StringAttr>("text"); }
    /// The kernel's variant (sl_problem.variant).
    int64_t getVariant();
  }];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Kernel_YieldOp : Kernel_Op<"yield", [Terminator, Pure, HasParent<"FuncOp">]> {
  let summary = "what a scalar region gives";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif
