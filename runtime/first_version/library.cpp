// SPDX-License-Identifier: Apache-2.0
// A backend as somebody else would build it, with the header of the first version (kernel.h beside
// this file) and nothing else of ours.
#include "kernel.h"

namespace {

/// Takes two operands of four elements whose scale is above 0.
int32_t accepts(const sl_problem* p, char* reason, size_t bytes) {
  for (int32_t i = 0; i < p->inputs + p->outputs; ++i) {
    if (sl_operand_at(p, i)->extents[0] != 4) {
      reason[0] = bytes > 1 ? '!' : reason[0];
      return 0;
    }
  }
  for (int32_t i = 0; i < p->attribute_count; ++i) {
    const sl_attribute attribute = sl_attribute_at(p, i);
    if (attribute.kind == SL_FLOAT && attribute.name[0] == 's') {
      return attribute.number > 0 ? 1 : 0;
    }
  }
  return 0;
}

double cost(const sl_problem*) { return 2.5; }
int64_t workspace(const sl_problem*) { return 64; }
void tune(const sl_problem*, int64_t* values) { values[1] = 9; }
void border(const sl_problem*, int32_t operand, int64_t* widths) {
  widths[4] = operand == 0 ? 1 : 0;
}

const sl_tunable kTunables[] = {{"rows", 4, 1, 8}, {"columns", 8, 1, 16}};
const sl_operand_facts kOperands[] = {
    {"x", SL_TYPE_F32, 0, SL_LAYOUT_CHANNELS_LAST, SL_LAYOUT_CHANNELS_LAST, 0, 0},
    {"y", SL_TYPE_F32, 0, SL_LAYOUT_STRIDED, 0, SL_OPERAND_OUTPUT, 0}};
const sl_epilogue kEpilogues[] = {{"relu", SL_TYPE_F32, 0}, {"bias", 0, SL_EPILOGUE_WITH_BIAS}};
const char* const kTold[] = {"scale"};
const sl_calling_rule kRule = {sizeof(sl_calling_rule), kTold, 1, 1};

const sl_kernel_desc kKernels[] = {
    {
        .size = sizeof(sl_kernel_desc),
        .name = "elder.scale",
        .backend = "elder",
        .op = "scale",
        .family = "",
        .summary = "a kernel of the first version",
        .accepts = accepts,
        .cost = cost,
        .workspace = workspace,
        .tunables = kTunables,
        .tunable_count = 2,
        .tunable_stride = sizeof(sl_tunable),
        .tune = tune,
        .properties = SL_KERNEL_CONCURRENT,
        .operands = kOperands,
        .operand_count = 2,
        .operand_stride = sizeof(sl_operand_facts),
        .epilogues = kEpilogues,
        .epilogue_count = 2,
        .epilogue_stride = sizeof(sl_epilogue),
        .border = border,
        .group_op = "scale_group",
        .rule = &kRule,
    },
    {
        .size = sizeof(sl_kernel_desc),
        .name = "elder.second",
        .backend = "elder",
        .op = "scale",
        .family = "",
        .summary = "another one",
        .accepts = accepts,
        .cost = cost,
    },
};

const sl_backend_desc kBackend = {
    .size = sizeof(sl_backend_desc),
    .abi_version = SL_KERNEL_ABI_VERSION,
    .name = "elder",
    .kernels = kKernels,
    .kernel_count = 2,
    .device = nullptr,
    .runs_on = nullptr,
    .kernel_stride = sizeof(sl_kernel_desc),
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const sl_backend_desc* straightline_backend_v1() {
  return &kBackend;
}
