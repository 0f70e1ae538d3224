// RUN: straightline-opt %s --split-input-file --fuse-pointwise --select-kernels --lower-to-kernel | FileCheck %s

// Each element twice, of a named number of them: the schedule says so.
// CHECK-LABEL: kernel.program @twice
// CHECK: shape = {extent = [n * 3, 2], stride = {{\[\[}}1, 0], [2, 1]]}, tune = {rank = 2, inputs = 1, repeats = 2}
module {
  op.symbol @n {max = 200 : i64, min = 0 : i64}
  func.func @twice(%x: tensor<3x?xf32, #op.dims<[3, n]>> {op.name = "x"}) -> tensor<3x?x2xf32, #op.dims<[3, n, 2]>> {
    %0 = op.reshape %x : (tensor<3x?xf32, #op.dims<[3, n]>>) -> tensor<3x?x1xf32, #op.dims<[3, n, 1]>>
    %1 = op.expand %0 : (tensor<3x?x1xf32, #op.dims<[3, n, 1]>>) -> tensor<3x?x2xf32, #op.dims<[3, n, 2]>>
    %2 = op.clone %1 : (tensor<3x?x2xf32, #op.dims<[3, n, 2]>>) -> tensor<3x?x2xf32, #op.dims<[3, n, 2]>>
    return %2 : tensor<3x?x2xf32, #op.dims<[3, n, 2]>>
  }
}

// -----

// Nine times is too often to be unrolled.
// CHECK-LABEL: kernel.program @nine_times
// CHECK: tune = {rank = 2, inputs = 1}
module {
  op.symbol @n {max = 200 : i64, min = 0 : i64}
  func.func @nine_times(%x: tensor<?xf32, #op.dims<[n]>> {op.name = "x"}) -> tensor<?x9xf32, #op.dims<[n, 9]>> {
    %0 = op.reshape %x : (tensor<?xf32, #op.dims<[n]>>) -> tensor<?x1xf32, #op.dims<[n, 1]>>
    %1 = op.expand %0 : (tensor<?x1xf32, #op.dims<[n, 1]>>) -> tensor<?x9xf32, #op.dims<[n, 9]>>
    %2 = op.clone %1 : (tensor<?x9xf32, #op.dims<[n, 9]>>) -> tensor<?x9xf32, #op.dims<[n, 9]>>
    return %2 : tensor<?x9xf32, #op.dims<[n, 9]>>
  }
}

// -----

// An input that changes along the innermost loop.
// CHECK-LABEL: kernel.program @differ
// CHECK: tune = {rank = 2, inputs = 2}
module {
  op.symbol @n {max = 200 : i64, min = 0 : i64}
  func.func @differ(%x: tensor<?x1xf32, #op.dims<[n, 1]>> {op.name = "x"}, %y: tensor<2xf32> {op.name = "y"}) -> tensor<?x2xf32, #op.dims<[n, 2]>> {
    %0 = op.expand %x : (tensor<?x1xf32, #op.dims<[n, 1]>>) -> tensor<?x2xf32, #op.dims<[n, 2]>>
    %1 = op.expand %y : (tensor<2xf32>) -> tensor<?x2xf32, #op.dims<[n, 2]>>
    %2 = op.mul %0, %1 : (tensor<?x2xf32, #op.dims<[n, 2]>>, tensor<?x2xf32, #op.dims<[n, 2]>>) -> tensor<?x2xf32, #op.dims<[n, 2]>>
    return %2 : tensor<?x2xf32, #op.dims<[n, 2]>>
  }
}

// -----

// Of fixed sizes the whole nest is known, and compiled.
// CHECK-LABEL: kernel.program @fixed
// CHECK: tune = {rank = 2, inputs = 1}
module {
  func.func @fixed(%x: tensor<6x1xf32> {op.name = "x"}) -> tensor<6x2xf32> {
    %1 = op.expand %x : (tensor<6x1xf32>) -> tensor<6x2xf32>
    %2 = op.clone %1 : (tensor<6x2xf32>) -> tensor<6x2xf32>
    return %2 : tensor<6x2xf32>
  }
}
