// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <exception>
#include <stdexcept>

namespace {

void failNoexcept(bool isException) noexcept {
  if (isException) {
    throw std::runtime_error("five is not six");
  }
  throw 5;
}

// The library's definition: terminate.cpp is part of this program.
class Terminate : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    std::set_terminate(__gnu_cxx::__verbose_terminate_handler);
  }
};

TEST_F(Terminate, NamesTypeAndText) {
  EXPECT_DEATH(failNoexcept(true),
               "instance of 'St13runtime_error'\n  what\\(\\):  five is not six\n");
}

TEST_F(Terminate, NamesWhatIsNoException) { EXPECT_DEATH(failNoexcept(false), "instance of 'i'"); }

TEST_F(Terminate, SaysThatNothingWasThrown) {
  EXPECT_DEATH(std::terminate(), "without an active exception");
}

}  // namespace
