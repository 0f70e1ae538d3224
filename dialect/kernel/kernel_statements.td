// SPDX-License-Identifier: Apache-2.0
// What stands in prepare and run. Optional attributes on launch, call and copy: `op` (the ops it came from, "linear,
// relu") and `why` (why this kernel, for `explain`).
#ifndef STRAIGHTLINE_DIALECT_KERNEL_STATEMENTS_TD
#define STRAIGHTLINE_DIALECT_KERNEL_STATEMENTS_TD

include "dialect/kernel/kernel_interfaces.td"
include "dialect/kernel/kernel_storage.td"

def Kernel_CallTraits {
  list<Trait> value = [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>];
}

def Kernel_SlotOp : Kernel_Op<"slot"> {
  let summary = "arena memory; offset in bytes of its storage inside its space's arena, set by plan_memory";
  let arguments = (ins OptionalAttr<Kernel_ExtentAttr>:$offset);
  let results = (outs Kernel_Buffer:$buffer);
  let assemblyFormat = "(`offset` `` custom<Expr>($offset)^)? attr-dict `:` qualified(type($buffer))";
  let builders = [OpBuilder<(ins "BufferType":$type), [{ build($_builder, $_state, type, ExtentAttr()); }]>];
}

def Kernel_ViewOp : Kernel_Op<"view", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "another buffer over the same storage; offset in elements of the base from its element 0";
  let description = [{
    ```mlir
    %v = kernel.view %x offset(i * 64 + b) [i = %i] : !kernel.buffer<50x64xf32> -> !kernel.buffer<64xf32>
    ```
    Names in brackets stand for index values (loop counters); all others are named extents.
  }];
  let arguments = (ins Kernel_Buffer:$base, Kernel_ExtentAttr:$offset, StrArrayAttr:$index_names,
                       Variadic<Index>:$indices);
  let results = (outs Kernel_Buffer:$result);
  let assemblyFormat = [{
    $base `offset` `` custom<Expr>($offset) `` custom<Indices>($index_names, $indices) attr-dict
    `:` qualified(type($base)) `->` qualified(type($result))
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "BufferType":$type, "::mlir::Value":$base, "ExtentAttr":$offset), [{
    build($_builder, $_state, type, base, offset, $_builder.getStrArrayAttr({}), ::mlir::ValueRange());
  }]>];
}

def Kernel_AllocOp : Kernel_Op<"alloc"> {
  let summary = "memory whose size is only known while running; lives until the enclosing region ends";
  let description = [{
    Thread 0 allocates and hands the address to its team through `cell`, an i64 in host memory. Without `bytes` the
    size follows from the type.
  }];
  let arguments = (ins Optional<Index>:$bytes, Kernel_Buffer:$cell);
  let results = (outs Kernel_Buffer:$buffer);
  let assemblyFormat = [{
    (`(` $bytes^ `)`)? `cell` `(` $cell `:` qualified(type($cell)) `)` attr-dict `:` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def Kernel_LaunchOp : Kernel_Op<"launch", !listconcat(Kernel_CallTraits.value,
    [DeclareOpInterfaceMethods<KernelCallInterface,
     ["getEntry", "getQueueSymbol", "getTeamSize", "getHandleOrNull"]>])> {
  let summary = "runs a kernel.func of this module";
  let description = [{
    ```mlir
    kernel.launch @copy_sized(%x) outs(%y) sizes([64, b * 2]) on @team : (!kernel.buffer<64xf32>) -> !kernel.buffer<64xf32>
    ```
    Buffers have the element types and spaces of the function's types. `sizes` gives the function's run-time scalars, in the
    order of first use in its shape; without it their names are named extents of the program.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Kernel_Buffer>:$inputs, Variadic<Kernel_Buffer>:$outputs,
                       Variadic<Kernel_Buffer>:$workspace, OptionalAttr<Kernel_ExtentsAttr>:$sizes,
                       FlatSymbolRefAttr:$queue, OptionalAttr<I64Attr>:$team,
                       OptionalAttr<StrAttr>:$op, OptionalAttr<StrAttr>:$why);
  let assemblyFormat = [{
    $callee `(` $inputs `)` `outs` `(` $outputs `)` (`workspace` `(` $workspace^ `:` type($workspace) `)`)?
    (`sizes` `(` custom<Exprs>($sizes)^ `)`)? `on` $queue attr-dict `:` functional-type($inputs, $outputs)
  }];
  let skipDefaultBuilders = 1;
  let builders = [
    OpBuilder<(ins "::mlir::FlatSymbolRefAttr":$callee, "::mlir::ValueRange":$inputs, "::mlir::ValueRange":$outputs,
                   "::mlir::ValueRange":$workspace, "::mlir::FlatSymbolRefAttr":$queue, "::mlir::IntegerAttr":$team,
                   "::mlir::StringAttr":$op, "::mlir::StringAttr":$why)>];
  let extraClassDeclaration = [{
    /// The function's run-time scalars for this launch, in its order. Precondition: the function is known.
    ::llvm::SmallVector<ExtentAttr> getScalarValues();
  }];
}

def Kernel_CallOp : Kernel_Op<"call", !listconcat(Kernel_CallTraits.value,
    [DeclareOpInterfaceMethods<KernelCallInterface,
     ["getEntry", "getQueueSymbol", "getTeamSize", "getHandleOrNull"]>])> {
  let summary = "runs an external entry point (kernel.decl)";
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Kernel_Buffer>:$inputs, Variadic<Kernel_Buffer>:$outputs,
                       Optional<Kernel_Handle>:$handle, Variadic<Kernel_Buffer>:$workspace, FlatSymbolRefAttr:$queue,
                       OptionalAttr<I64Attr>:$team, OptionalAttr<StrAttr>:$op, OptionalAttr<StrAttr>:$why);
  let assemblyFormat = [{
    $callee `(` $inputs `)` `outs` `(` $outputs `)` (`handle` `(` $handle^ `)`)?
    (`workspace` `(` $workspace^ `:` type($workspace) `)`)? `on` $queue
    attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Kernel_PlanOp : Kernel_Op<"plan", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "makes a library handle from the constant inputs of a kernel.decl (in prepare)";
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Kernel_Buffer>:$constants, Kernel_Handle:$handle,
                       FlatSymbolRefAttr:$queue);
  let assemblyFormat = [{
    $callee `(` $constants `)` `outs` `(` $handle `)` `on` $queue attr-dict (`:` type($constants)^)?
  }];
}

def Kernel_CopyOp : Kernel_Op<"copy",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "copies bytes between two buffers of equal layout, in any two spaces";
  let arguments = (ins Kernel_Buffer:$source, Kernel_Buffer:$destination, FlatSymbolRefAttr:$queue,
                       OptionalAttr<StrAttr>:$op, OptionalAttr<StrAttr>:$why);
  let assemblyFormat = "$source `to` $destination `on` $queue attr-dict `:` qualified(type($source)) `to` qualified(type($destination))";
  let hasVerifier = 1;
}

def Kernel_BarrierOp : Kernel_Op<"barrier", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "all threads of the team have finished the statements before it";
  let arguments = (ins FlatSymbolRefAttr:$queue);
  let assemblyFormat = "`on` $queue attr-dict";
}

def Kernel_RecordOp : Kernel_Op<"record", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "an event that fires when the queue has passed this point";
  let arguments = (ins FlatSymbolRefAttr:$queue);
  let results = (outs Kernel_Event:$event);
  let assemblyFormat = "`on` $queue attr-dict";
}

def Kernel_WaitOp : Kernel_Op<"wait", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "later statements of the queue start after the event";
  let arguments = (ins Kernel_Event:$event, FlatSymbolRefAttr:$queue);
  let assemblyFormat = "$event `on` $queue attr-dict";
}

