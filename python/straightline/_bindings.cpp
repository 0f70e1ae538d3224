// SPDX-License-Identifier: Apache-2.0
// _compiler: the compiler's C ABI as Python classes, and nothing more. Errors become the exceptions
// of straightline.errors.
#include <cxxabi.h>
#include <pthread.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tools/compiler_abi.h"

namespace py = pybind11;

namespace {

struct TextDeleter {
  void operator()(sl_text* text) const { sl_text_release(text); }
};
using Text = std::unique_ptr<sl_text, TextDeleter>;

py::str toStr(sl_text* text) {
  const Text owned(text);
  return py::str(sl_text_data(text), sl_text_size(text));
}

[[noreturn]] void raise(int32_t kind, sl_text* error) {
  const Text owned(error);
  const char* name = kind == SL_ERROR_USER          ? "UserError"
                     : kind == SL_ERROR_UNSUPPORTED ? "UnsupportedError"
                                                    : "InternalError";
  const py::object type = py::module_::import("straightline.errors").attr(name);
  PyErr_SetObject(type.ptr(), py::str(sl_text_data(error), sl_text_size(error)).ptr());
  throw py::error_already_set();
}

void check(int32_t kind, sl_text* error) {
  if (kind != SL_ERROR_NONE) {
    raise(kind, error);
  }
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  for (const std::string& text : texts) {
    result.push_back(text.c_str());
  }
  return result;
}

/// For a daemon thread while the process ends: what it would return to is going.
[[noreturn]] void stopHere() {
  for (;;) {
    pause();
  }
}

/// The GIL released. pybind11's own lets a thread unwind that Python ends at the end of the process
/// (before 3.14), through frames that do not allow it; such a thread stops here, and ends with the
/// process.
class Released {
 public:
  Released() : state_(PyEval_SaveThread()) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind&) {
      stopHere();
    }
  }

 private:
  PyThreadState* state_;
};

class Module {
 public:
  explicit Module(sl_module* module) : module_(module, sl_module_release) {}

  static Module parse(const std::string& text, const std::string& name) {
    sl_module* module = nullptr;
    sl_text* error = nullptr;
    int32_t kind = SL_ERROR_NONE;
    {
      const Released released;
      kind = sl_module_parse(text.data(), text.size(), name.c_str(), &module, &error);
    }
    check(kind, error);
    return Module(module);
  }

  py::str print(bool locations, bool generic, bool elide) const {
    return toStr(sl_module_print(module_.get(), (locations ? SL_PRINT_LOCATIONS : 0) |
                                                    (generic ? SL_PRINT_GENERIC : 0) |
                                                    (elide ? SL_PRINT_ELIDE : 0)));
  }

  py::str parameters() const { return toStr(sl_module_parameters(module_.get())); }

  Module withSizes(const std::map<std::string, int64_t>& sizes) const {
    std::vector<std::string> texts;
    for (const auto& [name, size] : sizes) {
      texts.push_back(name + "=" + std::to_string(size));
    }
    sl_module* module = nullptr;
    sl_text* error = nullptr;
    int32_t kind = SL_ERROR_NONE;
    {
      const Released released;  // another thread may compile this module
      kind = sl_module_with_sizes(module_.get(), pointers(texts).data(),
                                  static_cast<int32_t>(texts.size()), &module, &error);
    }
    check(kind, error);
    return Module(module);
  }

  const sl_module* get() const { return module_.get(); }

 private:
  std::shared_ptr<sl_module> module_;
};

class Builder {
 public:
  Builder() : builder_(sl_builder_create(), sl_builder_release) {}

  void symbol(const std::string& name, int64_t min, int64_t max) {
    sl_text* error = nullptr;
    check(sl_builder_symbol(builder_.get(), name.c_str(), min, max, &error), error);
  }

  std::vector<int32_t> beginFunction(const std::string& name, const std::vector<std::string>& names,
                                     const std::vector<std::string>& types) {
    if (names.size() != types.size()) {
      throw py::value_error("as many argument names as types, please");
    }
    std::vector<int32_t> values(names.size());
    sl_text* error = nullptr;
    check(sl_builder_begin_function(builder_.get(), name.c_str(), pointers(names).data(),
                                    pointers(types).data(), static_cast<int32_t>(names.size()),
                                    values.data(), &error),
          error);
    return values;
  }

