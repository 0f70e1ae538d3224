// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "straightline/abi/device_calls.h"
#include "straightline/abi/straightline.h"

namespace {

int32_t acceptsAll(const sl_problem*, char*, size_t) { return 1; }
double costOne(const sl_problem*) { return 1; }
void destroyNothing(void*) {}
int planned;
int ran;

sl_kernel_desc kernel() {
  sl_kernel_desc k{};
  k.size = sizeof(k);
  k.name = "mine.op";
  k.op = "op";
  k.accepts = acceptsAll;
  k.cost = costOne;
  k.plan_symbol = "mine_plan";
  k.plan = &planned;
  k.run_symbol = "mine_run";
  k.run = &ran;
  k.destroy = destroyNothing;
  k.note = nullptr;
  return k;
}

TEST(Registry, RegisteredKernelsCanBeFoundByNameAndSymbol) {
  static const sl_kernel_desc kernels[] = {kernel()};
  static const sl_backend_desc backend = {
      sizeof(sl_backend_desc), SL_KERNEL_ABI_VERSION, "mine", kernels, 1, nullptr};
  const int32_t before = sl_backend_count();
  EXPECT_EQ(nullptr, sl_symbol("mine_plan"));
  sl_message message;
  ASSERT_EQ(SL_OK, sl_backend_register(&backend, &message)) << message.text;
  EXPECT_EQ(before + 1, sl_backend_count());
  ASSERT_NE(nullptr, sl_backend_at(before));
  EXPECT_STREQ("mine", sl_backend_at(before)->name);
  EXPECT_STREQ("mine", sl_backend_at(before)->kernels[0].backend) << "where it is not said";
  EXPECT_EQ(nullptr, sl_backend_at(before + 1));
  EXPECT_EQ(nullptr, sl_backend_at(-1));
  EXPECT_EQ(&planned, sl_symbol("mine_plan"));
  EXPECT_EQ(&ran, sl_symbol("mine_run"));
  EXPECT_EQ(reinterpret_cast<void*>(&destroyNothing), sl_symbol("mine_plan_destroy"));
  EXPECT_EQ(nullptr, sl_symbol("mine_plan_destro"));
  EXPECT_EQ(SL_OK, sl_backend_register(&backend, &message))
      << "the same description again is no mistake";
  EXPECT_EQ(before + 1, sl_backend_count());
  static const sl_backend_desc impostor = {
      sizeof(sl_backend_desc), SL_KERNEL_ABI_VERSION, "mine", nullptr, 0, nullptr};
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_backend_register(&impostor, &message));
  EXPECT_STREQ("backend 'mine' is registered already", message.text);
}

TEST(Registry, OtherVersionsAndBrokenKernelsAreRefused) {
  sl_backend_desc backend = {sizeof(sl_backend_desc), 9, "broken", nullptr, 0, nullptr};
  sl_message message;
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_backend_register(&backend, &message));
  EXPECT_STREQ(
      "backend 'broken': it was built for abi_version 9 but this runtime has 7; build it again "
      "with "
      "the headers of this release",
      message.text);
  sl_kernel_desc k = kernel();
  k.accepts = nullptr;
  backend = {sizeof(sl_backend_desc), SL_KERNEL_ABI_VERSION, "broken", &k, 1, nullptr};
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_backend_register(&backend, &message));
  EXPECT_STREQ("backend 'broken': kernel number 0 lacks a name, op, accepts or cost", message.text);
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_backend_register(nullptr, &message));
}

const sl_kernel_desc* find(const char* name) {
  for (int32_t b = 0; b < sl_backend_count(); ++b) {
    for (int32_t k = 0; k < sl_backend_at(b)->kernel_count; ++k) {
      if (std::strcmp(sl_backend_at(b)->kernels[k].name, name) == 0) {
        return &sl_backend_at(b)->kernels[k];
      }
    }
  }
  return nullptr;
}

/// A description of a later runtime: more fields behind those that we know.
template <typename Known>
struct Longer {
  Known known{};
  uint64_t more[3] = {0x5555555555555555, 0x5555555555555555, 0x5555555555555555};
};

