// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "straightline/abi/straightline.h"
#include "test_description.h"

namespace straightline::testing {
namespace {

int32_t runNothing(sl_ctx*, sl_team, const sl_bindings*) { return SL_OK; }

alignas(64) float storage[4096];

/// Tensors of one call.
class Tensors {
 public:
  Tensors& add(std::vector<int64_t> shape, std::vector<int64_t> strides = {},
               sl_dtype dtype = kFloat32) {
    kept_.push_back(std::move(shape));
    const auto& s = kept_.back();
    kept_.push_back(std::move(strides));
    tensors.push_back({storage, s.data(), kept_.back().empty() ? nullptr : kept_.back().data(),
                       static_cast<int32_t>(s.size()), dtype, 1, 0});
    return *this;
  }
  std::vector<sl_tensor> tensors;

 private:
  std::deque<std::vector<int64_t>> kept_;
};

class Guard {
 public:
  explicit Guard(DescriptionBuilder* builder) {
    sl_message message;
    EXPECT_EQ(SL_OK,
              sl_program_create(builder->build(runNothing), nullptr, nullptr, &program, &message))
        << message.text;
    extents.resize(static_cast<size_t>(sl_program_description(program)->extent_count), -1);
  }
  ~Guard() { sl_program_release(program); }

  /// "" when the tensors match, otherwise the message.
  std::string operator()(const Tensors& t) {
    sl_message message;
    status = sl_program_guard(program, t.tensors.data(), static_cast<int32_t>(t.tensors.size()),
                              extents.data(), &message);
    return status == SL_OK ? "" : message.text;
  }

