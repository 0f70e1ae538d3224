// SPDX-License-Identifier: Apache-2.0
// examples/c/slots.c in C++: calls a model that is linked in, with a choice of kernels for each
// argument ("linear = onednn"):
//   c++ -std=c++20 slots.cpp -I<package>/include libmodel.so -L<package> -lstraightline_runtime
#include <straightline_model.hpp>

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <vector>

#include "model.h"

int main(int argc, char** argv) {
  using straightline::Model;
  using straightline::Tensor;
  try {
    const Model model = Model::linked(sl_model_model);
    std::vector<int64_t> shape;
    const auto input = model.inputs().at(0);
    for (const straightline::ModelSize& size : input.shape) {
      shape.push_back(size.size);
    }
    const Tensor ones = Tensor::empty(input.dtype, shape);
    auto* const data = static_cast<float*>(ones.data());
    int64_t count = 1;
    for (const int64_t size : shape) {
      count *= size;
    }
    std::fill_n(data, count, 1.0F);
    for (int i = 1; i < argc; ++i) {
      const Model chosen = model.withSlots(argv[i]);  // over the same code and weights
      const std::vector<Tensor> results = chosen({ones});
      std::cout << argv[i] << ": " << std::setprecision(9)
                << *static_cast<const float*>(results.at(0).data()) << "\n";
    }
    return 0;
  } catch (const straightline::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
