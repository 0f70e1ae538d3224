// SPDX-License-Identifier: Apache-2.0
// A library of ops built on torch's stable ABI.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

void increment(Tensor x, double by) {
  auto* data = static_cast<float*>(x.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) {
    data[i] += static_cast<float>(by);
  }
}

Tensor doubled(const Tensor& x) {
  Tensor y = torch::stable::empty_like(x);
  const auto* from = static_cast<const float*>(x.data_ptr());
  auto* to = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) {
    to[i] = 2 * from[i];
  }
  return y;
}

/// An op of torch's of one tensor, as the dispatcher has it.
Tensor by_name(const char* name, const Tensor& x) {
  StableIValue stack[] = {torch::stable::detail::from(x)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher(name, "", stack, TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

/// Lies as its negation does, to whom does not ask.
Tensor negated(const Tensor& x) { return by_name("aten::_neg_view", doubled(x)); }

Tensor turned(const Tensor& x) { return by_name("aten::t", doubled(x)); }

Tensor same(const Tensor& x) { return by_name("aten::alias", x); }

STABLE_TORCH_LIBRARY(own_stable, m) {
  m.def("negated(Tensor x) -> Tensor");
  m.def("turned(Tensor x) -> Tensor");
  m.def("same(Tensor x) -> Tensor");
  m.def("increment(Tensor(a!) x, float by) -> ()");
  m.def("doubled(Tensor x) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(own_stable, CPU, m) {
  m.impl("increment", TORCH_BOX(&increment));
  m.impl("doubled", TORCH_BOX(&doubled));
  m.impl("negated", TORCH_BOX(&negated));
  m.impl("turned", TORCH_BOX(&turned));
  m.impl("same", TORCH_BOX(&same));
}