  sl_program* program = nullptr;
  std::vector<int64_t> extents;
  int32_t status = SL_OK;
};

/// What the front end of PyTorch gives.
void adviseAsTorch(DescriptionBuilder* b) {
  b->advise("pass an example of this size to sl.compile, or mark the dim with torch.export.Dim",
            "pass an example of this size or a torch.export.Dim");
}

TEST(Guard, StaticInput) {
  DescriptionBuilder b;
  adviseAsTorch(&b);
  b.input("x", kFloat32, {b.constant(4), b.constant(8)});
  Guard guard(&b);
  EXPECT_EQ("", guard(Tensors().add({4, 8})));
  EXPECT_EQ("", guard(Tensors().add({4, 8}, {8, 1})));
  EXPECT_EQ(
      "input 'x': dim 1 is 9 but this program was compiled for 8; pass an example of this size to "
      "sl.compile, or "
      "mark the dim with torch.export.Dim",
      guard(Tensors().add({4, 9})));
  EXPECT_EQ(SL_INVALID_ARGUMENT, guard.status);
  EXPECT_EQ(
      "input 'x': it has 1 dims but this program was compiled for 2, [4, 8]; pass an example of "
      "this rank to "
      "sl.compile",
      guard(Tensors().add({32})));
  EXPECT_EQ(
      "input 'x': dtype is float64 but this program was compiled for float32; convert it or pass "
      "an example of "
      "this dtype to sl.compile",
      guard(Tensors().add({4, 8}, {}, kFloat64)));
  EXPECT_EQ(
      "input 'x': dtype is float8_e4m3fn but this program was compiled for float32; convert it or "
      "pass an example of this dtype to sl.compile",
      guard(Tensors().add({4, 8}, {}, sl_dtype{10, 8, 1})));
  EXPECT_EQ(
      "input 'x': dtype is float4_e2m1fnx2 but this program was compiled for float32; convert it "
      "or pass an example of this dtype to sl.compile",
      guard(Tensors().add({4, 8}, {}, sl_dtype{17, 4, 2})));
  EXPECT_EQ(
      "input 'x': dtype is dtype(code=18, bits=8) but this program was compiled for float32; "
      "convert it or pass an example of this dtype to sl.compile",
      guard(Tensors().add({4, 8}, {}, sl_dtype{18, 8, 1})));
  EXPECT_EQ(
      "input 'x': strides are (1, 4) but this program was compiled for (8, 1) at size (4, 8); pass "
      "a tensor of "
      "that layout (often x.contiguous()) or an example of this layout to sl.compile",
      guard(Tensors().add({4, 8}, {1, 4})));
}

TEST(Guard, AProgramOfNoFrontEndHasNoExamplesToAdvise) {
  DescriptionBuilder b;
  const int32_t n = b.extent("b", 1, 64);
  b.input("x", kFloat32, {b.symbol(n), b.constant(8)}, {b.constant(8), b.constant(1)});
  b.input("y", kFloat32, {b.symbol(n)});
  Guard guard(&b);
  EXPECT_EQ(
      "input 'x': dim 1 is 9 but this program was compiled for 8; compile the module for this "
      "size, or with a named extent for the dim",
      guard(Tensors().add({4, 9}).add({4})));
  EXPECT_EQ(
      "input 'x': dim 0 is 65 but this program was compiled for b in [1, 64]; compile the module "
      "for this size, or the extent with a larger max",
      guard(Tensors().add({65, 8}).add({65})));
  EXPECT_EQ(
      "input 'x': dim 0 is 0 but this program was compiled for b in [1, 64]; compile the module "
      "for this size, or the extent with a smaller min",
      guard(Tensors().add({0, 8}).add({0})));
  EXPECT_EQ(
      "input 'y': dim 0 is 5 but this program was compiled for b = 4 (b = 4); pass inputs whose "
      "sizes agree",
      guard(Tensors().add({4, 8}).add({5})));
  EXPECT_EQ(
      "input 'x': it has 1 dims but this program was compiled for 2, [b, 8]; compile the module "
      "for this rank",
      guard(Tensors().add({32}).add({4})));
  EXPECT_EQ("input 'y': dtype is float64 but this program was compiled for float32; convert it",
            guard(Tensors().add({4, 8}).add({4}, {}, kFloat64)));
  EXPECT_EQ(
      "input 'x': strides are (1, 4) but this program was compiled for (8, 1) at size (4, 8); pass "
      "a tensor of that layout",
      guard(Tensors().add({4, 8}, {1, 4}).add({4})));
}

TEST(Guard, CountOfInputs) {
  DescriptionBuilder b;
  b.input("x", kFloat32, {});
  b.input("mask", kFloat32, {});
  Guard guard(&b);
  EXPECT_EQ("", guard(Tensors().add({}).add({})));
  EXPECT_EQ("the program takes 2 inputs ('x', 'mask') but got 1", guard(Tensors().add({})));
  EXPECT_EQ("the program takes 2 inputs ('x', 'mask') but got 3",
            guard(Tensors().add({}).add({}).add({})));
}

TEST(Guard, AComputedExtentBeginsAtItsBound) {
  DescriptionBuilder b;
  const int32_t n = b.extent("b", 1, 64);
  b.computedExtent("u0", 0, 256, b.expression({{'s', n}, {'c', 4}, {'*', 0}}));
  b.input("x", kFloat32, {b.symbol(n), b.constant(4)});
  Guard guard(&b);
  EXPECT_EQ("", guard(Tensors().add({5, 4})));
  EXPECT_EQ(20, guard.extents[1]);
}

TEST(Guard, NamedExtentIsBoundOnceAndMustAgree) {
  DescriptionBuilder b;
  adviseAsTorch(&b);
  const int32_t n = b.extent("b", 1, 64);
  b.input("x", kFloat32, {b.symbol(n), b.constant(4)});
  b.input("y", kFloat32, {b.constant(2), b.symbol(n)}, {b.symbol(n), b.constant(1)});
  Guard guard(&b);
  EXPECT_EQ("", guard(Tensors().add({5, 4}).add({2, 5})));
  EXPECT_EQ(5, guard.extents[0]);
  EXPECT_EQ("", guard(Tensors().add({64, 4}).add({2, 64})));
  EXPECT_EQ(
      "input 'y': dim 1 is 6 but this program was compiled for b = 5 (b = 5); pass inputs whose "
      "sizes agree, or an "
      "example of these sizes to sl.compile",
      guard(Tensors().add({5, 4}).add({2, 6})));
  EXPECT_EQ(
      "input 'x': dim 0 is 128 but this program was compiled for b in [1, 64]; pass an example of "
      "this size or a "
      "torch.export.Dim with a larger max to sl.compile",
      guard(Tensors().add({128, 4}).add({2, 128})));
  EXPECT_EQ(
      "input 'x': dim 0 is 0 but this program was compiled for b in [1, 64]; pass an example of "
      "this size or a "
      "torch.export.Dim with a smaller min to sl.compile",
      guard(Tensors().add({0, 4}).add({2, 0})));
  EXPECT_EQ(
      "input 'y': strides are (9, 1) but this program was compiled for (5, 1) at size (2, 5); pass "
      "a tensor of that "
      "layout (often x.contiguous()) or an example of this layout to sl.compile",
      guard(Tensors().add({5, 4}).add({2, 5}, {9, 1})));
}

TEST(Guard, ExpressionBeforeTheExtentItselfIsCheckedLater) {
  DescriptionBuilder b;
  adviseAsTorch(&b);
  const int32_t n = b.extent("b", 1, 64);
  b.input("twice", kFloat32, {b.expression({{'s', n}, {'c', 2}, {'*', 0}})});
  b.input("x", kFloat32, {b.symbol(n)});
  Guard guard(&b);
  EXPECT_EQ("", guard(Tensors().add({6}).add({3})));
  EXPECT_EQ(3, guard.extents[0]);
  EXPECT_EQ(
      "input 'twice': dim 0 is 7 but this program was compiled for b * 2 = 6 (b = 3); pass inputs "
      "whose sizes "
      "agree, or an example of these sizes to sl.compile",
      guard(Tensors().add({7}).add({3})));
}

TEST(Guard, ExtentIsSolvedFromALinearExpression) {
  DescriptionBuilder b;
  adviseAsTorch(&b);
  const int32_t n = b.extent("b", 2, 10);
  b.input("x", kFloat32, {b.expression({{'c', 3}, {'s', n}, {'*', 0}, {'c', 1}, {'+', 0}})});
  b.input("product", kFloat32, {b.expression({{'s', n}, {'s', n}, {'*', 0}})});
  Guard guard(&b);
  EXPECT_EQ("", guard(Tensors().add({13}).add({16})));
  EXPECT_EQ(4, guard.extents[0]);
  EXPECT_EQ(
      "input 'x': dim 0 is 14 but this program was compiled for 3 * b + 1, and no whole number b "
      "gives this size",
      guard(Tensors().add({14}).add({16})));
  EXPECT_EQ(
      "input 'x': dim 0 is 34 but this program was compiled for 3 * b + 1 with b in [2, 10]; pass "
      "an example of "
      "this size or a torch.export.Dim with a larger max to sl.compile",
      guard(Tensors().add({34}).add({121})));
  EXPECT_EQ(
      "input 'x': dim 0 is 4 but this program was compiled for 3 * b + 1 with b in [2, 10]; pass "
      "an example of "
      "this size or a torch.export.Dim with a smaller min to sl.compile",
      guard(Tensors().add({4}).add({1})));
  EXPECT_EQ(
      "input 'product': dim 0 is 15 but this program was compiled for b * b = 16 (b = 4, b = 4); "
      "pass inputs whose "
      "sizes agree, or an example of these sizes to sl.compile",
      guard(Tensors().add({13}).add({15})));
}

TEST(Guard, AnExtentThatNoInputDefinesIsUnsupported) {
  DescriptionBuilder b;
  const int32_t n = b.extent("b", 1, 8);
  b.input("x", kFloat32, {b.expression({{'s', n}, {'s', n}, {'*', 0}})});
  Guard guard(&b);
  EXPECT_EQ(
      "extent 'b' cannot be read off any input's size; it must stand alone or as a multiple plus a "
      "constant in one",
      guard(Tensors().add({16})));
  EXPECT_EQ(SL_UNSUPPORTED, guard.status);
}

TEST(Guard, StridesOfSizeOneDimsAndOfEmptyTensorsAreNotCompared) {
  DescriptionBuilder b;
  const int32_t n = b.extent("b", 0, 8);
  b.input("x", kFloat32, {b.symbol(n), b.constant(1), b.constant(4)},
          {b.constant(4), b.constant(4), b.constant(1)});
  Guard guard(&b);
  EXPECT_EQ("", guard(Tensors().add({3, 1, 4}, {4, 777, 1})));
  EXPECT_EQ("", guard(Tensors().add({1, 1, 4}, {-5, 777, 1})));
  EXPECT_EQ("", guard(Tensors().add({0, 1, 4}, {1, 2, 3})));
  EXPECT_NE("", guard(Tensors().add({2, 1, 4}, {5, 4, 1})));
  EXPECT_NE("", guard(Tensors().add({2, 1, 4}, {4, 4, 2})));
}

TEST(Guard, AnyCompiledLayoutMustBeMatched) {
  DescriptionBuilder b;
  b.input("transposed", kFloat32, {b.constant(4), b.constant(8)}, {b.constant(1), b.constant(4)});
  b.input("expanded", kFloat32, {b.constant(4), b.constant(8)}, {b.constant(0), b.constant(1)});
  Guard guard(&b);
  EXPECT_EQ("", guard(Tensors().add({4, 8}, {1, 4}).add({4, 8}, {0, 1})));
  EXPECT_NE("", guard(Tensors().add({4, 8}).add({4, 8}, {0, 1})))
      << "a contiguous one where transposed was compiled";
  EXPECT_NE("", guard(Tensors().add({4, 8}, {1, 4}).add({4, 8}, {8, 1})));
}

TEST(Guard, ScalarsAndEmptyInputsMatch) {
  DescriptionBuilder b;
  b.input("scalar", kFloat32, {});
  b.input("empty", kFloat32, {b.constant(0), b.constant(3)});
  Guard guard(&b);
  Tensors t;
  t.add({}).add({0, 3});
  t.tensors[1].data = nullptr;
  EXPECT_EQ("", guard(t));
  t.tensors[0].data = nullptr;
  EXPECT_EQ("input 'scalar': its data is a null pointer but its size is ()", guard(t));
}

TEST(Guard, DeviceAndAlignment) {
  DescriptionBuilder b;
  b.input("x", kFloat32, {b.constant(2)});
  Guard guard(&b);
  Tensors t;
  t.add({2});
  t.tensors[0].device_type = 2;
  EXPECT_EQ(
      "input 'x': it is on cuda:0 but this program was compiled for cpu; move it or compile for "
      "that "
      "device",
      guard(t));
  t.tensors[0].device_type = 1;
  t.tensors[0].data = reinterpret_cast<char*>(storage) + 2;
  EXPECT_EQ("input 'x': its data is not aligned to the 4 bytes of float32; pass a copy of it",
            guard(t));
  t.tensors[0].data = storage + 1;
  EXPECT_EQ("", guard(t)) << "an element's alignment is enough";
}

TEST(Guard, TheNumberOfTheHostIsNoMatter) {
  DescriptionBuilder b;
  b.input("x", kFloat32, {b.constant(2)});
  Guard guard(&b);
  Tensors t;
  t.add({2});
  t.tensors[0].device_id = 3;
  EXPECT_EQ("", guard(t));
}

TEST(Guard, ATensorOnAnotherDeviceIsNamedWithBothNumbers) {
  DescriptionBuilder b;
  b.space("cuda");
  b.queue("cuda");
  b.input("x", kFloat32, {b.constant(2)});
  sl_program_desc* desc = b.build(runNothing);
  const_cast<sl_buffer*>(desc->buffers)[0].space = 1;
  sl_program* program = nullptr;
  sl_message message;
  ASSERT_EQ(SL_OK, sl_program_create_on(desc, 1, nullptr, nullptr, &program, &message))
      << message.text;
  Tensors t;
  t.add({2});
  t.tensors[0].device_type = 2;
  t.tensors[0].device_id = 1;
  EXPECT_EQ(SL_OK, sl_program_guard(program, t.tensors.data(), 1, nullptr, &message))
      << message.text;
  t.tensors[0].device_id = 0;
  EXPECT_EQ(SL_INVALID_ARGUMENT, sl_program_guard(program, t.tensors.data(), 1, nullptr, &message));
  EXPECT_STREQ(
      "input 'x': it is on cuda:0 but this program was compiled for cuda:1; move it or compile for "
      "that device",
      message.text);
  sl_program_release(program);
}

TEST(Guard, HugeSizesDoNotWrapAround) {
  DescriptionBuilder b;
  const int32_t n = b.extent("b", 1, INT64_MAX);
  b.input("x", kFloat32, {b.symbol(n)}, {b.constant(0)});
  b.arena(0, b.expression({{'s', n}, {'s', n}, {'*', 0}}));
  Guard guard(&b);
  ASSERT_EQ("", guard(Tensors().add({int64_t{1} << 32}, {0})));
  sl_frame* frame = nullptr;
  sl_message message;
  EXPECT_EQ(SL_OUT_OF_MEMORY,
            sl_frame_lease(guard.program, guard.extents.data(), &frame, &message));
  EXPECT_STREQ("out of memory: the program needs an arena of 9223372036854775807 bytes in 'host'",
               message.text);
}

}  // namespace
}  // namespace straightline::testing
