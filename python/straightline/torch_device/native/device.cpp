// SPDX-License-Identifier: Apache-2.0
// Device guard, hooks, streams, events and generators.
#include "device.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

namespace sl_torch {
namespace {

const sl_backend_desc* opened = nullptr;
int count = 0;

constexpr int kMostDevices = 64, kPool = 8;

/// Streams of one device: the default one, which the runtime keeps, and a pool.
struct Streams {
  std::mutex mutex;
  std::array<std::atomic<sl_queue*>, kPool + 1> queues{};
  std::atomic<unsigned> turn{0};
};
Streams& streamsOf(c10::DeviceIndex index) {
  static auto* const all = new std::array<Streams, kMostDevices>;
  return (*all)[static_cast<size_t>(index)];
}

thread_local c10::DeviceIndex current = 0;
thread_local std::array<uint8_t, kMostDevices> currentStreams{};

void orThrow(int32_t status, const sl_message& message) {
  if (status != SL_OK) {
    raise(status, message.text);
  }
}

}  // namespace

const char* backend() { return opened->name; }
const sl_device_desc& device() { return *opened->device; }
int deviceCount() { return count; }

void openBackend(const char* name) {
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    if (std::strcmp(sl_backend_at(i)->name, name) == 0) {
      opened = sl_backend_at(i);
    }
  }
  TORCH_CHECK(opened && opened->device, "backend '", name, "' has no device");
  const sl_device_desc& found = *opened->device;
  count = found.count ? found.count() : 1;
  TORCH_CHECK(count > 0 && count <= kMostDevices, "backend '", name, "' has ", count,
              " devices but torch's device takes 1 to ", kMostDevices);
}

c10::DeviceIndex currentDevice() { return current; }

c10::DeviceIndex checked(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < count, "device ", c10::Device(kType, index), " is not there: '",
              backend(), "' has ", count, ", numbered from 0");
  return index;
}

c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) {
  const c10::DeviceIndex before = current;
  current = checked(index);
  return before;
}

c10::DeviceIndex resolved(c10::Device wanted) {
  return wanted.index() < 0 ? current : checked(wanted.index());
}

// --- streams

namespace {
/// Set in a child of a process that had a queue: its worker threads are not in the child.
std::atomic<bool> forked{false};
}  // namespace

c10::StreamId currentStream(c10::DeviceIndex index) {
  return currentStreams[static_cast<size_t>(index)];
}

sl_queue* queueOf(c10::DeviceIndex index, c10::StreamId id) {
  TORCH_CHECK(id >= 0 && id <= kPool, "stream ", id, " is none of device ",
              c10::Device(kType, index));
  std::atomic<sl_queue*>& place = streamsOf(index).queues[static_cast<size_t>(id)];
  sl_queue* queue = place.load(std::memory_order_acquire);
  if (queue) {
    return queue;
  }
  const std::lock_guard<std::mutex> lock(streamsOf(index).mutex);
  queue = place.load();
  if (!queue) {
    sl_message message;
    if (id == 0) {
      // The queue that programs use where a thread has chosen none.
      sl_queue_choose(backend(), index, nullptr);
      const int32_t status = sl_queue_current(backend(), index, &queue, &message);
      if (const c10::StreamId own = currentStream(index); own != 0) {
        sl_queue_choose(backend(), index, streamsOf(index).queues[static_cast<size_t>(own)].load());
      }
      orThrow(status, message);
    } else {
      orThrow(sl_queue_create(backend(), index, &queue, &message), message);
    }
    place.store(queue, std::memory_order_release);
    static const int registered =
        pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
    TORCH_CHECK(registered == 0, "pthread_atfork: ", std::strerror(registered));
  }
  return queue;
}

c10::StreamId exchangeStream(c10::DeviceIndex index, c10::StreamId id) {
  sl_queue* queue = queueOf(index, id);
  sl_queue_choose(backend(), index, id == 0 ? nullptr : queue);
  return std::exchange(currentStreams[static_cast<size_t>(index)], static_cast<uint8_t>(id));
}

c10::StreamId newStream(c10::DeviceIndex index) {
  return 1 + static_cast<c10::StreamId>(streamsOf(index).turn++ % kPool);
}

bool isForked() { return forked; }

void checkProcess(c10::DeviceIndex index) {
  TORCH_CHECK(!forked, "device '", c10::Device(kType, index), "' cannot be used in process ",
              getpid(),
              ": it was forked from one that had used the device, whose queues it lacks; start it "
              "by 'spawn' (multiprocessing_context=\"spawn\" of a DataLoader)");
}

sl_queue* currentQueue(c10::DeviceIndex index) {
  checkProcess(index);
  return queueOf(index, currentStream(index));
}

// --- errors and copies

sl_ctx newContext(c10::DeviceIndex index) {
  sl_ctx ctx;
  std::memset(&ctx, 0, offsetof(sl_ctx, text) + 1);
  ctx.size = sizeof ctx;
  ctx.statement = -1;
  ctx.device = index;
  ctx.overlap = 0;
  ctx.behind = nullptr;
  return ctx;
}