  void attribute(const std::string& name, const std::string& text) {
    sl_text* error = nullptr;
    check(sl_builder_attribute(builder_.get(), name.c_str(), text.c_str(), &error), error);
  }

  void attributeString(const std::string& name, const std::string& value) {
    sl_text* error = nullptr;
    check(sl_builder_attribute_string(builder_.get(), name.c_str(), value.data(), value.size(),
                                      &error),
          error);
  }

  void attributeDense(const std::string& name, const std::string& type, const py::bytes& data) {
    const std::string_view bytes = data;
    sl_text* error = nullptr;
    check(sl_builder_attribute_dense(builder_.get(), name.c_str(), type.c_str(), bytes.data(),
                                     bytes.size(), &error),
          error);
  }

  std::vector<int32_t> op(const std::string& name, const std::vector<int32_t>& operands,
                          const std::vector<std::string>& resultTypes,
                          const std::optional<std::vector<int32_t>>& segments, int32_t regions,
                          const std::string& module, const std::string& file, int32_t line,
                          const std::string& overload) {
    const sl_location location{module.c_str(), file.c_str(), line, overload.c_str()};
    std::vector<int32_t> results(resultTypes.size());
    // An empty list of segments is not the same as none.
    static const int32_t nothing = 0;
    const int32_t* segmentData = !segments           ? nullptr
                                 : segments->empty() ? &nothing
                                                     : segments->data();
    sl_text* error = nullptr;
    check(sl_builder_op(builder_.get(), name.c_str(), operands.data(),
                        static_cast<int32_t>(operands.size()), pointers(resultTypes).data(),
                        static_cast<int32_t>(resultTypes.size()), segmentData,
                        segments ? static_cast<int32_t>(segments->size()) : 0, regions, &location,
                        results.data(), &error),
          error);
    return results;
  }

  std::vector<int32_t> beginRegion(const std::vector<std::string>& types) {
    std::vector<int32_t> values(types.size());
    sl_text* error = nullptr;
    check(sl_builder_begin_region(builder_.get(), pointers(types).data(),
                                  static_cast<int32_t>(types.size()), values.data(), &error),
          error);
    return values;
  }

  void endRegion(const std::vector<int32_t>& yields, const std::string& module,
                 const std::string& file, int32_t line) {
    const sl_location location{module.c_str(), file.c_str(), line, ""};
    sl_text* error = nullptr;
    check(sl_builder_end_region(builder_.get(), yields.data(), static_cast<int32_t>(yields.size()),
                                &location, &error),
          error);
  }

  void endFunction(const std::vector<int32_t>& values, const std::vector<std::string>& names,
                   const std::vector<std::string>& ties) {
    if (values.size() != names.size() || values.size() != ties.size()) {
      throw py::value_error("as many result names and ties as values, please");
    }
    sl_text* error = nullptr;
    check(
        sl_builder_end_function(builder_.get(), values.data(), pointers(names).data(),
                                pointers(ties).data(), static_cast<int32_t>(values.size()), &error),
        error);
  }

  Module finish() {
    sl_module* module = nullptr;
    sl_text* error = nullptr;
    check(sl_builder_finish(builder_.get(), &module, &error), error);
    return Module(module);
  }

 private:
  std::unique_ptr<sl_builder, void (*)(sl_builder*)> builder_;
};

class Compilation {
 public:
  explicit Compilation(sl_compilation* compilation)
      : compilation_(compilation, sl_compilation_release) {}

  const sl_compilation* get() const { return compilation_.get(); }

  /// The code as a shared object, images of a device by name, and the version of their compiler.
  py::tuple link() const { return linkedBy(sl_compilation_link); }

  /// PTX of a device's units by name, and the version of their compiler.
  py::tuple deviceText() const {
    const py::tuple made = linkedBy(sl_compilation_device_text);
    return py::make_tuple(made[1], made[2]);
  }

