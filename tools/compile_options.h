// SPDX-License-Identifier: Apache-2.0
// What a caller may choose about one compilation. One struct for every way in: the C ABI fills it,
// and it is validated here, once.
#ifndef STRAIGHTLINE_TOOLS_COMPILE_OPTIONS_H
#define STRAIGHTLINE_TOOLS_COMPILE_OPTIONS_H

#include <string>
#include <utility>
#include <vector>

#include "tools/compiler_abi.h"
#include "tools/failure.h"

namespace straightline {

/// sl_internal_options.
struct InternalOptions {
  int kernelsPerUnit = 1;
  bool listCandidates = false;
  bool profile = false;
  bool poison = false;
  bool links = false;
  bool passes = false;
  bool everyBranch = false;
  std::vector<std::pair<std::string, std::string>> choices;
  std::string prefer;
  std::string deviceBackend;
  bool sharesPrepared = false;
  std::vector<std::string> preparedBefore;
};

/// sl_compile_options, which says what each means.
struct CompileOptions {
  std::string cpu;
  std::string target;  ///< empty: the default one
  int threads = 1;
  int team = 0;
  double teamFromUs = 0;
  int32_t device = 0;
  bool emitOnly = false;
  bool freeze = true;
  bool concurrentBranches = true;
  bool winograd = true;
  bool useCache = true;
  std::string launch;
  std::string tf32;
  bool hostEdges = false;
  std::vector<std::string> allow;  ///< empty: all
  std::vector<std::pair<std::string, std::string>> routes;
  int32_t slotRules = 0;  ///< the last of `routes`
  sl_progress* progress = nullptr;
  InternalOptions internal;
};

/// Copies what a caller gave and validates it. `given` NULL: all defaults.
Failure readCompileOptions(const sl_compile_options* given, CompileOptions* options);

/// A user error that names the first option whose value is not valid on any target, that value and
/// what is. `checkTarget` (pipeline_options.h) checks what depends on the target.
Failure validate(const CompileOptions& options);

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_COMPILE_OPTIONS_H
