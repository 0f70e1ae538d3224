// SPDX-License-Identifier: Apache-2.0
#include "tools/pipeline_options.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "passes/cuda_architecture.h"
#include "passes/kernel_facts.h"
#include "straightline/abi/straightline.h"

namespace straightline {
namespace {

constexpr llvm::StringRef kRouteKey = "route.";
constexpr llvm::StringRef kChoiceKey = "choice.";
constexpr llvm::StringRef kRouteVariable = "STRAIGHTLINE_ROUTE_";

/// Finds the memory space of a backend's device in the registry.
Failure chooseDevice(const std::string& backend, DeviceChoice* choice) {
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    const sl_backend_desc* desc = sl_backend_at(i);
    if (backend == desc->name && desc->device != nullptr) {
      *choice = {backend, desc->device->space};
      return Failure::none();
    }
    if (backend == desc->name) {
      return Failure::user("backend '" + backend + "' has no device: it runs on the caller's team");
    }
  }
  return Failure::user("no backend '" + backend + "' is registered");
}

constexpr llvm::StringRef kCudaTarget = "cuda:";

/// sm_ and a number of two or three digits; behind it at most an `a` (from sm_90 on) or `f` (from
/// sm_100 on), as NVRTC takes them.
bool isArch(llvm::StringRef arch) {
  if (!arch.consume_front("sm_")) {
    return false;
  }
  const llvm::StringRef digits = arch.take_while(llvm::isDigit);
  const llvm::StringRef suffix = arch.drop_front(digits.size());
  int number = 0;
  if (digits.size() < 2 || digits.size() > 3 || digits.getAsInteger(10, number)) {
    return false;
  }
  return suffix.empty() || (suffix == "a" && number >= kFirstWithOwnFeatures) ||
         (suffix == "f" && number >= kFirstWithFamilies);
}

/// Routes by op; the first that is added counts.
using Routes = std::map<std::string, Route>;

void addRoute(Routes& routes, Route route) {
  const std::string op = route.op;
  routes.try_emplace(op, std::move(route));
}

Failure readWord(const std::string& word, PipelineOptions* options, Routes& routes) {
  const auto [key, value] = llvm::StringRef(word).split('=');
  const bool isSwitch = value == "true" || value == "false";
  if (key == "freeze" && isSwitch) {
    options->freeze = value == "true";
  } else if (key == "poison" && isSwitch) {
    options->poison = value == "true";
  } else if (key == "launch" && value == "stream") {
    options->graph = false;
  } else if (key == "lanes" && isSwitch) {
    options->lanes = value == "true";
  } else if (key == "lanes" && value == "every") {
    options->everyLane = true;
  } else if (key == "profile" && isSwitch) {
    options->profile = value == "true";
  } else if (key == "list_candidates" && isSwitch) {
    options->listCandidates = value == "true";
  } else if (key.starts_with(kChoiceKey)) {
    options->choices.emplace_back(key.drop_front(kChoiceKey.size()).str(), value.str());
  } else if (key == "prefer") {
    options->prefer = value.str();
  } else if (key == "avoid" && propertiesNamed(value)) {
    options->avoid = value.str();
  } else if (key == "allow") {
    options->allow = value.str();
  } else if (key == "device") {
    return chooseDevice(value.str(), &options->device);
  } else if (key == "target") {
    if (!value.starts_with(kCudaTarget) || !isArch(value.drop_front(kCudaTarget.size()))) {
      return Failure::user("unknown target '" + value.str() +
                           "'; valid are cuda:sm_NN, such as cuda:sm_90, with a behind it from " +
                           std::to_string(kFirstWithOwnFeatures) + " on and f from " +
                           std::to_string(kFirstWithFamilies) + " on");
    }
    options->cuda = value.drop_front(kCudaTarget.size()).str();
  } else if (key == "tf32" &&
             (value == "convolution" || value == "matmul" || value == "convolution+matmul")) {
    options->tf32 = value.str();
  } else if (key.starts_with(kRouteKey)) {
    addRoute(routes, {key.drop_front(kRouteKey.size()).str(), value.str(), "the argument routes"});
  } else {
    return Failure::user(
        "unknown pipeline option '" + word +
        "'; valid are freeze=true, freeze=false, poison=true, poison=false, launch=stream, "
        "lanes=true, lanes=false, lanes=every, allow=BACKEND+BACKEND, avoid=PROPERTY, "
        "prefer=BACKEND, device=BACKEND, "
        "target=cuda:sm_NN, tf32=convolution, tf32=matmul, tf32=convolution+matmul, "
        "route.OP=BACKEND[.KERNEL], choice.KEY=CANDIDATE, list_candidates=true and profile=true");
  }
  return Failure::none();
}

std::string withDots(llvm::StringRef name) {
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool isDot = name.substr(i).starts_with("__");
    text += isDot ? '.' : name[i];
    i += isDot ? 1 : 0;
  }
  return text;
}

