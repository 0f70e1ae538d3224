// SPDX-License-Identifier: Apache-2.0
// Family "structure": where values come from, and fusions.
#ifndef STRAIGHTLINE_OP_STRUCTURE_TD
#define STRAIGHTLINE_OP_STRUCTURE_TD

include "dialect/op/op_dialect.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Op_SymbolOp : Op_Base<"symbol", [Symbol]> {
  let summary = "a named extent and its bounds";
  let description = [{
    `op.symbol @b {min = 1 : i64, max = 64 : i64}` at module level.

    - (symbol_c1) 0 <= min <= max
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$min, I64Attr:$max);
  let assemblyFormat = "$sym_name attr-dict";
  let hasVerifier = 1;
}

class Op_Named<string mnemonic> : Op_PureOp<mnemonic> {
  let arguments = (ins StrAttr:$name);
  let results = (outs Op_Tensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Op_ParameterOp : Op_Named<"parameter"> {
  let summary = "a module parameter or constant buffer by name; never written";
  let description = "- (parameter_c1) the name is not empty";
}

def Op_StateOp : Op_Named<"state"> {
  let summary = "the value of a mutated module buffer at the start of the call";
  let description = [{
    The function's result tied to "state:NAME" overwrites it when the call ends.

    - (state_c1) the name is not empty
  }];
}

def Op_ConstantOp : Op_PureOp<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor literal";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Op_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::ElementsAttr":$value), [{
    build($_builder, $_state, value.getType(), value);
  }]>];
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
}

def Op_FullOp : Op_PlainOp<"full"> {
  let summary = "a tensor whose elements are all `value`";
  let description = "- (full_c1) a float result has a float value, another an integer or bool value";
  let arguments = (ins Op_ScalarAttr:$value);
  let results = (outs Op_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Op_IotaOp : Op_PlainOp<"iota"> {
  let summary = "start, start + step, ...";
  let description = [{
    - (iota_c1) the result has rank 1
    - (iota_c2) start and step are of the result's kind (float, or integer)
  }];
  let arguments = (ins Op_ScalarAttr:$start, Op_ScalarAttr:$step);
  let results = (outs Op_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Op_SetExtentOp : Op_Base<"set_extent"> {
  let summary = "gives a named extent the value of an element that the graph computes";
  let description = [{
    `op.set_extent %count {extent = "u0", bound = #op.dims<[b * 4]>} : tensor<i64>`. Memory whose size uses the extent is planned at
    `bound`, which is over the sizes of inputs; a value above it, or below the symbol's min, ends the call.
    Ops whose types use the extent stand behind it, in its block or in regions of ops of its block. In a loop each iteration gives it a value.

    - (set_extent_c1) `bound` is one expression
    - (set_extent_c2) it stands in the body of a function, or in a region of `op.if`, `op.for` or `op.while` there
  }];
  let arguments = (ins Op_ScalarIndex:$value, StrAttr:$extent, Op_DimsAttr:$bound);
  let assemblyFormat = "$value attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Op_CheckOp : Op_Base<"check"> {
  let summary = "ends the call with a message where the condition does not hold";
  let description = "- (check_c1) the message is not empty";
  let arguments = (ins Op_Condition:$condition, StrAttr:$message);
  let assemblyFormat = "$condition attr-dict `:` type($condition)";
  let hasVerifier = 1;
}

def Op_YieldOp : Op_Base<"yield", [Pure, ReturnLike, Terminator,
    ParentOneOf<["FusionOp", "IfOp", "ForOp", "WhileOp"]>]> {
  let summary = "ends a region and gives its values";
  let arguments = (ins Variadic<Op_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Op_FusionOp : Op_Base<"fusion", [IsolatedFromAbove, RecursiveMemoryEffects, SingleBlock]> {
  let summary = "what one kernel will do";
  let description = [{
    The body is ordinary ops over its block arguments, one argument an input.

    - (fusion_c1) the family is one of pointwise, row_reduction, gemm, convolution, matmul
    - (fusion_c2) the block arguments have the inputs' types
    - (fusion_c3) the yielded values have the results' types
  }];
  let arguments = (ins Variadic<Op_Tensor>:$inputs, StrAttr:$family);
  let results = (outs Variadic<Op_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type($inputs, results) $body";
  let hasVerifier = 1;
}

#endif  // STRAIGHTLINE_OP_STRUCTURE_TD
