// SPDX-License-Identifier: Apache-2.0
// Family "control flow". Regions see values from above.
#ifndef STRAIGHTLINE_OP_CONTROL_TD
#define STRAIGHTLINE_OP_CONTROL_TD

include "dialect/op/op_dialect.td"

class Op_ControlOp<string mnemonic> : Op_Base<mnemonic, [RecursiveMemoryEffects, SingleBlock]> {
  let hasVerifier = 1;
}

def Op_IfOp : Op_ControlOp<"if"> {
  let summary = "one of two branches";
  let description = [{
    - (if_c1) no block arguments
    - (if_c2) both branches yield the results' types
  }];
  let arguments = (ins Op_Condition:$condition);
  let results = (outs Variadic<Op_Tensor>:$results);
  let regions = (region SizedRegion<1>:$then_region, SizedRegion<1>:$else_region);
  let assemblyFormat = "$condition `->` `(` type($results) `)` attr-dict-with-keyword $then_region `else` $else_region";
  let hasCanonicalizer = 1;
}

def Op_ForOp : Op_ControlOp<"for"> {
  let summary = "a counted loop with carried values";
  let description = [{
    `op.for %i = 0 to s step 1 iter(%a = %a0) : (types) { ... }`. `bounds` holds lower, upper (exclusive) and step, each a
    named-extent expression. The body's arguments are the index (tensor<i64>) and the carried values.

    - (for_c1) three bounds, and a static step is positive
    - (for_c2) the body's arguments are tensor<i64> and the carried types
    - (for_c3) carried, yielded and result types are equal
  }];
  let arguments = (ins Op_DimsAttr:$bounds, Variadic<Op_Tensor>:$inits);
  let results = (outs Variadic<Op_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
}

def Op_WhileOp : Op_ControlOp<"while"> {
  let summary = "a loop while a condition holds";
  let description = [{
    The first region takes the carried values and yields a tensor<i1>; the second takes and yields them.

    - (while_c1) the arguments of both regions have the carried types
    - (while_c2) the condition yields one tensor<i1>
    - (while_c3) carried, yielded and result types are equal
  }];
  let arguments = (ins Variadic<Op_Tensor>:$inits);
  let results = (outs Variadic<Op_Tensor>:$results);
  let regions = (region SizedRegion<1>:$condition, SizedRegion<1>:$body);
  let assemblyFormat = "`iter` `(` $inits `)` attr-dict `:` functional-type($inits, results) $condition `do` $body";
}

#endif  // STRAIGHTLINE_OP_CONTROL_TD
