// SPDX-License-Identifier: Apache-2.0
// The names that oneDNN's own implementations of one inner product give themselves, from the best
// down to the reference.
#include <gtest/gtest.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "backends/onednn/inner_product.h"

namespace straightline::onednn {
namespace {

std::vector<std::string> implementations() {
  using dnnl::memory;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const auto any = memory::format_tag::any;
  const auto f32 = memory::data_type::f32;
  dnnl::inner_product_forward::primitive_desc description(
      engine, dnnl::prop_kind::forward_inference, memory::desc({8, 64}, f32, any),
      memory::desc({16, 64}, f32, any), memory::desc({8, 16}, f32, any));
  std::vector<std::string> names;
  do {
    names.emplace_back(description.impl_info_str());
  } while (description.next_impl());
  return names;
}

TEST(OnednnReferenceName, OnlyTheLastResortIsOne) {
  const std::vector<std::string> names = implementations();
  ASSERT_GE(names.size(), 2u);
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    EXPECT_FALSE(isReferenceName(names[i].c_str())) << names[i];
  }
  EXPECT_TRUE(isReferenceName(names.back().c_str())) << names.back();
}

TEST(OnednnReferenceName, LooksAtTheNameNotAtItsPieces) {
  EXPECT_TRUE(isReferenceName("ref"));
  EXPECT_TRUE(isReferenceName("ref:any"));
  EXPECT_FALSE(isReferenceName("brgemm:avx512_core"));
  EXPECT_FALSE(isReferenceName("gemm:jit"));
  EXPECT_FALSE(isReferenceName("prefetch:any"));
}

}  // namespace
}  // namespace straightline::onednn
