// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorUtils.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <sstream>

namespace sl_torch {
namespace {

// --- kernels

constexpr int kRank = 8;

struct KernelText {
  std::string text{}, imageFile{};
  std::vector<std::pair<std::string, std::string>> headers{};
} kernelText;

std::string compileKernels() {
  TORCH_CHECK(device().compile, "device '", backend(),
              "' has no compiler, which torch's device needs");
  std::vector<sl_source_file> files;
  for (const auto& [name, text] : kernelText.headers) {
    files.push_back({name.c_str(), text.c_str()});
  }
  sl_device_source source = {};
  source.size = sizeof source;
  source.name = "torch's device";
  source.text = kernelText.text.c_str();
  source.machine = "";
  source.headers = files.data();
  source.header_count = static_cast<int32_t>(files.size());
  source.header_stride = sizeof(sl_source_file);
  std::string image;
  char reason[2048] = "";
  const int32_t status = device().compile(
      &source,
      [](void* user, const void* data, uint64_t bytes) {
        static_cast<std::string*>(user)->assign(static_cast<const char*>(data), bytes);
      },
      &image, reason, sizeof reason);
  TORCH_CHECK(status == SL_OK, "kernels of torch's device: ", reason);
  return image;
}

/// The image of this process: from the file of an earlier one, or compiled and written there.
const sl_device_image& kernelImage() {
  static const std::string* const bytes = [] {
    std::ifstream file(kernelText.imageFile, std::ios::binary);
    if (file) {
      std::ostringstream read;
      read << file.rdbuf();
      return new std::string(read.str());
    }
    auto* made = new std::string(compileKernels());
    const std::string own = kernelText.imageFile + "." + std::to_string(getpid());
    std::ofstream(own, std::ios::binary) << *made;
    std::rename(own.c_str(), kernelText.imageFile.c_str());  // at once: others may read
    return made;
  }();
  static const sl_device_image image = {sizeof(sl_device_image), bytes->data(), bytes->size(), 0};
  return image;
}

enum Kernel {
  kCopy,
  kFill,
  kAffine,
  kRangeOf,
  kBelow,
  kArange,
  kCount,
  kIndices,
  kSelect,
  kKernels
};
constexpr const char* kSymbols[] = {"sl_torch_copy",  "sl_torch_fill",    "sl_torch_affine",
                                    "sl_torch_range", "sl_torch_below",   "sl_torch_arange",
                                    "sl_torch_count", "sl_torch_indices", "sl_torch_select"};
constexpr int32_t kArguments[] = {6 + 3 * kRank, 5 + 2 * kRank, 6, 6, 5, 6, 3, 4 + kRank, 5};

void* kernelOf(Kernel kernel, c10::DeviceIndex index) {
  static std::array<std::array<std::atomic<void*>, kKernels>, 64> loaded{};
  std::atomic<void*>& place = loaded[static_cast<size_t>(index)][kernel];
  void* found = place.load(std::memory_order_acquire);
  if (!found) {
    static std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    sl_device_code code = {};
    code.size = sizeof code;
    code.symbol = kSymbols[kernel];
    code.image = &kernelImage();
    code.threads = 1;
    code.argument_count = kArguments[kernel];
    char reason[1024] = "";
    TORCH_CHECK(device().load(index, &code, &found, reason, sizeof reason) == SL_OK,
                "kernels of torch's device: ", reason);
    place.store(found, std::memory_order_release);
  }
  return found;
}

void start(Kernel kernel, c10::DeviceIndex index, const int64_t* values) {
  void* arguments[kArguments[kCopy]];
  for (int32_t i = 0; i < kArguments[kernel]; ++i) {
    arguments[i] = const_cast<int64_t*>(&values[i]);
  }
  sl_grid grid = {};
  grid.size = sizeof grid;
  grid.blocks = 1;
  grid.threads = 1;
  sl_ctx ctx = newContext(index);
  check(device().start(currentHandle(index), &ctx, kernelOf(kernel, index), &grid, arguments), ctx,
        kSymbols[kernel]);
}

int64_t number(const void* address) { return reinterpret_cast<int64_t>(address); }
int64_t bitsOf(double value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
int64_t typeNumber(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.scalar_type()); }

bool isComputed(at::ScalarType type) {
  const auto code = static_cast<int>(type);
  return code <= 7 || type == at::kBool || type == at::kBFloat16;
}

/// Sizes and strides with dims that follow each other joined, at least one dim.
struct Walk {
  int rank = 0;
  int64_t sizes[kRank] = {}, to[kRank] = {}, from[kRank] = {};

