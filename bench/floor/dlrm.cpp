// SPDX-License-Identifier: Apache-2.0
// Dense features through two layers, one row of each of FLOOR_TABLES tables, the products of all
// pairs, three layers: one row.
#define FLOOR_ALONE
#include "floor.h"

using namespace floor_code;

static constexpr int kDense = 13, kDim = 32, kWide = 64, kTables = FLOOR_TABLES,
                     kVectorsOf = kTables + 1;
static constexpr int kPairs = kVectorsOf * (kVectorsOf - 1) / 2, kTop = kDim + kPairs;
static constexpr int kColumns = 16;  // the vectors' transpose, padded
static_assert(kVectorsOf == 9 && kTop % 4 == 0);

struct Linear {
  const float* weights;
  const float* bias;
};
static Linear bottom[2], top[2], last;
static const float* tables[kTables];

static void prepare(const float* const* p) {  // pairs, bottom, tables, top
  bottom[0] = {packed(p[1], kWide, kDense, kWide), p[2]};
  bottom[1] = {packed(p[3], kDim, kWide, kDim), p[4]};
  for (int i = 0; i < kTables; ++i) {
    tables[i] = p[5 + i];
  }
  top[0] = {packed(p[5 + kTables], kWide, kTop, kWide), p[6 + kTables]};
  top[1] = {packed(p[7 + kTables], kDim, kWide, kDim), p[8 + kTables]};
  last = {p[9 + kTables], p[10 + kTables]};
}

template <int kColumnsOf, int kSplit, int kDepth>
static __attribute__((noinline)) void layer(const float* x, Linear linear, float* y) {
  tile<1, kColumnsOf / kLanes, kSplit, kDepth>(x, 0, linear.weights, kColumnsOf, linear.bias, y, 0,
                                               [](vec v, const float*) { return relu(v); });
}

static __attribute__((noinline)) void run(const void* const* inputs, void* const* outputs, int) {
  const auto* categories = static_cast<const int64_t*>(inputs[1]);
  alignas(64) float wide[kWide], joined[kTop], vectors[kVectorsOf][kDim],
      turned[kDim][kColumns] = {};
  alignas(64) float products[kVectorsOf][kColumns];
  layer<kWide, 1, kDense>(static_cast<const float*>(inputs[0]), bottom[0], wide);
  layer<kDim, 4, kWide>(wide, bottom[1], vectors[0]);
  for (int i = 0; i < kTables; ++i) {
    std::memcpy(vectors[i + 1], tables[i] + categories[i] * kDim, sizeof(vectors[0]));
  }
  for (int i = 0; i < kVectorsOf; ++i) {
    for (int k = 0; k < kDim; ++k) {
      turned[k][i] = vectors[i][k];
    }
  }
  for (int i = 0; i < kVectorsOf; i += 3) {
    tile<3, kColumns / kLanes, 1, kDim>(vectors[i], kDim, turned[0], kColumns, nullptr, products[i],
                                        kColumns, [](vec v, const float*) { return v; });
  }
  std::memcpy(joined, vectors[0], sizeof(vectors[0]));
  float* at = joined + kDim;
  for (int i = 1; i < kVectorsOf; ++i) {
    for (int j = 0; j < i; ++j) {
      *at++ = products[i][j];
    }
  }
  alignas(64) float narrow[kDim];
  layer<kWide, 1, kTop>(joined, top[0], wide);
  layer<kDim, 4, kWide>(wide, top[1], narrow);
  vec total{};
  for (int i = 0; i < kDim; i += kLanes) {
    total += load(narrow + i) * load(last.weights + i);
  }
  *static_cast<float*>(outputs[0]) = 1.0f / (1.0f + std::exp(-(sum(total) + last.bias[0])));
}

FLOOR_EXPORTS
