// RUN: straightline-opt %s --fuse-contractions --fuse-pointwise --select-kernels --lower-to-kernel | FileCheck %s
// RUN: straightline-opt %s --fuse-contractions --fuse-pointwise --select-kernels --lower-to-kernel --verify-kernel-level -o /dev/null

// Views cost nothing; a value that is returned is written where the caller wants it; equal kernels are one function.
module {
  // CHECK-LABEL: kernel.program @forward
  // CHECK: kernel.extent @b min(1) max(64)
  // CHECK: kernel.run (%[[X:.*]] "x": !kernel.buffer<[b, 8] x f32>) outs(%[[Y:.*]] "y": !kernel.buffer<[8, b] x f32>)
  // CHECK-NEXT: %[[S:.*]] = kernel.slot
  // CHECK-NEXT: %[[V:.*]] = kernel.view %[[X]] offset(0) : {{.*}} -> !kernel.buffer<[8, b] x f32, strides [1, 8]>
  // CHECK-NEXT: kernel.launch @[[K:[a-z0-9_]+]](%[[V]]) outs(%[[S]])
  // CHECK-NEXT: %[[F:.*]] = kernel.view %[[S]] offset(b * 7) : {{.*}} -> !kernel.buffer<[8, b] x f32, strides [b * -1, 1]>
  // CHECK-NEXT: kernel.launch @{{[a-z0-9_]+}}(%[[F]]) outs(%[[Y]])
  // CHECK-NEXT: kernel.return %[[Y]]
  // CHECK: kernel.func @[[K]]
  // CHECK: math.exp
  // CHECK-NOT: func.func
  // CHECK-NOT: tensor
  op.symbol @b {max = 64 : i64, min = 1 : i64}
  func.func @forward(%x: tensor<?x8xf32, #op.dims<[b, 8]>> {op.name = "x"}) -> (tensor<8x?xf32, #op.dims<[8, b]>> {op.name = "y"}) {
    %t = op.permute %x {dims = array<i64: 1, 0>} : (tensor<?x8xf32, #op.dims<[b, 8]>>) -> tensor<8x?xf32, #op.dims<[8, b]>>
    %e = op.exp %t : (tensor<8x?xf32, #op.dims<[8, b]>>) -> tensor<8x?xf32, #op.dims<[8, b]>>
    %f = op.flip %e {dims = array<i64: 0>} : (tensor<8x?xf32, #op.dims<[8, b]>>) -> tensor<8x?xf32, #op.dims<[8, b]>>
    return %f : tensor<8x?xf32, #op.dims<[8, b]>>
  }
}
