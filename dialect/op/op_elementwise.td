// SPDX-License-Identifier: Apache-2.0
// Family "elementwise". The scalar meaning of each op stands in elementwise_scalar.cpp.
#ifndef STRAIGHTLINE_OP_ELEMENTWISE_TD
#define STRAIGHTLINE_OP_ELEMENTWISE_TD

include "dialect/op/op_dialect.td"

class Op_Elementwise<string mnemonic, string what, list<Trait> traits = []>
    : Op_PlainOp<mnemonic, traits # [DeclareOpInterfaceMethods<ElementwiseOpInterface>]> {
  let summary = what;
  let results = (outs Op_Tensor:$result);
}

// Constraint (elementwise_c2): operands and result have equal element types, but see each class.
class Op_Unary<string mnemonic, string what> : Op_Elementwise<mnemonic, what> {
  let arguments = (ins Op_Tensor:$x);
  let builders = [OpBuilder<(ins "::mlir::Value":$x), [{ build($_builder, $_state, x.getType(), x); }]>];
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() { return verifySameElements(*this); }
  }];
}
class Op_FloatUnary<string mnemonic, string what> : Op_Unary<mnemonic, what> {
  let arguments = (ins Op_FloatTensor:$x);
}
class Op_Predicate<string mnemonic, string what> : Op_Elementwise<mnemonic, what> {
  let arguments = (ins Op_Tensor:$x);
  let results = (outs Op_BoolTensor:$result);
}
class Op_Binary<string mnemonic, string what, list<Trait> traits = []> : Op_Elementwise<mnemonic, what, traits> {
  let arguments = (ins Op_Tensor:$x, Op_Tensor:$y);
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$y), [{
    build($_builder, $_state, x.getType(), x, y);
  }]>];
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() { return verifySameElements(*this); }
  }];
}
// Operands have equal element types, the result is a bool.
class Op_Comparison<string mnemonic, string what, list<Trait> traits = []> : Op_Elementwise<mnemonic, what, traits> {
  let arguments = (ins Op_Tensor:$x, Op_Tensor:$y);
  let results = (outs Op_BoolTensor:$result);
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() { return verifySameOperandElements(*this); }
  }];
}

def Op_NegOp : Op_Unary<"neg", "-x"> { let hasFolder = 1; }
def Op_AbsOp : Op_Unary<"abs", "|x|">;
def Op_ExpOp : Op_FloatUnary<"exp", "e to the power x">;
def Op_Expm1Op : Op_FloatUnary<"expm1", "exp(x) - 1">;
def Op_LogOp : Op_FloatUnary<"log", "natural logarithm">;
def Op_Log1pOp : Op_FloatUnary<"log1p", "log(1 + x)">;
def Op_Log2Op : Op_FloatUnary<"log2", "logarithm to base 2">;
def Op_Log10Op : Op_FloatUnary<"log10", "logarithm to base 10">;
def Op_SqrtOp : Op_FloatUnary<"sqrt", "square root">;
def Op_RsqrtOp : Op_FloatUnary<"rsqrt", "1 / sqrt(x)">;
def Op_ReciprocalOp : Op_FloatUnary<"reciprocal", "1 / x">;
def Op_SinOp : Op_FloatUnary<"sin", "sine">;
def Op_CosOp : Op_FloatUnary<"cos", "cosine">;
def Op_TanOp : Op_FloatUnary<"tan", "tangent">;
def Op_TanhOp : Op_FloatUnary<"tanh", "hyperbolic tangent">;
def Op_SigmoidOp : Op_FloatUnary<"sigmoid", "1 / (1 + exp(-x))">;
def Op_ReluOp : Op_Unary<"relu", "max(x, 0), NaN stays NaN"> { let hasFolder = 1; }
def Op_ErfOp : Op_FloatUnary<"erf", "error function">;
def Op_SiluOp : Op_FloatUnary<"silu", "x / (1 + exp(-x))">;
def Op_FloorOp : Op_Unary<"floor", "round down">;
def Op_CeilOp : Op_Unary<"ceil", "round up">;
def Op_RoundOp : Op_Unary<"round", "round to nearest, halves to even">;
def Op_TruncOp : Op_Unary<"trunc", "round towards zero">;
def Op_SignOp : Op_Unary<"sign", "-1, 0 or 1; 0 for NaN, as ATen">;
def Op_BitwiseNotOp : Op_Unary<"bitwise_not", "~x, of a bool: !x"> { let hasVerifier = 1;
  let description = "- (bitwise_not_c1) integers or bools";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() {
      return ::mlir::failure(failed(verifySameElements(*this)) || failed(verifyIntegers(*this)));
    }
  }];
}
def Op_LogicalNotOp : Op_Predicate<"logical_not", "x == 0">;
def Op_IsnanOp : Op_Predicate<"isnan", "x is NaN">;
def Op_IsinfOp : Op_Predicate<"isinf", "x is plus or minus infinity">;
def Op_HardsigmoidOp : Op_FloatUnary<"hardsigmoid", "clamp(x + 3, 0, 6) / 6">;
def Op_HardswishOp : Op_FloatUnary<"hardswish", "x * clamp(x + 3, 0, 6) / 6">;

