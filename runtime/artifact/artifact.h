// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_RUNTIME_ARTIFACT_ARTIFACT_H
#define STRAIGHTLINE_RUNTIME_ARTIFACT_ARTIFACT_H

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "artifact/archive.h"
#include "artifact/manifest.h"
#include "artifact/safetensors.h"
#include "straightline/abi/artifact.h"

/// An open artifact. The manifest does not change; `archive`, `tensors` and `checked` are under the
/// mutex.
struct sl_artifact {
  std::atomic<int32_t> references{1};
  straightline::Archive archive;
  straightline::Manifest manifest;
  std::vector<const sl_code*> linked;  ///< code that is linked into the process
  std::mutex mutex;
  std::map<std::string, bool> checked;  ///< files whose digest was compared
  bool hasTensors = false;
  std::map<std::string, straightline::StoredTensor> tensors;

  /// Contents of a file of the manifest's list, of the size that it says. Its digest is compared
  /// once where `check`.
  int32_t file(const std::string& name, bool check, std::string_view* out, sl_message* message);
  int32_t readTensors(sl_message* message);
};

#endif  // STRAIGHTLINE_RUNTIME_ARTIFACT_ARTIFACT_H
