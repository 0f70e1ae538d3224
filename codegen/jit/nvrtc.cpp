// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>

#include "codegen/jit/embedded_headers.h"
#include "codegen/own_source_mark.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Base64.h"

namespace straightline::jit {
namespace {

// The declarations are ours, after https://docs.nvidia.com/cuda/nvrtc.
using Result = int;
struct Program_;
using Program = Program_*;

struct Nvrtc {
  Result (*version)(int* major, int* minor);
  Result (*archCount)(int* count);
  Result (*archs)(int* numbers);
  const char* (*errorText)(Result);
  Result (*create)(Program*, const char* text, const char* name, int headers,
                   const char* const* texts, const char* const* paths);
  Result (*destroy)(Program*);
  Result (*compile)(Program, int options, const char* const* values);
  Result (*logSize)(Program, size_t*);
  Result (*log)(Program, char*);
  Result (*cubinSize)(Program, size_t*);
  Result (*cubin)(Program, char*);
  Result (*ptxSize)(Program, size_t*);
  Result (*ptx)(Program, char*);
  int major = 0;
  int minor = 0;
  std::string error;  ///< why there is none; empty when there is one
};

/// Where the library may be, in the order in which to try: the system's, then that of NVIDIA's
/// wheels beside this package.
std::vector<std::string> candidates() {
  if (const char* chosen = std::getenv("STRAIGHTLINE_NVRTC");
      chosen != nullptr && chosen[0] != '\0') {
    return {chosen};
  }
  std::vector<std::string> paths = {"libnvrtc.so.13", "libnvrtc.so.12"};
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&candidates), &self) != 0 && self.dli_fname != nullptr) {
    const std::string own = self.dli_fname;
    const std::string folder = own.substr(0, own.rfind('/') + 1);
    paths.push_back(folder + "../nvidia/cu13/lib/libnvrtc.so.13");
    paths.push_back(folder + "../nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  }
  return paths;
}

std::string bind(Nvrtc* nvrtc, void* library, const std::string& path) {
  const auto find = [&](auto& function, const char* symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    return function != nullptr ? std::string() : path + " has no " + symbol;
  };
  for (const std::string& missing :
       {find(nvrtc->version, "nvrtcVersion"), find(nvrtc->archCount, "nvrtcGetNumSupportedArchs"),
        find(nvrtc->archs, "nvrtcGetSupportedArchs"), find(nvrtc->errorText, "nvrtcGetErrorString"),
        find(nvrtc->create, "nvrtcCreateProgram"), find(nvrtc->destroy, "nvrtcDestroyProgram"),
        find(nvrtc->compile, "nvrtcCompileProgram"), find(nvrtc->logSize, "nvrtcGetProgramLogSize"),
        find(nvrtc->log, "nvrtcGetProgramLog"), find(nvrtc->cubinSize, "nvrtcGetCUBINSize"),
        find(nvrtc->cubin, "nvrtcGetCUBIN"), find(nvrtc->ptxSize, "nvrtcGetPTXSize"),
        find(nvrtc->ptx, "nvrtcGetPTX")}) {
    if (!missing.empty()) {
      return missing;
    }
  }
  nvrtc->version(&nvrtc->major, &nvrtc->minor);
  constexpr int kOldestMajor = 12, kOldestMinor = 3;  // the first with __builtin_bit_cast
  if (nvrtc->major < kOldestMajor ||
      (nvrtc->major == kOldestMajor && nvrtc->minor < kOldestMinor)) {
    return path + " is NVRTC " + std::to_string(nvrtc->major) + "." + std::to_string(nvrtc->minor) +
           ", needs " + std::to_string(kOldestMajor) + "." + std::to_string(kOldestMinor) +
           " or newer; `pip install nvidia-cuda-nvrtc` brings it, and STRAIGHTLINE_NVRTC names it";
  }
  return "";
}

std::string open(Nvrtc* nvrtc) {
  std::string tried;
  for (const std::string& path : candidates()) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return bind(nvrtc, library, path);
    }
    const char* reason = dlerror();
    tried += "\n  " + std::string(reason != nullptr ? reason : path.c_str());
  }
  return "NVIDIA's run-time compiler libnvrtc.so.13 (or .12) is needed to compile for a CUDA "
         "device and cannot be opened; "
         "`pip install nvidia-cuda-nvrtc` brings it (for a driver of CUDA 12 "
         "nvidia-cuda-nvrtc-cu12):" +
         tried;
}

