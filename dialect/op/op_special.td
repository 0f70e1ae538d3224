// SPDX-License-Identifier: Apache-2.0
// Family "special": functions that no pass needs to know more of than their names. It has generated files of its own, so that
// only those who name these ops are compiled when it changes.
#ifndef STRAIGHTLINE_OP_SPECIAL_TD
#define STRAIGHTLINE_OP_SPECIAL_TD

include "dialect/op/op_dialect.td"

// One op for all functions that are a call of the kernels' library (codegen/kernels/special.h), and for exp2 and copysign;
// special_functions.h has the table of them.
def Op_SpecialOp : Op_PlainOp<"special", [DeclareOpInterfaceMethods<ElementwiseOpInterface>]> {
  let summary = "a special function of its operands, by name";
  let description = [{
    - (special_c1) `function` is a name of the table of special functions
    - (special_c2) it has as many operands as that function takes
  }];
  let arguments = (ins Variadic<Op_FloatTensor>:$operands, StrAttr:$function);
  let results = (outs Op_Tensor:$result);
  let hasVerifier = 1;
}

// What op.special means for one element: the only op of the dialect that is of scalars.
def Op_ScalarSpecialOp : Op_PureOp<"scalar_special"> {
  let summary = "a special function of scalars, inside the body of a kernel";
  let description = [{
    - (special_c1), (special_c2) as of `op.special`
    - (special_c3) operands and result have one type
  }];
  let arguments = (ins Variadic<AnyFloat>:$operands, StrAttr:$function);
  let results = (outs AnyFloat:$result);
  let assemblyFormat = "$function `(` $operands `)` attr-dict `:` functional-type($operands, $result)";
  let hasVerifier = 1;
}

#endif  // STRAIGHTLINE_OP_SPECIAL_TD
