// RUN: straightline-opt %s --decompose-ops --split-input-file --verify-diagnostics

func.func @adaptive(%x: tensor<2x3x7x7xf32>) -> tensor<2x3x2x2xf32> {
  // expected-error @+1 {{adaptive_avg_pool2d of 'tensor<2x3x7x7xf32>' to [2, 2]; an output that divides static extents, or 1 x 1, is supported}}
  %y = op.adaptive_avg_pool2d %x {output_size = array<i64: 2, 2>} : (tensor<2x3x7x7xf32>) -> tensor<2x3x2x2xf32>
  return %y : tensor<2x3x2x2xf32>
}

// -----

func.func @lstm(%x: tensor<7x2x3xf32>, %h: tensor<1x2x?xf32, #op.dims<[1, 2, h]>>,
                %wi: tensor<?x3xf32, #op.dims<[h * 4, 3]>>, %wh: tensor<?x?xf32, #op.dims<[h * 4, h]>>)
    -> tensor<7x2x?xf32, #op.dims<[7, 2, h]>> {
  // expected-error @+1 {{lstm with the hidden state}}
  %y, %hn, %cn = op.lstm %x, %h, %h, %wi, %wh
      {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false}
      : (tensor<7x2x3xf32>, tensor<1x2x?xf32, #op.dims<[1, 2, h]>>, tensor<1x2x?xf32, #op.dims<[1, 2, h]>>,
         tensor<?x3xf32, #op.dims<[h * 4, 3]>>, tensor<?x?xf32, #op.dims<[h * 4, h]>>)
      -> (tensor<7x2x?xf32, #op.dims<[7, 2, h]>>, tensor<1x2x?xf32, #op.dims<[1, 2, h]>>,
          tensor<1x2x?xf32, #op.dims<[1, 2, h]>>)
  return %y : tensor<7x2x?xf32, #op.dims<[7, 2, h]>>
}

// -----

func.func @gru(%x: tensor<7x2x3xf32>, %h: tensor<1x2x?xf32, #op.dims<[1, 2, h]>>,
               %wi: tensor<?x3xf32, #op.dims<[h * 3, 3]>>, %wh: tensor<?x?xf32, #op.dims<[h * 3, h]>>)
    -> tensor<7x2x?xf32, #op.dims<[7, 2, h]>> {
  // expected-error @+1 {{gru with the hidden state}}
  %y, %hn = op.gru %x, %h, %wi, %wh
      {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false}
      : (tensor<7x2x3xf32>, tensor<1x2x?xf32, #op.dims<[1, 2, h]>>, tensor<?x3xf32, #op.dims<[h * 3, 3]>>,
         tensor<?x?xf32, #op.dims<[h * 3, h]>>) -> (tensor<7x2x?xf32, #op.dims<[7, 2, h]>>, tensor<1x2x?xf32, #op.dims<[1, 2, h]>>)
  return %y : tensor<7x2x?xf32, #op.dims<[7, 2, h]>>
}

// -----

func.func @rnn(%x: tensor<7x2x3xf32>, %h: tensor<1x2x?xf32, #op.dims<[1, 2, h]>>,
               %wi: tensor<?x3xf32, #op.dims<[h, 3]>>, %wh: tensor<?x?xf32, #op.dims<[h, h]>>)
    -> tensor<7x2x?xf32, #op.dims<[7, 2, h]>> {
  // expected-error @+1 {{rnn with the hidden state}}
  %y, %hn = op.rnn %x, %h, %wi, %wh
      {num_layers = 1 : i64, bidirectional = false, batch_first = false, has_biases = false, nonlinearity = "tanh"}
      : (tensor<7x2x3xf32>, tensor<1x2x?xf32, #op.dims<[1, 2, h]>>, tensor<?x3xf32, #op.dims<[h, 3]>>,
         tensor<?x?xf32, #op.dims<[h, h]>>) -> (tensor<7x2x?xf32, #op.dims<[7, 2, h]>>, tensor<1x2x?xf32, #op.dims<[1, 2, h]>>)
  return %y : tensor<7x2x?xf32, #op.dims<[7, 2, h]>>
}
