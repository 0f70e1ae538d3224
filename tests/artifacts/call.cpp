// SPDX-License-Identifier: Apache-2.0
// call FOLDER THREADS [SLOTS]: calls FOLDER/m.sl by straightline_model.hpp with the inputs
// FOLDER/in0, FOLDER/in1, ... (raw, row-major, of the sizes in FOLDER/shapes, a line each) and
// writes FOLDER/out0, ... SLOTS ("linear = onednn") are chosen. Results made by the model, results
// written into memory of the caller and results of THREADS threads at once must be the same bytes.
// Status 1 with words otherwise.
#include <straightline_model.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <thread>

namespace {

using straightline::Model;
using straightline::Tensor;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

int64_t bytesOf(const Tensor& tensor) {
  int64_t last = 0;
  for (size_t d = 0; d < tensor.shape().size(); ++d) {
    if (tensor.shape()[d] == 0) {
      return 0;
    }
    last += (tensor.shape()[d] - 1) * tensor.strides()[d];
  }
  return (last + 1) * straightline::sizeBytes(tensor.dtype());
}

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (bytesOf(a[i]) != 0 &&
        std::memcmp(a[i].data(), b[i].data(), static_cast<size_t>(bytesOf(a[i]))) != 0) {
      return false;
    }
  }
  return a.size() == b.size();
}

int run(const std::string& folder, int threads, const char* slots) {
  const Model loaded = Model::load(folder + "/m.sl", {.verify = true});
  const Model model = slots ? loaded.withSlots(slots) : Model::load(folder + "/m.sl");
  std::cout << model.text() << "\n";
  std::vector<std::string> data;
  std::vector<Tensor> inputs;
  std::istringstream lines(read(folder + "/shapes"));
  const auto infos = model.inputs();
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    data.push_back(read(folder + "/in" + std::to_string(data.size())));
    const std::vector<int64_t> shape{std::istream_iterator<int64_t>(words), {}};
    inputs.push_back(Tensor::empty(infos.at(inputs.size()).dtype, shape));
    std::memcpy(inputs.back().data(), data.back().data(), data.back().size());
  }
  for (const straightline::ModelTensor& output : model.outputs()) {
    std::cout << "output";
    for (const straightline::ModelSize& size : output.shape) {
      std::cout << " [" << (size.size >= 0 ? std::to_string(size.size) : size.text) << "]";
    }
    std::cout << "\n";
  }
  const std::vector<Tensor> results = model(inputs);
  for (size_t i = 0; i < results.size(); ++i) {
    std::ofstream(folder + "/out" + std::to_string(i), std::ios::binary)
        .write(static_cast<const char*>(results[i].data()), bytesOf(results[i]));
  }
  std::atomic<int> wrong{0};
  const auto again = [&] {
    std::vector<Tensor> outputs;
    for (const Tensor& result : results) {
      auto memory = Tensor::empty(result.dtype(), {std::max<int64_t>(bytesOf(result), 1) /
                                                   straightline::sizeBytes(result.dtype())});
      outputs.push_back(
          Tensor::borrow(memory.data(), result.dtype(), result.shape(), result.strides(), false));
      static thread_local std::vector<Tensor> kept;
      kept.push_back(memory);
    }
    for (int i = 0; i < 20; ++i) {
      model(inputs, outputs);
      wrong += same(results, outputs) && same(results, model(inputs)) ? 0 : 1;
    }
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < threads; ++i) {
    callers.emplace_back(again);
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  if (wrong != 0) {
    std::cerr << wrong << " calls gave other bytes\n";
    return 1;
  }
  try {
    model({});
    std::cerr << "no inputs were taken\n";
    return 1;
  } catch (const straightline::UserError& error) {
    std::cout << "refused: " << error.what() << "\n";
  }
  if (std::ifstream(folder + "/other.safetensors")) {
    const Model other = model.withParameters(folder + "/other.safetensors");
    const std::vector<Tensor> changed = other(inputs);
    std::ofstream(folder + "/other0", std::ios::binary)
        .write(static_cast<const char*>(changed[0].data()), bytesOf(changed[0]));
    if (!same(results, model(inputs))) {
      std::cerr << "the first model changed\n";
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return argc == 3 || argc == 4 ? run(argv[1], std::atoi(argv[2]), argc == 4 ? argv[3] : nullptr)
                                  : 2;
  } catch (const straightline::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
