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
#include "passes/kernel_facts.h"
#include "passes/targets/target.h"
#include "straightline/abi/straightline.h"

namespace straightline {
namespace {

/// What `winograd` switches off, as a property of kernels (kernel_facts.h).
constexpr char kWinograd[] = "transforms_inputs";
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

/// "cuda:sm_NN": what users may write behind target=, of all targets.
std::string joinSyntaxes(llvm::function_ref<std::string(const MachineSyntax&)> text) {
  std::string all;
  for (const Target* target : allTargets()) {
    if (const MachineSyntax syntax = target->syntax(); !syntax.form.empty()) {
      all += (all.empty() ? "" : "; ") + text(syntax);
    }
  }
  return all;
}

/// Routes by op; the first that is added counts.
using Routes = std::map<std::string, Route>;

void addRoute(Routes& routes, Route route) {
  const std::string op = route.op;
  routes.try_emplace(op, std::move(route));
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

/// The name of the target and its machine.
std::pair<llvm::StringRef, llvm::StringRef> splitTarget(const CompileOptions& options) {
  return (options.target.empty() ? llvm::StringRef(kDefaultTarget) : options.target).split(':');
}

Failure checkLaunch(const CompileOptions& options, const Target& target) {
  if (options.launch == "graph" && !target.launchesGraphs()) {
    std::string devices;
    for (const Target* each : allTargets()) {
      if (each->launchesGraphs()) {
        devices += (devices.empty() ? "" : " or ") + each->name().str();
      }
    }
    return Failure::user("launch is 'graph' but the program is for the " + target.name().str() +
                         ": only a " + devices + " device takes graphs");
  }
  if (const std::string& backend = options.internal.deviceBackend;
      !backend.empty() && target.hasQueue()) {
    return Failure::user("device_backend is '" + backend + "' but the target is the device " +
                         options.target + " already");
  }
  return Failure::none();
}

Failure checkAllow(const CompileOptions& options, const Target& target) {
  const llvm::SmallVector<llvm::StringRef> valid = backendsFor(target.name());
  for (const std::string& name : options.allow) {
    if (!llvm::is_contained(valid, name)) {
      return Failure::user("allow has the backend '" + name + "'; valid on " + target.name().str() +
                           " are " + llvm::join(valid, ", "));
    }
  }
  const llvm::StringRef own = valid.front();
  if (!options.allow.empty() && !llvm::is_contained(options.allow, own)) {
    return Failure::user("allow is " + llvm::join(options.allow, ", ") + " but must have '" +
                         own.str() + "': only it has elementwise and row kernels");
  }
  return Failure::none();
}

}  // namespace

TargetChoice targetIn(const CompileOptions& options) {
  const auto [name, machine] = splitTarget(options);
  const Target* target = findTarget(name);
  return target ? TargetChoice{target, machine.str()}
                : TargetChoice{&targetNamed(kDefaultTarget), ""};
}

Failure checkTarget(const CompileOptions& options) {
  const auto [name, machine] = splitTarget(options);
  const Target* target = findTarget(name);
  const bool isNamed =
      target && ((name == kDefaultTarget && machine.empty()) || !target->syntax().form.empty());
  if (!isNamed || !target->hasMachine(machine)) {
    return Failure::user(
        "unknown target '" + options.target + "'; valid are " +
        joinSyntaxes([](const MachineSyntax& syntax) { return syntax.form + syntax.hint; }));
  }
  if (Failure failure = checkLaunch(options, *target); failure.failed()) {
    return failure;
  }
  return checkAllow(options, *target);
}

Failure readPipelineOptions(const CompileOptions& given, mlir::MLIRContext* context,
                            PipelineOptions* options) {
  if (Failure failure = checkTarget(given); failure.failed()) {
    return failure;
  }
  options->freeze = given.freeze;
  options->allow = llvm::join(given.allow, "+");
  options->avoid = given.winograd ? "" : kWinograd;
  options->graph = given.launch != "stream";
  options->branches = given.concurrentBranches;
  options->tf32 = given.tf32;
  options->poison = given.internal.poison;
  options->profile = given.internal.profile;
  options->listCandidates = given.internal.listCandidates;
  options->everyBranch = given.internal.everyBranch;
  options->choices = given.internal.choices;
  options->prefer = given.internal.prefer;
  if (const std::string& backend = given.internal.deviceBackend; !backend.empty()) {
    if (Failure failure = chooseDevice(backend, &options->device); failure.failed()) {
      return failure;
    }
  }
  Routes routes;
  for (const auto& [op, kernel] : given.routes) {
    addRoute(routes, {op, kernel, "the argument routes"});
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
