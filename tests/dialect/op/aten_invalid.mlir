// RUN: straightline-opt %s --split-input-file --verify-diagnostics

func.func @aten_c1(%x: tensor<4xf32>) {
  // expected-error @+1 {{aten: the name is "aten::topk" but "namespace::name.overload" is needed (aten_c1)}}
  %y = op.aten "aten::topk"(%x) {schema = "s", torch = "2.13.0", door = "dispatcher", arguments = "%0", outcome = "@0", why = ""} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @aten_c2(%x: tensor<4xf32>) {
  // expected-error @+1 {{aten: the door is "window" but dispatcher or python is needed (aten_c2)}}
  %y = op.aten "aten::sin.default"(%x) {schema = "s", torch = "2.13.0", door = "window", arguments = "%0", outcome = "@0", why = ""} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @aten_c3(%x: tensor<4xf32>) {
  // expected-error @+1 {{aten: updates [0, 1] are no pairs of a result and an operand of its type (aten_c3)}}
  %y = op.aten "aten::sin.default"(%x) {schema = "s", torch = "2.13.0", door = "python", arguments = "@0", outcome = "", updates = array<i64: 0, 1>, why = ""} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @aten_c4(%x: tensor<4xf32>) {
  // expected-error @+1 {{has a line break (aten_c4)}}
  %y = op.aten "aten::sin.default"(%x) {schema = "s\0At", torch = "2.13.0", door = "python", arguments = "%0", outcome = "@0", why = ""} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
