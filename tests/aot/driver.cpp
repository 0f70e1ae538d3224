// SPDX-License-Identifier: Apache-2.0
// driver FOLDER ROUNDS CALLERS: runs the program that is linked in (sl_program) on data from FOLDER
// and compares what it gives. CALLERS threads call at once, ROUNDS times each over all cases. Every
// buffer is an allocation of its exact size, so that AddressSanitizer sees the first byte outside.
// Exit status 1 and one line per difference.
//
// FOLDER/manifest, tokens separated by white space, files raw and row-major (results and states as
// float64):
//   parameters COUNT {state(0|1) FILE}
//   cases COUNT {inputs COUNT {code bits rank dims... FILE} results COUNT {bound FILE} states COUNT
//   {parameter bound FILE}}
// A program with states gets fresh copies in every round, and its cases follow each other.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "straightline/abi/straightline.h"

// The symbol that every compiled program exports; its C name is taken by the type.
extern const sl_program_desc compiledProgram __asm__("sl_program");

namespace {

std::string folder;
std::atomic<int> differences{0};

[[noreturn]] void die(const std::string& text) {
  std::fprintf(stderr, "driver: %s\n", text.c_str());
  std::exit(2);
}

void check(int32_t status, const sl_message& message) {
  if (status != SL_OK) {
    die("status " + std::to_string(status) + ": " + message.text);
  }
}

/// Memory of exactly this size, aligned as frameworks align tensors.
class Bytes {
 public:
  explicit Bytes(size_t size) : size_(size) {
    void* address = nullptr;
    if (posix_memalign(&address, 64, size) != 0) {
      die("out of memory: " + std::to_string(size) + " bytes");
    }
    data_.reset(static_cast<char*>(address));
  }
  Bytes(const Bytes& other) : Bytes(other.size_) { std::memcpy(data(), other.data(), size_); }
  char* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(char* address) const { std::free(address); }
  };
  size_t size_;
  std::unique_ptr<char, Free> data_;
};

Bytes readFile(const std::string& name) {
  std::ifstream file(folder + "/" + name, std::ios::binary | std::ios::ate);
  if (!file) {
    die("cannot read " + name);
  }
  Bytes bytes(static_cast<size_t>(file.tellg()));
  file.seekg(0);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

struct Input {
  sl_dtype dtype;
  std::vector<int64_t> shape;
  Bytes data;
};

/// Expected values; `place` is the number of the result, or of the parameter for a state.
struct Expected {
  int32_t place;
  double bound;
  Bytes values;
};

struct Case {
  std::vector<Input> inputs;
  std::vector<Expected> results;
  std::vector<Expected> states;
};

struct Parameter {
  bool state;
  Bytes data;
};

struct Test {
  std::vector<Parameter> parameters;
  std::vector<Case> cases;
  bool hasStates = false;
};

class ManifestReader {
 public:
  ManifestReader() : stream_(folder + "/manifest") {}

  Test read() {
    Test test;
    for (int64_t left = count("parameters"); left > 0; --left) {
      const bool state = number<int>() != 0;
      test.parameters.push_back({state, file()});
      test.hasStates |= state;
    }
    for (int64_t left = count("cases"); left > 0; --left) {
      Case one;
      for (int64_t inputs = count("inputs"); inputs > 0; --inputs) {
        const auto code = static_cast<uint8_t>(number<int>());
        const auto bits = static_cast<uint8_t>(number<int>());
        std::vector<int64_t> shape(number<size_t>());
        for (int64_t& extent : shape) {
          extent = number<int64_t>();
        }
        one.inputs.push_back({{code, bits, 1}, std::move(shape), file()});
      }
      const auto results = static_cast<int32_t>(count("results"));
      for (int32_t i = 0; i < results; ++i) {
        const double bound = number<double>();
        one.results.push_back({i, bound, file()});
      }
      for (int64_t states = count("states"); states > 0; --states) {
        const int32_t place = number<int32_t>();
        const double bound = number<double>();
        one.states.push_back({place, bound, file()});
      }
      test.cases.push_back(std::move(one));
    }
    return test;
  }

 private:
  template <class T>
  T number() {
    T value{};
    if (!(stream_ >> value)) {
      die("the manifest ends too early");
    }
    return value;
  }
  int64_t count(const char* word) {
    std::string found;
    stream_ >> found;
    if (found != word) {
      die("manifest: '" + found + "' where '" + word + "' was expected");
    }
    return number<int64_t>();
  }
  Bytes file() {
    std::string name;
    stream_ >> name;
    return readFile(name);
  }

  std::ifstream stream_;
};

double elementAt(const char* data, sl_dtype dtype, int64_t index) {
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return static_cast<double>(value);
  };
  switch (dtype.code * 1000 + dtype.bits) {
    case 2032:
      return as(float{});
    case 2064:
      return as(double{});
    case 64:
      return as(int64_t{});
    case 32:
      return as(int32_t{});
    case 6008:
      return as(uint8_t{});
  }
  die("no rule for a result of dtype code " + std::to_string(dtype.code) + ", " +
      std::to_string(dtype.bits) + " bits");
}

