// SPDX-License-Identifier: Apache-2.0
// fuzz_driver MODEL.sl COUNT SEED SCRATCH: loads COUNT damaged copies of a saved model, one after
// the other, each through the file SCRATCH, and calls those that load with zeros. Prints how many
// loaded and how many were refused. Without MODEL's damage (COUNT 0) it loads SCRATCH itself once.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "straightline/abi/model.h"

namespace {

/// 1: it loaded, 0: it was refused in words.
int tryOne(const char* path) {
  sl_message message{};
  sl_model* model = nullptr;
  if (sl_model_load(path, nullptr, &model, &message) != SL_OK) {
    if (!message.text[0]) {
      std::fprintf(stderr, "a refusal without words\n");
      std::abort();
    }
    return 0;
  }
  for (int32_t program = 0; program < sl_model_program_count(model); ++program) {
    std::vector<std::vector<char>> memory;
    std::vector<sl_model_tensor> infos(static_cast<size_t>(sl_model_input_count(model, program)));
    std::vector<std::vector<int64_t>> shapes;
    std::vector<sl_tensor> inputs;
    for (size_t i = 0; i < infos.size(); ++i) {
      infos[i].size = sizeof(infos[i]);
      sl_model_input(model, program, static_cast<int32_t>(i), &infos[i], &message);
      size_t bytes = infos[i].dtype.bits / 8;
      shapes.emplace_back();
      for (int32_t d = 0; d < infos[i].rank; ++d) {
        const sl_model_size& size = infos[i].shape[d];
        shapes.back().push_back(size.size >= 0 ? size.size : size.min);
        bytes *= static_cast<size_t>(shapes.back().back());
      }
      memory.emplace_back(bytes);
    }
    for (size_t i = 0; i < infos.size(); ++i) {
      inputs.push_back(
          {memory[i].data(), shapes[i].data(), nullptr, infos[i].rank, infos[i].dtype, 1, 0});
    }
    sl_results* results = nullptr;
    if (sl_model_call(model, inputs.data(), static_cast<int32_t>(inputs.size()), &results,
                      &message) == SL_OK) {
      sl_results_release(results);
    }
  }
  sl_model_release(model);
  return 1;
}

std::string damaged(const std::string& good, std::mt19937_64* random) {
  std::string bad = good;
  const auto below = [&](size_t n) { return static_cast<size_t>((*random)() % (n ? n : 1)); };
  // The directory, the manifest and its neighbours are at the end.
  const auto place = [&] {
    const size_t tail = std::min<size_t>(bad.size(), 8192);
    return below(2) ? below(bad.size()) : bad.size() - 1 - below(tail);
  };
  for (size_t times = 1 + below(6); times-- > 0 && !bad.empty();) {
    switch (below(7)) {
      case 0:
        bad[place()] ^= static_cast<char>(1 << below(8));
        break;
      case 1:
        bad[place()] = static_cast<char>((*random)());
        break;
      case 2:
        bad.resize(below(bad.size()));
        break;
      case 3:
        bad.insert(place(), std::string(1 + below(64), static_cast<char>((*random)())));
        break;
      case 4: {
        const size_t at = place();
        bad.erase(at, 1 + below(64));
        break;
      }
      case 5: {  // a number that is extreme
        const size_t at = place();
        for (size_t i = 0; i < 4 && at + i < bad.size(); ++i) {
          bad[at + i] = static_cast<char>(below(2) ? 0xff : 0);
        }
        break;
      }
      default: {  // a piece of it elsewhere
        const size_t from = place(), to = place(), bytes = 1 + below(256);
        const std::string piece = bad.substr(from, bytes);
        bad.replace(to, piece.size(), piece);
      }
    }
  }
  return bad;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::mt19937_64 random(std::strtoull(argv[3], nullptr, 10));
  const long count = std::atol(argv[2]);
  long loaded = count == 0 ? tryOne(argv[4]) : 0;
  for (long i = 0; i < count; ++i) {
    const std::string bad = damaged(good, &random);
    std::ofstream(argv[4], std::ios::binary | std::ios::trunc)
        .write(bad.data(), static_cast<std::streamsize>(bad.size()));
    loaded += tryOne(argv[4]);
  }
  std::printf("loaded %ld refused %ld\n", loaded, (count == 0 ? 1 : count) - loaded);
  return 0;
}