void raise(int32_t status, const std::string& text) {
  switch (status) {
    case SL_INDEX_ERROR:
      C10_THROW_ERROR(IndexError, text);
    case SL_INVALID_ARGUMENT:
      C10_THROW_ERROR(ValueError, text);
    case SL_UNSUPPORTED:
      C10_THROW_ERROR(NotImplementedError, text);
    case SL_OUT_OF_MEMORY:
      C10_THROW_ERROR(OutOfMemoryError, text);
    default:
      C10_THROW_ERROR(Error, text);
  }
}

void check(int32_t status, const sl_ctx& ctx, const char* what) {
  if (status == SL_OK) {
    return;
  }
  raise(status, ctx.text[0] ? std::string(ctx.text)
                            : c10::str(what, ": device '", backend(), "' gives status ", status));
}

namespace {

void copy(c10::DeviceIndex index, void* to, const char* toSpace, const void* from,
          const char* fromSpace, size_t bytes) {
  if (bytes == 0) {
    return;
  }
  sl_ctx ctx = newContext(index);
  check(device().copy(currentHandle(index), &ctx, to, toSpace, from, fromSpace, bytes), ctx,
        "copy");
}

void tellFailure(c10::DeviceIndex index, sl_queue* queue) {
  if (device().failure) {
    sl_ctx ctx = newContext(index);
    check(device().failure(sl_queue_handle(queue), &ctx), ctx, "work of the queue");
  }
}

}  // namespace

void copyToDevice(c10::DeviceIndex index, void* to, const void* from, size_t bytes) {
  copy(index, to, device().space, from, "host", bytes);
}
void copyToHost(c10::DeviceIndex index, void* to, const void* from, size_t bytes) {
  copy(index, to, "host", from, device().space, bytes);
}
void copyWithin(c10::DeviceIndex index, void* to, const void* from, size_t bytes) {
  copy(index, to, device().space, from, device().space, bytes);
}

void waitForQueue(c10::DeviceIndex index, sl_queue* queue) {
  void* event = device().record(sl_queue_handle(queue));
  device().synchronize(event);
  device().event_destroy(event);
  tellFailure(index, queue);
}

void waitForCurrent(c10::DeviceIndex index) { waitForQueue(index, currentQueue(index)); }

void waitForDevice(c10::DeviceIndex index) {
  for (c10::StreamId id = 0; id <= kPool; ++id) {
    if (sl_queue* queue = streamsOf(index).queues[static_cast<size_t>(id)].load()) {
      waitForQueue(index, queue);
    }
  }
}

namespace {

// --- events

/// Of torch: an event of the device, timed or not, and where it was recorded.
struct Event {
  void* event = nullptr;
  c10::DeviceIndex index = -1;
};
Event* asEvent(void* event) { return static_cast<Event*>(event); }

struct Guard final : public c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device wanted) const override {
    return {kType, sl_torch::exchangeDevice(resolved(wanted))};
  }
  c10::Device getDevice() const override { return {kType, current}; }
  void setDevice(c10::Device wanted) const override { current = resolved(wanted); }
  void uncheckedSetDevice(c10::Device wanted) const noexcept override {
    if (wanted.index() >= 0) {
      current = wanted.index();
    }
  }
  c10::Stream getStream(c10::Device of) const override {
    return stream(resolved(of), currentStream(resolved(of)));
  }
  c10::Stream getDefaultStream(c10::Device of) const override { return stream(resolved(of), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device of, bool) const override {
    return stream(resolved(of), newStream(resolved(of)));
  }
  c10::Stream getNewStream(c10::Device of, int) const override {
    return getStreamFromGlobalPool(of, false);
  }
  c10::Stream exchangeStream(c10::Stream wanted) const override {
    const c10::DeviceIndex index = wanted.device_index();
    return stream(index, sl_torch::exchangeStream(index, wanted.id()));
  }
  void* getStreamNativeHandle(const c10::Stream of) const override {
    return sl_queue_handle(queueOf(of.device_index(), of.id()));
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event) {
      device().event_destroy(asEvent(event)->event);
      delete asEvent(event);
    }
  }
  void record(void** event, const c10::Stream& on, const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(index == -1 || index == on.device_index(), "an event of device ",
                c10::Device(kType, index), " cannot be recorded on a stream of device ",
                on.device());
    void* queue = sl_queue_handle(queueOf(on.device_index(), on.id()));
    Event*& held = reinterpret_cast<Event*&>(*event);
    if (held && device().record_again) {
      TORCH_CHECK(device().record_again(queue, held->event), "the event could not be recorded");
      return;
    }
    const bool timed = flag == c10::EventFlag::BACKEND_DEFAULT && device().record_timed;
    void* made = timed ? device().record_timed(queue) : device().record(queue);
    TORCH_CHECK(made, "the device could not make an event");
    if (held) {
      device().event_destroy(held->event);
    } else {
      held = new Event;
    }
    *held = {made, on.device_index()};
  }
  void block(void* event, const c10::Stream& on) const override {
    if (!event) {
      return;  // never recorded
    }
    device().wait(sl_queue_handle(queueOf(on.device_index(), on.id())), asEvent(event)->event);
  }
  bool queryEvent(void* event) const override {
    return !event || device().query(asEvent(event)->event);
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(count);
  }
  bool queryStream(const c10::Stream& of) const override {
    void* event = device().record(sl_queue_handle(queueOf(of.device_index(), of.id())));
    const bool passed = device().query(event);
    device().event_destroy(event);
    return passed;
  }
  void synchronizeStream(const c10::Stream& of) const override {
    waitForQueue(of.device_index(), queueOf(of.device_index(), of.id()));
  }
  void synchronizeEvent(void* event) const override {
    if (event) {
      device().synchronize(asEvent(event)->event);
    }
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override { waitForDevice(index); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& on) const override {
    allocator()->recordStream(data, on);
  }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex) const override {
    TORCH_CHECK(first && second, "both events must be recorded before their time is asked");
    TORCH_CHECK(asEvent(first)->index == asEvent(second)->index, "an event of device ",
                c10::Device(kType, asEvent(first)->index), " and an event of device ",
                c10::Device(kType, asEvent(second)->index),
                " have no time between them: record both on one device");
    TORCH_CHECK(device().elapsed_ms, "device '", backend(), "' has no timed events");
    TORCH_CHECK(queryEvent(first) && queryEvent(second),
                "both events must be completed before their time is asked: synchronize them");
    return device().elapsed_ms(asEvent(first)->event, asEvent(second)->event);
  }

 private:
  static c10::Stream stream(c10::DeviceIndex index, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, index), id);
  }
};

