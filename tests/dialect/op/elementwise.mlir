// RUN: straightline-opt %s | straightline-opt | FileCheck %s
// RUN: straightline-opt %s --mlir-print-op-generic | straightline-opt | FileCheck %s

// CHECK-LABEL: func.func @unary
func.func @unary(%x: tensor<4x8xf32>, %i: tensor<4x8xi64>) {
  // CHECK: op.neg{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %neg = op.neg %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.abs{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %abs = op.abs %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.exp{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %exp = op.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.expm1{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %expm1 = op.expm1 %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.log{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %log = op.log %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.log1p{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %log1p = op.log1p %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.log2{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %log2 = op.log2 %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.sqrt{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %sqrt = op.sqrt %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.rsqrt{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %rsqrt = op.rsqrt %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.reciprocal{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %reciprocal = op.reciprocal %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.sin{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %sin = op.sin %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.cos{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %cos = op.cos %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.tan{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %tan = op.tan %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.tanh{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %tanh = op.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.sigmoid{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %sigmoid = op.sigmoid %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.relu{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %relu = op.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.erf{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %erf = op.erf %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.silu{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %silu = op.silu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.floor{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %floor = op.floor %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.ceil{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %ceil = op.ceil %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.round{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %round = op.round %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.trunc{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %trunc = op.trunc %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.sign{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %sign = op.sign %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.hardsigmoid{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %hardsigmoid = op.hardsigmoid %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.hardswish{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %hardswish = op.hardswish %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.isnan{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xi1>
  %isnan = op.isnan %x : (tensor<4x8xf32>) -> tensor<4x8xi1>
  // CHECK: op.isinf{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xi1>
  %isinf = op.isinf %x : (tensor<4x8xf32>) -> tensor<4x8xi1>
  // CHECK: op.logical_not{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xi1>
  %logical_not = op.logical_not %x : (tensor<4x8xf32>) -> tensor<4x8xi1>
  // CHECK: op.gelu{{.*}}{approximate = "tanh"}{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %gelu = op.gelu %x {approximate = "tanh"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.leaky_relu{{.*}}{negative_slope = 2.000000e-02 : f64}{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %leaky_relu = op.leaky_relu %x {negative_slope = 2.000000e-02 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.elu{{.*}}{alpha = 5.000000e-01 : f64}{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %elu = op.elu %x {alpha = 5.000000e-01 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.softplus{{.*}}{beta = 2.000000e+00 : f64, threshold = 1.000000e+01 : f64}{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %softplus = op.softplus %x {beta = 2.000000e+00 : f64, threshold = 1.000000e+01 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.clamp{{.*}}{max = 6.000000e+00 : f64, min = 0.000000e+00 : f64}{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %clamp = op.clamp %x {max = 6.000000e+00 : f64, min = 0.000000e+00 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.clamp{{.*}}{max = 6 : i64}{{.*}} : (tensor<4x8xi64>) -> tensor<4x8xi64>
  %clamp_i = op.clamp %i {max = 6 : i64} : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // CHECK: op.bitwise_not{{.*}} : (tensor<4x8xi64>) -> tensor<4x8xi64>
  %bitwise_not = op.bitwise_not %i : (tensor<4x8xi64>) -> tensor<4x8xi64>
  // CHECK: op.to_dtype{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %to_dtype = op.to_dtype %x : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  // CHECK: op.to_dtype{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xui8>
  %to_byte = op.to_dtype %x : (tensor<4x8xf32>) -> tensor<4x8xui8>
  // CHECK: op.bit_cast{{.*}} : (tensor<4x8xf32>) -> tensor<4x8xi32>
  %bits = op.bit_cast %x : (tensor<4x8xf32>) -> tensor<4x8xi32>
  return
}

// CHECK-LABEL: func.func @binary
func.func @binary(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %i: tensor<4x8xi64>, %j: tensor<4x8xi64>, %c: tensor<4x8xi1>) {
  // CHECK: op.add{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %add = op.add %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.sub{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %sub = op.sub %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.mul{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %mul = op.mul %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.div{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %div = op.div %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.floor_divide{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %floor_divide = op.floor_divide %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.trunc_divide{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %trunc_divide = op.trunc_divide %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.remainder{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %remainder = op.remainder %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.fmod{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %fmod = op.fmod %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.pow{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %pow = op.pow %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.maximum{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %maximum = op.maximum %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.minimum{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %minimum = op.minimum %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.atan2{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %atan2 = op.atan2 %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.special{{.*}}{function = "lgamma"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %lgamma = op.special %x {function = "lgamma"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.special{{.*}}{function = "igamma"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %igamma = op.special %x, %y {function = "igamma"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: op.bitwise_and{{.*}} : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>
  %bitwise_and = op.bitwise_and %i, %j : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>
  // CHECK: op.bitwise_or{{.*}} : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>
  %bitwise_or = op.bitwise_or %i, %j : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>
  // CHECK: op.bitwise_xor{{.*}} : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>
  %bitwise_xor = op.bitwise_xor %i, %j : (tensor<4x8xi64>, tensor<4x8xi64>) -> tensor<4x8xi64>
  // CHECK: op.logical_and{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  %logical_and = op.logical_and %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  // CHECK: op.logical_or{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  %logical_or = op.logical_or %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  // CHECK: op.logical_xor{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  %logical_xor = op.logical_xor %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  // CHECK: op.eq{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  %eq = op.eq %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  // CHECK: op.ne{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  %ne = op.ne %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  // CHECK: op.lt{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  %lt = op.lt %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  // CHECK: op.le{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  %le = op.le %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  // CHECK: op.gt{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  %gt = op.gt %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  // CHECK: op.ge{{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  %ge = op.ge %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
  // CHECK: op.where{{.*}} : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %where = op.where %c, %x, %y : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @named_extents
func.func @named_extents(%x: tensor<?x8xf32, #op.dims<[b * 2 + 1, 8]>>) {
  // CHECK: op.add{{.*}} : (tensor<?x8xf32, #op.dims<[b * 2 + 1, 8]>>, tensor<?x8xf32, #op.dims<[b * 2 + 1, 8]>>) -> tensor<?x8xf32, #op.dims<[b * 2 + 1, 8]>>
  %twice = op.add %x, %x : (tensor<?x8xf32, #op.dims<[b * 2 + 1, 8]>>, tensor<?x8xf32, #op.dims<[b * 2 + 1, 8]>>) -> tensor<?x8xf32, #op.dims<[b * 2 + 1, 8]>>
  return
}

