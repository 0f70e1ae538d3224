// SPDX-License-Identifier: Apache-2.0
// native.tree_ensemble: forests and boosted trees.
#include "backends/native/native.h"
#include "backends/native/problem.h"

namespace sl::native {
namespace {

// The pass computes these from the problem: they describe it and are not choices.
constexpr sl_tunable kTunables[] = {
    {"decision", 0, 0, 3}, {"aggregate", 0, 0, 2}, {"featureBits", 8, 1, 24},
    {"missing", 0, 0, 1},  {"perTree", 0, 0, 1},   {"depth", 0, 0, 1 << 20},
};

}  // namespace

extern constinit const sl_kernel_desc treeEnsembleKernel = EmittedKernel{
    .name = "native.tree_ensemble",
    .backend = "native",
    .op = "tree_ensemble",
    .family = "tree_ensemble",
    .summary = "steps through 16 trees, or of 16 rows, at once",
    .accepts = acceptsAnyTypes<3>,
    .cost = moveMicroseconds,
    .tunables = kTunables,
};

}  // namespace sl::native