  Walk(const at::Tensor& a, const at::Tensor& b) {
    for (int64_t dim = 0; dim < a.dim(); ++dim) {
      if (a.size(dim) == 1) {
        continue;
      }
      const int64_t size = a.size(dim), x = a.stride(dim), y = b.stride(dim);
      if (rank > 0 && to[rank - 1] == x * size && from[rank - 1] == y * size) {
        sizes[rank - 1] *= size;
        to[rank - 1] = x;
        from[rank - 1] = y;
        continue;
      }
      TORCH_CHECK(rank < kRank, "a copy of ", a.dim(), " dims that cannot be joined to ", kRank);
      sizes[rank] = size;
      to[rank] = x;
      from[rank++] = y;
    }
    if (rank == 0) {
      rank = sizes[0] = to[0] = from[0] = 1;
    }
  }
};

/// Conjugates and negates the elements of a tensor without flags.
void flip(const at::Tensor& to, bool conjugated, bool negated) {
  at::Tensor parts = to.is_complex() ? realParts(to) : to;
  if (negated) {
    parts.neg_();
  }
  if (conjugated) {
    parts.select(-1, 1).neg_();
  }
}

/// The values of a tensor, in memory without the flags of conjugated and negated views.
at::Tensor withoutFlags(const at::Tensor& tensor) {
  if (!tensor.is_conj() && !tensor.is_neg()) {
    return tensor;
  }
  if (tensor.is_cpu()) {
    return tensor.resolve_conj().resolve_neg();
  }
  const OnDevice on(tensor.device().index());
  at::Tensor made = emptyStrided(tensor.device().index(), tensor.sizes(), {}, tensor.scalar_type());
  copyOnDevice(made, tensor);
  flip(made, tensor.is_conj(), tensor.is_neg());
  return made;
}

bool sameLayout(const at::Tensor& a, const at::Tensor& b) {
  return a.is_non_overlapping_and_dense() && a.strides() == b.strides();
}

// --- copies

/// Waits unless the memory of the host is pinned and the caller will wait.
void afterHostCopy(c10::DeviceIndex index, const void* host, bool nonBlocking) {
  if (nonBlocking && isPinned(host)) {
    usePinned(index, host);
  } else {
    waitForCurrent(index);
  }
}

void fromHost(const at::Tensor& to, const at::Tensor& from, bool nonBlocking) {
  const c10::DeviceIndex index = to.device().index();
  at::Tensor source = from.scalar_type() == to.scalar_type() ? from : from.to(to.scalar_type());
  const at::Tensor target = to.is_non_overlapping_and_dense()
                                ? to
                                : emptyStrided(index, to.sizes(), {}, to.scalar_type());
  if (source.strides() != target.strides() || !source.is_non_overlapping_and_dense()) {
    source = at::empty_strided(target.sizes(), target.strides(), source.options()).copy_(source);
  }
  copyToDevice(index, target.data_ptr(), source.data_ptr(), target.nbytes());
  afterHostCopy(index, source.data_ptr(), nonBlocking && source.is_same(from));
  if (!target.is_same(to)) {
    copyOnDevice(to, target);
  }
}

void toHost(const at::Tensor& to, const at::Tensor& from, bool nonBlocking) {
  const c10::DeviceIndex index = from.device().index();
  const at::Tensor source = from.is_non_overlapping_and_dense() ? from : rowMajor(from);
  const bool direct = to.scalar_type() == source.scalar_type() &&
                      to.strides() == source.strides() && !to.is_conj() && !to.is_neg();
  const at::Tensor target = direct ? to
                                   : at::empty_strided(source.sizes(), source.strides(),
                                                       source.options().device(at::kCPU));
  copyToHost(index, target.data_ptr(), source.data_ptr(), source.nbytes());
  afterHostCopy(index, target.data_ptr(), nonBlocking && direct);
  if (!direct) {
    to.copy_(target);
  }
}

/// By way of the host.
void acrossDevices(const at::Tensor& to, const at::Tensor& from) {
  at::Tensor host = at::empty(from.sizes(), from.options().device(at::kCPU));
  {
    const OnDevice on(from.device().index());
    toHost(host, from, false);
  }
  fromHost(to, host, false);
}

at::Tensor copyFrom(const at::Tensor& self, const at::Tensor& to, bool nonBlocking) {
  at::Tensor from = self.sizes() == to.sizes() ? self : self.expand(to.sizes());
  if (to.numel() == 0 || (to.is_same(from))) {
    return to;
  }
  if (self.is_conj() || self.is_neg()) {
    from = withoutFlags(from);
  }
  const bool here = to.device().type() == kType, there = from.device().type() == kType;
  const OnDevice on(here ? to.device().index() : from.device().index());
  if (here && (to.is_conj() || to.is_neg())) {
    at::Tensor flipped = emptyStrided(to.device().index(), to.sizes(), {}, to.scalar_type());
    flipped.copy_(from);
    flip(flipped, to.is_conj(), to.is_neg());
    copyOnDevice(to, flipped);
    return to;
  }
  if (here && there && to.device() == from.device()) {
    at::assert_no_internal_overlap(to);
    at::assert_no_partial_overlap(to, from);
  }
  if (here && there && to.device() == from.device()) {
    copyOnDevice(to, from);
  } else if (here && there) {
    acrossDevices(to, from);
  } else if (here && from.is_cpu()) {
    fromHost(to, from, nonBlocking);
  } else if (there && to.is_cpu()) {
    toHost(to, from, nonBlocking);
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "a copy from ", from.device(), " to ", to.device(),
                                " is not supported: go through the cpu");
  }
  return to;
}

at::Tensor copyFromAndResize(const at::Tensor& self, const at::Tensor& to) {
  at::native::resize_output(to, self.sizes());
  return copyFrom(self, to, false);
}

at::Scalar localScalar(const at::Tensor& self) {
  at::Tensor host = at::detail::empty_cpu(self.sizes(), self.scalar_type());
  const OnDevice on(self.device().index());
  copyToHost(self.device().index(), host.data_ptr(), self.data_ptr(), self.nbytes());
  waitForCurrent(self.device().index());
  return at::_local_scalar_dense(host);
}

// --- factories and views

at::Tensor emptyMemoryFormat(at::IntArrayRef sizes, std::optional<at::ScalarType> type,
                             std::optional<at::Layout> layout, std::optional<at::Device> where,
                             std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(c10::layout_or_default(layout) == at::kStrided, "only strided tensors are on ",
              c10::Device(kType), ", not ", c10::layout_or_default(layout));
  TORCH_CHECK(!pinned.value_or(false), "only memory of the cpu can be pinned");
  const OnDevice on(resolved(where.value_or(c10::Device(kType))));
  constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_generic(sizes, allocator(), keys, c10::dtype_or_default(type), format);
}

at::Tensor emptyStridedOp(at::IntArrayRef sizes, at::IntArrayRef strides,
                          std::optional<at::ScalarType> type, std::optional<at::Layout>,
                          std::optional<at::Device> where, std::optional<bool>) {
  return emptyStrided(resolved(where.value_or(c10::Device(kType))), sizes, strides,
                      c10::dtype_or_default(type));
}

/// Zeros without memory, of which forward derivatives make those that they need not compute.
at::Tensor zeroTensor(at::IntArrayRef sizes, std::optional<at::ScalarType> type,
                      std::optional<at::Layout>, std::optional<at::Device> where,
                      std::optional<bool>) {
  at::native::ZeroTensorAllocator none(
      at::Device(kType, resolved(where.value_or(c10::Device(kType)))));
  const c10::DispatchKeySet keys = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) |
                                   c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  return at::detail::empty_generic(sizes, &none, keys, c10::dtype_or_default(type), std::nullopt);
}