const Nvrtc& library() {
  static const Nvrtc* const instance = [] {
    auto* made = new Nvrtc;
    made->error = open(made);
    return made;
  }();
  return *instance;
}

/// Kernels have no form for older devices (codegen/kernels/cuda_tensor_core.h).
constexpr int kOldest = 75;

bool isVirtual(const std::string& arch) { return arch.rfind("compute_", 0) == 0; }

/// "" when the library compiles for `arch`.
std::string whyNotFor(const Nvrtc& nvrtc, const std::string& arch) {
  int count = 0;
  nvrtc.archCount(&count);
  std::vector<int> numbers(static_cast<size_t>(std::max(count, 0)));
  nvrtc.archs(numbers.data());
  const int wanted = std::atoi(arch.c_str() + arch.find('_') + 1);
  if (wanted < kOldest) {
    return "target cuda:" + arch + " is too old, needs sm_" + std::to_string(kOldest) +
           " (Turing) or later; target='cpu' takes any model";
  }
  std::string known;
  int nearest = 0;  // whose machine code a device of the target runs
  for (const int number : numbers) {
    if (wanted == number) {
      return "";
    }
    known += (known.empty() ? "sm_" : ", sm_") + std::to_string(number);
    nearest = number / 10 == wanted / 10 && number < wanted && number >= kOldest ? number : nearest;
  }
  return "target cuda:" + arch + " is unknown to NVRTC " + std::to_string(nvrtc.major) + "." +
         std::to_string(nvrtc.minor) + ", which knows " + known +
         (nearest > 0
              ? "; its devices run what target='cuda:sm_" + std::to_string(nearest) + "' gives"
              : "; a newer one is `pip install --upgrade nvidia-cuda-nvrtc`, or named by "
                "STRAIGHTLINE_NVRTC");
}

/// Instructions for warpgroups are of the form for Hopper alone, and all devices that run machine
/// code for sm_90 are Hopper's.
std::vector<std::string> arguments(const std::string& arch) {
  return {"--gpu-architecture=" + (arch == "sm_90" ? "sm_90a" : arch), "--std=c++20",
          "--device-as-default-execution-space", "--device-int128"};
}

struct Output {
  bool ok = false;
  std::string image;
  std::string log;
};

Output compileUnit(const Nvrtc& nvrtc, const Unit& unit, const std::vector<std::string>& options,
                   bool wantsText) {
  std::vector<const char*> texts, paths, values;
  for (std::size_t i = 0; i < embeddedHeaderCount; ++i) {
    texts.push_back(embeddedHeaders[i].text);
    paths.push_back(embeddedHeaders[i].path);
  }
  for (const std::string& option : options) {
    values.push_back(option.c_str());
  }
  Output output;
  Program program = nullptr;
  Result result = nvrtc.create(&program, unit.text.c_str(), (unit.name + ".cu").c_str(),
                               static_cast<int>(texts.size()), texts.data(), paths.data());
  if (result == 0) {
    result = nvrtc.compile(program, static_cast<int>(values.size()), values.data());
  }
  size_t bytes = 0;
  if (program != nullptr && nvrtc.logSize(program, &bytes) == 0) {
    output.log.resize(bytes);
    nvrtc.log(program, output.log.data());
    output.log.resize(std::min(output.log.find('\0'), output.log.size()));
  }
  const auto size = wantsText ? nvrtc.ptxSize : nvrtc.cubinSize;
  const auto image = wantsText ? nvrtc.ptx : nvrtc.cubin;
  if (result == 0 && (result = size(program, &bytes)) == 0) {
    output.image.resize(bytes);  // of PTX with its final zero
    result = image(program, output.image.data());
  }
  if (program != nullptr) {
    nvrtc.destroy(&program);
  }
  output.ok = result == 0;
  output.log = output.ok ? output.log : std::string(nvrtc.errorText(result)) + "\n" + output.log;
  return output;
}