/// Element number `i` in row-major order -> its offset in elements.
int64_t offsetOf(int64_t i, int32_t rank, const int64_t* shape, const int64_t* strides) {
  int64_t offset = 0;
  for (int32_t d = rank; d-- > 0;) {
    offset += i % shape[d] * strides[d];
    i /= shape[d];
  }
  return offset;
}

void compare(const char* what, const Expected& expected, const sl_buffer& buffer, const char* data,
             const int64_t* shape, const int64_t* strides) {
  int64_t elements = 1;
  for (int32_t d = 0; d < buffer.rank; ++d) {
    elements *= shape[d];
  }
  if (static_cast<size_t>(elements) * sizeof(double) != expected.values.size()) {
    die(std::string(what) + " has " + std::to_string(elements) + " elements but " +
        std::to_string(expected.values.size() / sizeof(double)) + " were expected");
  }
  const auto* values = reinterpret_cast<const double*>(expected.values.data());
  for (int64_t i = 0; i < elements; ++i) {
    const double got = elementAt(data, buffer.dtype, offsetOf(i, buffer.rank, shape, strides));
    const bool same =
        std::isnan(got) ? std::isnan(values[i]) : std::fabs(got - values[i]) <= expected.bound;
    if (!same) {
      std::fprintf(stderr, "driver: %s %d, element %ld: %.9g, expected %.9g within %.3g\n", what,
                   expected.place, static_cast<long>(i), got, values[i], expected.bound);
      ++differences;
      return;
    }
  }
}

class Caller {
 public:
  Caller(const Test& test, sl_program* program, sl_weights* shared)
      : test_(test), program_(program), shared_(shared) {
    check(sl_queue_team(compiledProgram.threads, &queue_, &message_), message_);
  }
  ~Caller() { sl_queue_release(queue_); }

  /// The straight line, then the interpreter, which gives each slot memory of its own.
  void round() {
    for (const sl_executor* executor :
         {static_cast<const sl_executor*>(nullptr), sl_interpreter()}) {
      executor_ = executor;
      pass();
    }
  }

 private:
  void pass() {
    // Storage of the parameters; a copy for this round where the program writes to it.
    std::vector<Bytes> states;
    std::vector<void*> parameters;
    states.reserve(test_.parameters.size());
    for (const Parameter& parameter : test_.parameters) {
      states.emplace_back(parameter.state ? parameter.data : Bytes(0));
      parameters.push_back(parameter.state ? states.back().data() : parameter.data.data());
    }
    sl_weights* weights = shared_;
    if (!weights) {
      check(sl_weights_create_by(program_, parameters.data(), executor_, nullptr, nullptr, &weights,
                                 &message_),
            message_);
    }
    for (const Case& one : test_.cases) {
      call(one, weights, parameters);
    }
    if (!shared_) {
      sl_weights_release(weights);
    }
  }