  py::tuple linkedBy(int32_t (*make)(const sl_compilation*, sl_linked**, sl_text**)) const {
    sl_linked* linked = nullptr;
    sl_text* error = nullptr;
    int32_t kind = SL_ERROR_NONE;
    {
      const Released released;
      kind = make(get(), &linked, &error);
    }
    check(kind, error);
    const std::unique_ptr<sl_linked, void (*)(sl_linked*)> owned(linked, sl_linked_release);
    const auto bytes = [](const void* data, size_t size) {
      return py::bytes(static_cast<const char*>(data), size);
    };
    const void* data = nullptr;
    size_t size = 0;
    py::dict images;
    for (int32_t i = 0; i < sl_linked_image_count(linked); ++i) {
      const char* name = nullptr;
      sl_linked_image(linked, i, &name, &data, &size);
      images[name] = bytes(data, size);
    }
    sl_linked_code(linked, &data, &size);
    return py::make_tuple(bytes(data, size), images, sl_linked_image_compiler(linked));
  }

  py::str code() const { return toStr(sl_compilation_code(get())); }
  py::str python() const { return toStr(sl_compilation_python(get())); }
  py::str links() const { return toStr(sl_compilation_links(get())); }
  py::str passes() const { return toStr(sl_compilation_passes(get())); }
  py::str explain() const { return toStr(sl_compilation_explain(get())); }
  py::str notes() const { return toStr(sl_compilation_notes(get())); }

  py::str ir(const std::string& level, bool locations, bool generic, bool elide) const {
    const uint32_t flags = (locations ? SL_PRINT_LOCATIONS : 0) | (generic ? SL_PRINT_GENERIC : 0) |
                           (elide ? SL_PRINT_ELIDE : 0);
    sl_text* text = nullptr;
    sl_text* error = nullptr;
    check(sl_compilation_ir(get(), level.c_str(), flags, &text, &error), error);
    return toStr(text);
  }

  std::vector<std::pair<std::string, std::string>> units() const {
    std::vector<std::pair<std::string, std::string>> result;
    for (int32_t i = 0; i < sl_compilation_unit_count(get()); ++i) {
      const char* name = nullptr;
      const char* text = nullptr;
      sl_compilation_unit(get(), i, &name, &text);
      result.emplace_back(name, text);
    }
    return result;
  }

  std::pair<int32_t, int32_t> counts() const {
    std::pair<int32_t, int32_t> result;
    sl_compilation_counts(get(), &result.first, &result.second);
    return result;
  }

  std::vector<py::bytes> images() const {
    std::vector<py::bytes> result;
    for (int32_t i = 0; i < sl_compilation_image_count(get()); ++i) {
      const void* data = nullptr;
      size_t bytes = 0;
      sl_compilation_image(get(), i, &data, &bytes);
      result.emplace_back(static_cast<const char*>(data), bytes);
    }
    return result;
  }

  /// A capsule "sl_program" that holds a reference of its own; None after emit_only.
  py::object program() const {
    sl_program* program = sl_compilation_program(get());
    if (program == nullptr) {
      return py::none();
    }
    return py::capsule(program, "sl_program", [](PyObject* capsule) {
      sl_program_release(static_cast<sl_program*>(PyCapsule_GetPointer(capsule, "sl_program")));
    });
  }

 private:
  std::shared_ptr<sl_compilation> compilation_;
};

/// A program with memory of its own, to be called for its time.
class Timing {
 public:
  Timing(const py::capsule& program, uint64_t seed, bool byStream) {
    sl_timing* timing = nullptr;
    sl_text* error = nullptr;
    int32_t kind = SL_ERROR_NONE;
    auto* const native =
        static_cast<sl_program*>(PyCapsule_GetPointer(program.ptr(), "sl_program"));
    if (native == nullptr) {
      throw py::error_already_set();
    }
    {
      const Released released;
      kind = sl_timing_create(native, seed, byStream ? 1 : 0, &timing, &error);
    }
    check(kind, error);
    timing_.reset(timing);
  }

  double run(double seconds) {
    double us = 0;
    sl_text* error = nullptr;
    int32_t kind = SL_ERROR_NONE;
    {
      const Released released;
      kind = sl_timing_run(timing_.get(), seconds, &us, &error);
    }
    check(kind, error);
    return us;
  }