def Kernel_CheckOp : Kernel_Op<"check"> {
  let summary = "fails the call with a message when the condition does not hold";
  let arguments = (ins I1:$condition, StrAttr:$message);
  let assemblyFormat = "$condition `,` $message attr-dict";
}

def Kernel_SizeOp : Kernel_Op<"size", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the value of an expression over named extents";
  let arguments = (ins Kernel_ExtentAttr:$value);
  let results = (outs Index:$result);
  let assemblyFormat = "`` custom<Expr>($value) attr-dict";
}

def Kernel_LoadOp : Kernel_Op<"load", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "one element of a host buffer as a scalar, for conditions and offsets";
  let arguments = (ins Kernel_Buffer:$buffer, Variadic<Index>:$indices);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$buffer `[` $indices `]` attr-dict `:` qualified(type($buffer)) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def Kernel_SetExtentOp : Kernel_Op<"set_extent", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "gives a computed extent its value; fails the call where that is below its min or above its bound";
  let description = [{
    ```mlir
    kernel.set_extent @u0 = %n
    ```
    Statements after it see the value, statements before it the bound. There is one for each computed extent, in the body of run or in a
    branch or loop there; in a loop each iteration gives the extent a value.
  }];
  let arguments = (ins FlatSymbolRefAttr:$extent, I64:$value);
  let assemblyFormat = "$extent `=` $value attr-dict";
  let hasVerifier = 1;
}

def Kernel_IfOp : Kernel_Op<"if", [SingleBlock, NoTerminator, NoRegionArguments, RecursiveMemoryEffects]> {
  let summary = "runs one of two regions; every thread of the team takes the same one";
  let arguments = (ins I1:$condition);
  let regions = (region SizedRegion<1>:$thenRegion, MaxSizedRegion<1>:$elseRegion);
  let assemblyFormat = "$condition attr-dict-with-keyword $thenRegion (`else` $elseRegion^)?";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$condition, CArg<"bool", "true">:$withElse)>];
}

def Kernel_ForOp : Kernel_Op<"for", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "counts from `lower` to below `upper`";
  let arguments = (ins Index:$lower, Index:$upper, Index:$step);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$lower, "::mlir::Value":$upper, "::mlir::Value":$step)>];
  let extraClassDeclaration = [{
    ::mlir::Value getCounter() { return getBody().getArgument(0); }
  }];
}

def Kernel_WhileOp : Kernel_Op<"while", [SingleBlock, NoTerminator, NoRegionArguments, RecursiveMemoryEffects]> {
  let summary = "runs `before`, which ends in kernel.condition, then `body` as long as it holds";
  let regions = (region SizedRegion<1>:$before, SizedRegion<1>:$body);
  let assemblyFormat = "$before `do` $body attr-dict";
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins)>];
  let extraClassDeclaration = [{
    ConditionOp getConditionOp();
  }];
}

def Kernel_ConditionOp : Kernel_Op<"condition", [Terminator, HasParent<"WhileOp">]> {
  let summary = "ends the first region of a while";
  let arguments = (ins I1:$condition);
  let assemblyFormat = "$condition attr-dict";
}

def Kernel_ReturnOp : Kernel_Op<"return", [Terminator, HasParent<"RunOp">]> {
  let summary = "the results for the user, in order: fresh outputs, or views rooted at an input, parameter or state";
  let arguments = (ins Variadic<Kernel_Buffer>:$results);
  let assemblyFormat = "($results^ `:` type($results))? attr-dict";
}

#endif