at::Tensor viewAsReal(const at::Tensor& self) { return at::native::view_as_real(self); }
at::Tensor viewAsComplex(const at::Tensor& self) { return at::native::view_as_complex(self); }

at::Tensor asStrided(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides,
                     std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
}
const at::Tensor& setStrides(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides,
                             std::optional<int64_t> offset) {
  at::native::setStrided(self, sizes, strides, offset.value_or(self.storage_offset()));
  return self;
}
at::Tensor view(const at::Tensor& self, at::IntArrayRef sizes) {
  return at::native::view(self, sizes);
}
at::Tensor reshapeAlias(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::native::_reshape_alias(self, sizes, strides);
}
at::Tensor unfold(const at::Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return at::native::unfold(self, dim, size, step);
}
const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef sizes,
                         std::optional<at::MemoryFormat> format) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != sizes) {
    const size_t bytes = at::detail::computeStorageNbytesContiguous(
        sizes, self.element_size(), static_cast<size_t>(self.storage_offset()));
    if (bytes > self.storage().nbytes()) {
      at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), bytes);
    }
    impl->set_sizes_contiguous(sizes);
  }
  if (format) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "resize_ takes no memory format ", *format);
    impl->empty_tensor_restride(*format);
  }
  return self;
}
void recordStream(at::Tensor& self, at::Stream stream) {
  allocator()->recordStream(self.storage().data_ptr(), stream);
}
at::Tensor& setTensor(at::Tensor& self, const at::Tensor& source) {
  return at::native::set_tensor_(self, source);
}
/// A storage of another device would be read at addresses that the device does not have.
void checkStorage(const at::Tensor& self, const at::Storage& source) {
  checkProcess(self.device().index());
  TORCH_CHECK(source.device() == self.device(), "a tensor on ", self.device(), " got a storage on ",
              source.device(), ": move the storage's tensor there");
}
at::Tensor& setStorage(at::Tensor& self, at::Storage source) {
  checkStorage(self, source);
  return at::native::set_(self, source);
}
at::Tensor& setStorageAt(at::Tensor& self, at::Storage source, int64_t offset,
                         at::IntArrayRef sizes, at::IntArrayRef strides) {
  checkStorage(self, source);
  at::native::checkSetStorage(self, source, offset, sizes, strides);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  at::native::resize_impl_cpu_(self.unsafeGetTensorImpl(), sizes,
                               strides.data() ? at::OptionalIntArrayRef(strides) : std::nullopt,
                               /*resize_storage=*/false);
  return self;
}