 private:
  struct Deleter {
    void operator()(sl_timing* timing) const { sl_timing_release(timing); }
  };
  std::unique_ptr<sl_timing, Deleter> timing_;
};

/// How far a compilation is; another thread may look while compile() works.
class Progress {
 public:
  int32_t stage() const { return look(progress_.stage); }
  int32_t unitsDone() const { return look(progress_.units_done); }
  int32_t units() const { return look(progress_.units); }
  sl_progress* get() { return &progress_; }

 private:
  static int32_t look(const int32_t& value) { return __atomic_load_n(&value, __ATOMIC_RELAXED); }
  sl_progress progress_{sizeof(sl_progress), 0, 0, 0, 0};
};

/// Compilations under way, and whether the process ends: then they stop, for clang may not run
/// while its globals go.
struct Running {
  std::mutex mutex;
  int count = 0;
  bool ending = false;

  void over() {
    const std::lock_guard<std::mutex> lock(mutex);
    --count;
  }
};

/// Never destroyed: threads that are stopped may still look at it. A forked child has one of its
/// own, for none of its parent's compilations goes on there.
std::atomic<Running*> live_{new Running()};

/// At the end of the interpreter: ends compilations of daemon threads and waits until they have.
void endCompilations() {
  const Released released;
  Running& running = *live_;
  // no condition variable: that of GCC 12 wants a newer C++ library than the wheel may
  for (int count = 1; count > 0;) {
    {
      const std::lock_guard<std::mutex> lock(running.mutex);
      running.ending = true;
      count = running.count;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(count > 0 ? 2 : 0));
  }
}

/// A thread that compiles; done when the object goes.
class CompilingThread {
 public:
  template <class Work>
  explicit CompilingThread(Work work) : running_(*live_) {
    {
      const std::lock_guard<std::mutex> lock(running_.mutex);
      if (running_.ending) {
        throw std::runtime_error("the interpreter is ending: nothing is compiled any more");
      }
      ++running_.count;
    }
    try {
      done_ = std::async(std::launch::async, [work, &running = running_] {
        work();
        running.over();
      });
    } catch (...) {  // no thread to be had
      running_.over();
      throw;
    }
  }

  bool toEnd() const {
    const std::lock_guard<std::mutex> lock(running_.mutex);
    return running_.ending;
  }

  /// Waits a while; whether it is over.
  bool waited() const {
    const Released released;
    return done_.wait_for(std::chrono::milliseconds(20)) == std::future_status::ready;
  }

  void finish() const {
    const Released released;
    done_.wait();
  }

 private:
  Running& running_;
  std::future<void> done_;
};

/// sl_compile_options of keyword arguments, with what its fields point to.
class Options {
 public:
  Options(const py::kwargs& named, sl_progress* progress) {
    options_.size = sizeof(options_);
    options_.progress = progress;
    options_.internal = &internal_;
    internal_.size = sizeof(internal_);
    for (const auto& [name, value] : named) {
      set(py::cast<std::string>(name), value);
    }
  }
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;
  const sl_compile_options* get() const { return &options_; }

 private:
  const char* text(py::handle value) {
    return texts_.emplace_back(py::cast<std::string>(value)).c_str();
  }

  /// Of a dict, or of a sequence of pairs.
  const sl_pair* pairs(const py::object& value, int32_t* count, std::vector<sl_pair>* pairs) {
    const py::object items = py::isinstance<py::dict>(value) ? value.attr("items")() : value;
    for (const py::handle pair : items) {
      pairs->push_back({text(pair[py::int_(0)]), text(pair[py::int_(1)])});
    }
    *count = static_cast<int32_t>(pairs->size());
    return pairs->data();
  }

  bool setText(const std::string& name, py::handle value) {
    const std::map<std::string, const char**> fields = {
        {"cpu", &options_.cpu},        {"target", &options_.target},
        {"launch", &options_.launch},  {"tf32", &options_.tf32},
        {"prefer", &internal_.prefer}, {"device_backend", &internal_.device_backend}};
    const auto field = fields.find(name);
    if (field != fields.end()) {
      *field->second = text(value);
    }
    return field != fields.end();
  }

