// SPDX-License-Identifier: Apache-2.0
#include "tools/pipeline_options.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "passes/kernel_facts.h"
#include "passes/targets/target.h"
#include "straightline/abi/straightline.h"
#include "tools/route_rules.h"

namespace straightline {
namespace {

/// What `winograd` switches off, as a property of kernels (kernel_facts.h).
constexpr char kWinograd[] = "transforms_inputs";

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
  options->hostEdges = given.hostEdges;
  options->poison = given.internal.poison;
  options->profile = given.internal.profile;
  options->listCandidates = given.internal.listCandidates;
  options->everyBranch = given.internal.everyBranch;
  options->choices = given.internal.choices;
  options->prefer = given.internal.prefer;
  options->sharesPrepared = given.internal.sharesPrepared;
  options->preparedBefore = given.internal.preparedBefore;
  if (const std::string& backend = given.internal.deviceBackend; !backend.empty()) {
    if (Failure failure = chooseDevice(backend, &options->device); failure.failed()) {
      return failure;
    }
  }
  return readRoutes(given, context, &options->routes);
}

}  // namespace straightline