// --- fills

at::Tensor& fill(at::Tensor& self, const at::Scalar& value) {
  if (self.numel() == 0) {
    return self;
  }
  if (self.is_complex()) {
    const auto number = value.toComplexDouble();
    at::Tensor parts = realParts(self);
    parts.select(-1, 0).fill_(number.real());
    parts.select(-1, 1).fill_(self.is_conj() ? -number.imag() : number.imag());
    return self;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(isComputed(self.scalar_type()) && !value.isComplex(),
                              "fill_ of a tensor of ", self.scalar_type(), " is not supported on ",
                              self.device());
  const OnDevice on(self.device().index());
  const Walk walk(self, self);
  int64_t values[5 + 2 * kRank] = {
      number(self.data_ptr()), typeNumber(self), value.isIntegral(true),
      value.isIntegral(true) ? value.to<int64_t>() : bitsOf(value.to<double>()), walk.rank};
  std::copy_n(walk.sizes, kRank, values + 5);
  std::copy_n(walk.to, kRank, values + 5 + kRank);
  start(kFill, self.device().index(), values);
  return self;
}

at::Tensor& fillTensor(at::Tensor& self, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ takes a tensor of 0 dims, this one has ", value.dim());
  return self.copy_(value);
}

at::Tensor& zero(at::Tensor& self) { return fill(self, 0); }

// --- sequences

/// begin + i * step.
void sequence(const at::Tensor& out, const at::Scalar& begin, const at::Scalar& step) {
  const OnDevice on(out.device().index());
  const at::Tensor dense =
      out.is_contiguous() ? out
                          : emptyStrided(out.device().index(), out.sizes(), {}, out.scalar_type());
  const bool integers = begin.isIntegral(true) && step.isIntegral(true);
  const auto bits = [&](const at::Scalar& x) {
    return integers ? x.to<int64_t>() : bitsOf(x.to<double>());
  };
  const int64_t values[] = {number(dense.data_ptr()),
                            typeNumber(dense),
                            dense.numel(),
                            integers,
                            bits(begin),
                            bits(step)};
  if (dense.numel() > 0) {
    start(kArange, out.device().index(), values);
  }
  if (!dense.is_same(out)) {
    copyOnDevice(out, dense);
  }
}

at::Tensor& arange(const at::Scalar& begin, const at::Scalar& end, const at::Scalar& step,
                   at::Tensor& out) {
  const double by = step.to<double>();
  TORCH_CHECK(by != 0, "step must be nonzero");
  const double span = end.to<double>() - begin.to<double>();
  TORCH_CHECK(span == 0 || (span > 0) == (by > 0),
              "upper bound and lower bound inconsistent with step sign");
  int64_t count = static_cast<int64_t>(std::ceil(span / by));
  if (begin.isIntegral(true) && end.isIntegral(true) && step.isIntegral(true)) {
    const int64_t distance = end.to<int64_t>() - begin.to<int64_t>(), s = step.to<int64_t>();
    count = (distance + s - (s > 0 ? 1 : -1)) / s;
  }
  if (out.numel() != count) {
    at::native::resize_output(out, {count});
  }
  sequence(out, begin, step);
  return out;
}

at::Tensor& linspace(const at::Scalar& begin, const at::Scalar& end, int64_t steps,
                     at::Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  at::native::resize_output(out, {steps});
  const double first = begin.to<double>(), last = end.to<double>();
  const double by = steps > 1 ? (last - first) / static_cast<double>(steps - 1) : 0;
  if (steps < 2) {
    sequence(out, first, by);
    return out;
  }
  // From both ends, so that the last element is `end` itself.
  sequence(out.narrow(0, 0, steps / 2), first, by);
  sequence(out.narrow(0, steps / 2, steps - steps / 2),
           last - by * static_cast<double>(steps - steps / 2 - 1), by);
  out.narrow(0, steps - 1, 1).fill_(end);
  return out;
}

at::Tensor& eyeOf(int64_t rows, int64_t columns, at::Tensor& out) {
  at::native::resize_output(out, {rows, columns});
  out.zero_();
  out.diagonal().fill_(1);
  return out;
}
at::Tensor& eye(int64_t rows, at::Tensor& out) { return eyeOf(rows, rows, out); }

// --- random numbers

using Maker = std::optional<at::Generator>;

/// Elements of `kind` over a dense tensor.
void drawInto(const at::Tensor& dense, int32_t kind, sl_dtype type, int64_t count,
              const Maker& maker) {
  TORCH_CHECK_NOT_IMPLEMENTED(device().random, "device '", backend(), "' has no random numbers");
  const c10::DeviceIndex index = dense.device().index();
  const Draw drawn = draw(maker, index, device().random_step(kind, type, count));
  sl_ctx ctx = newContext(index);
  check(device().random(currentHandle(index), &ctx, kind, type, dense.data_ptr(), count, drawn.seed,
                        drawn.offset),
        ctx, "random numbers");
}

sl_dtype floatType(at::ScalarType type) {
  TORCH_CHECK(at::isFloatingType(type), "it takes tensors of floats, this one is ", type);
  return {static_cast<uint8_t>(type == at::kBFloat16 ? 4 : 2),
          static_cast<uint8_t>(c10::elementSize(type) * 8), 1};
}

/// Runs `make` on a dense tensor: `self`, or one that is copied there.
template <typename Make>
at::Tensor& onDense(at::Tensor& self, const Make& make) {
  if (self.numel() == 0) {
    return self;
  }
  const OnDevice on(self.device().index());
  if (self.is_non_overlapping_and_dense()) {
    make(self);
    return self;
  }
  const at::Tensor dense =
      emptyStrided(self.device().index(), self.sizes(), {}, self.scalar_type());
  make(dense);
  copyOnDevice(self, dense);
  return self;
}

at::Tensor& scaled(at::Tensor& self, int32_t kind, double scale, double shift, const Maker& maker) {
  return onDense(self, [&](const at::Tensor& dense) {
    drawInto(dense, kind, floatType(dense.scalar_type()), dense.numel(), maker);
    if (scale != 1 || shift != 0) {
      const int64_t values[] = {
          number(dense.data_ptr()), typeNumber(dense), dense.numel(), bitsOf(scale), bitsOf(shift),
          kind == SL_RANDOM_UNIFORM};
      start(kAffine, dense.device().index(), values);
    }
  });
}

at::Tensor& uniform(at::Tensor& self, double from, double to, Maker maker) {
  TORCH_CHECK(from <= to, "uniform_ from ", from, " to ", to, ": the first is at most the second");
  return scaled(self, SL_RANDOM_UNIFORM, to - from, from, maker);
}

at::Tensor& normal(at::Tensor& self, double mean, double deviation, Maker maker) {
  TORCH_CHECK(deviation >= 0, "normal_ has a deviation of ", deviation, ", it takes 0 and more");
  if (self.is_complex()) {  // half of the variance in each part
    at::Tensor parts = realParts(self);
    normal(parts, 0, deviation / std::sqrt(2.0), std::move(maker));
    if (mean != 0) {
      parts.select(-1, 0).add_(mean);
    }
    return self;
  }
  return scaled(self, SL_RANDOM_NORMAL, deviation, mean, maker);
}

/// Integers from `begin` on, `range` of them; 0: 2^64.
at::Tensor& integers(at::Tensor& self, int64_t begin, uint64_t range, const Maker& maker) {
  TORCH_CHECK_NOT_IMPLEMENTED(isComputed(self.scalar_type()), "random_ of ", self.scalar_type(),
                              " is not supported on ", self.device());
  return onDense(self, [&](const at::Tensor& dense) {
    const c10::DeviceIndex index = dense.device().index();
    const at::Tensor words = emptyStrided(index, {dense.numel()}, {1}, at::kLong);
    drawInto(words, SL_RANDOM_BITS, {0, 64, 1}, dense.numel(), maker);
    const int64_t values[] = {number(dense.data_ptr()),
                              typeNumber(dense),
                              number(words.data_ptr()),
                              dense.numel(),
                              begin,
                              static_cast<int64_t>(range)};
    start(kRangeOf, index, values);
  });
}

at::Tensor& randomTo(at::Tensor& self, int64_t to, Maker maker) {
  TORCH_CHECK(to > 0, "random_ below ", to, ": it takes 1 and more");
  return integers(self, 0, static_cast<uint64_t>(to), maker);
}

/// The integers that a type has exactly, from 0 on.
uint64_t exactIntegers(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return 2;
    case at::kByte:
      return 256;
    case at::kHalf:
      return (uint64_t{1} << 11) + 1;
    case at::kBFloat16:
      return (uint64_t{1} << 8) + 1;
    case at::kFloat:
      return (uint64_t{1} << 24) + 1;
    case at::kDouble:
      return (uint64_t{1} << 53) + 1;
    default:
      return uint64_t{1} << (c10::elementSize(type) * 8 - 1);
  }
}

