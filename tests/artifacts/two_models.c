// SPDX-License-Identifier: Apache-2.0
// Calls two linked models (first.h, second.h) with numbers 0 to 4 in turn and prints what they take
// and the first element of each result.
#include <stdio.h>

#include "first.h"
#include "second.h"

int main(void) {
  static float numbers[4096];
  for (int i = 0; i < 4096; ++i) {
    numbers[i] = (float)(i % 5);
  }
  const sl_linked_model* linked[] = {&sl_model_first, &sl_model_second};
  for (int i = 0; i < 2; ++i) {
    sl_message message = {""};
    sl_model* model = NULL;
    if (sl_model_load_linked(linked[i], NULL, &model, &message) != SL_OK) {
      printf("%s\n", message.text);
      return 1;
    }
    sl_model_tensor info = {.size = sizeof(info)};
    int64_t shape[SL_MAX_RANK];
    sl_model_input(model, 0, 0, &info, &message);
    for (int32_t d = 0; d < info.rank; ++d) {
      shape[d] = info.shape[d].size;
    }
    const sl_tensor input = {numbers, shape, NULL, info.rank, info.dtype, 1, 0};
    sl_results* results = NULL;
    if (sl_model_call(model, &input, 1, &results, &message) != SL_OK) {
      printf("%s\n", message.text);
      return 1;
    }
    printf("%s\n%.9g\n", sl_model_text(model),
           (double)*(const float*)sl_results_tensor(results, 0)->data);
    sl_results_release(results);
    sl_model_release(model);
  }
  return 0;
}
