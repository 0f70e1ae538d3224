// SPDX-License-Identifier: Apache-2.0
// The safetensors format (github.com/huggingface/safetensors): 8 bytes of the header's size, a JSON
// header, tensors row-major.
#ifndef STRAIGHTLINE_RUNTIME_ARTIFACT_SAFETENSORS_H
#define STRAIGHTLINE_RUNTIME_ARTIFACT_SAFETENSORS_H

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace straightline {

struct StoredTensor {
  std::string dtype;  ///< of the format: "F32", "BF16", ...
  std::vector<int64_t> shape;
  std::string_view bytes;
};

/// The tensors of a file by name; they lie in `file`. Null, or what is wrong with it.
const char* readSafetensors(std::string_view file, std::map<std::string, StoredTensor>* tensors);

/// Whether a tensor of this dtype and `elements` elements fills so many bytes.
bool fillsBytes(const std::string& dtype, uint64_t elements, uint64_t bytes);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_ARTIFACT_SAFETENSORS_H
