// SPDX-License-Identifier: Apache-2.0
// Part of straightline.hpp: modules, and the builder that makes one op by op.
#ifndef STRAIGHTLINE_MODULE_HPP
#define STRAIGHTLINE_MODULE_HPP

#include <fstream>
#include <initializer_list>
#include <iterator>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "straightline/tensor.hpp"

namespace straightline {
inline namespace v1 {

// Modules -----------------------------------------------------------------------------------------

/// A graph of the op level (or a program of the kernel level). Compiling leaves it as it is.
class Module {
 public:
  /// MLIR assembly or bytecode; `name` stands for the file in messages and explanations.
  static Module parse(std::string_view text, const std::string& name = "<string>") {
    sl_module* module = nullptr;
    sl_text* error = nullptr;
    detail::check(sl_module_parse(text.data(), text.size(), name.c_str(), &module, &error), error);
    return Module(module);
  }

  /// A file of either.
  static Module load(const std::string& path) {
    std::string text;
    try {
      std::ifstream file(path, std::ios::binary);
      text.assign(std::istreambuf_iterator<char>(file), {});
      if (!file.is_open()) {
        throw UserError("cannot open '" + path + "'");
      }
    } catch (const std::ios_base::failure& error) {  // a folder opens, but cannot be read
      throw UserError("cannot read '" + path + "': " + error.what());
    }
    return parse(text, path.substr(path.rfind('/') + 1));
  }

  std::string print(bool locations = false) const {
    return detail::take(sl_module_print(get(), locations ? SL_PRINT_LOCATIONS : 0));
  }

  const sl_module* get() const { return detail::present(module_, "the module").get(); }

 private:
  friend class Builder;
  explicit Module(sl_module* module) : module_(module) {}
  detail::Owned<sl_module> module_;
};

/// A size: a number, or an expression over named extents ("n", "n * 64 + 1").
class Extent {
 public:
  template <std::integral T>
  Extent(T size) : text_(std::to_string(size)), isNamed_(false) {}
  Extent(const char* expression) : text_(expression), isNamed_(true) {}
  Extent(std::string expression) : text_(std::move(expression)), isNamed_(true) {}
  const std::string& text() const { return text_; }
  bool isNamed() const { return isNamed_; }

 private:
  std::string text_;
  bool isNamed_;
};

/// The type of a value in the IR: "tensor<3x8xf32>", "tensor<?x8xf32, #op.dims<[n, 8]>>".
inline std::string tensorType(DType dtype, const std::vector<Extent>& shape) {
  std::string sizes;
  std::string list;
  bool isNamed = false;
  for (const Extent& extent : shape) {
    sizes += (extent.isNamed() ? "?" : extent.text()) + "x";
    list += (list.empty() ? "" : ", ") + extent.text();
    isNamed |= extent.isNamed();
  }
  return "tensor<" + sizes + std::string(name(dtype)) +
         (isNamed ? ", #op.dims<[" + list + "]>" : "") + ">";
}

/// An attribute of an op.
class Attribute {
 public:
  Attribute(bool value) : text_(value ? "true" : "false") {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Attribute(T value) : text_(std::to_string(value) + " : i64") {}
  Attribute(double value) : text_(number(value) + " : f64") {}
  Attribute(const char* value) : text_(value), isString_(true) {}
  Attribute(std::string value) : text_(std::move(value)), isString_(true) {}
  Attribute(std::initializer_list<int64_t> values) : Attribute(std::vector<int64_t>(values)) {}
  Attribute(const std::vector<int64_t>& values) {
    const std::string list = detail::join(values);
    text_ = values.empty() ? "array<i64>" : "array<i64: " + list.substr(1, list.size() - 2) + ">";
  }
  /// MLIR assembly.
  static Attribute assembly(std::string text) {
    Attribute attribute(std::move(text));
    attribute.isString_ = false;
    return attribute;
  }
  const std::string& text() const { return text_; }
  bool isString() const { return isString_; }

 private:
  static std::string number(double value) {
    uint64_t bits = 0;
    static_assert(sizeof(bits) == sizeof(value));
    std::memcpy(&bits, &value, sizeof(bits));
    static constexpr char digits[] = "0123456789ABCDEF";
    std::string text = "0x";  // exact, infinities and NaN too
    for (int shift = 60; shift >= 0; shift -= 4) {
      text += digits[(bits >> shift) & 15];
    }
    return text;
  }

  std::string text_;
  bool isString_ = false;
};

/// Builds a module of one function in program order. The first mistake throws; nothing can be added
/// after it.
class Builder {
 public:
  struct Value {
    int32_t number = -1;
  };
  struct Argument {
    std::string name;
    std::string type;  ///< tensorType(...)
  };
  struct Result {
    std::string name;
    Value value;
    /// "input:NAME" or "state:NAME": overwrites that; not given to the caller
    std::string tie = "";
  };
  using Attributes = std::vector<std::pair<std::string, Attribute>>;
  using Location = std::source_location;

  Builder() : builder_(sl_builder_create()) { sl_builder_set_user(builder_.get()); }

  /// A named extent with inclusive bounds; before the function begins.
  void symbol(const std::string& name, int64_t min, int64_t max) {
    run([&](sl_text** error) { return sl_builder_symbol(get(), name.c_str(), min, max, error); });
  }

  std::vector<Value> begin(const std::vector<Argument>& arguments,
                           const std::string& name = "forward") {
    std::vector<const char*> names;
    std::vector<const char*> types;
    for (const Argument& argument : arguments) {
      names.push_back(argument.name.c_str());
      types.push_back(argument.type.c_str());
    }
    std::vector<int32_t> values(arguments.size());
    run([&](sl_text** error) {
      return sl_builder_begin_function(get(), name.c_str(), names.data(), types.data(),
                                       static_cast<int32_t>(names.size()), values.data(), error);
    });
    return wrap(values);
  }

  /// Read only, given by name when the program is bound.
  Value parameter(const std::string& name, const std::string& type,
                  Location location = Location::current()) {
    return op("op.parameter", {}, type, {{"name", name}}, location);
  }
  /// Its value at the beginning of a call; a result with the tie "state:NAME" overwrites it.
  Value state(const std::string& name, const std::string& type,
              Location location = Location::current()) {
    return op("op.state", {}, type, {{"name", name}}, location);
  }
  /// A literal with row-major elements.
  template <typename T>
  Value constant(const std::string& type, std::span<const T> values,
                 Location location = Location::current()) {
    run([&](sl_text** error) {
      return sl_builder_attribute_dense(get(), "value", type.c_str(), values.data(),
                                        values.size_bytes(), error);
    });
    return op("op.constant", {}, type, {}, location);
  }

  /// An op with one result. Its source in explanations and messages is the caller's line.
  Value op(const std::string& name, const std::vector<Value>& operands, const std::string& type,
           const Attributes& attributes = {}, Location location = Location::current()) {
    return ops(name, operands, {type}, attributes, {}, 0, location).front();
  }
  /// An op with any number of results. `segments`: how many operands each group has, for ops with
  /// optional operands ({1, 1, 0}); the op takes the last `regions` regions that were ended.
  std::vector<Value> ops(const std::string& name, const std::vector<Value>& operands,
                         const std::vector<std::string>& types, const Attributes& attributes = {},
                         const std::vector<int32_t>& segments = {}, int32_t regions = 0,
                         Location location = Location::current()) {
    for (const auto& [key, attribute] : attributes) {
      setAttribute(key, attribute);
    }
    const std::vector<const char*> texts = pointers(types);
    const std::vector<int32_t> given = unwrap(operands);
    const sl_location where = locate(location);
    std::vector<int32_t> results(types.size());
    run([&](sl_text** error) {
      return sl_builder_op(
          get(), name.c_str(), given.data(), static_cast<int32_t>(given.size()), texts.data(),
          static_cast<int32_t>(texts.size()), segments.empty() ? nullptr : segments.data(),
          static_cast<int32_t>(segments.size()), regions, &where, results.data(), error);
    });
    return wrap(results);
  }

  /// A region of a later op; values from outside stay visible in it.
  std::vector<Value> beginRegion(const std::vector<std::string>& types = {}) {
    const std::vector<const char*> texts = pointers(types);
    std::vector<int32_t> values(types.size());
    run([&](sl_text** error) {
      return sl_builder_begin_region(get(), texts.data(), static_cast<int32_t>(texts.size()),
                                     values.data(), error);
    });
    return wrap(values);
  }
  void endRegion(const std::vector<Value>& yields, Location location = Location::current()) {
    const std::vector<int32_t> given = unwrap(yields);
    const sl_location where = locate(location);
    run([&](sl_text** error) {
      return sl_builder_end_region(get(), given.data(), static_cast<int32_t>(given.size()), &where,
                                   error);
    });
  }

  /// Ends the function and verifies the module; the builder is empty afterwards. Tied results come
  /// last.
  Module finish(const std::vector<Result>& results) {
    std::vector<int32_t> values;
    std::vector<const char*> names;
    std::vector<const char*> ties;
    for (const Result& result : results) {
      values.push_back(result.value.number);
      names.push_back(result.name.c_str());
      ties.push_back(result.tie.empty() ? nullptr : result.tie.c_str());
    }
    sl_module* module = nullptr;
    run([&](sl_text** error) {
      return sl_builder_end_function(get(), values.data(), names.data(), ties.data(),
                                     static_cast<int32_t>(values.size()), error);
    });
    run([&](sl_text** error) { return sl_builder_finish(get(), &module, error); });
    builder_.reset();
    return Module(module);
  }

 private:
  sl_builder* get() const { return detail::present(builder_, "the builder").get(); }

  /// After an error the builder is good for nothing.
  template <typename Work>
  void run(const Work& work) {
    sl_text* error = nullptr;
    const int32_t kind = work(&error);
    if (kind != SL_ERROR_NONE) {
      builder_.reset();
    }
    detail::check(kind, error);
  }

  void setAttribute(const std::string& key, const Attribute& attribute) {
    const std::string& text = attribute.text();
    run([&](sl_text** error) {
      return attribute.isString()
                 ? sl_builder_attribute_string(get(), key.c_str(), text.data(), text.size(), error)
                 : sl_builder_attribute(get(), key.c_str(), text.c_str(), error);
    });
  }

  static sl_location locate(const Location& location) {
    const char* slash = std::strrchr(location.file_name(), '/');
    return {"", slash == nullptr ? location.file_name() : slash + 1,
            static_cast<int32_t>(location.line()), ""};
  }
  static std::vector<const char*> pointers(const std::vector<std::string>& texts) {
    std::vector<const char*> result;
    for (const std::string& text : texts) {
      result.push_back(text.c_str());
    }
    return result;
  }
  static std::vector<Value> wrap(const std::vector<int32_t>& numbers) {
    std::vector<Value> result;
    for (int32_t number : numbers) {
      result.push_back({number});
    }
    return result;
  }
  static std::vector<int32_t> unwrap(const std::vector<Value>& values) {
    std::vector<int32_t> result;
    for (Value value : values) {
      result.push_back(value.number);
    }
    return result;
  }

  detail::Owned<sl_builder> builder_;
};

}  // namespace v1
}  // namespace straightline

#endif  // STRAIGHTLINE_MODULE_HPP
