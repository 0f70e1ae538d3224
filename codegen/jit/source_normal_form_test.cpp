// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/source_normal_form.h"

#include <gtest/gtest.h>

namespace straightline::jit {
namespace {

TEST(SourceNormalForm, DropsCommentsAndSpareWhiteSpace) {
  EXPECT_EQ(sourceNormalForm("int  a; // one\n\n  /* two\n lines */ int b;\n"), "int a;\nint b;");
  EXPECT_EQ(sourceNormalForm("a/**/b"), "a b");
  EXPECT_EQ(sourceNormalForm("x // carried \\\n on\ny"), "x\ny");
}

TEST(SourceNormalForm, KeepsLineEndsOfPreprocessorLines) {
  EXPECT_NE(sourceNormalForm("#define A\nint x;"), sourceNormalForm("#define A int x;"));
}

TEST(SourceNormalForm, KeepsLiterals) {
  EXPECT_EQ(sourceNormalForm("s = \"a  // b\";"), "s = \"a  // b\";");
  EXPECT_EQ(sourceNormalForm("s = \"\\\"/*\"; /*c*/t"), "s = \"\\\"/*\"; t");
  EXPECT_EQ(sourceNormalForm("c = '\"'; // x"), "c = '\"';");
  EXPECT_EQ(sourceNormalForm("n = 1'000'000; // x"), "n = 1'000'000;");
  EXPECT_EQ(sourceNormalForm("r = R\"d(a  // \")b)d\"; //x"), "r = R\"d(a  // \")b)d\";");
}

TEST(SourceNormalForm, EndsOnBrokenText) {
  EXPECT_EQ(sourceNormalForm("/* never closed"), "");
  EXPECT_EQ(sourceNormalForm("\"never closed"), "\"never closed");
  EXPECT_EQ(sourceNormalForm("\"\\"), "\"\\");
  EXPECT_EQ(sourceNormalForm("R\"x(never closed"), "R\"x(never closed");
  EXPECT_EQ(sourceNormalForm("x //\\"), "x");
}

}  // namespace
}  // namespace straightline::jit
