// RUN: straightline-opt %s --split-input-file --lower-to-kernel | FileCheck %s

// All steps are one launch. A GRU has three gates, a bias of its own and no c: strides of what is not there are 0. Its sizes come from
// its operands, how it divides its work from place-on-cuda.
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @gru
  // CHECK: kernel.launch @gru_sequence_5x2x4(%arg0, %arg1, %arg2, %arg3) outs(%arg4, %arg5) {{.*}}op = "gru_sequence"{{.*}}cuda.recurrent_sequence
  // CHECK-NOT: kernel.launch
  // CHECK: schedule(<"recurrent_sequence", shape = {steps = 5, batch = 2, projectedStride = [24, 12], weightStride = 4, startStride = [4, 0],
  // CHECK-SAME: yStride = [8, 4, 1], endStride = [4, 0]}, tune = {gates = 3, hidden = 4, lanes = 0, blocks = 0, rows = 0, threads = 0,
  // CHECK-SAME: bias = 1, start = 1, reversed = 1, early = 1, relu = 0}>)
  func.func @gru(%p: tensor<5x2x12xf32> {op.name = "p"}, %w: tensor<12x4xf32> {op.name = "w"}, %b: tensor<4xf32> {op.name = "b"},
                 %h: tensor<2x4xf32> {op.name = "h"}) -> (tensor<5x2x4xf32> {op.name = "y"}, tensor<2x4xf32> {op.name = "hn"}) {
    %y, %hn = op.gru_sequence %p, %w bias %b start %h {reversed = true}
        : (tensor<5x2x12xf32>, tensor<12x4xf32>, tensor<4xf32>, tensor<2x4xf32>) -> (tensor<5x2x4xf32>, tensor<2x4xf32>)
    return %y, %hn : tensor<5x2x4xf32>, tensor<2x4xf32>
  }
}

// -----

// An LSTM from zeros; a weight that is a parameter is read before the kernel ahead has ended.
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @lstm
  // CHECK: kernel.launch @lstm_sequence_5x2x4(%arg0, %{{.*}}) outs(%arg1, %{{.*}}, %{{.*}}) {{.*}}op = "lstm_sequence"
  // CHECK: startStride = [0, 0], yStride = [8, 4, 1], endStride = [4, 4]}, tune = {gates = 4, hidden = 4,
  // CHECK-SAME: bias = 0, start = 0, reversed = 0, early = 1, relu = 0}>)
  func.func @lstm(%p: tensor<5x2x16xf32> {op.name = "p"}) -> (tensor<5x2x4xf32> {op.name = "y"}) {
    %w = op.parameter "w" : tensor<16x4xf32>
    %y, %h, %c = op.lstm_sequence %p, %w {reversed = false} : (tensor<5x2x16xf32>, tensor<16x4xf32>) -> (tensor<5x2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
    return %y : tensor<5x2x4xf32>
  }
}

// -----

// An RNN has one gate.
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @rnn
  // CHECK: kernel.launch @rnn_sequence_5x2x4(%arg0, %arg1, %arg2) outs(%arg3, %arg4) {{.*}}op = "rnn_sequence"
  // CHECK: startStride = [4, 0], yStride = [8, 4, 1], endStride = [4, 0]}, tune = {gates = 1, hidden = 4,
  // CHECK-SAME: bias = 0, start = 1, reversed = 0, early = 1, relu = 1}>)
  func.func @rnn(%p: tensor<5x2x4xf32> {op.name = "p"}, %w: tensor<4x4xf32> {op.name = "w"}, %h: tensor<2x4xf32> {op.name = "h"})
      -> (tensor<5x2x4xf32> {op.name = "y"}, tensor<2x4xf32> {op.name = "hn"}) {
    %y, %hn = op.rnn_sequence %p, %w start %h {nonlinearity = "relu", reversed = false}
        : (tensor<5x2x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>) -> (tensor<5x2x4xf32>, tensor<2x4xf32>)
    return %y, %hn : tensor<5x2x4xf32>, tensor<2x4xf32>
  }
}

// -----

// A weight that the run itself overwrites is read when all kernels ahead have ended.
module attributes {op.target = #kernel.target<"cuda", "sm_90">} {
  // CHECK-LABEL: kernel.program @rnn_of_a_written_weight
  // CHECK: tune = {gates = 1, {{.*}}early = 0, relu = 1}>)
  func.func @rnn_of_a_written_weight(%p: tensor<5x2x4xf32> {op.name = "p"}, %w: tensor<4x4xf32> {op.name = "w"}, %h: tensor<2x4xf32> {op.name = "h"})
      -> (tensor<5x2x4xf32> {op.name = "y"}, tensor<4x4xf32> {op.name = "new", op.tie = "input:w"}) {
    %y, %hn = op.rnn_sequence %p, %w start %h {nonlinearity = "relu", reversed = false}
        : (tensor<5x2x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>) -> (tensor<5x2x4xf32>, tensor<2x4xf32>)
    %new = op.fusion(%w) {family = "pointwise"} : (tensor<4x4xf32>) -> tensor<4x4xf32> {
    ^bb0(%x: tensor<4x4xf32>):
      %0 = op.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
      op.yield %0 : tensor<4x4xf32>
    }
    return %y, %new : tensor<5x2x4xf32>, tensor<4x4xf32>
  }
}