  void call(const Case& one, sl_weights* weights, const std::vector<void*>& parameters) {
    std::vector<Bytes> data;
    std::vector<sl_tensor> tensors;
    std::vector<void*> inputs;
    data.reserve(one.inputs.size());
    for (const Input& input : one.inputs) {
      data.push_back(input.data);
      inputs.push_back(data.back().data());
      tensors.push_back({inputs.back(), input.shape.data(), nullptr,
                         static_cast<int32_t>(input.shape.size()), input.dtype, 1, 0});
    }
    std::vector<int64_t> extents(static_cast<size_t>(compiledProgram.extent_count) + 1);
    check(sl_program_guard(program_, tensors.data(), static_cast<int32_t>(tensors.size()),
                           extents.data(), &message_),
          message_);

    std::vector<Bytes> results;
    results.reserve(static_cast<size_t>(compiledProgram.output_count));
    std::vector<void*> outputs(static_cast<size_t>(compiledProgram.output_count));
    for (int32_t i = 0; i < compiledProgram.buffer_count; ++i) {
      const sl_buffer& buffer = compiledProgram.buffers[i];
      if (buffer.role == SL_ROLE_OUTPUT) {
        results.emplace_back(static_cast<size_t>(sl_expr_value(&buffer.bytes, extents.data())));
        std::memset(results.back().data(), 0xff, results.back().size());
        outputs[static_cast<size_t>(buffer.index)] = results.back().data();
      }
    }
    sl_frame* frame = nullptr;
    check(sl_frame_lease(program_, extents.data(), &frame, &message_), message_);
    const sl_args args{sizeof(sl_args), inputs.data(), outputs.data(),
                       extents.data(),  executor_,     SL_LAUNCH_STREAM};
    sl_ctx ctx{};
    ctx.size = sizeof(ctx);
    check(sl_run(program_, weights, frame, queue_, &args, &ctx, &message_), message_);
    sl_frame_return(frame);

    for (const Expected& expected : one.results) {
      const sl_result& result = compiledProgram.results[expected.place];
      const sl_buffer& root = compiledProgram.buffers[result.root];
      const auto index = static_cast<size_t>(root.index);
      const void* base = root.role == SL_ROLE_OUTPUT  ? outputs[index]
                         : root.role == SL_ROLE_INPUT ? inputs[index]
                                                      : parameters[index];
      int64_t shape[SL_MAX_RANK], strides[SL_MAX_RANK], offset = 0;
      sl_program_result(program_, expected.place, extents.data(), shape, strides, &offset);
      compare("result", expected, compiledProgram.buffers[result.buffer],
              static_cast<const char*>(base) + offset, shape, strides);
    }
    for (const Expected& expected : one.states) {
      for (int32_t i = 0; i < compiledProgram.buffer_count; ++i) {
        const sl_buffer& buffer = compiledProgram.buffers[i];
        if (buffer.role != SL_ROLE_STATE || buffer.index != expected.place) {
          continue;
        }
        int64_t shape[SL_MAX_RANK], strides[SL_MAX_RANK];
        for (int32_t d = 0; d < buffer.rank; ++d) {
          shape[d] = sl_expr_value(&buffer.extents[d], extents.data());
          strides[d] = sl_expr_value(&buffer.strides[d], extents.data());
        }
        compare("state", expected, buffer,
                static_cast<const char*>(parameters[static_cast<size_t>(expected.place)]), shape,
                strides);
      }
    }
  }

  const Test& test_;
  sl_program* program_;
  sl_weights* shared_;
  const sl_executor* executor_ = nullptr;
  sl_queue* queue_ = nullptr;
  sl_message message_{};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    die("usage: driver FOLDER ROUNDS CALLERS");
  }
  folder = argv[1];
  const int rounds = std::atoi(argv[2]);
  const int callers = std::atoi(argv[3]);
  const Test test = ManifestReader().read();
  sl_message message{};
  sl_program* program = nullptr;
  check(sl_program_create(&compiledProgram, nullptr, nullptr, &program, &message), message);
  sl_weights* shared = nullptr;
  if (!test.hasStates) {
    std::vector<void*> parameters;
    for (const Parameter& parameter : test.parameters) {
      parameters.push_back(parameter.data.data());
    }
    check(sl_weights_create(program, parameters.data(), nullptr, nullptr, &shared, &message),
          message);
  }
  std::vector<std::thread> threads;
  for (int caller = 0; caller < callers; ++caller) {
    threads.emplace_back([&] {
      Caller own(test, program, shared);
      for (int round = 0; round < rounds; ++round) {
        own.round();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  sl_weights_release(shared);
  sl_program_release(program);
  return differences == 0 ? 0 : 1;
}