at::Tensor& random(at::Tensor& self, Maker maker) {
  return integers(self, 0, exactIntegers(self.scalar_type()), maker);
}

at::Tensor& randomFrom(at::Tensor& self, int64_t from, std::optional<int64_t> to, Maker maker) {
  if (to) {
    TORCH_CHECK(from < *to, "random_ from ", from, " to ", *to, ": the first is below the second");
    return integers(self, from, static_cast<uint64_t>(*to) - static_cast<uint64_t>(from), maker);
  }
  const uint64_t end = exactIntegers(self.scalar_type());
  return integers(self, from, end - static_cast<uint64_t>(from), maker);
}

at::Tensor& bernoulli(at::Tensor& self, double p, Maker maker) {
  TORCH_CHECK(p >= 0 && p <= 1, "bernoulli_ with p = ", p, ": it takes 0 to 1");
  return onDense(self, [&](const at::Tensor& dense) {
    const c10::DeviceIndex index = dense.device().index();
    const at::Tensor u = emptyStrided(index, {dense.numel()}, {1}, at::kDouble);
    drawInto(u, SL_RANDOM_UNIFORM, {2, 64, 1}, dense.numel(), maker);
    const int64_t values[] = {number(dense.data_ptr()), typeNumber(dense), number(u.data_ptr()),
                              dense.numel(), bitsOf(p)};
    start(kBelow, index, values);
  });
}

