// SPDX-License-Identifier: Apache-2.0
// cuda.convolution: every convolution. A product of tiles, gathered from the image, where a group
// has channels enough; depthwise by parts of rows; a thread an output element otherwise.
#include <cstdio>

#include "kernels.h"
#include "tuning.h"

namespace straightline::cuda {
namespace {

using sl::native::attribute;

/// Fewer output channels of a group than these would leave most of a tile empty.
constexpr int64_t kFewestColumns = 8;

/// A depthwise convolution by lines: most taps of a row, and most inputs that a thread holds.
constexpr int64_t kMostTaps = 32;
constexpr int64_t kLongestLine = 40;
constexpr int64_t kMostPixels = 14;
/// How many pixels a thread makes, and how many threads a processor should have for that. On an
/// H100 7x7 over 16 x 56 x 56 x 96 takes 34 us by fours and 27 by fourteens, over 1 x 14 x 14 x 384
/// 5.5 and 5.7 (docs/performance/cuda.md).
struct PixelChoice {
  int64_t pixels, fewestThreads;
};
/// Up to so many pixels a thread, sharing rows of taps is faster.
constexpr int64_t kFewPixels = 4;
constexpr PixelChoice kPixelChoices[] = {{14, 512}, {7, 512}, {4, 128}, {2, 128}};

/// Height and width of an image, and its pixels, where they are not known.
constexpr int64_t kTypicalSide = 32, kTypicalPixels = kTypicalSide * kTypicalSide;

/// The problem as a product.
struct Product {
  int64_t groups, m, n, k;
  bool isTiled, isByLines, hasTf32;
  int64_t bytes, tileBytes;
  Target target;

