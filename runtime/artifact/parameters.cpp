// SPDX-License-Identifier: Apache-2.0
#include "artifact/parameters.h"

#include <algorithm>
#include <cstring>

#include "message_writer.h"
#include "program.h"
#include "weights.h"

namespace straightline {
namespace {

/// Sizes of a parameter: they are numbers.
std::vector<int64_t> values(const sl_expr* expressions, int32_t rank) {
  std::vector<int64_t> result;
  for (int32_t d = 0; d < rank; ++d) {
    result.push_back(sl_expr_value(&expressions[d], nullptr));
  }
  return result;
}

bool isRowMajor(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t expected = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && strides[d] != expected) {
      return false;
    }
    expected *= shape[d];
  }
  return true;
}

/// Elements of `bytes` each from row-major memory to strides (in elements).
void scatter(const char* from, char* to, const std::vector<int64_t>& shape,
             const std::vector<int64_t>& strides, size_t bytes) {
  std::vector<int64_t> at(shape.size(), 0);
  if (std::count(shape.begin(), shape.end(), 0) != 0) {
    return;
  }
  for (;;) {
    int64_t place = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      place += at[d] * strides[d];
    }
    std::memcpy(to + place * static_cast<int64_t>(bytes), from, bytes);
    from += bytes;
    size_t d = at.size();
    while (d > 0 && ++at[d - 1] == shape[d - 1]) {
      at[--d] = 0;
    }
    if (d == 0) {
      return;
    }
  }
}

}  // namespace

bool isStoredAs(sl_dtype dtype, const std::string& name) {
  struct Row {
    const char* name;
    uint8_t code, bits;
  };
  static constexpr Row rows[] = {
      {"F32", 2, 32}, {"F64", 2, 64}, {"F16", 2, 16}, {"BF16", 4, 16}, {"I8", 0, 8},
      {"I16", 0, 16}, {"I32", 0, 32}, {"I64", 0, 64}, {"U8", 1, 8},    {"U16", 1, 16},
      {"U32", 1, 32}, {"U64", 1, 64}, {"BOOL", 6, 8},
  };
  for (const Row& row : rows) {
    if (row.code == dtype.code && row.bits == dtype.bits) {
      return name == row.name;
    }
  }
  return dtype.bits == 8 && (name == "U8" || name.rfind("F8_", 0) == 0);
}

Parameters::~Parameters() {
  for (Copy& copy : copies_) {
    releaseBlock(copy.device, &copy.block);
  }
  sl_artifact_release(artifact_);
}

int32_t Parameters::find(const std::string& name, const StoredTensor** out, sl_message* message) {
  if (const auto given = given_.find(name); given != given_.end()) {
    *out = &given->second;
    return SL_OK;
  }
  if (const int32_t status = artifact_->readTensors(message)) {
    return status;
  }
  const auto found = artifact_->tensors.find(name);
  if (found == artifact_->tensors.end()) {
    MessageWriter(message)
        .text(artifact_->archive.path().c_str())
        .text(": its weights have no '")
        .text(name.c_str())
        .text("'");
    return SL_INVALID_ARGUMENT;
  }
  *out = &found->second;
  return SL_OK;
}

int32_t Parameters::copied(const sl_program& program, const sl_buffer& buffer,
                           const StoredTensor& tensor, void** out, sl_message* message) {
  const std::vector<int64_t> shape = values(buffer.extents, buffer.rank);
  const std::vector<int64_t> strides = values(buffer.strides, buffer.rank);
  const size_t element = buffer.dtype.bits / 8;
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    last += std::max<int64_t>(shape[d] - 1, 0) * strides[d];
  }
  const auto space = static_cast<size_t>(buffer.space);
  std::string strided;
  const char* from = tensor.bytes.data();
  size_t bytes = tensor.bytes.size();
  if (!isRowMajor(shape, strides)) {
    strided.resize(static_cast<size_t>(last + 1) * element);
    scatter(from, strided.data(), shape, strides, element);
    from = strided.data();
    bytes = strided.size();
  }
  copies_.push_back({{}, program.spaceDevices[space]});
  if (const int32_t status =
          copyToSpace(program, space, from, bytes, &copies_.back().block, message)) {
    return status;
  }
  *out = copies_.back().block.address;
  return SL_OK;
}

int32_t Parameters::addresses(const sl_program& program, const std::vector<std::string>& names,
                              std::vector<void*>* out, sl_message* message) {
  const sl_program_desc& desc = *program.desc;
  out->assign(names.size(), nullptr);
  for (int32_t i = 0; i < desc.buffer_count; ++i) {
    const sl_buffer& buffer = desc.buffers[i];
    if (buffer.role != SL_ROLE_PARAMETER && buffer.role != SL_ROLE_STATE) {
      continue;
    }
    const std::string& name = names.at(static_cast<size_t>(buffer.index));
    const StoredTensor* tensor = nullptr;
    if (const int32_t status = find(name, &tensor, message)) {
      return status;
    }
    const std::vector<int64_t> shape = values(buffer.extents, buffer.rank);
    uint64_t elements = 1;
    for (const int64_t size : shape) {
      elements *= static_cast<uint64_t>(size);
    }
    if (tensor->shape != shape || !isStoredAs(buffer.dtype, tensor->dtype) ||
        tensor->bytes.size() != elements * (buffer.dtype.bits / 8)) {
      MessageWriter(message)
          .text("parameter '")
          .text(name.c_str())
          .text("' is ")
          .text(tensor->dtype.c_str())
          .tuple(tensor->shape.data(), static_cast<int32_t>(tensor->shape.size()))
          .text(" but the program was compiled for ")
          .dtype(buffer.dtype)
          .tuple(shape.data(), buffer.rank);
      return SL_INVALID_ARGUMENT;
    }
    void*& place = (*out)[static_cast<size_t>(buffer.index)];
    const bool isState = buffer.role == SL_ROLE_STATE;
    if (const auto state = states_.find(name); isState && state != states_.end()) {
      place = state->second;
      continue;
    }
    const bool aligned =
        reinterpret_cast<uintptr_t>(tensor->bytes.data()) % (buffer.dtype.bits / 8) == 0;
    if (!isState && aligned && !program.spaceDevices[static_cast<size_t>(buffer.space)] &&
        isRowMajor(shape, values(buffer.strides, buffer.rank))) {
      place = const_cast<char*>(tensor->bytes.data());
      continue;
    }
    if (const int32_t status = copied(program, buffer, *tensor, &place, message)) {
      return status;
    }
    if (isState) {
      states_[name] = place;
    }
  }
  return SL_OK;
}

}  // namespace straightline