  bool setNumber(const std::string& name, py::handle value) {
    const std::map<std::string, int32_t*> fields = {
        {"threads", &options_.threads},
        {"team", &options_.team},
        {"device", &options_.device},
        {"emit_only", &options_.emit_only},
        {"host_edges", &options_.host_edges},
        {"slot_rules", &options_.slot_rules},
        {"kernels_per_unit", &internal_.kernels_per_unit},
        {"list_candidates", &internal_.list_candidates},
        {"profile", &internal_.profile},
        {"poison", &internal_.poison},
        {"every_branch", &internal_.every_branch},
        {"shares_prepared", &internal_.shares_prepared},
        {"links", &internal_.links},
        {"passes", &internal_.passes}};
    const auto field = fields.find(name);
    if (field != fields.end()) {
      *field->second = py::cast<int32_t>(py::int_(py::reinterpret_borrow<py::object>(value)));
    }
    return field != fields.end();
  }

  bool setSwitch(const std::string& name, py::handle value) {
    const std::map<std::string, int32_t*> fields = {
        {"freeze", &options_.freeze},
        {"concurrent_branches", &options_.concurrent_branches},
        {"winograd", &options_.winograd},
        {"cache", &options_.cache}};
    const auto field = fields.find(name);
    if (field != fields.end()) {
      *field->second = py::cast<bool>(value) ? SL_SWITCH_ON : SL_SWITCH_OFF;
    }
    return field != fields.end();
  }

  void set(const std::string& name, py::handle value) {
    if (setText(name, value) || setNumber(name, value) || setSwitch(name, value)) {
      return;
    }
    if (name == "team_from_us") {
      options_.team_from_us = py::cast<double>(value);
    } else if (name == "allow") {
      allow_.reserve(1);  // an empty list is not no list
      for (py::handle backend : value) {
        allow_.push_back(text(backend));
      }
      options_.allow = allow_.data();
      options_.allow_count = static_cast<int32_t>(allow_.size());
    } else if (name == "routes") {
      options_.routes =
          pairs(py::reinterpret_borrow<py::object>(value), &options_.route_count, &routes_);
    } else if (name == "prepared") {
      for (py::handle row : value) {
        prepared_.push_back(text(row));
      }
      internal_.prepared = prepared_.data();
      internal_.prepared_count = static_cast<int32_t>(prepared_.size());
    } else if (name == "choices") {
      internal_.choices =
          pairs(py::reinterpret_borrow<py::object>(value), &internal_.choice_count, &choices_);
    } else {
      throw py::type_error("unknown option '" + name + "'");
    }
  }

  sl_compile_options options_{};
  sl_internal_options internal_{};
  std::list<std::string> texts_;  ///< a list: what points into it stays right
  std::vector<const char*> allow_;
  std::vector<sl_pair> routes_;
  std::vector<sl_pair> choices_;
  std::vector<const char*> prepared_;
};

Compilation compileModule(const Module& module, Progress* progress, const py::kwargs& named) {
  Progress unseen;
  sl_progress* const told = (progress != nullptr ? progress : &unseen)->get();
  const Options options(named, told);
  sl_compilation* compilation = nullptr;
  sl_text* error = nullptr;
  int32_t kind = SL_ERROR_NONE;
  // On a thread of its own, so that this one can look for Ctrl-C and for the end of the process.
  const CompilingThread thread(
      [&] { kind = sl_compile(module.get(), options.get(), &compilation, &error); });
  while (!thread.waited()) {
    const bool ending = thread.toEnd();
    const bool interrupted = !ending && PyErr_CheckSignals() != 0;
    if (interrupted || ending) {
      __atomic_store_n(&told->stop, 1, __ATOMIC_RELAXED);
      thread.finish();
    }
    if (ending) {
      const Released released;
      stopHere();
    }
    if (interrupted) {
      const Text text(error);
      sl_compilation_release(compilation);
      throw py::error_already_set();
    }
  }
  check(kind, error);
  return Compilation(compilation);
}

void checkOptions(const py::kwargs& named) {
  sl_text* error = nullptr;
  check(sl_compile_options_check(Options(named, nullptr).get(), &error), error);
}

