// RUN: straightline-opt %s --split-input-file --verify-diagnostics

func.func @unnamed(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{must be tensor of floats whose dynamic sizes are named by #op.dims}}
  %y = op.exp %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @unranked(%x: tensor<*xf32>) {
  // expected-error @+1 {{must be tensor of floats}}
  %y = op.exp %x : (tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @odd_element(%x: tensor<4xi7>) {
  // expected-error @+1 {{must be tensor of static rank}}
  %y = op.neg %x : (tensor<4xi7>) -> tensor<4xi7>
  return
}

// -----

// expected-error @+1 {{dims: the tensor has rank 2 but 1 extents are named (dims_c1)}}
func.func private @dims_c1(tensor<?x8xf32, #op.dims<[b]>>)

// -----

// expected-error @+1 {{dims: dim 1 has size 8 but extent 9 (dims_c2)}}
func.func private @dims_c2(tensor<?x8xf32, #op.dims<[b, 9]>>)

// -----

// expected-error @+1 {{dims: a static shape of rank 1 needs no named extents (dims_c3)}}
func.func private @dims_c3(tensor<8xf32, #op.dims<[8]>>)

// -----

func.func @op_c1(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{attribute 'op.prepared' is not one of an operation's: op.prepare, op.kernel, op.layout, op.strides, op.refusals, op.live_parameters, op.size_advice, op.target, op.options, op.resident_bytes and op.candidates are (op_c1)}}
  %y = op.exp %x {op.prepared} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// expected-error @+1 {{attribute 'op.label' of argument #0 is neither 'op.name' with a string nor 'op.strides' with #op.dims (op_c2)}}
func.func private @op_c2(tensor<8xf32> {op.label = "x"})

// -----

// expected-error @+1 {{attribute 'op.tie' of result #0 is neither 'op.name' nor 'op.tie'}}
func.func private @op_c3() -> (tensor<8xf32> {op.tie = "output:x"})
