// SPDX-License-Identifier: Apache-2.0
// run MODEL.sl: loads a saved model, says what it takes, and calls it with zeros.
#include <stdio.h>
#include <stdlib.h>
#include <straightline_model.h>

/// An input of zeros; named sizes are as small as they may be.
static sl_tensor zeros(const sl_model_tensor* info, int64_t* shape) {
  int64_t elements = 1;
  for (int32_t d = 0; d < info->rank; ++d) {
    shape[d] = info->shape[d].size >= 0 ? info->shape[d].size : info->shape[d].min;
    elements *= shape[d];
  }
  const size_t bytes = (size_t)elements * (info->dtype.bits / 8);
  sl_tensor tensor = {calloc(bytes ? bytes : 1, 1), shape, NULL, info->rank, info->dtype, 1, 0};
  return tensor;
}

int main(int argc, char** argv) {
  sl_message message = {""};
  sl_model* model = NULL;
  if (argc != 2 || sl_model_load(argv[1], NULL, &model, &message) != SL_OK) {
    fprintf(stderr, "run: %s\n", argc == 2 ? message.text : "usage: run MODEL.sl");
    return 1;
  }
  printf("%s\n", sl_model_text(model));
  enum { kMost = 16 };
  sl_tensor inputs[kMost];
  int64_t shapes[kMost][SL_MAX_RANK];
  const int32_t count = sl_model_input_count(model, 0);
  for (int32_t i = 0; i < count && i < kMost; ++i) {
    sl_model_tensor info = {.size = sizeof(info)};
    sl_model_input(model, 0, i, &info, &message);
    inputs[i] = zeros(&info, shapes[i]);
  }
  sl_results* results = NULL;
  const int32_t status =
      count <= kMost ? sl_model_call(model, inputs, count, &results, &message) : SL_UNSUPPORTED;
  if (status == SL_OK) {
    for (int32_t i = 0; i < sl_results_count(results); ++i) {
      const sl_tensor* result = sl_results_tensor(results, i);
      printf("result %d: rank %d", (int)i, (int)result->rank);
      if (result->dtype.code == 2 && result->dtype.bits == 32) {
        printf(", first element %g", (double)*(const float*)result->data);
      }
      printf("\n");
    }
  } else {
    fprintf(stderr, "run: %s\n", message.text);
  }
  for (int32_t i = 0; i < count && i < kMost; ++i) {
    free(inputs[i].data);
  }
  sl_results_release(results);
  sl_model_release(model);
  return status == SL_OK ? 0 : 1;
}