/// The rules of some options and of the environment.
class RouteTable {
 public:
  explicit RouteTable(const py::kwargs& named) {
    sl_text* error = nullptr;
    sl_route_table* table = nullptr;
    check(sl_route_table_create(Options(named, nullptr).get(), &table, &error), error);
    table_.reset(table);
  }
  std::string rules() const { return toStr(sl_route_table_rules(table_.get())); }
  int32_t find(const std::string& op, const std::string& overload, const std::string& module,
               const std::string& file, int32_t line) const {
    const sl_location place{module.c_str(), file.c_str(), line, overload.c_str()};
    return sl_route_table_find(table_.get(), op.c_str(), &place);
  }

 private:
  struct Destroy {
    void operator()(sl_route_table* table) const { sl_route_table_destroy(table); }
  };
  std::unique_ptr<sl_route_table, Destroy> table_;
};

py::dict cacheInfo() {
  sl_cache_info info{};
  info.size = sizeof(info);
  sl_cache_inspect(&info);
  py::dict result;
  result["directory"] = toStr(sl_cache_directory());
  result["bytes_used"] = info.bytes_used;
  result["bytes_max"] = info.bytes_max;
  result["hits"] = info.hits;
  result["misses"] = info.misses;
  result["damaged"] = info.damaged;
  result["stored"] = info.stored;
  result["evicted"] = info.evicted;
  return result;
}

/// The bytes of what was linked, which is released.
py::bytes codeOf(sl_linked* linked) {
  const std::unique_ptr<sl_linked, void (*)(sl_linked*)> owned(linked, sl_linked_release);
  const void* bytes = nullptr;
  size_t size = 0;
  sl_linked_code(linked, &bytes, &size);
  return py::bytes(static_cast<const char*>(bytes), size);
}

std::vector<const char*> pointersTo(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(text.c_str());
  }
  return pointers;
}

py::bytes linkText(const std::string& name, const std::string& text,
                   const std::vector<std::string>& exports) {
  const std::vector<const char*> names = pointersTo(exports);
  sl_linked* linked = nullptr;
  sl_text* error = nullptr;
  int32_t kind = SL_ERROR_NONE;
  {
    const Released released;
    kind = sl_link_text(name.c_str(), text.c_str(), names.data(), int32_t(names.size()), &linked,
                        &error);
  }
  check(kind, error);
  return codeOf(linked);
}

/// A library of one model.
class Library {
 public:
  explicit Library(const std::string& name) : library_(nullptr, sl_library_release) {
    sl_library* library = nullptr;
    sl_text* error = nullptr;
    check(sl_library_create(name.c_str(), &library, &error), error);
    library_.reset(library);
  }
  void add(const Compilation& compilation) {
    sl_text* error = nullptr;
    int32_t kind = SL_ERROR_NONE;
    {
      const Released released;
      kind = sl_library_add(library_.get(), compilation.get(), &error);
    }
    check(kind, error);
  }
  py::bytes link(const py::bytes& artifact, bool archive) const {
    const std::string_view data = artifact;
    sl_linked* linked = nullptr;
    sl_text* error = nullptr;
    int32_t kind = SL_ERROR_NONE;
    {
      const Released released;
      kind = sl_library_link(library_.get(), data.data(), data.size(), archive ? 1 : 0, &linked,
                             &error);
    }
    check(kind, error);
    return codeOf(linked);
  }
  py::bytes linkExported(const py::bytes& artifact, const std::string& text,
                         const std::vector<std::string>& exports, const py::bytes& runtime) const {
    const std::string_view data = artifact, bytes = runtime;
    const std::vector<const char*> names = pointersTo(exports);
    const sl_exported_text exported{
        sizeof(exported), text.c_str(), names.data(), int32_t(names.size()), 0,
        bytes.data(),     bytes.size()};
    sl_linked* linked = nullptr;
    sl_text* error = nullptr;
    int32_t kind = SL_ERROR_NONE;
    {
      const Released released;
      kind = sl_library_link_exported(library_.get(), data.data(), data.size(), &exported, &linked,
                                      &error);
    }
    check(kind, error);
    return codeOf(linked);
  }

 private:
  std::unique_ptr<sl_library, void (*)(sl_library*)> library_;
};

