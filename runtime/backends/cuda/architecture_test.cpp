// SPDX-License-Identifier: Apache-2.0
#include "architecture.h"

#include <gtest/gtest.h>

#include <string>

namespace straightline::cuda {
namespace {

int32_t fit(const char* name, int major, int minor) {
  return fitOf(architectureOf(name), major, minor);
}

TEST(Architecture, Names) {
  const Architecture plain = architectureOf("sm_90");
  EXPECT_FALSE(plain.isText);
  EXPECT_EQ(90, plain.number);
  EXPECT_EQ(0, plain.suffix);
  EXPECT_EQ(120, architectureOf("sm_120f").number);
  EXPECT_EQ('f', architectureOf("sm_120f").suffix);
  EXPECT_TRUE(architectureOf("compute_80").isText);
  for (const char* name : {"", "sm_", "sm_a", "sm_90ab", "sm_90b", "sm_12345", "gfx90", "sm_ 90",
                           "cuda:sm_90", "sm_90 "}) {
    EXPECT_EQ(0, architectureOf(name).number) << name;
  }
}

TEST(Architecture, MachineCodeRunsOnItsGeneration) {
  EXPECT_GT(fit("sm_80", 8, 0), 0);
  EXPECT_GT(fit("sm_80", 8, 9), 0);
  EXPECT_EQ(0, fit("sm_86", 8, 0));
  EXPECT_EQ(0, fit("sm_80", 9, 0));
  EXPECT_EQ(0, fit("sm_90", 8, 9));
  EXPECT_EQ(0, fit("sm_90", 10, 0));
  EXPECT_GT(fit("sm_90a", 9, 0), 0);
  EXPECT_EQ(0, fit("sm_100a", 10, 3));
  EXPECT_GT(fit("sm_100f", 10, 3), 0);
  EXPECT_EQ(0, fit("nothing", 9, 0));
}

TEST(Architecture, TheNearestIsBestAndTextIsLast) {
  EXPECT_GT(fit("sm_86", 8, 9), fit("sm_80", 8, 9));
  EXPECT_GT(fit("sm_90a", 9, 0), fit("sm_90", 9, 0));
  EXPECT_GT(fit("sm_100f", 10, 0), fit("sm_100", 10, 0));
  EXPECT_GT(fit("sm_103", 10, 3), fit("sm_100f", 10, 3));
  EXPECT_GT(fit("sm_80", 8, 9), fit("compute_89", 8, 9));
  EXPECT_GT(fit("compute_90", 12, 0), fit("compute_80", 12, 0));
  EXPECT_GT(fit("compute_80", 8, 0), 0);
  EXPECT_EQ(0, fit("compute_90", 8, 9));
  EXPECT_EQ(0, fit("compute_90a", 9, 0));
  EXPECT_EQ(0, fit("compute_90", 11, 0));  // clusters of 8, for which there is no room
  EXPECT_GT(fit("compute_89", 11, 0), 0);
  EXPECT_GT(fit("compute_110", 11, 0), 0);
  EXPECT_GT(fit("compute_90", 10, 0), 0);
}

TEST(Architecture, OfAnImage) {
  const std::string cubin = "\177ELF" + std::string(60, '\0');
  EXPECT_FALSE(isText(cubin));
  EXPECT_EQ(89, imageArchitecture(cubin, 89));
  const std::string ptx = "// Generated\n.version 8.3\n.target sm_80, texmode_independent\n";
  EXPECT_TRUE(isText(ptx));
  EXPECT_EQ(80, imageArchitecture(ptx, 100));
  EXPECT_EQ(75, imageArchitecture("\n.target sm_75\n", 100));
  EXPECT_EQ(90, imageArchitecture("\n.target sm_90", 100));
  EXPECT_EQ(0, imageArchitecture("// .target sm_80\n", 100));
  EXPECT_EQ(0, imageArchitecture("", 100));
}

}  // namespace
}  // namespace straightline::cuda