// A unary op with attributes; the default builder takes them.
class Op_UnaryWith<string mnemonic, string what, dag attributes> : Op_FloatUnary<mnemonic, what> {
  let arguments = !con((ins Op_FloatTensor:$x), attributes);
  let builders = [];
}
def Op_GeluOp : Op_UnaryWith<"gelu", "Gaussian error linear unit",
    (ins DefaultValuedAttr<StrAttr, "\"none\"">:$approximate)> {
  let description = [{ - (gelu_c1) `approximate` is "none" or "tanh" }];
  let extraClassDefinition = "";
}
def Op_LeakyReluOp : Op_UnaryWith<"leaky_relu", "x > 0 ? x : x * negative_slope",
    (ins DefaultValuedAttr<F64Attr, "0.01">:$negative_slope)>;
def Op_EluOp : Op_UnaryWith<"elu", "x > 0 ? x : alpha * expm1(x)", (ins DefaultValuedAttr<F64Attr, "1.0">:$alpha)>;
def Op_SoftplusOp : Op_UnaryWith<"softplus", "x * beta > threshold ? x : log1p(exp(x * beta)) / beta",
    (ins DefaultValuedAttr<F64Attr, "1.0">:$beta, DefaultValuedAttr<F64Attr, "20.0">:$threshold)>;
def Op_ClampOp : Op_Unary<"clamp", "min(max(x, min), max), NaN stays NaN"> {
  let description = [{
    - (clamp_c1) min or max is given
    - (clamp_c2) bounds of floats are f64, of integers i64
  }];
  let arguments = (ins Op_Tensor:$x, OptionalAttr<Op_ScalarAttr>:$min, OptionalAttr<Op_ScalarAttr>:$max);
  let builders = [];
  let extraClassDefinition = "";
}
def Op_ToDtypeOp : Op_Elementwise<"to_dtype", "conversion of the element type, as C (to bool: x != 0)"> {
  let arguments = (ins Op_Tensor:$x);
  let hasFolder = 1;
}
def Op_BitCastOp : Op_Elementwise<"bit_cast", "the bits of an element as those of another type of its width"> {
  let description = [{ - (bit_cast_c1) both are of 32 bits, or both of 64 }];
  let arguments = (ins Op_Tensor:$x);
  let hasVerifier = 1;
}

def Op_AddOp : Op_Binary<"add", "x + y", [Commutative]> { let hasFolder = 1; }
def Op_SubOp : Op_Binary<"sub", "x - y"> { let hasFolder = 1; }
def Op_MulOp : Op_Binary<"mul", "x * y", [Commutative]> { let hasFolder = 1; }
def Op_DivOp : Op_Binary<"div", "x / y of floats"> {
  let arguments = (ins Op_FloatTensor:$x, Op_FloatTensor:$y);
  let hasFolder = 1;
}
def Op_FloorDivideOp : Op_Binary<"floor_divide", "floor(x / y)">;
def Op_TruncDivideOp : Op_Binary<"trunc_divide", "trunc(x / y)">;
def Op_RemainderOp : Op_Binary<"remainder", "x - y * floor(x / y): the sign of y">;
def Op_FmodOp : Op_Binary<"fmod", "x - y * trunc(x / y): the sign of x">;
def Op_PowOp : Op_Binary<"pow", "x to the power y"> { let hasCanonicalizer = 1; }
def Op_MaximumOp : Op_Binary<"maximum", "the larger; NaN if either is", [Commutative]> { let hasFolder = 1; }
def Op_MinimumOp : Op_Binary<"minimum", "the smaller; NaN if either is", [Commutative]> { let hasFolder = 1; }
def Op_Atan2Op : Op_Binary<"atan2", "angle of (y, x)"> {
  let arguments = (ins Op_FloatTensor:$x, Op_FloatTensor:$y);
}

// Integers or bools: (bitwise_c1).
class Op_Bitwise<string mnemonic, string what> : Op_Binary<mnemonic, what, [Commutative]> {
  let description = "- (bitwise_c1) integers or bools";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() {
      return ::mlir::failure(failed(verifySameElements(*this)) || failed(verifyIntegers(*this)));
    }
  }];
}
def Op_BitwiseAndOp : Op_Bitwise<"bitwise_and", "x & y">;
def Op_BitwiseOrOp : Op_Bitwise<"bitwise_or", "x | y">;
def Op_BitwiseXorOp : Op_Bitwise<"bitwise_xor", "x ^ y">;
def Op_LogicalAndOp : Op_Comparison<"logical_and", "x != 0 && y != 0", [Commutative]>;
def Op_LogicalOrOp : Op_Comparison<"logical_or", "x != 0 || y != 0", [Commutative]>;
def Op_LogicalXorOp : Op_Comparison<"logical_xor", "(x != 0) != (y != 0)", [Commutative]>;
def Op_EqOp : Op_Comparison<"eq", "x == y", [Commutative]>;
def Op_NeOp : Op_Comparison<"ne", "x != y", [Commutative]>;
def Op_LtOp : Op_Comparison<"lt", "x < y">;
def Op_LeOp : Op_Comparison<"le", "x <= y">;
def Op_GtOp : Op_Comparison<"gt", "x > y">;
def Op_GeOp : Op_Comparison<"ge", "x >= y">;

def Op_WhereOp : Op_Elementwise<"where", "condition ? x : y"> {
  let description = "- (where_c1) x, y and the result have equal element types";
  let arguments = (ins Op_BoolTensor:$condition, Op_Tensor:$x, Op_Tensor:$y);
  let builders = [OpBuilder<(ins "::mlir::Value":$condition, "::mlir::Value":$x, "::mlir::Value":$y), [{
    build($_builder, $_state, x.getType(), condition, x, y);
  }]>];
  let hasFolder = 1;
  let hasVerifier = 1;
}

#endif  // STRAIGHTLINE_OP_ELEMENTWISE_TD
