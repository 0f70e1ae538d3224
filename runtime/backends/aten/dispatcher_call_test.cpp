// SPDX-License-Identifier: Apache-2.0
// What a call asks of torch, and what it gives back, with a torch that only keeps count.
#include "dispatcher_call.h"

#include <gtest/gtest.h>

#include <set>

#include "straightline/abi/straightline.h"

// Torch's numbers, as `torchNumber` finds them in the process.
extern "C" SL_API int32_t aoti_torch_dtype_float32() { return 6; }
extern "C" SL_API int32_t aoti_torch_device_type_cuda() { return 1; }

namespace straightline::aten {
namespace {

struct Tensor {
  void* data;
  std::vector<int64_t> sizes;
};

/// What became of everything.
struct Seen {
  std::set<Tensor*> tensors;
  std::set<std::vector<StableValue>*> lists;
  int made = 0, fails = -1;  ///< tensors so far, and the one that fails
  std::string calls, copies;
};
Seen seen;

std::string textOf(TensorHandle handle) {
  const auto* tensor = static_cast<Tensor*>(handle);
  return tensor->data ? std::to_string(reinterpret_cast<uintptr_t>(tensor->data)) : "nowhere";
}

int32_t make(void* data, int64_t rank, const int64_t* sizes, const int64_t*, int64_t, int32_t dtype,
             int32_t type, int32_t index, TensorHandle* out) {
  EXPECT_EQ(dtype, 6);
  EXPECT_EQ(type, 1);
  EXPECT_EQ(index, 2);
  if (seen.made++ == seen.fails) {
    return 1;
  }
  auto* tensor = new Tensor{data, {sizes, sizes + rank}};
  seen.tensors.insert(tensor);
  *out = tensor;
  return 0;
}

int32_t drop(TensorHandle handle) {
  auto* tensor = static_cast<Tensor*>(handle);
  EXPECT_EQ(seen.tensors.erase(tensor), 1u) << "given back once";
  delete tensor;
  return 0;
}

/// An op of a list of tensors and one more: takes them over, and gives a tensor of two elements.
int32_t call(const char* op, const char*, StableValue* stack, uint64_t) {
  auto* list = reinterpret_cast<std::vector<StableValue>*>(stack[0]);
  seen.calls += op;
  for (StableValue item : *list) {
    seen.calls += " " + textOf(reinterpret_cast<TensorHandle>(item));
    drop(reinterpret_cast<TensorHandle>(item));
  }
  seen.lists.erase(list);
  delete list;
  seen.calls += " " + textOf(reinterpret_cast<TensorHandle>(stack[1]));
  drop(reinterpret_cast<TensorHandle>(stack[1]));
  auto* result = new Tensor{&seen, {2}};
  seen.tensors.insert(result);
  stack[0] = reinterpret_cast<StableValue>(result);
  return 0;
}

TorchFunctions fakeTorch() {
  TorchFunctions torch{};
  torch.torch_call_dispatcher = call;
  torch.aoti_torch_create_tensor_from_blob = make;
  torch.aoti_torch_delete_tensor_object = drop;
  torch.aoti_torch_get_dim = [](TensorHandle tensor, int64_t* out) {
    *out = static_cast<int64_t>(static_cast<Tensor*>(tensor)->sizes.size());
    return 0;
  };
  torch.aoti_torch_get_sizes = [](TensorHandle tensor, int64_t** out) {
    *out = static_cast<Tensor*>(tensor)->sizes.data();
    return 0;
  };
  torch.aoti_torch_get_dtype = [](TensorHandle, int32_t* out) {
    *out = 6;
    return 0;
  };
  torch.aoti_torch_copy_ = [](TensorHandle to, TensorHandle, int32_t) {
    seen.copies += textOf(to);
    return 0;
  };
  torch.torch_new_list_reserve_size = [](size_t, ListHandle* out) {
    auto* list = new std::vector<StableValue>;
    seen.lists.insert(list);
    *out = list;
    return 0;
  };
  torch.torch_list_push_back = [](ListHandle list, StableValue item) {
    static_cast<std::vector<StableValue>*>(list)->push_back(item);
    return 0;
  };
  torch.torch_exception_get_what_without_backtrace = [] { return "not a device's memory"; };
  return torch;
}

class DispatcherCallTest : public ::testing::Test {
 protected:
  void SetUp() override {
    seen = {};
    CallText text;
    std::string error;
    ASSERT_TRUE(parseCallText("aten::f\n\n2.13.0\ndispatcher\naten::f(..)\n[%0, %1], %2\n@0", &text,
                              &error))
        << error;
    sl_operand operands[4] = {};
    for (sl_operand& operand : operands) {
      operand.dtype = {2, 32, 1};
      operand.rank = 1;
      operand.extents[0] = 2;
      operand.strides[0] = 1;
    }
    operands[1].extents[0] = 0;
    operands[2].extents[0] = SL_DYNAMIC;
    sl_problem problem{};
    problem.size = sizeof(problem);
    problem.operands = operands;
    problem.inputs = 3;
    problem.outputs = 1;
    problem.device = "cuda";
    made = DispatcherCall::make(torch, std::move(text), problem, &error);
    ASSERT_NE(made, nullptr) << error;
  }
  void TearDown() override {
    EXPECT_TRUE(seen.tensors.empty()) << "everything is given back";
    EXPECT_TRUE(seen.lists.empty());
  }
  bool run(int64_t size) {
    const auto at = [](uintptr_t address) { return reinterpret_cast<void*>(address); };
    const void* inputs[] = {at(10), at(20), at(30)};
    void* outputs[] = {at(40)};
    return made->run(2, inputs, outputs, &size, nullptr, &error);
  }

  const TorchFunctions torch = fakeTorch();
  std::unique_ptr<DispatcherCall> made;
  std::string error;
};

TEST_F(DispatcherCallTest, WhatHasNoElementsHasNoAddress) {
  EXPECT_TRUE(run(3)) << error;
  EXPECT_EQ(seen.calls, "aten::f 10 nowhere 30");
  EXPECT_EQ(seen.copies, "40");
  seen.calls.clear();
  EXPECT_TRUE(run(0)) << error;
  EXPECT_EQ(seen.calls, "aten::f 10 nowhere nowhere") << "known per call";
}

TEST_F(DispatcherCallTest, ATensorThatCannotBeMadeFailsTheCall) {
  for (int fails = 0; fails < 4; ++fails) {
    seen.made = 0;
    seen.fails = fails;
    seen.calls.clear();
    EXPECT_FALSE(run(3));
    EXPECT_EQ(error, "not a device's memory");
    EXPECT_EQ(seen.calls.empty(), fails < 3) << "the op is not called with some of its arguments";
    EXPECT_TRUE(seen.tensors.empty() && seen.lists.empty()) << fails;
  }
}

}  // namespace
}  // namespace straightline::aten
