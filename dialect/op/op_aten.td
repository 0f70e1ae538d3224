// SPDX-License-Identifier: Apache-2.0
// The long tail: ops that only the framework has.
#ifndef STRAIGHTLINE_OP_ATEN_TD
#define STRAIGHTLINE_OP_ATEN_TD

include "dialect/op/op_dialect.td"

def Op_AtenOp : Op_Base<"aten", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "an op of the framework, called by its name while running";
  let description = [{
    `op.aten "aten::topk.default"(%x) {schema = "aten::topk(Tensor self, ..", torch = "2.13.0", door = "dispatcher",
    arguments = "self=%0, k=2, dim=-1", outcome = "@0, @1", why = ".."}`. Tensor arguments are operands; the grammar of
    `arguments` and `outcome` stands in runtime/backends/aten/call_text.h. `sizes` are the named extents that `$N` means.
    `updates` lists (result, operand) pairs: the result begins as the operand's value and the op updates it in place.
    An `effectful` op is neither merged with its like nor left out (random numbers, a custom op that prints).

    - (aten_c1) the name is "namespace::name.overload"
    - (aten_c2) the door is dispatcher or python
    - (aten_c3) updates are pairs of a result and an operand of its type
    - (aten_c4) no text has a line break
  }];
  let arguments = (ins StrAttr:$name, Variadic<Op_Tensor>:$inputs, StrAttr:$schema, StrAttr:$torch, StrAttr:$door,
                       StrAttr:$arguments, StrAttr:$outcome, OptionalAttr<Op_DimsAttr>:$sizes,
                       OptionalAttr<DenseI64ArrayAttr>:$updates, DefaultValuedAttr<BoolAttr, "false">:$effectful,
                       StrAttr:$why);
  let results = (outs Variadic<Op_Tensor>:$results);
  let assemblyFormat = "$name `(` $inputs `)` attr-dict `:` functional-type($inputs, $results)";
  let hasVerifier = 1;
}

#endif  // STRAIGHTLINE_OP_ATEN_TD
