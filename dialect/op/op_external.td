// SPDX-License-Identifier: Apache-2.0
// An op that a library's kernel computes.
#ifndef STRAIGHTLINE_OP_EXTERNAL_TD
#define STRAIGHTLINE_OP_EXTERNAL_TD

include "dialect/op/op_dialect.td"

def Op_ExternalOp : Op_PureOp<"external"> {
  let summary = "an op that an external kernel computes, called by the kernel's calling rule";
  let description = [{
    `op.external "softmax"(%x) told {dim = 1 : i64} {roles = array<i64: 0>, op.kernel = #op.kernel_choice<..>}`. select-external-kernels
    writes it in place of the op `name`; no pass looks inside. `told` holds the op's attributes as the kernel is told them: ints, floats
    and text; `roles` says for each input which of the operands in the op's definition it is, so that an absent one is seen.

    - (external_c1) the name is that of an op of this dialect
    - (external_c2) there is a result
    - (external_c3) a told attribute is an integer, a float or a string
    - (external_c4) roles has a number for each input, ascending from 0 on
    - (external_c5) op.kernel says which kernel computes it
  }];
  let arguments = (ins StrAttr:$name, Variadic<Op_Tensor>:$inputs, DictionaryAttr:$told, DenseI64ArrayAttr:$roles);
  let results = (outs Variadic<Op_Tensor>:$results);
  let assemblyFormat = "$name `(` $inputs `)` `told` $told attr-dict `:` functional-type($inputs, $results)";
  let hasVerifier = 1;
}

#endif  // STRAIGHTLINE_OP_EXTERNAL_TD
