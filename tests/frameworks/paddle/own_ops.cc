// SPDX-License-Identifier: Apache-2.0
// Custom ops of Paddle, whose kernels are what straightline's are compared with (own_kernels.c).
#include <string>
#include <vector>

#include "paddle/extension.h"

using paddle::Tensor;

std::vector<Tensor> scaled(const Tensor& x, float a, int64_t n, bool negate, std::vector<int> v,
                           const std::string& text) {
  Tensor y = paddle::empty_like(x);
  const float by = (negate ? -a : a) + v.back() + (text[0] == 'h' ? n : 0);
  for (int64_t i = 0; i < x.numel(); ++i) {
    y.data<float>()[i] = x.data<float>()[i] * by;
  }
  return {y};
}

PD_BUILD_OP(own_scaled)
    .Inputs({"X"})
    .Outputs({"Y"})
    .Attrs({"a: float", "n: int64_t", "negate: bool", "v: std::vector<int>", "text: std::string"})
    .SetKernelFn(PD_KERNEL(scaled));

std::vector<Tensor> joined(const Tensor& x, const paddle::optional<Tensor>& bias,
                           const std::vector<Tensor>& more) {
  Tensor y = paddle::empty_like(x);
  Tensor z = paddle::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    y.data<float>()[i] = x.data<float>()[i] + more.back().data<float>()[i];
    z.data<float>()[i] = bias ? bias->data<float>()[i] : 2.0f;
  }
  return {y, z};
}

using Shape = std::vector<int64_t>;

std::vector<Shape> joinedShapes(const Shape& x, const paddle::optional<Shape>&,
                                const std::vector<Shape>&) {
  return {x, x};
}

std::vector<paddle::DataType> joinedTypes(const paddle::DataType& x,
                                          const paddle::optional<paddle::DataType>&,
                                          const std::vector<paddle::DataType>&) {
  return {x, x};
}

PD_BUILD_OP(own_joined)
    .Inputs({"X", paddle::Optional("Bias"), paddle::Vec("More")})
    .Outputs({"Y", "Z"})
    .SetKernelFn(PD_KERNEL(joined))
    .SetInferShapeFn(PD_INFER_SHAPE(joinedShapes))
    .SetInferDtypeFn(PD_INFER_DTYPE(joinedTypes));

void added(Tensor& x, float by) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    x.data<float>()[i] += by;
  }
}

PD_BUILD_OP(own_added)
    .Inputs({"X"})
    .Outputs({"Out"})
    .Attrs({"by: float"})
    .SetInplaceMap({{"X", "Out"}})
    .SetKernelFn(PD_KERNEL(added));