at::Tensor& bernoulliTensor(at::Tensor& self, const at::Tensor& p, Maker maker) {
  at::Tensor u = emptyStrided(self.device().index(), p.sizes(), {}, at::kDouble);
  uniform(u, 0, 1, std::move(maker));
  return self.copy_(u.lt(p));
}

at::Tensor& exponential(at::Tensor& self, double rate, Maker maker) {
  TORCH_CHECK(rate > 0, "exponential_ with a rate of ", rate, ": it takes more than 0");
  uniform(self, 0, 1, std::move(maker));
  return self.neg_().log1p_().mul_(-1 / rate);
}

/// The order is drawn on the host, from numbers of the device's generator.
at::Tensor& randperm(int64_t n, Maker maker, at::Tensor& out) {
  const Draw drawn = draw(maker, out.device().index(), 1);
  at::Generator host = at::make_generator<at::CPUGeneratorImpl>(drawn.seed + drawn.offset);
  at::native::resize_output(out, {n});
  return out.copy_(at::randperm(n, host, out.options().device(at::kCPU)));
}

std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor& x, double p,
                                           std::optional<bool> train) {
  at::Tensor mask = at::empty_like(x, x.options().dtype(at::kBool));
  if (!train.value_or(true)) {
    return {x.clone(), mask.fill_(1)};
  }
  bernoulli(mask, 1 - p, std::nullopt);
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  return {x.mul(mask).mul_(scale), mask};
}

// --- torch.amp.GradScaler

void unscale(at::TensorList gradients, at::Tensor& found, const at::Tensor& inverse) {
  for (at::Tensor gradient : gradients) {
    const at::Tensor bad = gradient.isfinite().logical_not().any().to(found.scalar_type());
    found.copy_(bad.view(found.sizes()).maximum(found));
    gradient.mul_(inverse);
  }
}

