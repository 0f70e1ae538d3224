// SPDX-License-Identifier: Apache-2.0
// Family "convolution": convolutions, pools and samples over x [n, c, spatial..] (pools also [c, h, w]).
#ifndef STRAIGHTLINE_OP_CONVOLUTION_TD
#define STRAIGHTLINE_OP_CONVOLUTION_TD

include "dialect/op/op_dialect.td"

def Op_ConvolutionOp : Op_PureOp<"convolution", [Op_Contraction]> {
  let summary = "cross-correlation; weight [o, c / groups, k..], transposed: [c, o / groups, k..]";
  let description = [{
    - (convolution_c1) the channels of x are those of weight (times groups)
    - (convolution_c2) x and weight have equal ranks of 3 or more
    - (convolution_c3) stride, padding, dilation and output_padding have one number a spatial dim,
      stride and dilation positive
    - (convolution_c4) `groups` divides the channels of input and output
    - (convolution_c5) bias has one element an output channel
    - (convolution_c6) the result has the computed extents
    - (convolution_c7) equal element types of floats, but that x and weight of i8 are summed in i32 (modulo 2^32), without a bias
  }];
  let arguments = (ins Op_Tensor:$x, Op_Tensor:$weight, Optional<Op_FloatTensor>:$bias,
                       DenseI64ArrayAttr:$stride, DenseI64ArrayAttr:$padding, DenseI64ArrayAttr:$dilation,
                       BoolAttr:$transposed, DenseI64ArrayAttr:$output_padding, I64Attr:$groups);
  let results = (outs Op_Tensor:$result);
  let assemblyFormat = "$x `,` $weight (`,` $bias^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

// (pool_c1) x has rank 3 or 4; (pool_c2) attributes have two numbers; (pool_c3) the result has the
// computed extents and
// x's element type; (pool_c4) padding is at most half the kernel.
class Op_Pool<string mnemonic, string what> : Op_PlainOp<mnemonic> {
  let summary = what;
  let description = [{
    - (pool_c1) x has rank 3 or 4
    - (pool_c2) kernel_size, stride, padding, dilation and output_size have two numbers, all but
      padding positive
    - (pool_c3) the result has the computed extents and x's element type
    - (pool_c4) padding is at most half the kernel
  }];
  let results = (outs Op_Tensor:$result);
  let hasVerifier = 1;
}
def Op_MaxPool2dOp : Op_Pool<"max_pool2d", "largest of each window; NaN if any is"> {
  let arguments = (ins Op_Tensor:$x, DenseI64ArrayAttr:$kernel_size, DenseI64ArrayAttr:$stride,
                       DenseI64ArrayAttr:$padding, DenseI64ArrayAttr:$dilation, BoolAttr:$ceil_mode);
}
def Op_AvgPool2dOp : Op_Pool<"avg_pool2d", "mean of each window"> {
  let arguments = (ins Op_FloatTensor:$x, DenseI64ArrayAttr:$kernel_size, DenseI64ArrayAttr:$stride,
                       DenseI64ArrayAttr:$padding, BoolAttr:$ceil_mode, BoolAttr:$count_include_pad,
                       OptionalAttr<I64Attr>:$divisor_override);
}
def Op_AdaptiveAvgPool2dOp : Op_Pool<"adaptive_avg_pool2d", "means of windows that cover x evenly"> {
  let arguments = (ins Op_FloatTensor:$x, DenseI64ArrayAttr:$output_size);
}
def Op_GridSampler2dOp : Op_PlainOp<"grid_sampler_2d"> {
  let summary = "values of images x [n, c, h, w] at the places grid [n, h', w', (x, y)]";
  let description = [{
    -1 and 1 are the borders of the image, or with `align_corners` the middles of its outermost elements. Between elements a place takes the nearest
    one (of two equally near ones the even one), a mean of 2 x 2 ("bilinear") or a weighted sum of 4 x 4 ("bicubic"). Outside of the image elements are 0
    ("zeros"), or places are moved to its border ("border") or mirrored there ("reflection").

    - (grid_sampler_2d_c1) x and grid have rank 4, and the last extent of grid is 2
    - (grid_sampler_2d_c2) grid has the first extent of x
    - (grid_sampler_2d_c3) `interpolation_mode` is "bilinear", "nearest" or "bicubic", `padding_mode` "zeros", "border" or "reflection"
    - (grid_sampler_2d_c4) the result has extents [n, c, h', w']
    - (grid_sampler_2d_c5) grid and the result have x's element type
    - (grid_sampler_2d_c6) the image has elements: neither h nor w is 0
  }];
  let arguments = (ins Op_FloatTensor:$x, Op_FloatTensor:$grid, StrAttr:$interpolation_mode, StrAttr:$padding_mode, BoolAttr:$align_corners);
  let results = (outs Op_Tensor:$result);
  let hasVerifier = 1;
}

#endif  // STRAIGHTLINE_OP_CONVOLUTION_TD
