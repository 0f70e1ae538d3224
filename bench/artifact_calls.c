// SPDX-License-Identifier: Apache-2.0
// artifact_calls MODEL.sl [wait]: prints microseconds as JSON: the load of a fresh process, its
// first call, the least and the median of calls into the same memory. With `wait` it stays until
// its input ends. For bench/artifacts.py.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <straightline_model.h>
#include <time.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}
static int by_value(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}
int main(int argc, char** argv) {
  sl_message message;
  sl_model* model = NULL;
  const double a = now();
  if (sl_model_load(argv[1], NULL, &model, &message)) {
    puts(message.text);
    return 1;
  }
  const double b = now();
  sl_model_tensor info = {.size = sizeof info};
  sl_model_input(model, 0, 0, &info, &message);
  int64_t shape[SL_MAX_RANK], n = 1;
  for (int d = 0; d < info.rank; ++d) {
    shape[d] = info.shape[d].size;
    n *= shape[d];
  }
  float* x = malloc((size_t)n * 4);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = (float)(i % 7) / 7;
  }
  const sl_tensor input = {x, shape, NULL, info.rank, info.dtype, 1, 0};
  sl_results* results = NULL;
  const double c = now();
  if (sl_model_call(model, &input, 1, &results, &message)) {
    puts(message.text);
    return 1;
  }
  const double d = now();
  const sl_tensor output = *sl_results_tensor(results, 0);
  enum { kMost = 4000 };
  static double taken[kMost];
  int count = 0;
  while (count < kMost && now() - d < 1.5e6) {
    const double begin = now();
    if (sl_model_run(model, &input, 1, &output, 1, &message)) {
      puts(message.text);
      return 1;
    }
    taken[count++] = now() - begin;
  }
  qsort(taken, (size_t)count, sizeof(double), by_value);
  printf("{\"load_us\": %.1f, \"first_us\": %.1f, \"least_us\": %.3f, \"median_us\": %.3f}\n",
         b - a, d - c, taken[0], taken[count / 2]);
  if (argc > 2) {
    fflush(stdout);
    getchar();
  }
  return 0;
}