at::Tensor& updateScale(at::Tensor& scale, at::Tensor& tracker, const at::Tensor& found,
                        double growth, double backoff, int64_t interval) {
  if (found.item().to<double>() != 0) {
    tracker.zero_();
    return scale.mul_(backoff);
  }
  const int64_t successful = tracker.item().to<int64_t>() + 1;
  if (successful < interval) {
    tracker.fill_(successful);
    return scale;
  }
  tracker.zero_();
  const double grown = scale.item().to<double>() * growth;
  return std::isfinite(static_cast<float>(grown)) ? scale.fill_(grown) : scale;
}

// --- choices by a mask, whose number the host has to know

at::Tensor& takeOver(const at::Tensor& found, at::Tensor& out) {
  at::native::resize_output(out, found.sizes());
  return out.copy_(found);
}

/// Dense bools: which elements are not zero.
at::Tensor denseMask(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kBool && tensor.is_contiguous()) {
    return tensor;
  }
  const at::Tensor mask = emptyStrided(tensor.device().index(), tensor.sizes(), {}, at::kBool);
  copyOnDevice(mask, tensor);
  return mask;
}

int64_t countOf(const at::Tensor& mask) {
  if (mask.numel() == 0) {
    return 0;
  }
  const c10::DeviceIndex index = mask.device().index();
  const at::Tensor count = emptyStrided(index, {}, {}, at::kLong);
  const int64_t values[] = {number(count.data_ptr()), number(mask.data_ptr()), mask.numel()};
  start(kCount, index, values);
  return localScalar(count).toLong();
}

at::Tensor nonzeroOf(const at::Tensor& self) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.dim() <= kRank && isComputed(self.scalar_type()), "nonzero of ",
                              self.dim(), " dims of ", self.scalar_type(), " is not supported on ",
                              self.device());
  const OnDevice on(self.device().index());
  const at::Tensor mask = denseMask(self);
  const at::Tensor found =
      emptyStrided(self.device().index(), {countOf(mask), self.dim()}, {}, at::kLong);
  if (found.numel() > 0) {
    int64_t values[4 + kRank] = {number(found.data_ptr()), number(mask.data_ptr()), mask.numel(),
                                 self.dim()};
    std::copy(self.sizes().begin(), self.sizes().end(), values + 4);
    start(kIndices, self.device().index(), values);
  }
  return found;
}
at::Tensor& nonzeroOut(const at::Tensor& self, at::Tensor& out) {
  return takeOver(nonzeroOf(self), out);
}

at::Tensor maskedSelect(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select takes a mask of bools, not of ",
              mask.scalar_type());
  TORCH_CHECK(self.device() == mask.device(), "masked_select got a tensor on ", self.device(),
              " and a mask on ", mask.device(), ": move both to one device");
  const OnDevice on(self.device().index());
  const std::vector<int64_t> sizes = at::infer_size(self.sizes(), mask.sizes());
  const at::Tensor from = rowMajor(self.expand(sizes)), where = denseMask(mask.expand(sizes));
  const at::Tensor found =
      emptyStrided(self.device().index(), {countOf(where)}, {}, self.scalar_type());
  if (found.numel() > 0) {
    const int64_t values[] = {number(found.data_ptr()), number(from.data_ptr()),
                              number(where.data_ptr()), from.numel(),
                              static_cast<int64_t>(from.element_size())};
    start(kSelect, self.device().index(), values);
  }
  return found;
}
at::Tensor& maskedSelectOut(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  return takeOver(maskedSelect(self, mask), out);
}

bool sameElements(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.device() == b.device() && a.scalar_type() == b.scalar_type(), "equal got ",
              a.scalar_type(), " on ", a.device(), " and ", b.scalar_type(), " on ", b.device());
  return a.sizes() == b.sizes() && countOf(denseMask(a.ne(b))) == 0;
}

}  // namespace

void setKernelText(std::string text, std::vector<std::pair<std::string, std::string>> headers,
                   std::string image) {
  kernelText.text = std::move(text);
  kernelText.headers = std::move(headers);
  kernelText.imageFile = std::move(image);
}

at::Tensor emptyStrided(c10::DeviceIndex index, at::IntArrayRef sizes, at::IntArrayRef strides,
                        at::ScalarType type) {
  const OnDevice on(index);
  constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return strides.size() == sizes.size()
             ? at::detail::empty_strided_generic(sizes, strides, allocator(), keys, type)
             : at::detail::empty_generic(sizes, allocator(), keys, type, std::nullopt);
}