/// The kernel of a user whose text the unit has (codegen/own_source.h); "": the text is all ours.
std::string userOf(const std::string& text) {
  const size_t at = text.find(kOwnSourceMark);
  if (at == std::string::npos) {
    return "";
  }
  const size_t begin = at + std::strlen(kOwnSourceMark);
  return text.substr(begin, text.find('\n', begin) - begin);
}

/// The machine code that is the unit (codegen/own_source.h); nullopt: it is CUDA C++.
std::optional<DeviceOutput> machineCodeOf(const std::string& text) {
  const size_t begin = text.rfind(kOwnImageBegin);
  if (text.rfind(kOwnImageMark, 0) != 0 || begin == std::string::npos) {
    return std::nullopt;
  }
  std::string letters;
  for (llvm::StringRef rest = llvm::StringRef(text).substr(begin + std::strlen(kOwnImageBegin));
       !rest.empty();) {
    const auto [line, following] = rest.split('\n');
    letters += line.trim(" \";").str();
    rest = following;
  }
  std::vector<char> bytes;
  if (llvm::Error error = llvm::decodeBase64(letters, bytes)) {
    return DeviceOutput{
        false,
        {},
        {CompileError::Kind::internal, "machine code: " + llvm::toString(std::move(error))}};
  }
  return DeviceOutput{true, std::string(bytes.begin(), bytes.end()), {}};
}

std::unique_ptr<DeviceProgram> fail(CompileError* error, CompileError::Kind kind,
                                    std::string message) {
  *error = {kind, std::move(message)};
  return nullptr;
}

}  // namespace

std::unique_ptr<DeviceProgram> compileForDevice(const std::vector<Unit>& units,
                                                const std::string& arch,
                                                const CompileOptions& options,
                                                CompileError* error) {
  const Nvrtc& nvrtc = library();
  if (!nvrtc.error.empty()) {
    return fail(error, CompileError::Kind::unsupported, nvrtc.error);
  }
  if (const std::string why = whyNotFor(nvrtc, arch); !why.empty()) {
    return fail(error, CompileError::Kind::unsupported, why);
  }
  const std::vector<std::string> flags = arguments(arch);
  std::vector<std::string> keyed = flags;
  keyed.push_back("nvrtc " + std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor));
  auto program = std::make_unique<DeviceProgram>();
  program->compiler = nvrtc.major * 1000 + nvrtc.minor * 10;
  const auto compile = [&](const Unit& unit) {
    if (std::optional<DeviceOutput> given = machineCodeOf(unit.text)) {
      return *std::move(given);
    }
    Output output = compileUnit(nvrtc, unit, flags, isVirtual(arch));
    if (output.ok) {
      return DeviceOutput{true, std::move(output.image), {}};
    }
    const std::string user = userOf(unit.text);
    return DeviceOutput{
        false,
        {},
        user.empty() ? CompileError{CompileError::Kind::internal, keptUnit(unit, ".cu", output.log)}
                     : CompileError{CompileError::Kind::user, "the CUDA kernel " + user +
                                                                  " cannot be compiled for " +
                                                                  arch + ": " + output.log}};
  };
  return compileImages(units, keyed, options, compile, program.get(), error) ? std::move(program)
                                                                             : nullptr;
}

}  // namespace straightline::jit