TEST(Registry, ALongerDescriptionIsTaken) {
  static Longer<sl_tunable> tunables[2];
  tunables[0].known = {"rows", 1, 1, 8};
  tunables[1].known = {"columns", 2, 1, 8};
  static Longer<sl_operand_facts> operands[2];
  operands[0].known.role = "x";
  operands[1].known.role = "y";
  operands[1].known.flags = SL_OPERAND_OUTPUT;
  static Longer<sl_epilogue> epilogues[2];
  epilogues[0].known.name = "bias";
  epilogues[1].known.name = "relu";
  static Longer<sl_calling_rule> rule;
  rule.known.size = sizeof rule;
  rule.known.tells_workspace = 1;
  static Longer<sl_kernel_desc> kernels[2];
  for (auto& longer : kernels) {
    sl_kernel_desc& k = longer.known;
    k = kernel();
    k.size = sizeof longer;
    k.tunables = &tunables[0].known;
    k.tunable_count = 2;
    k.tunable_stride = sizeof tunables[0];
    k.operands = &operands[0].known;
    k.operand_count = 2;
    k.operand_stride = sizeof operands[0];
    k.epilogues = &epilogues[0].known;
    k.epilogue_count = 2;
    k.epilogue_stride = sizeof epilogues[0];
    k.rule = &rule.known;
  }
  kernels[0].known.name = "longer.first";
  kernels[1].known.name = "longer.second";
  static Longer<sl_backend_desc> backend;
  backend.known = {.size = sizeof backend,
                   .abi_version = SL_KERNEL_ABI_VERSION,
                   .name = "longer",
                   .kernels = &kernels[0].known,
                   .kernel_count = 2,
                   .kernel_stride = sizeof kernels[0]};
  sl_message message;
  ASSERT_EQ(SL_OK, sl_backend_register(&backend.known, &message)) << message.text;
  const sl_kernel_desc* found = find("longer.second");
  ASSERT_NE(nullptr, found);
  EXPECT_EQ(sizeof(sl_kernel_desc), found->size);
  EXPECT_STREQ("columns", found->tunables[1].name);
  EXPECT_EQ(uint32_t{SL_OPERAND_OUTPUT}, found->operands[1].flags);
  EXPECT_STREQ("relu", found->epilogues[1].name);
  EXPECT_EQ(1, found->rule->tells_workspace);
}

TEST(Registry, AShorterDescriptionHasDefaultsForWhatItLacks) {
  // Kernels that end behind `whole_team`, one after the other, with garbage between them.
  constexpr size_t kBytes = offsetof(sl_kernel_desc, plan_symbol);
  alignas(sl_kernel_desc) static char memory[2 * kBytes + sizeof(sl_kernel_desc)];
  std::memset(memory, 0x55, sizeof memory);
  for (size_t i = 0; i < 2; ++i) {
    sl_kernel_desc k = kernel();
    k.size = kBytes;
    k.name = i == 0 ? "shorter.first" : "shorter.second";
    k.whole_team = 1;
    std::memcpy(memory + i * kBytes, &k, kBytes);
  }
  constexpr size_t kBackendBytes = offsetof(sl_backend_desc, device);
  alignas(sl_backend_desc) static char backend[sizeof(sl_backend_desc)];
  std::memset(backend, 0x55, sizeof backend);
  const sl_backend_desc desc = {.size = kBackendBytes,
                                .abi_version = SL_KERNEL_ABI_VERSION,
                                .name = "shorter",
                                .kernels = reinterpret_cast<const sl_kernel_desc*>(memory),
                                .kernel_count = 2};
  std::memcpy(backend, &desc, kBackendBytes);
  sl_message message;
  ASSERT_EQ(SL_OK, sl_backend_register(reinterpret_cast<const sl_backend_desc*>(backend), &message))
      << message.text;
  const sl_kernel_desc* found = find("shorter.second");
  ASSERT_NE(nullptr, found);
  EXPECT_EQ(1, found->whole_team);
  EXPECT_EQ(nullptr, found->run_symbol);
  EXPECT_EQ(nullptr, found->variants);
  EXPECT_EQ(0u, found->properties);
  EXPECT_EQ(nullptr, found->rule);
  EXPECT_EQ(nullptr, sl_backend_at(sl_backend_count() - 1)->device);
}

