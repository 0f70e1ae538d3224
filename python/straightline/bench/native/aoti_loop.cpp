// SPDX-License-Identifier: Apache-2.0
// Calls an AOTInductor package as a C++ program would: boxed_run of its loader. For the benchmark's
// row "from C++".
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

/// A tensor that the caller has, row-major.
struct sl_bench_tensor {
  void* data;
  const int64_t* sizes;
  int32_t rank;
  int32_t dtype;  ///< c10::ScalarType
};

static void write(char* message, size_t bytes, const char* text) {
  std::strncpy(message, text, bytes - 1);
  message[bytes - 1] = '\0';
}

static std::vector<at::Tensor> borrowed(const sl_bench_tensor* tensors, int32_t count) {
  std::vector<at::Tensor> made;
  for (int32_t i = 0; i < count; ++i) {
    const sl_bench_tensor& t = tensors[i];
    made.push_back(at::from_blob(t.data, at::IntArrayRef(t.sizes, static_cast<size_t>(t.rank)),
                                 at::TensorOptions().dtype(static_cast<at::ScalarType>(t.dtype))));
  }
  return made;
}

extern "C" void* sl_bench_aoti_open(const char* path, char* message, size_t bytes) {
  try {
    return new torch::inductor::AOTIModelPackageLoader(path);
  } catch (const std::exception& error) {
    write(message, bytes, error.what());
    return nullptr;
  }
}

/// Seconds that `calls` calls take, negative when one fails; the last results are copied into
/// `results`.
extern "C" double sl_bench_aoti_loop(void* loader, const sl_bench_tensor* inputs,
                                     int32_t input_count, const sl_bench_tensor* results,
                                     int32_t result_count, long calls, char* message,
                                     size_t bytes) {
  try {
    const c10::InferenceMode mode;
    auto* package = static_cast<torch::inductor::AOTIModelPackageLoader*>(loader);
    const std::vector<at::Tensor> given = borrowed(inputs, input_count);
    std::vector<at::Tensor> last;
    const auto start = std::chrono::steady_clock::now();
    for (long i = 0; i < calls; ++i) {
      std::vector<at::Tensor> stolen = given;
      last = package->boxed_run(std::move(stolen));
    }
    const double taken =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::vector<at::Tensor> places = borrowed(results, result_count);
    for (size_t i = 0; i < places.size() && i < last.size(); ++i) {
      places[i].copy_(last[i]);
    }
    return taken;
  } catch (const std::exception& error) {
    write(message, bytes, error.what());
    return -1.0;
  }
}
