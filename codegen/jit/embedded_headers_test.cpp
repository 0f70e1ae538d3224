// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/embedded_headers.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "codegen/jit/clang_driver.h"

namespace straightline::jit {
namespace {

/// The headers through the links of the build tree: "straightline/abi/x.h" as everybody else sees
/// it.
std::string onDisk(const std::string& path) {
  std::ifstream file(std::string(SL_INCLUDE_DIRECTORY) + "/" + path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(EmbeddedHeaders, AreTheFilesByteForByte) {
  ASSERT_GE(embeddedHeaderCount, 4u);
  for (std::size_t i = 0; i < embeddedHeaderCount; ++i) {
    const EmbeddedHeader& header = embeddedHeaders[i];
    EXPECT_EQ(std::string(header.text, header.bytes), onDisk(header.path)) << header.path;
    EXPECT_EQ(std::string(header.path).find("test"), std::string::npos) << header.path;
  }
}

TEST(EmbeddedHeaders, EachCompilesAlone) {
  for (const char* cpu : {"host", "x86-64-v3"}) {
    ClangOptions options{
        .target = *targetNamed(cpu), .lineTables = false, .extra = {"-Wall", "-Werror"}};
    for (std::size_t i = 0; i < embeddedHeaderCount; ++i) {
      if (std::string(embeddedHeaders[i].path).find("/cuda_") != std::string::npos &&
          std::string(embeddedHeaders[i].path).find("kernels/") != std::string::npos) {
        continue;  // CUDA C++, which NVRTC reads (tests/run/cuda_test.py)
      }
      const std::string text = std::string("#include <") + embeddedHeaders[i].path + ">\n";
      const ClangOutput output = compileToObject("alone", text, clangArguments(options));
      EXPECT_TRUE(output.ok) << cpu << ": " << embeddedHeaders[i].path << "\n"
                             << output.diagnostics;
    }
  }
}

}  // namespace
}  // namespace straightline::jit
