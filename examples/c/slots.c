// SPDX-License-Identifier: Apache-2.0
// Calls a model that is linked in, with a choice of kernels for each argument ("linear = onednn").
// The library has slots (docs/guides/artifacts.md, "Several kernels to choose from"):
//   straightline compile model.py --emit shared-lib -o libmodel.so --slots linear=native,onednn
//   cc slots.c -I<package>/include libmodel.so -L<package> -lstraightline_runtime -o slots
//   ./slots "linear = native" "linear = onednn"
// Inputs of fixed sizes and float32 alone, filled with ones.
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

static int failed(const sl_message* message) {
  fprintf(stderr, "%s\n", message->text);
  return 1;
}

/* Prints the first number of the first result. */
static int call(const sl_model* model, const char* choice, sl_message* message) {
  sl_model_tensor info = {.size = sizeof(info)};
  int64_t shape[SL_MAX_RANK], count = 1;
  if (sl_model_input(model, 0, 0, &info, message) != SL_OK) {
    return failed(message);
  }
  for (int32_t d = 0; d < info.rank; ++d) {
    shape[d] = info.shape[d].size;
    count *= shape[d];
  }
  float* ones = malloc((size_t)count * sizeof *ones);
  if (!ones) {
    return 1;
  }
  for (int64_t i = 0; i < count; ++i) {
    ones[i] = 1;
  }
  const sl_tensor input = {ones, shape, NULL, info.rank, info.dtype, 1, 0};
  sl_results* results = NULL;
  const int32_t status = sl_model_call(model, &input, 1, &results, message);
  free(ones);
  if (status != SL_OK) {
    return failed(message);
  }
  printf("%s: %.9g\n", choice, (double)*(const float*)sl_results_tensor(results, 0)->data);
  sl_results_release(results);
  return 0;
}

int main(int argc, char** argv) {
  sl_message message = {""};
  sl_model* model = NULL;
  if (sl_model_load_linked(&sl_model_model, NULL, &model, &message) != SL_OK) {
    return failed(&message);
  }
  int wrong = 0;
  for (int i = 1; i < argc && !wrong; ++i) {
    sl_model* chosen = NULL; /* over the same code and weights: making one packs nothing */
    wrong = sl_model_with_slots(model, argv[i], &chosen, &message) != SL_OK
                ? failed(&message)
                : call(chosen, argv[i], &message);
    sl_model_release(chosen);
  }
  sl_model_release(model);
  return wrong;
}