// --- generators

/// Counter-based: a seed, and an offset by which every use advances.
struct Generator final : public c10::GeneratorImpl {
  explicit Generator(c10::DeviceIndex index)
      : GeneratorImpl(c10::Device(kType, index),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.is_cpu() && state.dtype() == caffe2::TypeMeta::Make<uint8_t>() &&
                    state.numel() == kBytes && state.is_contiguous(),
                "the state of a generator is a dense uint8 tensor of ", kBytes,
                " elements on the cpu, this one has ", state.numel(), " on ", state.device());
    std::memcpy(&seed_, state.data(), 8);
    std::memcpy(&offset_, static_cast<const char*>(state.data()) + 8, 8);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state = at::detail::empty_cpu({kBytes}, at::kByte);
    std::memcpy(state.data_ptr(), &seed_, 8);
    std::memcpy(static_cast<char*>(state.data_ptr()) + 8, &offset_, 8);
    return state.getIntrusivePtr();
  }
  uint64_t take(uint64_t step) {
    const uint64_t at = offset_;
    offset_ += step;
    return at;
  }

 private:
  Generator* clone_impl() const override {
    auto* copy = new Generator(device().index());
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }

  static constexpr int64_t kBytes = 16;
  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
};

struct Hooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return count > 0; }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(count); }
  void setCurrentDevice(c10::DeviceIndex index) const override { current = checked(index); }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current : sl_torch::exchangeDevice(index);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return defaultGenerator(index < 0 ? current : index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<Generator>(index < 0 ? current : checked(index));
  }
  at::Device getDeviceFromPtr(void*) const override { return {kType, current}; }
  bool isPinnedPtr(const void* data) const override { return isPinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinnedAllocator(); }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    const c10::DeviceIndex index = storage.device().index();
    const c10::DeviceIndex before = sl_torch::exchangeDevice(index);
    c10::DataPtr data = allocator()->allocate(bytes);
    copyWithin(index, data.get(), storage.data(), std::min(bytes, storage.nbytes()));
    storage.set_data_ptr_noswap(std::move(data));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
    current = before;
  }
};

}  // namespace

const at::Generator& defaultGenerator(c10::DeviceIndex index) {
  static auto* const all = [] {
    auto* made = new std::vector<at::Generator>;
    for (int i = 0; i < count; ++i) {
      made->push_back(at::make_generator<Generator>(static_cast<c10::DeviceIndex>(i)));
    }
    return made;
  }();
  return (*all)[static_cast<size_t>(checked(index))];
}

Draw draw(const std::optional<at::Generator>& generator, c10::DeviceIndex index, uint64_t step) {
  at::Generator chosen = generator && generator->defined() ? *generator : defaultGenerator(index);
  TORCH_CHECK(chosen.device().type() == kType && chosen.device().index() == index,
              "the generator is of device ", chosen.device(), " but the tensor is on ",
              c10::Device(kType, index));
  auto* own = static_cast<Generator*>(chosen.unsafeGetGeneratorImpl());
  const std::lock_guard<std::mutex> lock(own->mutex_);
  return {own->current_seed(), own->take(step)};
}

void registerClasses() {
  c10::impl::registerDeviceGuard(kType, new Guard);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  registerMemory();
}

}  // namespace sl_torch
