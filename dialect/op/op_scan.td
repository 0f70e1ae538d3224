// SPDX-License-Identifier: Apache-2.0
// Family "scan": what runs along a dim, but for cumsum (op_reduction.td). Has generated files of its own, as op_special.td.
#ifndef STRAIGHTLINE_OP_SCAN_TD
#define STRAIGHTLINE_OP_SCAN_TD

include "dialect/op/op_dialect.td"

def Op_ScanOp : Op_PlainOp<"scan"> {
  let summary = "a running combination along a dim, or where it was found";
  let description = [{
    `combine` is the combination of the elements up to each place: "prod", "logcumsumexp", "max" and "min" (of equal ones the
    last, NaN from the first NaN on), or the place along the dim where that stands: "argmax", "argmin".

    - (row_c1) `dim` is a dim of x
    - (scan_c1) `combine` is one of these
    - (scan_c2) the result has x's extents
    - (scan_c3) the result has x's elements; places are i64
    - (scan_c4) "logcumsumexp" is of floats
  }];
  let arguments = (ins Op_Tensor:$x, I64Attr:$dim, StrAttr:$combine);
  let results = (outs Op_Tensor:$result);
  let hasVerifier = 1;
}

#endif  // STRAIGHTLINE_OP_SCAN_TD
