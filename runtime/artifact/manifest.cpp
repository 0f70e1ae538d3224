// SPDX-License-Identifier: Apache-2.0
#include "artifact/manifest.h"

#include "artifact/archive.h"
#include "artifact/json.h"
#include "message_writer.h"

namespace straightline {
namespace {

/// What is wrong, or null. Each function reads one part.
using Wrong = const char*;

Wrong readFiles(const Json& manifest, Manifest* out) {
  const Json* files = member(manifest, "files");
  if (!files || !files->is_object()) {
    return "it lists no files";
  }
  for (const auto& [name, facts] : files->items()) {
    const auto bytes = facts.is_object() ? countOf(facts, "bytes") : std::nullopt;
    const auto digest = facts.is_object() ? textOf(facts, "xxh128") : std::nullopt;
    if (!isPlainName(name) || !bytes || !digest || digest->size() != 32) {
      return "an entry of its list of files is malformed";
    }
    out->files[name] = {*bytes, *digest};
  }
  return nullptr;
}

bool readTexts(const Json& object, const char* name, std::vector<std::string>* out) {
  const Json* list = member(object, name);
  if (!list || !list->is_array()) {
    return false;
  }
  for (const Json& text : *list) {
    if (!text.is_string()) {
      return false;
    }
    out->push_back(text.get<std::string>());
  }
  return true;
}

Wrong readOwnLibraries(const Json& json, const Manifest& manifest, Variant* out) {
  const Json* list = member(json, "own_kernels");
  if (!list) {
    return nullptr;
  }
  if (!list->is_array()) {
    return "a variant's own kernels are no list";
  }
  for (const Json& row : *list) {
    const auto text = [&](const char* name) {
      return row.is_object() ? textOf(row, name) : std::nullopt;
    };
    const auto symbol = text("symbol"), function = text("function"), library = text("library"),
               digest = text("xxh128");
    if (!symbol || !function || !library || !digest || symbol->rfind("sl_own_", 0) != 0) {
      return "an own kernel lacks its symbol, function, library or digest";
    }
    const std::string file = text("file").value_or("");
    if (!file.empty() && manifest.files.count(file) == 0) {
      return "an own kernel names a library that is not among the files";
    }
    out->ownLibraries.push_back({*symbol, *function, *library, *digest, file});
  }
  return nullptr;
}

Wrong readVariant(const Json& json, const Manifest& manifest, Variant* out) {
  if (!json.is_object()) {
    return "a variant is no object";
  }
  const auto target = textOf(json, "target"), cpu = textOf(json, "cpu"),
             code = textOf(json, "code");
  if (!target || !cpu || !code || !readTexts(json, "features", &out->features) ||
      !readTexts(json, "parameters", &out->parameters)) {
    return "a variant lacks its target, cpu, features, parameters or code";
  }
  out->target = *target;
  out->cpu = *cpu;
  out->code = *code;
  out->prepared = textOf(json, "prepared").value_or("");
  if (const Json* shares = member(json, "prepared_shared")) {
    out->sharesFile = shares->is_boolean() && shares->get<bool>();
  }
  if (const Json* replaced = member(json, "python_replaced")) {
    out->isReplaced = replaced->is_boolean() && replaced->get<bool>();
  }
  out->imageCompiler = static_cast<int32_t>(countOf(json, "image_compiler").value_or(0));
  if (const Json* images = member(json, "images")) {
    if (!images->is_object()) {
      return "a variant's images are no object";
    }
    for (const auto& [name, file] : images->items()) {
      if (!file.is_string() || manifest.files.count(file.get<std::string>()) == 0) {
        return "a variant names an image that is not among the files";
      }
      out->images[name] = file.get<std::string>();
    }
  }
  if (Wrong wrong = readOwnLibraries(json, manifest, out)) {
    return wrong;
  }
  for (const std::string& file : {out->code, out->prepared}) {
    if (!file.empty() && manifest.files.count(file) == 0) {
      return "a variant names a file that is not among the files";
    }
  }
  return nullptr;
}

Wrong readPrograms(const Json& manifest, Manifest* out) {
  const Json* programs = member(manifest, "programs");
  if (!programs || !programs->is_array() || programs->empty()) {
    return "it lists no programs";
  }
  for (const Json& program : *programs) {
    const Json* variants = program.is_object() ? member(program, "variants") : nullptr;
    if (!variants || !variants->is_array() || variants->empty()) {
      return "a program has no variants";
    }
    out->programs.emplace_back();
    for (const Json& variant : *variants) {
      out->programs.back().emplace_back();
      if (Wrong wrong = readVariant(variant, *out, &out->programs.back().back())) {
        return wrong;
      }
    }
  }
  return nullptr;
}

/// Programs are compiled for at most so many combinations (python/straightline/_slots.py).
constexpr size_t kMostChoices = 1024;

Wrong readSlots(const Json& manifest, Manifest* out) {
  const Json* slots = member(manifest, "slots");
  if (!slots) {
    return nullptr;
  }
  const Json* ops = slots->is_object() ? member(*slots, "ops") : nullptr;
  const Json* shared = slots->is_object() ? member(*slots, "shared") : nullptr;
  if (!ops || !ops->is_array() || !shared || !shared->is_boolean()) {
    return "its slots lack their ops, or whether they share prepared data";
  }
  out->sharesPrepared = shared->get<bool>();
  for (const Json& row : *ops) {
    ManifestSlot slot;
    const auto op = row.is_object() ? textOf(row, "op") : std::nullopt;
    if (!op || !readTexts(row, "targets", &slot.targets) || slot.targets.size() < 2 ||
        out->choices > kMostChoices / slot.targets.size()) {
      return "a slot lacks its op or two targets, or has too many";
    }
    slot.op = *op;
    out->choices *= slot.targets.size();
    out->slots.push_back(std::move(slot));
  }
  return out->programs.size() % out->choices == 0 ? nullptr
                                                  : "a combination of slots lacks its programs";
}

}  // namespace

bool Manifest::read(std::string_view text, const char* path, sl_message* message) {
  // The table of parameters is for Python alone.
  const std::optional<Json> manifest = parseObject(text, "table");
  MessageWriter writer(message);
  writer.text(path);
  if (!manifest) {
    writer.text(" is no artifact: its manifest is no JSON object");
    return false;
  }
  const auto format = countOf(*manifest, "format"), abi = countOf(*manifest, "abi");
  if (!format || !abi) {
    writer.text(" is no artifact: its manifest lacks the versions of its format and of its code");
    return false;
  }
  const bool byFormat = *format < kOldestArtifactFormat || *format > kArtifactFormat;
  if (byFormat || *abi != SL_ABI_VERSION) {
    writer.text(": it was saved with ")
        .text(byFormat ? "artifact format " : "abi_version ")
        .number(static_cast<int64_t>(byFormat ? *format : *abi))
        .text(" but this runtime reads ")
        .number(static_cast<int64_t>(byFormat ? kOldestArtifactFormat : SL_ABI_VERSION));
    if (byFormat) {
      writer.text(" to ").number(static_cast<int64_t>(kArtifactFormat));
    }
    writer.text(" (it was saved by straightline ")
        .text(textOf(*manifest, "straightline").value_or("of an unknown version").c_str())
        .text("); save the model again with this release");
    return false;
  }
  name = textOf(*manifest, "name").value_or("");
  Wrong wrong = readFiles(*manifest, this);
  wrong = wrong ? wrong : readPrograms(*manifest, this);
  wrong = wrong ? wrong : readSlots(*manifest, this);
  weights = textOf(*manifest, "weights").value_or("");
  if (!wrong && !weights.empty() && files.count(weights) == 0) {
    wrong = "its weights are not among its files";
  }
  if (wrong) {
    writer.text(" is no artifact: in its manifest, ").text(wrong);
  }
  return !wrong;
}

}  // namespace straightline