py::str disassemble(const py::bytes& code, const std::string& function) {
  const std::string_view data = code;
  sl_text* text = nullptr;
  sl_text* error = nullptr;
  check(sl_disassemble(data.data(), data.size(), function.c_str(), &text, &error), error);
  return toStr(text);
}

py::tuple cpuFeatures(const std::string& cpu) {
  sl_text* text = nullptr;
  sl_text* error = nullptr;
  check(sl_cpu_features(cpu.c_str(), &text, &error), error);
  const py::list words = toStr(text).attr("split")();
  return py::make_tuple(words[0], words[py::slice(1, py::ssize_t(words.size()), 1)]);
}

py::str targetFacts(const std::string& target) {
  sl_text* facts = nullptr;
  sl_text* error = nullptr;
  check(sl_target_facts(target.c_str(), &facts, &error), error);
  return toStr(facts);
}

py::str nearestTopk(const std::string& target, int64_t rows, int64_t count, int64_t k,
                    int64_t elementBytes) {
  sl_text* nearest = nullptr;
  sl_text* error = nullptr;
  check(sl_target_nearest_topk(target.c_str(), rows, count, k, elementBytes, &nearest, &error),
        error);
  return toStr(nearest);
}

int32_t optMain(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  const Released released;
  return sl_opt_main(static_cast<int32_t>(arguments.size()), argv.data());
}

}  // namespace

static void bindResults(py::module_& m) {
  py::class_<Progress>(m, "Progress", "How far a compilation is; any thread may look.")
      .def(py::init<>())
      .def_property_readonly("stage", &Progress::stage,
                             "0: not begun, 1: passes, 2: units of emitted text.")
      .def_property_readonly("units_done", &Progress::unitsDone)
      .def_property_readonly("units", &Progress::units);

  py::class_<Compilation>(m, "Compilation", "What compiling a module made.")
      .def_property_readonly("code", &Compilation::code)
      .def_property_readonly("python", &Compilation::python, "The program as a Python module.")
      .def_property_readonly("explain_json", &Compilation::explain)
      .def_property_readonly("links_json", &Compilation::links,
                             "With the option `links`: what became of each op.")
      .def_property_readonly("passes_json", &Compilation::passes,
                             "With the option `passes`: the module after each pass.")
      .def_property_readonly("notes", &Compilation::notes)
      .def_property_readonly("units", &Compilation::units, "Pairs of name and text.")
      .def_property_readonly("images", &Compilation::images,
                             "Machine code for a device, each of one kernel or several.")
      .def_property_readonly("counts", &Compilation::counts,
                             "Units that clang compiled, and units from the cache.")
      .def_property_readonly("program", &Compilation::program)
      .def("link", &Compilation::link,
           "The code as a shared object that stands alone, the images of a device by name, and the "
           "version of their compiler.")
      .def("device_text", &Compilation::deviceText,
           "PTX of the units of a device by name, for later ones, and its compiler's version.")
      .def("ir", &Compilation::ir, py::arg("level"), py::kw_only(), py::arg("locations") = false,
           py::arg("generic") = false, py::arg("elide") = false);

  py::class_<Library>(m, "Library", "A model as a library in the making.")
      .def(py::init<const std::string&>(), py::arg("name"))
      .def("add", &Library::add, py::arg("compilation"), "Adds the code of a compilation.")
      .def("link_exported", &Library::linkExported, py::arg("artifact"), py::arg("text"),
           py::arg("exports"), py::arg("runtime"),
           "The same with functions for other systems, and the runtime inside.")
      .def("link", &Library::link, py::arg("artifact"), py::arg("archive"),
           "The library's bytes: a shared object, or a static library.");

  py::class_<Timing>(
      m, "Timing",
      "A program of fixed sizes with random parameters and inputs, to be called for its time.")
      .def(py::init<const py::capsule&, uint64_t, bool>(), py::arg("program"), py::arg("seed"),
           py::arg("by_stream") = false)
      .def("run", &Timing::run, py::arg("seconds"),
           "Calls it for so long, at least twice; the least microseconds of a call.");
}

