// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/fatal_guard.h"

#include <gtest/gtest.h>

#include <thread>

#include "llvm/Support/ErrorHandling.h"

namespace straightline::jit {
namespace {

TEST(FatalGuard, TurnsFatalErrorsIntoMessages) {
  std::string message;
  EXPECT_TRUE(runGuarded([] {}, &message));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(runGuarded([] { llvm::report_fatal_error("backend gave up"); }, &message));
    EXPECT_EQ(message, "backend gave up");
  }
}

TEST(FatalGuard, NestsAndIsPerThread) {
  std::string outer;
  std::string inner;
  EXPECT_TRUE(runGuarded(
      [&] { EXPECT_FALSE(runGuarded([] { llvm::report_fatal_error("inner"); }, &inner)); },
      &outer));
  EXPECT_EQ(inner, "inner");
  std::string other;
  std::thread([&] { runGuarded([] { llvm::report_fatal_error("thread"); }, &other); }).join();
  EXPECT_EQ(other, "thread");
}

}  // namespace
}  // namespace straightline::jit
