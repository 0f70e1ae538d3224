// SPDX-License-Identifier: Apache-2.0
// Family "linalg": factors of matrices, triangular systems, eigenvalues and singular values. Has generated files of its own, as op_special.td.
#ifndef STRAIGHTLINE_OP_LINALG_TD
#define STRAIGHTLINE_OP_LINALG_TD

include "dialect/op/op_dialect.td"

def Op_CholeskyOp : Op_PlainOp<"cholesky"> {
  let summary = "the Cholesky factor of each matrix of x [.., n, n]";
  let description = [{
    `factor` is the lower triangle L with x = L L^T, or with `upper` the upper one U with x = U^T U; the other triangle is 0. Only that
    triangle of x is read. `info` [..] is 0, or the number (from 1) of the first row at which the matrix is not positive definite; what
    the factor holds from there on has no meaning.

    - (linalg_c1) the matrices are square, of f32 or f64
    - (cholesky_c1) the factor has x's type, info i32 and x's first extents
  }];
  let arguments = (ins Op_FloatTensor:$x, BoolAttr:$upper);
  let results = (outs Op_Tensor:$factor, Op_Tensor:$info);
  let hasVerifier = 1;
}

def Op_LuOp : Op_PlainOp<"lu"> {
  let summary = "the LU factors of each matrix of x [.., n, n], rows exchanged";
  let description = [{
    `factors` holds U, and below its diagonal L without its ones. `permutation` [.., n] (i64) says which row of x each row of L U is;
    `pivots` [.., n] (i32) are the exchanges in LAPACK's form: row i was exchanged with row pivots[i] - 1. `info` [..] is 0, or the number
    (from 1) of the first pivot that is 0.

    - (linalg_c1) the matrices are square, of f32 or f64
    - (lu_c1) factors have x's type, pivots i32 and permutation i64 x's extents but the last, info i32 x's extents but the last two
  }];
  let arguments = (ins Op_FloatTensor:$x);
  let results = (outs Op_Tensor:$factors, Op_Tensor:$pivots, Op_Tensor:$permutation, Op_Tensor:$info);
  let hasVerifier = 1;
}

def Op_TriangularSolveOp : Op_PlainOp<"triangular_solve"> {
  let summary = "x with a x = b, of which a [.., n, n] is triangular and b [.., n, k]";
  let description = [{
    Reads the lower triangle of a, or with `upper` the upper one; with `transpose` the system is a^T x = b. With `unit` the diagonal is
    not read and counts as 1. A 0 in the diagonal gives infinities and NaN.

    - (linalg_c1) the matrices of a are square, of f32 or f64
    - (triangular_solve_c1) b has a's element type and extents but the last; the result has b's type
  }];
  let arguments = (ins Op_FloatTensor:$a, Op_FloatTensor:$b, BoolAttr:$upper, BoolAttr:$transpose, BoolAttr:$unit);
  let results = (outs Op_Tensor:$result);
  let hasVerifier = 1;
}

def Op_GeqrfOp : Op_PlainOp<"geqrf"> {
  let summary = "the QR factors of each matrix of x [.., m, n], Q as reflections";
  let description = [{
    `factors` hold R in their upper triangle, and below it, in column i, the vector v of reflection i without its leading 1; Q is the product of
    the reflections I - tau v v^T in their order, with `taus` [.., min(m, n)].

    - (geqrf_c1) x has two dims or more, of f32 or f64
    - (geqrf_c2) factors have x's type, taus x's element type
  }];
  let arguments = (ins Op_FloatTensor:$x);
  let results = (outs Op_Tensor:$factors, Op_Tensor:$taus);
  let hasVerifier = 1;
}

def Op_OrgqrOp : Op_PlainOp<"orgqr"> {
  let summary = "the first n columns of the product of k reflections: x [.., m, n] as `op.geqrf` leaves it, taus [.., k]";
  let description = [{
    Reads below the diagonal of the first k columns alone.

    - (orgqr_c1) x has two dims or more, of f32 or f64, and static sizes m >= n >= k
    - (orgqr_c2) taus have x's element type and first extents; the result has x's type
  }];
  let arguments = (ins Op_FloatTensor:$x, Op_FloatTensor:$taus);
  let results = (outs Op_Tensor:$result);
  let hasVerifier = 1;
}

def Op_EighOp : Op_PlainOp<"eigh"> {
  let summary = "eigenvalues and eigenvectors of each symmetric matrix of x [.., n, n]";
  let description = [{
    `values` [.., n] ascend, and row i of `vectors` is the unit vector of value i, of either sign. Only the lower triangle of x is read, or
    with `upper` the upper one. `info` [..] is 0, or 1 where x is not finite; values and vectors are NaN there.

    - (linalg_c1) the matrices are square, of f32 or f64
    - (eigh_c1) vectors have x's type, values x's element type and extents but the last, info i32 and x's extents but the last two
  }];
  let arguments = (ins Op_FloatTensor:$x, BoolAttr:$upper);
  let results = (outs Op_Tensor:$vectors, Op_Tensor:$values, Op_Tensor:$info);
  let hasVerifier = 1;
}

def Op_SvdOp : Op_PlainOp<"svd"> {
  let summary = "singular values and vectors of each matrix of x [.., m, n] with m <= n";
  let description = [{
    x = left^T diag(values) right: `values` [.., m] descend, and rows i of `right` [.., m, n] and `left` [.., m, m] are the unit vectors of
    value i, both of either sign. `info` [..] is 0, or 1 where x is not finite; everything else is NaN there.

    - (svd_c1) x has two dims or more, of f32 or f64, and static sizes m <= n
    - (svd_c2) right has x's type, left and values x's element type, info i32
  }];
  let arguments = (ins Op_FloatTensor:$x);
  let results = (outs Op_Tensor:$right, Op_Tensor:$values, Op_Tensor:$left, Op_Tensor:$info);
  let hasVerifier = 1;
}

#endif  // STRAIGHTLINE_OP_LINALG_TD