PYBIND11_MODULE(_compiler, m) {
  m.doc() = "The compiler's C ABI (tools/compiler_abi.h) as Python classes.";
  m.attr("version") = sl_compiler_version();

  py::class_<Module>(m, "Module", "A module of the op dialect.")
      .def_static("parse", &Module::parse, py::arg("text"), py::arg("name") = "<string>",
                  "Parses MLIR assembly; UserError when it is malformed.")
      .def("print", &Module::print, py::kw_only(), py::arg("locations") = false,
           py::arg("generic") = false, py::arg("elide") = false)
      .def_property_readonly("parameters_json", &Module::parameters,
                             "What it reads beside its inputs.")
      .def("with_sizes", &Module::withSizes, py::arg("sizes"),
           "A copy with numbers in place of named sizes.")
      .def("__str__", [](const Module& module) { return module.print(false, false, false); });

  py::class_<Builder>(m, "Builder", "Builds one function op by op; values are numbers.")
      .def(py::init<>())
      .def("symbol", &Builder::symbol, py::arg("name"), py::arg("min"), py::arg("max"))
      .def("begin_function", &Builder::beginFunction, py::arg("name"), py::arg("argument_names"),
           py::arg("argument_types"))
      .def("attribute", &Builder::attribute, py::arg("name"), py::arg("text"))
      .def("attribute_string", &Builder::attributeString, py::arg("name"), py::arg("value"))
      .def("attribute_dense", &Builder::attributeDense, py::arg("name"), py::arg("type"),
           py::arg("data"))
      .def("op", &Builder::op, py::arg("name"), py::arg("operands"), py::arg("result_types"),
           py::arg("segments") = py::none(), py::arg("regions") = 0, py::arg("module") = "",
           py::arg("file") = "", py::arg("line") = 0, py::arg("overload") = "")
      .def("begin_region", &Builder::beginRegion, py::arg("argument_types"))
      .def("end_region", &Builder::endRegion, py::arg("yields"), py::arg("module") = "",
           py::arg("file") = "", py::arg("line") = 0)
      .def("end_function", &Builder::endFunction, py::arg("values"), py::arg("names"),
           py::arg("ties"))
      .def("finish", &Builder::finish);

  bindResults(m);

  m.def("compile", &compileModule, py::arg("module"), py::kw_only(), py::arg("progress") = nullptr,
        "Compiles a module of the op dialect; options are those of sl_compile_options.");
  pthread_atfork(nullptr, nullptr, [] { live_ = new Running(); });
  py::module_::import("atexit").attr("register")(py::cpp_function(&endCompilations));
  m.def("check_options", &checkOptions, "Raises UserError for options that cannot be honoured.");
  m.def(
      "backends_json", [](bool probe) { return toStr(sl_backends(probe)); }, py::arg("probe"),
      "The backends of the registry, as JSON; version and what is missing only with `probe`.");
  py::class_<RouteTable>(m, "RouteTable", "The rules of some options and of the environment.")
      .def(py::init<const py::kwargs&>())
      .def("rules", &RouteTable::rules, "As JSON, those first that count first.")
      .def("find", &RouteTable::find, py::arg("op"), py::arg("overload"), py::arg("module"),
           py::arg("file"), py::arg("line"),
           "Number of the rule that decides about an op; -1: none does.");
  m.def("target_facts_json", &targetFacts, py::arg("target"),
        "What a front end asks of a target, as JSON.");
  m.def("nearest_topk", &nearestTopk, py::arg("target"), py::arg("rows"), py::arg("count"),
        py::arg("k"), py::arg("element_bytes"),
        "The nearest problem of topk that a target's kernels take; empty: this one.");
  m.def("link_text", &linkText, py::arg("name"), py::arg("text"), py::arg("exports"),
        "C++ text for this machine as a shared object that needs nothing.");
  m.def("disassemble", &disassemble, py::arg("code"), py::arg("function"),
        "The instructions of a function of linked code, a line each.");
  m.def("cpu_features", &cpuFeatures, py::arg("cpu"),
        "A CPU's name, and the features that code for it may use.");
  m.def("cache_info", &cacheInfo, "Place, size and counts of the disk cache.");
  m.def("cache_clear", &sl_cache_clear, "Deletes all entries of the disk cache; returns how many.");
  m.def("opt_main", &optMain, py::arg("arguments"),
        "straightline-opt's command line; returns the exit status.");
}
