// SPDX-License-Identifier: Apache-2.0
// The parameters of a loaded model: where each tensor's memory is.
#ifndef STRAIGHTLINE_RUNTIME_ARTIFACT_PARAMETERS_H
#define STRAIGHTLINE_RUNTIME_ARTIFACT_PARAMETERS_H

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "artifact/artifact.h"
#include "host_memory.h"

namespace straightline {

/// The dtype by safetensors' name; one that the format lacks is stored as bytes ("U8").
bool isStoredAs(sl_dtype dtype, const std::string& name);

/// Tensors by name, for the programs of one model. What lies in the file row-major is used where it
/// is; states, other layouts and a device's parameters are copies that it owns.
class Parameters {
 public:
  /// `given`: tensors that take the place of the artifact's, over memory that `keep` holds.
  Parameters(sl_artifact* artifact, std::map<std::string, StoredTensor> given,
             std::shared_ptr<void> keep)
      : artifact_(artifact), given_(std::move(given)), keep_(std::move(keep)) {
    sl_artifact_retain(artifact_);
  }
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;
  ~Parameters();

  /// An address for each parameter of the program, whose names are `names`.
  int32_t addresses(const sl_program& program, const std::vector<std::string>& names,
                    std::vector<void*>* out, sl_message* message);

 private:
  struct Copy {
    Block block;
    const sl_device_desc* device;
  };

  int32_t find(const std::string& name, const StoredTensor** out, sl_message* message);
  int32_t copied(const sl_program& program, const sl_buffer& buffer, const StoredTensor& tensor,
                 void** out, sl_message* message);

  sl_artifact* artifact_;
  std::map<std::string, StoredTensor> given_;
  std::shared_ptr<void> keep_;
  std::vector<Copy> copies_;
  std::map<std::string, void*> states_;  ///< the programs of a model share them
};

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_ARTIFACT_PARAMETERS_H
