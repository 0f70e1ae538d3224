// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

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
      sizeof(sl_backend_desc), SL_ABI_VERSION, "mine", kernels, 1, nullptr};
  const int32_t before = sl_backend_count();
  EXPECT_EQ(nullptr, sl_symbol("mine_plan"));
  sl_message message;
  ASSERT_EQ(SL_OK, sl_backend_register(&backend, &message)) << message.text;
  EXPECT_EQ(before + 1, sl_backend_count());
  EXPECT_EQ(&backend, sl_backend_at(before));
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
      sizeof(sl_backend_desc), SL_ABI_VERSION, "mine", nullptr, 0, nullptr};
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_backend_register(&impostor, &message));
  EXPECT_STREQ("backend 'mine' is registered already", message.text);
}

TEST(Registry, OtherVersionsAndBrokenKernelsAreRefused) {
  sl_backend_desc backend = {sizeof(sl_backend_desc), 9, "broken", nullptr, 0, nullptr};
  sl_message message;
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_backend_register(&backend, &message));
  EXPECT_STREQ("backend 'broken': its abi_version is 9 but this runtime has 6", message.text);
  sl_kernel_desc k = kernel();
  k.accepts = nullptr;
  backend = {sizeof(sl_backend_desc), SL_ABI_VERSION, "broken", &k, 1, nullptr};
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_backend_register(&backend, &message));
  EXPECT_STREQ("backend 'broken': kernel number 0 lacks a name, op, accepts or cost", message.text);
  k.size = 4;
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_backend_register(&backend, &message));
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_backend_register(nullptr, &message));
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
      sizeof(sl_backend_desc), SL_ABI_VERSION, "hosted", nullptr, 0, nullptr};
  ASSERT_EQ(SL_OK, sl_backend_register(&host, &message));
  EXPECT_EQ(SL_UNSUPPORTED, sl_queue_create("hosted", 0, &queue, &message));
  EXPECT_STREQ("backend 'hosted' has no queues of its own: it runs on the caller's team",
               message.text);
}

}  // namespace