TEST(Registry, ATooShortDescriptionIsRefusedWithBothSizes) {
  sl_kernel_desc k = kernel();
  sl_backend_desc backend = {
      sizeof(sl_backend_desc), SL_KERNEL_ABI_VERSION, "short", &k, 1, nullptr};
  const auto refusal = [&] {
    sl_message message;
    EXPECT_EQ(SL_INVALID_ARGUMENT, sl_backend_register(&backend, &message));
    return std::string(message.text);
  };
  k.size = 56;
  EXPECT_EQ("backend 'short': one of its sl_kernel_desc has 56 bytes, but at least 64 are needed",
            refusal());
  k = kernel();
  const sl_tunable tunable = {"rows", 1, 1, 8};
  k.tunables = &tunable;
  k.tunable_count = 1;
  EXPECT_EQ(
      "backend 'short': an sl_tunable of kernel 'mine.op' has 0 bytes, but at least 32 are needed",
      refusal());
  k = kernel();
  const sl_operand_facts facts{};
  k.operands = &facts;
  k.operand_count = 1;
  k.operand_stride = 4;
  EXPECT_EQ(
      "backend 'short': an sl_operand_facts of kernel 'mine.op' has 4 bytes, but at least 8 are "
      "needed",
      refusal());
  k = kernel();
  const sl_epilogue epilogue{};
  k.epilogues = &epilogue;
  k.epilogue_count = 1;
  k.epilogue_stride = 7;
  EXPECT_EQ(
      "backend 'short': an sl_epilogue of kernel 'mine.op' has 7 bytes, but at least 8 are needed",
      refusal());
  k = kernel();
  const sl_calling_rule rule{};
  k.rule = &rule;
  EXPECT_EQ(
      "backend 'short': the sl_calling_rule of kernel 'mine.op' has 0 bytes, but at least 8 are "
      "needed",
      refusal());
  k = kernel();
  sl_device_desc device{};
  device.size = 40;
  backend.device = &device;
  EXPECT_EQ("backend 'short': its sl_device_desc has 40 bytes, but at least " +
                std::to_string(offsetof(sl_device_desc, load)) + " are needed",
            refusal());
  backend.size = 24;
  EXPECT_EQ("a backend description that is too short to have a name and kernels", refusal());
}

TEST(Registry, RuntimeFunctionsThatEmittedTextCalls) {
  EXPECT_EQ(reinterpret_cast<void*>(&sl_fail), sl_symbol("sl_fail"));
  EXPECT_EQ(reinterpret_cast<void*>(&sl_queue_launch), sl_symbol("sl_queue_launch"));
  using Copy = void* (*)(void*, const void*, size_t);
  char to[4] = "";
  reinterpret_cast<Copy>(sl_symbol("memcpy"))(to, "abc", 4);
  EXPECT_STREQ("abc", to);
  EXPECT_NE(nullptr, sl_symbol("memset"));
  EXPECT_NE(nullptr, sl_symbol("memmove"));
  EXPECT_EQ(nullptr, sl_symbol("system"));
}

TEST(Registry, MemoryOfRunTimeSize) {
  EXPECT_EQ(reinterpret_cast<void*>(&sl_alloc), sl_symbol("sl_alloc"));
  EXPECT_EQ(reinterpret_cast<void*>(&sl_free), sl_symbol("sl_free"));
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{1000}, size_t{5} << 20}) {
    void* made = sl_alloc("host", 0, bytes);
    ASSERT_NE(nullptr, made);
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(made) % 64);
    std::memset(made, 1, bytes);
    sl_free("host", 0, made, bytes);
  }
  EXPECT_EQ(nullptr, sl_alloc("nowhere", 0, 8));
}

TEST(Registry, QueuesOfUnknownOrHostBackendsAreUnsupported) {
  sl_queue* queue = nullptr;
  sl_message message;
  EXPECT_EQ(SL_UNSUPPORTED, sl_queue_create("nowhere", 0, &queue, &message));
  EXPECT_STREQ("no backend 'nowhere' is registered", message.text);
  static const sl_backend_desc host = {
      sizeof(sl_backend_desc), SL_KERNEL_ABI_VERSION, "hosted", nullptr, 0, nullptr};
  ASSERT_EQ(SL_OK, sl_backend_register(&host, &message));
  EXPECT_EQ(SL_UNSUPPORTED, sl_queue_create("hosted", 0, &queue, &message));
  EXPECT_STREQ("backend 'hosted' has no queues of its own: it runs on the caller's team",
               message.text);
}

}  // namespace