void readVariables(Routes& routes) {
  std::vector<llvm::StringRef> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (llvm::StringRef(*entry).starts_with(kRouteVariable)) {
      entries.emplace_back(*entry);
    }
  }
  // so that messages do not depend on the order of the environment
  std::sort(entries.begin(), entries.end());
  for (llvm::StringRef entry : entries) {
    const auto [name, value] = entry.split('=');
    if (!value.empty()) {
      addRoute(routes, {withDots(name.drop_front(kRouteVariable.size())), value.str(), name.str()});
    }
  }
}

Failure readFile(Routes& routes) {
  const char* path = std::getenv("STRAIGHTLINE_ROUTES");
  if (path == nullptr || path[0] == '\0') {
    return Failure::none();
  }
  std::ifstream file(path);
  std::string line;
  std::map<std::string, std::string> seen;
  for (int number = 1; file && std::getline(file, line); ++number) {
    const llvm::StringRef text = llvm::StringRef(line).split('#').first.trim();
    if (text.empty()) {
      continue;
    }
    const std::string origin =
        std::filesystem::path(path).filename().string() + ":" + std::to_string(number);
    const auto [left, right] = text.split('=');
    const llvm::StringRef op = left.trim(), kernel = right.trim();
    if (op.empty() || kernel.empty() || op.contains(' ') || kernel.contains(' ') ||
        kernel.contains('=')) {
      return Failure::user(origin + ": '" + text.str() +
                           "' is no route; a line is 'op = backend' or 'op = backend.kernel'");
    }
    const auto [first, isNew] = seen.try_emplace(op.str(), origin);
    if (!isNew) {
      return Failure::user(origin + ": a second route for " + op.str() + "; the first is at " +
                           first->second);
    }
    addRoute(routes, {op.str(), kernel.str(), origin});
  }
  if (!file.eof()) {  // a folder opens and fails at the first line
    return Failure::user(std::string("STRAIGHTLINE_ROUTES is '") + path +
                         "', which cannot be read: " + std::strerror(errno != 0 ? errno : EIO));
  }
  return Failure::none();
}

}  // namespace

std::string cudaArchOf(const std::string& text) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto [key, value] = llvm::StringRef(word).split('=');
    if (key == "target" && value.starts_with(kCudaTarget)) {
      return value.drop_front(kCudaTarget.size()).str();
    }
  }
  return "";
}

Failure readPipelineOptions(const std::string& text, mlir::MLIRContext* context,
                            PipelineOptions* options) {
  Routes routes;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (Failure failure = readWord(word, options, routes); failure.failed()) {
      return failure;
    }
  }
  readVariables(routes);
  errno = 0;
  if (Failure failure = readFile(routes); failure.failed()) {
    return failure;
  }
  for (auto& [op, route] : routes) {
    if (const std::string why = whyNoRoute(route, context); !why.empty()) {
      return Failure::user("route " + op + " = " + route.kernel + " (" + route.origin +
                           "): " + why);
    }
    options->routes.push_back(std::move(route));
  }
  return Failure::none();
}

}  // namespace straightline