at::Tensor realParts(const at::Tensor& tensor) {
  at::DimVector sizes(tensor.sizes()), strides;
  for (int64_t stride : tensor.strides()) {
    strides.push_back(2 * stride);
  }
  sizes.push_back(2);
  strides.push_back(1);
  at::Tensor parts = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(tensor.storage()), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(c10::toRealValueType(tensor.scalar_type())));
  parts.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, 2 * tensor.storage_offset());
  return parts;
}

at::Tensor rowMajor(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) {
    return tensor;
  }
  at::Tensor dense =
      emptyStrided(tensor.device().index(), tensor.sizes(), {}, tensor.scalar_type());
  copyOnDevice(dense, tensor);
  return dense;
}

void copyOnDevice(const at::Tensor& to, const at::Tensor& from) {
  if (to.numel() == 0) {
    return;
  }
  const c10::DeviceIndex index = to.device().index();
  const bool same = to.scalar_type() == from.scalar_type();
  if (!same && from.is_complex()) {
    const at::Tensor parts = realParts(from);
    return to.is_complex() ? copyOnDevice(realParts(to), parts)
                           : copyOnDevice(to, parts.select(-1, 0));
  }
  if (!same && to.is_complex()) {
    const at::Tensor parts = realParts(to);
    parts.select(-1, 1).zero_();
    return copyOnDevice(parts.select(-1, 0), from);
  }
  if (same && sameLayout(to, from)) {
    if (to.data_ptr() != from.data_ptr()) {
      copyWithin(index, to.data_ptr(), from.data_ptr(), to.nbytes());
    }
    return;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      same || (isComputed(to.scalar_type()) && isComputed(from.scalar_type())), "a copy from ",
      from.scalar_type(), " to ", to.scalar_type(), " is not supported on ", to.device());
  const Walk walk(to, from);
  int64_t values[6 + 3 * kRank] = {number(to.data_ptr()),
                                   number(from.data_ptr()),
                                   typeNumber(to),
                                   typeNumber(from),
                                   same ? static_cast<int64_t>(to.element_size()) : 0,
                                   walk.rank};
  std::copy_n(walk.sizes, kRank, values + 6);
  std::copy_n(walk.to, kRank, values + 6 + kRank);
  std::copy_n(walk.from, kRank, values + 6 + 2 * kRank);
  start(kCopy, index, values);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", emptyMemoryFormat);
  m.impl("empty_strided", emptyStridedOp);
  m.impl("_efficientzerotensor", zeroTensor);
  m.impl("view_as_real", viewAsReal);
  m.impl("view_as_complex", viewAsComplex);
  m.impl("as_strided", asStrided);
  m.impl("as_strided_", setStrides);
  m.impl("view", view);
  m.impl("_reshape_alias", reshapeAlias);
  m.impl("unfold", unfold);
  m.impl("resize_", resize);
  m.impl("record_stream", recordStream);
  m.impl("set_.source_Tensor", setTensor);
  m.impl("set_.source_Storage", setStorage);
  m.impl("set_.source_Storage_storage_offset", setStorageAt);
  m.impl("_copy_from", copyFrom);
  m.impl("_copy_from_and_resize", copyFromAndResize);
  m.impl("_local_scalar_dense", localScalar);
  m.impl("fill_.Scalar", fill);
  m.impl("fill_.Tensor", fillTensor);
  m.impl("zero_", zero);
  m.impl("arange.start_out", arange);
  m.impl("linspace.out", linspace);
  m.impl("eye.out", eye);
  m.impl("eye.m_out", eyeOf);
  m.impl("uniform_", uniform);
  m.impl("normal_", normal);
  m.impl("random_", random);
  m.impl("random_.to", randomTo);
  m.impl("random_.from", randomFrom);
  m.impl("bernoulli_.float", bernoulli);
  m.impl("bernoulli_.Tensor", bernoulliTensor);
  m.impl("exponential_", exponential);
  m.impl("randperm.generator_out", randperm);
  m.impl("native_dropout", dropout);
  m.impl("_amp_foreach_non_finite_check_and_unscale_", unscale);
  m.impl("_amp_update_scale_", updateScale);
  m.impl("nonzero", nonzeroOf);
  m.impl("nonzero.out", nonzeroOut);
  m.impl("masked_select", maskedSelect);
  m.impl("masked_select.out", maskedSelectOut);
  m.impl("equal", sameElements);
}

// Copies look at the flags of views themselves; to resolve them before is a copy, too.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace sl_torch
