// SPDX-License-Identifier: Apache-2.0
// attention against a double reference: masks, causal, grouped heads, rows with nothing kept, NaN.
#include "straightline/kernels/attention.h"

#include "straightline/kernels/kernel_testing.h"

namespace sl::testing {
namespace {

struct Heads {
  int64_t b, h, hk, s, t, d;
  int64_t maskImages = 0;
};

/// Bool masks keep with probability 0.7; the first row of every head keeps nothing.
template <class M>
std::vector<char> randomMask(const Heads& p) {
  std::vector<char> bytes(size_t(p.b * p.s * p.t) * sizeof(M));
  for (int64_t i = 0; i < p.b * p.s * p.t; ++i) {
    const bool keep = i / p.t % p.s != 0 && pick(0, 9) < 7;
    M value;
    if constexpr (std::is_same_v<M, bool>) {
      value = keep;
    } else {
      value = keep ? M(double(pick(-100, 100)) / 50) : -std::numeric_limits<M>::infinity();
    }
    std::memcpy(bytes.data() + size_t(i) * sizeof(M), &value, sizeof(M));
  }
  return bytes;
}

/// What one query attends to, in double: out[d], or NaN when a kept score is NaN. Zeros where none
/// is kept; EmptyIsNan: NaN.
template <int MaskKind, bool Causal, bool EmptyIsNan, class M>
std::vector<double> attend(const Heads& p, const float* q, const float* k, const float* v,
                           const M* mask, int64_t row, double scale) {
  std::vector<double> score(size_t(p.t), -std::numeric_limits<double>::infinity());
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t t = 0; t < p.t; ++t) {
    double x = 0;
    for (int64_t i = 0; i < p.d; ++i) {
      x += double(q[i]) * double(k[t * p.d + i]);
    }
    x *= scale;
    if constexpr (MaskKind == 1) {
      x = mask[t] ? x : -std::numeric_limits<double>::infinity();
    } else if constexpr (MaskKind == 2) {
      x += double(mask[t]);
    }
    if (Causal && t > row) {
      x = -std::numeric_limits<double>::infinity();
    }
    score[size_t(t)] = x;
    top = x > top ? x : top;
  }
  std::vector<double> out(size_t(p.d), 0.0);
  if (std::isinf(top) && top < 0) {
    bool nan = false;
    for (double x : score) {
      nan = nan || std::isnan(x);
    }
    if (!nan) {  // nothing kept: 0, as torch, or NaN, as a softmax by itself
      return EmptyIsNan ? std::vector<double>(size_t(p.d), std::nan("")) : out;
    }
  }
  double sum = 0;
  for (int64_t t = 0; t < p.t; ++t) {
    const double weight = std::exp(score[size_t(t)] - top);
    sum += weight;
    for (int64_t i = 0; i < p.d; ++i) {
      out[size_t(i)] += weight * double(v[t * p.d + i]);
    }
  }
  for (double& x : out) {
    x /= sum;
  }
  return out;
}

/// Takes the keys from `split` on of every head out of `keys`, which is left without them (their
/// places are spoilt).
std::vector<float> behind(std::vector<float>& keys, const Heads& p, int64_t split) {
  std::vector<float> part;
  for (int64_t head = 0; head < p.b * p.hk; ++head) {
    const auto from = keys.begin() + (head * p.t + split) * p.d;
    part.insert(part.end(), from, from + (p.t - split) * p.d);
    std::fill(from, from + (p.t - split) * p.d, std::nanf(""));
  }
  return part;
}

template <AttentionTune Tune, class M>
void runAttention(const Heads& p, int threads, bool poison = false) {
  const std::string where = "attention b=" + std::to_string(p.b) + " h=" + std::to_string(p.h) +
                            " hk=" + std::to_string(p.hk) + " s=" + std::to_string(p.s) +
                            " t=" + std::to_string(p.t) + " d=" + std::to_string(p.d) +
                            " threads=" + std::to_string(threads) +
                            " parts=" + std::to_string(Tune.parts);
  const std::vector<float> q = randomVector<float>(p.b * p.h * p.s * p.d, -2, 2);
  std::vector<float> k = randomVector<float>(p.b * p.hk * p.t * p.d, -2, 2);
  const std::vector<float> v = randomVector<float>(p.b * p.hk * p.t * p.d);
  if (poison) {
    k[0] = std::nanf("");  // key 0 of head 0
  }
  const std::vector<char> bytes = randomMask<M>(p);
  const M* mask = reinterpret_cast<const M*>(bytes.data());
  // Output as [b][s][h][d], as the projection after it reads it.
  const int64_t outStride[3] = {p.s * p.h * p.d, p.d, p.h * p.d};
  Guarded<float> y(p.b * p.h * p.s * p.d);
  Workspace work(attentionWorkspace(p.d, Tune, threads));
  const int64_t split = Tune.parts == 1 ? p.t : pick(0, int(p.t));
  std::vector<float> k1 = k, v1 = v;
  const std::vector<float> k2 = behind(k1, p, split), v2 = behind(v1, p, split);
  const int64_t stride2[3] = {p.hk * (p.t - split) * p.d, (p.t - split) * p.d, p.d};
  const AttentionShape shape{.b = p.b,
                             .h = p.h,
                             .hk = p.hk,
                             .s = p.s,
                             .t = p.t,
                             .d = p.d,
                             .scale = 0.3,
                             .qStride = {p.h * p.s * p.d, p.s * p.d, p.d},
                             .kStride = {p.hk * p.t * p.d, p.t * p.d, p.d},
                             .vStride = {p.hk * p.t * p.d, p.t * p.d, p.d},
                             .outStride = {outStride[0], outStride[1], outStride[2]},
                             .maskStride = {p.s * p.t, 0, p.t, 1},
                             .maskImages = p.maskImages,
                             .split = split,
                             .k2Stride = {stride2[0], stride2[1], stride2[2]},
                             .v2Stride = {stride2[0], stride2[1], stride2[2]},
                             .epilogueStride = {}};
  runTeam(threads, [&](sl_ctx* ctx, sl_team team) {
    const auto epilogue = [](auto acc, auto& out) { out = acc * 2.0f; };
    const float *qp = q.data(), *kp = k1.data(), *vp = v1.data(), *k2p = k2.data(),
                *v2p = v2.data();
    if constexpr (Tune.mask != 0 && Tune.parts == 2) {
      attention<Tune>(ctx, team, shape, epilogue, qp, kp, vp, k2p, v2p, mask, y.data(),
                      work.data());
    } else if constexpr (Tune.mask != 0) {
      attention<Tune>(ctx, team, shape, epilogue, qp, kp, vp, mask, y.data(), work.data());
    } else if constexpr (Tune.parts == 2) {
      attention<Tune>(ctx, team, shape, epilogue, qp, kp, vp, k2p, v2p, y.data(), work.data());
    } else {
      attention<Tune>(ctx, team, shape, epilogue, qp, kp, vp, y.data(), work.data());
    }
  });
  constexpr int kKind = Tune.mask == 0 ? 0 : std::is_same_v<M, bool> ? 1 : 2;
  for (int64_t i = 0; i < p.b * p.h * p.s; ++i) {
    const int64_t row = i % p.s, head = i / p.s % p.h, image = i / p.s / p.h;
    const int64_t kv = (image * p.hk + head / (p.h / p.hk)) * p.t * p.d;
    const int64_t maskImage = p.maskImages != 0 ? image % p.maskImages : image;
    const std::vector<double> expected = attend<kKind, Tune.causal != 0, Tune.nan != 0>(
        p, q.data() + i * p.d, k.data() + kv, v.data() + kv, mask + (maskImage * p.s + row) * p.t,
        row, 0.3);
    for (int64_t j = 0; j < p.d; ++j) {
      if (!y.expect(image * outStride[0] + head * outStride[1] + row * outStride[2] + j,
                    2 * expected[size_t(j)], 6e-6, where)) {
        return;
      }
    }
  }
  y.expectRestUntouched(where);
  work.expectIntact(where);
}

template <AttentionTune Tune, class M>
void forManyHeads() {
  for (int64_t s : {1, 2, 7, 16, 50}) {
    for (int64_t t : {1, 5, 16, 33, 70}) {
      const int64_t hk = pick(1, 3);
      runAttention<Tune, M>(Heads{.b = pick(1, 2),
                                  .h = hk * pick(1, 2),
                                  .hk = hk,
                                  .s = s,
                                  .t = t,
                                  .d = pick(0, 1) == 0 ? 16 * pick(1, 4) : pick(1, 40)},
                            int(pick(1, 3)));
    }
  }
}

TEST(Attention, Plain) {
  forManyHeads<AttentionTune{.mr = 6, .nr = 16, .rows = 12, .keys = 32, .mask = 0, .causal = 0},
               bool>();
  // the tile of two multiply-adds of 64 bytes a cycle, over all queries of a head
  forManyHeads<AttentionTune{.mr = 10, .nr = 32, .rows = 200, .keys = 64, .mask = 0, .causal = 0},
               bool>();
}

TEST(Attention, FewQueries) {
  // all units have few, as many as there are queries (the unit is cut at the end of a head)
  forManyHeads<AttentionTune{.mr = 1, .nr = 16, .rows = 3, .keys = 32, .few = 3}, bool>();
  forManyHeads<AttentionTune{.mr = 1, .nr = 16, .rows = 1, .keys = 16, .few = 1, .mask = 1},
               bool>();
  // a call decides
  forManyHeads<AttentionTune{.mr = 6, .nr = 16, .rows = 12, .keys = 32, .few = 8, .causal = 1},
               bool>();
  forManyHeads<
      AttentionTune{
          .mr = 2, .nr = 32, .rows = 4, .keys = 64, .few = 2, .mask = 1, .causal = 0, .parts = 2},
      float>();
}

TEST(Attention, Causal) {
  forManyHeads<AttentionTune{.mr = 4, .nr = 16, .rows = 16, .keys = 16, .mask = 0, .causal = 1},
               bool>();
}

TEST(Attention, BoolMask) {
  forManyHeads<AttentionTune{.mr = 2, .nr = 32, .rows = 8, .keys = 64, .mask = 1, .causal = 0},
               bool>();
}

TEST(Attention, AdditiveMaskAndCausal) {
  forManyHeads<AttentionTune{.mr = 6, .nr = 16, .rows = 48, .keys = 32, .mask = 1, .causal = 1},
               float>();
}

TEST(Attention, InTwoParts) {
  forManyHeads<AttentionTune{.mr = 2, .nr = 16, .rows = 4, .keys = 32, .mask = 0, .parts = 2},
               bool>();
  forManyHeads<AttentionTune{
                   .mr = 4, .nr = 16, .rows = 8, .keys = 16, .mask = 1, .causal = 1, .parts = 2},
               float>();
}

TEST(Attention, MasksByTurnsAndNanWhereTheyKeepNothing) {
  runAttention<AttentionTune{.mr = 4, .nr = 16, .rows = 8, .keys = 16, .mask = 1, .nan = 1}, bool>(
      Heads{.b = 6, .h = 2, .hk = 2, .s = 9, .t = 20, .d = 16, .maskImages = 3}, 2);
  runAttention<AttentionTune{.mr = 4, .nr = 16, .rows = 8, .keys = 16, .mask = 1}, float>(
      Heads{.b = 4, .h = 2, .hk = 1, .s = 5, .t = 33, .d = 24, .maskImages = 2}, 3);
}

// Rows lie `columns` + 3 apart with NaN between them; the last element of B is the vector's last.
TEST(Attention, PanelsAreZeroBeyondTheirColumns) {
  constexpr int kNr = 32;
  for (int64_t columns : {1, 5, 16, 18, 31, 32}) {
    for (int64_t k : {1, 2, 16, 19, 40}) {
      for (const bool isTurned : {false, true}) {
        const int64_t rows = isTurned ? columns : k, length = isTurned ? k : columns;
        const int64_t stride = length + 3;
        std::vector<float> b(size_t((rows - 1) * stride + length), std::nanf(""));
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < length; ++i) {
            b[size_t(r * stride + i)] = float(r * 100 + i);
          }
        }
        const int64_t bRow = isTurned ? 1 : stride, bCol = isTurned ? stride : 1;
        std::vector<float> packed(size_t(k * kNr), std::nanf(""));
        packPanel<kNr>(b.data(), bRow, bCol, k, columns, packed.data());
        for (int64_t i = 0; i < k; ++i) {
          for (int64_t j = 0; j < kNr; ++j) {
            const float expected = j < columns ? b[size_t(i * bRow + j * bCol)] : 0.0f;
            ASSERT_EQ(packed[size_t(i * kNr + j)], expected)
                << columns << " columns, row " << i << " of " << k << ", column " << j
                << (isTurned ? ", turned" : "");
          }
        }
      }
    }
  }
}

TEST(Attention, NoKeysGiveZeros) {
  runAttention<AttentionTune{.mr = 4, .nr = 16, .rows = 8, .keys = 16, .mask = 0, .causal = 0},
               bool>(Heads{.b = 1, .h = 2, .hk = 2, .s = 9, .t = 0, .d = 16}, 2);
}

TEST(Attention, NanInAKeyReachesTheQueriesThatSeeIt) {
  runAttention<AttentionTune{.mr = 4, .nr = 16, .rows = 8, .keys = 16, .mask = 0, .causal = 1},
               bool>(Heads{.b = 1, .h = 2, .hk = 2, .s = 9, .t = 20, .d = 16}, 2, true);
}

}  // namespace
}  // namespace sl::testing
