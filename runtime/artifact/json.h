// SPDX-License-Identifier: Apache-2.0
// Checked access to JSON that may say anything.
#ifndef STRAIGHTLINE_RUNTIME_ARTIFACT_JSON_H
#define STRAIGHTLINE_RUNTIME_ARTIFACT_JSON_H

#define JSON_NO_IO  // streams would bring locales along
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace straightline {

using Json = nlohmann::json;

/// Nothing where the text is no JSON object. Members of the object named `unread` are checked and
/// not kept: a tree takes ten times the memory of its text.
inline std::optional<Json> parseObject(std::string_view text, std::string_view unread = "") {
  const auto isKept = [&](int depth, Json::parse_event_t event, const Json& value) {
    return event != Json::parse_event_t::key || depth != 1 ||
           value.get_ref<const std::string&>() != unread;
  };
  Json value = Json::parse(text.begin(), text.end(), isKept, /*allow_exceptions=*/false);
  if (value.is_discarded() || !value.is_object()) {
    return std::nullopt;
  }
  return value;
}

/// The member, or null.
inline const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

inline std::optional<std::string> textOf(const Json& object, const char* name) {
  const Json* value = member(object, name);
  return value && value->is_string() ? std::optional<std::string>(value->get<std::string>())
                                     : std::nullopt;
}

/// A number that is not negative.
inline std::optional<uint64_t> countOf(const Json& value) {
  return value.is_number_unsigned() ? std::optional<uint64_t>(value.get<uint64_t>()) : std::nullopt;
}

inline std::optional<uint64_t> countOf(const Json& object, const char* name) {
  const Json* value = member(object, name);
  return value ? countOf(*value) : std::nullopt;
}

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_ARTIFACT_JSON_H
