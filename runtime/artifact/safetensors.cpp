// SPDX-License-Identifier: Apache-2.0
#include "artifact/safetensors.h"

#include <cstring>

#include "artifact/json.h"

namespace straightline {
namespace {

/// Bits of an element; 0: unknown.
uint64_t bitsOf(const std::string& dtype) {
  struct Row {
    const char* name;
    uint64_t bits;
  };
  static constexpr Row rows[] = {
      {"BOOL", 8}, {"U8", 8},   {"I8", 8},   {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
      {"I16", 16}, {"U16", 16}, {"F16", 16}, {"BF16", 16},   {"I32", 32},    {"U32", 32},
      {"F32", 32}, {"I64", 64}, {"U64", 64}, {"F64", 64},    {"C64", 64},
  };
  for (const Row& row : rows) {
    if (dtype == row.name) {
      return row.bits;
    }
  }
  return 0;
}

const char* readTensor(const Json& json, std::string_view data, StoredTensor* tensor) {
  const auto dtype = textOf(json, "dtype");
  const Json* shape = member(json, "shape");
  const Json* offsets = member(json, "data_offsets");
  if (!dtype || !shape || !shape->is_array() || !offsets || !offsets->is_array() ||
      offsets->size() != 2) {
    return "a tensor lacks its dtype, shape or place";
  }
  uint64_t elements = 1;
  for (const Json& size : *shape) {
    const auto value = countOf(size);
    if (!value || *value > (uint64_t{1} << 48) ||
        __builtin_mul_overflow(elements, *value, &elements)) {
      return "a tensor's shape is malformed";
    }
    tensor->shape.push_back(static_cast<int64_t>(*value));
  }
  const auto begin = countOf((*offsets)[0]), end = countOf((*offsets)[1]);
  if (!begin || !end || *begin > *end || *end > data.size()) {
    return "a tensor lies outside of the file";
  }
  tensor->dtype = *dtype;
  tensor->bytes = data.substr(*begin, *end - *begin);
  return fillsBytes(*dtype, elements, *end - *begin) ? nullptr
                                                     : "a tensor's size and its place differ";
}

}  // namespace

bool fillsBytes(const std::string& dtype, uint64_t elements, uint64_t bytes) {
  const uint64_t bits = bitsOf(dtype);
  uint64_t total = 0;
  return bits != 0 && !__builtin_mul_overflow(elements, bits, &total) && total == bytes * 8;
}

const char* readSafetensors(std::string_view file, std::map<std::string, StoredTensor>* tensors) {
  uint64_t header = 0;
  if (file.size() < sizeof header) {
    return "it is too short";
  }
  std::memcpy(&header, file.data(), sizeof header);
  if (header > file.size() - sizeof header) {
    return "its header is longer than the file";
  }
  const std::optional<Json> json = parseObject(file.substr(sizeof header, header));
  if (!json) {
    return "its header is no JSON object";
  }
  const std::string_view data = file.substr(sizeof header + header);
  for (const auto& [name, facts] : json->items()) {
    if (name == "__metadata__") {
      continue;
    }
    if (!facts.is_object()) {
      return "a tensor's description is no object";
    }
    if (const char* wrong = readTensor(facts, data, &(*tensors)[name])) {
      return wrong;
    }
  }
  return nullptr;
}

}  // namespace straightline
