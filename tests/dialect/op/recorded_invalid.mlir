// RUN: straightline-opt %s --split-input-file --verify-diagnostics
// What passes record, of another kind or in another place than recorded.h says.

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{attribute 'op.prepare' of 'op.relu' is 1 : i64, expected a unit attribute (op_c4)}}
  %0 = op.relu %x {op.prepare = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{attribute 'op.kernel' of 'op.relu' is #op.kernel_choice<kernel = "a", why = "b">, expected #op.kernel_choice on an op.fusion or op.external (op_c4)}}
  %0 = op.relu %x {op.kernel = #op.kernel_choice<kernel = "a", why = "b">} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{attribute 'op.kernel' of 'op.fusion' is "a.one", expected #op.kernel_choice on an op.fusion or op.external (op_c4)}}
  %0 = op.fusion(%x) {family = "pointwise", op.kernel = "a.one"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    op.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{attribute 'op.layout' of 'op.relu' is #op.layout<order = [1, 0]>, expected #op.layout with an entry a dim on an op with one result (op_c4)}}
  %0 = op.relu %x {op.layout = #op.layout<order = [1, 0]>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{attribute 'op.layout' of 'op.relu' is {order = array<i64: 0>}, expected #op.layout with an entry a dim on an op with one result (op_c4)}}
  %0 = op.relu %x {op.layout = {order = array<i64: 0>}} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{attribute 'op.small_images' of 'op.relu' is [#op.small_images<kernel = "a", why = "b", below = 4, images = 1, height = 1, width = 1>], expected a list of #op.small_images by growing `below` on an op.fusion (op_c4)}}
  %0 = op.relu %x {op.small_images = [#op.small_images<kernel = "a", why = "b", below = 4, images = 1, height = 1, width = 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{small_images: below = 0 for a result of 1 x 1 x 1, expected positive numbers (small_images_c1)}}
  %0 = op.relu %x {op.small_images = [#op.small_images<kernel = "a", why = "b", below = 0, images = 1, height = 1, width = 1>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{layout: order [1] is no permutation of 1 dims (layout_c1)}}
  %0 = op.relu %x {op.layout = #op.layout<order = [1]>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{layout: border [1], expected 2 numbers, none negative (layout_c2)}}
  %0 = op.relu %x {op.layout = #op.layout<order = [0], border = [1]>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{layout: border [1, -1], expected 2 numbers, none negative (layout_c2)}}
  %0 = op.relu %x {op.layout = #op.layout<order = [0], border = [1, -1]>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{attribute 'op.strides' of 'op.relu' is #op.dims<[1]>, expected #op.dims on an op.parameter or op.state (op_c4)}}
  %0 = op.relu %x {op.strides = #op.dims<[1]>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{attribute 'op.live_parameters' of 'op.relu' is unit, expected a unit attribute of a function (op_c4)}}
  %0 = op.relu %x {op.live_parameters} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{attribute 'op.size_advice' of 'func.func' is ["name it"], expected an array of two strings of a function (op_c4)}}
func.func @f(%x: tensor<4xf32>) attributes {op.size_advice = ["name it"]} {
  return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{attribute 'op.target' of 'op.relu' is "cpu", expected #kernel.target on the module (op_c4)}}
  %0 = op.relu %x {op.target = "cpu"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{attribute 'op.target' of 'builtin.module' is "cpu", expected #kernel.target on the module (op_c4)}}
module attributes {op.target = "cpu"} {
}

// -----

// expected-error @+1 {{attribute 'op.options' of 'builtin.module' is {tf32 = "matmul"}, expected #op.options on the module (op_c4)}}
module attributes {op.options = {tf32 = "matmul"}} {
}

// -----

// expected-error @+1 {{options: tf32 is "all", expected convolution, matmul or convolution+matmul (options_c1)}}
module attributes {op.options = #op.options<tf32 = "all">} {
}

// -----

// expected-error @+1 {{options: launch is "graph", expected "stream" (options_c2)}}
module attributes {op.options = #op.options<launch = "graph">} {
}

// -----

// expected-error @+1 {{options: routes are [["native", "me"]], expected a list of #op.route (options_c3)}}
module attributes {op.options = #op.options<routes = [["native", "me"]]>} {
}

// -----

// expected-error @+2 {{route: targets are [], expected one or more names (route_c1)}}
// expected-error @+1 {{failed to parse Op_OptionsAttr parameter 'routes'}}
module attributes {op.options = #op.options<routes = [#op.route<op = "linear", targets = [], by = "me">]>} {
}

// -----

// expected-error @+2 {{route: targets are [3], expected one or more names (route_c1)}}
// expected-error @+1 {{failed to parse Op_OptionsAttr parameter 'routes'}}
module attributes {op.options = #op.options<routes = [#op.route<op = "linear", targets = [3], by = "me">]>} {
}

// -----

// expected-error @+1 {{options: choices are {k = 1 : i64}, expected strings by key (options_c4)}}
module attributes {op.options = #op.options<choices = {k = 1 : i64}>} {
}

// -----

// expected-error @+1 {{attribute 'op.resident_bytes' of 'builtin.module' is 12 : i32, expected an i64 on the module (op_c4)}}
module attributes {op.resident_bytes = 12 : i32} {
}

// -----

// expected-error @+1 {{attribute 'op.candidates' of 'builtin.module' is ["a"], expected an array of #op.measurement on the module (op_c4)}}
module attributes {op.candidates = ["a"]} {
}

// -----

// expected-error @+1 {{measurement: candidates ["a"] with 0 at_edge_us, expected one for each string (measurement_c1)}}
module attributes {op.candidates = [#op.measurement<key = "k", module = "m", candidates = ["a"], at_edge_us = []>]} {
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{attribute 'op.why' is now part of op.kernel = #op.kernel_choice<kernel, why> (op_c1)}}
  %0 = op.fusion(%x) {family = "pointwise", op.why = "cheap"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    op.yield %a : tensor<4xf32>
  }
  return
}

// -----

// expected-error @+1 {{attribute 'op.routes' is now part of op.options = #op.options<routes> (op_c1)}}
module attributes {op.routes = {linear = ["native", "me"]}} {
}

// -----

// expected-error @+1 {{attribute 'op.strides' of argument #0 is neither 'op.name' with a string nor 'op.strides' with #op.dims (op_c2)}}
func.func private @f(tensor<4xf32> {op.strides = [1]})

// -----

// expected-error @+1 {{attribute 'op.alias' of result #0 is neither 'op.name' nor 'op.tie' with "input:NAME" or "state:NAME" nor 'op.alias' (op_c3)}}
func.func private @f() -> (tensor<4xf32> {op.alias = "y"})
