// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/device_images.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

namespace straightline::jit {

bool compileImages(const std::vector<Unit>& units, const std::vector<std::string>& keyed,
                   const CompileOptions& options,
                   const std::function<DeviceOutput(const Unit&)>& compile, DeviceProgram* program,
                   CompileError* error) {
  ObjectCache& cache = options.cache != nullptr ? *options.cache : ObjectCache::process();
  std::atomic<size_t> next = 0;
  std::atomic<bool> stops = false;
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i = next++; i < units.size() && !stops; i = next++) {
      const Unit& unit = units[i];
      const auto begin = std::chrono::steady_clock::now();
      const std::string key = ObjectCache::key(unit.text, keyed);
      std::optional<std::string> image = cache.load(key);
      const bool isCached = image.has_value();
      DeviceOutput output = isCached ? DeviceOutput{true, std::move(*image), {}} : compile(unit);
      if (output.ok && !isCached) {
        cache.store(key, output.image);
      }
      const std::lock_guard<std::mutex> lock(mutex);
      if (options.onUnit) {
        const std::chrono::duration<double, std::milli> passed =
            std::chrono::steady_clock::now() - begin;
        options.onUnit({unit.name, unit.runsOnce, key, passed.count(), isCached, output.ok});
      }
      if (!output.ok) {
        if (!stops.exchange(true)) {
          *error = std::move(output.error);
        }
        return;
      }
      program->images[unit.name] = std::move(output.image);
      ++(isCached ? program->cached : program->compiled);
    }
  };
  std::vector<std::thread> others;
  for (size_t i = 1;
       i < std::min<size_t>(units.size(), std::max(1u, std::thread::hardware_concurrency())); ++i) {
    others.emplace_back(work);
  }
  work();
  for (std::thread& other : others) {
    other.join();
  }
  return !stops;
}

}  // namespace straightline::jit