  explicit Product(const sl_problem* p)
      : groups(attribute(p, "groups", 1)),
        bytes(operandOf(p, 0).dtype.bits / 8),
        target(targetOf(p)) {
    const int64_t batch = attribute(p, "n", kUnknown);
    const int64_t ho = attribute(p, "ho", 1), wo = attribute(p, "wo", 1);
    m = batch == kUnknown || ho == kUnknown || wo == kUnknown ? kUnknown : batch * ho * wo;
    n = attribute(p, "k", 1) / groups;
    k = attribute(p, "c", 1) / groups * attribute(p, "kh", 1) * attribute(p, "kw", 1);
    isTiled = attribute(p, "transposed", 0) == 0 && n >= kFewestColumns;
    isByLines = !isTiled && attribute(p, "transposed", 0) == 0 && attribute(p, "c", 1) == groups &&
                attribute(p, "dilation_w", 1) == 1 && attribute(p, "kw", 1) <= kMostTaps;
    hasTf32 = isTiled && bytes == 4 && attribute(p, "tf32", 0) != 0;
    tileBytes = cuda::tileBytes(operandOf(p, 0).dtype, hasTf32, target);
  }
};

int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  if (!sl::native::needsOperands(p, 2, reason, bytes) || !acceptsFloats(p, 2, reason, bytes)) {
    return 0;
  }
  for (const char* name : {"c", "k", "kh", "kw"}) {
    if (attribute(p, name, 1) == kUnknown) {
      return sl::native::refuse(reason, bytes,
                                "%s is dynamic; only the batch and image sizes may be", name);
    }
  }
  return 1;
}

/// Fits what was measured on an H200 (bench/results/h200_0d1294c.json), most of it within
/// a third: a step of the reduction takes longer than one of a product, because its rows are
/// gathered.
double cost(const sl_problem* p) {
  const Product c(p);
  if (c.isByLines) {
    return kLaunchUs + 1.0 +
           2e-7 * double(known(c.m, kTypicalPixels)) * double(c.n * c.groups) * double(c.k);
  }
  if (!c.isTiled) {
    return kLaunchUs +
           1e-6 * double(known(c.m, kTypicalPixels)) * double(c.n * c.groups) * double(c.k);
  }
  constexpr int64_t kFewChannels = 4;
  // most of what is gathered is zeros
  const bool hasFewChannels = c.groups == 1 && attribute(p, "c", 1) <= kFewChannels;
  const double times = c.hasTf32          ? (hasFewChannels ? 5.2 : 2.6)
                       : c.tileBytes == 2 ? (hasFewChannels ? 6.5 : 1.7)
                                          : (hasFewChannels ? 2.5 : 1.8);
  const double pixels =
      double(known(attribute(p, "n", 1), 8)) *
      double(known(attribute(p, "h", 1), kTypicalSide) * known(attribute(p, "w", 1), kTypicalSide));
  const double moved = pixels * double(attribute(p, "c", 1)) +
                       double(known(c.m, kTypicalPixels)) * double(c.n * c.groups);
  return kLaunchUs + 0.5 +
         times * (tileMicroseconds(c.groups, c.m, c.n, c.k, c.tileBytes, c.target) - kLaunchUs) +
         moved * double(c.bytes) / 1.8e6;
}

/// How the threads of a depthwise convolution share its output.
struct Lines {
  int64_t pixels = 1;  ///< of a row that a thread makes
  int64_t splits = 1;  ///< threads that share the rows of taps of them
};

/// As many pixels as leave every processor threads enough, a line short enough, and few of them
/// beyond the end of a row. Where that leaves each thread few pixels, threads share rows of taps.
Lines linesOf(const sl_problem* p, const Product& c) {
  const int64_t columns = known(attribute(p, "wo", 1), kTypicalSide);
  const int64_t rows = known(c.m, columns) / columns * attribute(p, "k", 1);
  const auto pixels = [&](int64_t splits) -> const PixelChoice* {
    for (const PixelChoice& choice : kPixelChoices) {
      const int64_t parts = (columns + choice.pixels - 1) / choice.pixels;
      const bool isWhole = choice.pixels <= kFewPixels || 8 * columns >= 7 * parts * choice.pixels;
      const int64_t line =
          (choice.pixels - 1) * attribute(p, "stride_w", 1) + attribute(p, "kw", 1);
      if (isWhole && line <= kLongestLine &&
          rows * parts * splits >= choice.fewestThreads * c.target.processors) {
        return &choice;
      }
    }
    return nullptr;
  };
  const PixelChoice* whole = pixels(1);
  const int64_t splits = std::min(attribute(p, "kh", 1), kMostSplits);
  if ((whole && whole->pixels > kFewPixels) || splits == 1) {
    return {whole ? whole->pixels : 1, 1};
  }
  const PixelChoice* split = pixels(splits);
  return {split ? split->pixels : 1, splits};
}

void tune(const sl_problem* p, int64_t* values) {
  const Product c(p);
  values[0] = attribute(p, "transposed", 0);
  values[1] = 1;
  if (c.isByLines) {
    const Lines lines = linesOf(p, c);
    values[1] = lines.pixels;
    values[2] = attribute(p, "kw", 1);
    values[3] = attribute(p, "stride_w", 1);
    values[8] = lines.splits > 1 ? lines.splits * (lines.splits > 4 ? 32 : 64) : 0;
    values[9] = lines.splits;
  }
  if (!c.isTiled) {
    return;
  }
  const TileChoice tiles = tileChoice(c.groups, c.m, c.n, c.k, c.tileBytes, c.target);
  values[4] = tiles.mr;
  values[5] = tiles.nr;
  values[6] = tiles.rows;
  values[7] = tiles.columns;
  values[8] = tiles.threads;
  values[9] = tiles.splits;
  values[10] = c.hasTf32 ? 1 : 0;
}

void note(const sl_problem* p, char* text, size_t bytes) {
  if (Product(p).hasTf32) {
    std::snprintf(text, bytes,
                  "TF32: factors are rounded to 10 bits, as torch.backends.cudnn.allow_tf32 says");
  }
}

constexpr sl_tunable kTunables[] = {{"transposed", 0, 0, 1},   {"pixels", 1, 1, kMostPixels},
                                    {"taps", 0, 0, kMostTaps}, {"step", 1, 1, 64},
                                    {"mr", 0, 0, 64},          {"nr", 0, 0, 64},
                                    {"rows", 0, 0, 128},       {"columns", 0, 0, 128},
                                    {"threads", 0, 0, 1024},   {"splits", 1, 1, kMostSplits},
                                    {"tf32", 0, 0, 1}};

constexpr sl_operand_facts kOperands[] = {
    {"x", SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32 | SL_TYPE_F64, 0,
     SL_LAYOUT_STRIDED | SL_LAYOUT_CHANNELS_LAST, SL_LAYOUT_CHANNELS_LAST, 0, 0},
    {"weight", SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32 | SL_TYPE_F64, 0, SL_LAYOUT_STRIDED, 0, 0,
     0},
    {"bias", SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32 | SL_TYPE_F64, 0, 0, 0, SL_OPERAND_OPTIONAL,
     0},
    {"y", SL_TYPE_F16 | SL_TYPE_BF16 | SL_TYPE_F32 | SL_TYPE_F64, 0,
     SL_LAYOUT_STRIDED | SL_LAYOUT_CHANNELS_LAST, SL_LAYOUT_CHANNELS_LAST, SL_OPERAND_OUTPUT, 0}};

}  // namespace

extern constinit const sl_kernel_desc convolutionKernel = sl::EmittedKernel{
    .name = "cuda.convolution",
    .backend = "cuda",
    .op = "convolution",
    .family = "convolution_direct",
    .summary = "a product whose rows are gathered from the image, epilogue fused",
    .accepts = accepts,
    .cost = cost,
    .tunables = kTunables,
    .tune = tune,
    .whole_team = false,
    .note = note,
    .operands = kOperands,
    .epilogues = sl::kElementwise,
};

}  // namespace straightline::cuda
