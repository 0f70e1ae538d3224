module attributes {op.target = #kernel.target<"cpu", "x86-64-v3", threads = 2>} {
  func.func @forward(%arg0: tensor<8x16x8x8xf32> {op.name = "x"} loc(unknown), %arg1: tensor<1024xf32> {op.name = "b"} loc(unknown)) -> (tensor<8x1024xf32> {op.name = "add"}) {
    %0 = op.reshape %arg0 : (tensor<8x16x8x8xf32>) -> tensor<8x1024xf32> loc("small.py":22:0)
    %1 = op.expand %arg1 : (tensor<1024xf32>) -> tensor<8x1024xf32> loc("small.py":22:0)
    %2 = op.add %0, %1 : (tensor<8x1024xf32>, tensor<8x1024xf32>) -> tensor<8x1024xf32> loc("small.py":22:0)
    return %2 : tensor<8x1024xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
