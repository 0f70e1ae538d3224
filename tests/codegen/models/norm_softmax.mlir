module attributes {op.target = #kernel.target<"cpu", "x86-64-v3", threads = 1>} {
  func.func @forward(%arg0: tensor<16x24xf32> {op.name = "x"} loc(unknown)) -> (tensor<16x24xf32> {op.name = "softmax"}) {
    %0 = op.parameter "norm.weight" : tensor<24xf32> loc("norm")
    %1 = op.parameter "norm.bias" : tensor<24xf32> loc("norm")
    %2 = op.layer_norm %arg0 weight %0 bias %1 {eps = 1.000000e-05 : f64, normalized_rank = 1 : i64} : (tensor<16x24xf32>, tensor<24xf32>, tensor<24xf32>) -> tensor<16x24xf32> loc("norm"("capture.py":37:0))
    %3 = op.full {value = 5.000000e-01 : f64} : tensor<f32> loc("capture.py":37:0)
    %4 = op.expand %3 : (tensor<f32>) -> tensor<16x24xf32> loc("capture.py":37:0)
    %5 = op.mul %2, %4 : (tensor<16x24xf32>, tensor<16x24xf32>) -> tensor<16x24xf32> loc("capture.py":37:0)
    %6 = op.add %5, %arg0 : (tensor<16x24xf32>, tensor<16x24xf32>) -> tensor<16x24xf32> loc("capture.py":37:0)
    %7 = op.softmax %6 {dim = 1 : i64} : (tensor<16x24xf32>) -> tensor<16x24xf32> loc("capture.py":37:0)
    return %7 : tensor<16x24xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
