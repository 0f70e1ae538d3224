// SPDX-License-Identifier: Apache-2.0
#include "artifact/artifact.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "artifact/code.h"
#include "artifact/own_libraries.h"
#include "boundary.h"
#include "message_writer.h"
#include "program.h"
#include "registry.h"

namespace straightline {

std::string digestOf(std::string_view data) {
  uint8_t bytes[16];
  sl_digest(data.data(), data.size(), bytes);
  std::string text;
  for (const uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

namespace {

/// Maps the pages of what is about to be read, by a page fault for every 64 KB: Linux maps the
/// pages around one that are in memory (fault_around_bytes). That takes a third of the time of
/// MADV_POPULATE_READ, which looks at each page (0.4 and 1.3 ms for 47 MB).
void touch(std::string_view contents) {
  constexpr size_t kAround = size_t{64} << 10;
  for (size_t at = 0; at < contents.size(); at += kAround) {
    static_cast<void>(*static_cast<const volatile char*>(contents.data() + at));
  }
}

struct Release {
  void operator()(sl_artifact* artifact) const { sl_artifact_release(artifact); }
};
using Owned = std::unique_ptr<sl_artifact, Release>;

/// The manifest, its own digest, and the sizes of all files (with `verify` their digests).
int32_t readManifest(sl_artifact* artifact, uint32_t flags, sl_message* message) {
  const char* path = artifact->archive.path().c_str();
  const std::string_view* manifest = artifact->archive.find("manifest.json", message);
  const std::string_view* digest = manifest ? artifact->archive.find("checksum", message) : nullptr;
  if (!digest) {
    return SL_INVALID_ARGUMENT;
  }
  if (*digest != digestOf(*manifest)) {
    MessageWriter(message).text(path).text(" is damaged: its manifest is not what was saved");
    return SL_INVALID_ARGUMENT;
  }
  if (!artifact->manifest.read(*manifest, path, message)) {
    return SL_INVALID_ARGUMENT;
  }
  for (const auto& [name, facts] : artifact->manifest.files) {
    std::string_view contents;
    if (const int32_t status =
            artifact->file(name, (flags & SL_ARTIFACT_VERIFY) != 0, &contents, message)) {
      return status;
    }
  }
  return SL_OK;
}

/// What the machine lacks for a variant; "": nothing.
std::string lacks(const Variant& variant, int32_t device_type) {
  const bool onHost = variant.target == "cpu";
  if (device_type != 0 && onHost != (device_type == 1)) {
    return "is for another kind of device";
  }
  std::string missing;
  for (const std::string& feature : variant.features) {
    if (sl_cpu_has(feature.c_str()) != 1) {
      missing += (missing.empty() ? "needs " : ", ") + feature;
    }
  }
  return missing;
}

size_t deviceVariants(const std::vector<Variant>& variants) {
  return static_cast<size_t>(std::count_if(variants.begin(), variants.end(),
                                           [](const Variant& v) { return v.target != "cpu"; }));
}

/// How well a device runs the machine code of a variant (sl_device_desc.fits); where it does not,
/// `lacking` receives why.
int32_t fitOf(const Variant& variant, int32_t number, std::string* lacking) {
  const std::string kind = variant.target.substr(0, variant.target.find(':'));
  const sl_backend_desc* backend = findBackend(kind.c_str());
  const sl_device_desc* device = backend ? backend->device : nullptr;
  if (!device) {
    *lacking = "needs the backend " + kind + ", which is not in this process";
    return 0;
  }
  if (const char* why = device->missing ? device->missing(number) : nullptr) {
    *lacking = std::string("cannot run: ") + why;
    return 0;
  }
  char reason[160] = "";
  const int32_t fit =
      device->fits ? device->fits(number, variant.target.c_str(), reason, sizeof reason) : 1;
  if (fit <= 0) {
    *lacking = std::string("does not run on ") + reason;
  }
  return fit;
}

/// The program's number and the variant's, checked.
const Variant* variantOf(const sl_artifact& artifact, int32_t program, int32_t variant,
                         sl_message* message) {
  const auto& programs = artifact.manifest.programs;
  if (program < 0 || static_cast<size_t>(program) >= programs.size() || variant < 0 ||
      static_cast<size_t>(variant) >= programs[static_cast<size_t>(program)].size()) {
    MessageWriter(message)
        .text(artifact.archive.path().c_str())
        .text(": there is no variant ")
        .number(variant)
        .text(" of program ")
        .number(program);
    return nullptr;
  }
  return &programs[static_cast<size_t>(program)][static_cast<size_t>(variant)];
}

/// The code of a linked artifact: programs and variants in order.
const sl_code* linkedCode(const sl_artifact& artifact, int32_t program, int32_t variant) {
  size_t at = static_cast<size_t>(variant);
  for (int32_t i = 0; i < program; ++i) {
    at += artifact.manifest.programs[static_cast<size_t>(i)].size();
  }
  return at < artifact.linked.size() ? artifact.linked[at] : nullptr;
}

/// What a program keeps: its code, and the artifact that its images lie in.
struct Loaded {
  MappedCode code;
  Owned artifact;
};

void releaseLoaded(void* user) { delete static_cast<Loaded*>(user); }

int32_t fillImages(sl_artifact* artifact, const Variant& variant, const sl_code& code,
                   sl_message* message) {
  for (int32_t i = 0; i < code.image_count; ++i) {
    const sl_image_slot& slot = code.images[i];
    const auto file = variant.images.find(slot.name);
    std::string_view image;
    if (file == variant.images.end()) {
      MessageWriter(message)
          .text(artifact->archive.path().c_str())
          .text(": there is no machine code of ")
          .text(slot.name)
          .text(" for ")
          .text(variant.target.c_str());
      return SL_INVALID_ARGUMENT;
    }
    if (const int32_t status = artifact->file(file->second, true, &image, message)) {
      return status;
    }
    slot.image->data = image.data();
    slot.image->bytes = image.size();
    slot.image->compiler = variant.imageCompiler;
  }
  return SL_OK;
}

}  // namespace
}  // namespace straightline

using namespace straightline;

int32_t sl_artifact::file(const std::string& name, bool check, std::string_view* out,
                          sl_message* message) {
  const FileFacts& facts = manifest.files.at(name);
  const std::lock_guard<std::mutex> lock(mutex);
  const std::string_view* contents = archive.find(name, message);
  if (!contents) {
    return SL_INVALID_ARGUMENT;
  }
  const bool same = contents->size() == facts.bytes;
  if (!same || (check && !checked[name] && digestOf(*contents) != facts.digest)) {
    MessageWriter writer(message);
    writer.text(archive.path().c_str()).text(" is damaged: ").text(name.c_str());
    if (same) {
      writer.text(" is not what was saved (its digest differs)");
    } else {
      writer.text(" has ")
          .number(static_cast<int64_t>(contents->size()))
          .text(" bytes but ")
          .number(static_cast<int64_t>(facts.bytes))
          .text(" were saved");
    }
    return SL_INVALID_ARGUMENT;
  }
  checked[name] |= check;
  *out = *contents;
  return SL_OK;
}

int32_t sl_artifact::readTensors(sl_message* message) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (hasTensors) {
      return SL_OK;
    }
  }
  std::string_view contents;
  if (manifest.weights.empty()) {
    return SL_OK;
  }
  if (const int32_t status = file(manifest.weights, false, &contents, message)) {
    return status;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  if (hasTensors) {
    return SL_OK;
  }
  if (const char* wrong = readSafetensors(contents, &tensors)) {
    tensors.clear();
    MessageWriter(message)
        .text(archive.path().c_str())
        .text(" is damaged: ")
        .text(manifest.weights.c_str())
        .text(": ")
        .text(wrong);
    return SL_INVALID_ARGUMENT;
  }
  hasTensors = true;
  return SL_OK;
}

void sl_digest(const void* data, size_t bytes, uint8_t out[16]) {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  for (int i = 0; i < 8; ++i) {
    out[i] = static_cast<uint8_t>(hash.high64 >> (56 - 8 * i));
    out[8 + i] = static_cast<uint8_t>(hash.low64 >> (56 - 8 * i));
  }
}

int32_t sl_artifact_open(const char* path, uint32_t flags, sl_artifact** out, sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    Owned artifact(new sl_artifact);
    if (const int32_t status = artifact->archive.open(path, message)) {
      return status;
    }
    if (const int32_t status = readManifest(artifact.get(), flags, message)) {
      return status;
    }
    *out = artifact.release();
    return SL_OK;
  });
}

int32_t sl_artifact_open_linked(const char* name, const void* data, size_t bytes,
                                const sl_code* const* codes, int32_t count, uint32_t flags,
                                sl_artifact** out, sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    Owned artifact(new sl_artifact);
    artifact->linked.assign(codes, codes + count);
    if (const int32_t status = artifact->archive.openMemory(
            std::string_view(static_cast<const char*>(data), bytes), name, message)) {
      return status;
    }
    if (const int32_t status = readManifest(artifact.get(), flags, message)) {
      return status;
    }
    *out = artifact.release();
    return SL_OK;
  });
}

void sl_artifact_retain(sl_artifact* artifact) {
  artifact->references.fetch_add(1, std::memory_order_relaxed);
}

void sl_artifact_release(sl_artifact* artifact) {
  if (artifact && artifact->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete artifact;
  }
}

int32_t sl_artifact_entry(sl_artifact* artifact, const char* name, const void** data, size_t* bytes,
                          sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    const std::lock_guard<std::mutex> lock(artifact->mutex);
    const std::string_view* contents = artifact->archive.find(name, message);
    if (!contents) {
      return SL_INVALID_ARGUMENT;
    }
    *data = contents->data();
    *bytes = contents->size();
    return SL_OK;
  });
}

int32_t sl_artifact_program_count(const sl_artifact* artifact) {
  return static_cast<int32_t>(artifact->manifest.programs.size());
}

int32_t sl_artifact_choose(sl_artifact* artifact, int32_t program, int32_t device_type,
                           int32_t* variant, sl_message* message) {
  return sl_artifact_choose_on(artifact, program, device_type, 0, variant, message);
}

int32_t sl_artifact_choose_on(sl_artifact* artifact, int32_t program, int32_t device_type,
                              int32_t device, int32_t* variant, sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    if (!variantOf(*artifact, program, 0, message)) {
      return SL_INVALID_ARGUMENT;
    }
    const std::vector<Variant>& variants =
        artifact->manifest.programs[static_cast<size_t>(program)];
    *variant = -1;
    std::pair<int32_t, size_t> best;
    std::string why;
    const bool hasSeveral = deviceVariants(variants) > 1;
    for (size_t i = 0; i < variants.size(); ++i) {
      std::string lacking = lacks(variants[i], device_type);
      // Of one architecture alone the device itself says what is wrong, when the program is made.
      const int32_t fit = lacking.empty() && hasSeveral && variants[i].target != "cpu"
                              ? fitOf(variants[i], device, &lacking)
                              : 1;
      const std::pair<int32_t, size_t> rank(fit, variants[i].features.size());
      if (!lacking.empty()) {
        why +=
            (why.empty() ? "" : "; ") + variants[i].target + " " + variants[i].cpu + " " + lacking;
      } else if (*variant < 0 || rank > best) {
        *variant = static_cast<int32_t>(i);
        best = rank;
      }
    }
    if (*variant >= 0) {
      return SL_OK;
    }
    MessageWriter(message)
        .text(artifact->archive.path().c_str())
        .text(" has no code for this machine: ")
        .text(why.c_str())
        .text(hasSeveral && device_type != 1
                  ? "; save it for the architecture of this device (devices=)"
                  : "; save it for a CPU that this one is (cpus=)");
    return SL_UNSUPPORTED;
  });
}

int32_t sl_artifact_program(sl_artifact* artifact, int32_t program, int32_t variant, int32_t device,
                            sl_program** out, sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    const Variant* chosen = variantOf(*artifact, program, variant, message);
    if (!chosen) {
      return SL_INVALID_ARGUMENT;
    }
    auto loaded = std::make_unique<Loaded>();
    const char* path = artifact->archive.path().c_str();
    const sl_code* code = nullptr;
    if (artifact->linked.empty()) {
      std::string_view bytes;
      if (const int32_t status = artifact->file(chosen->code, true, &bytes, message)) {
        return status;
      }
      if (const int32_t status = loaded->code.open(bytes, chosen->code.c_str(), message)) {
        return status;
      }
      code = loaded->code.table();
    } else {
      code = linkedCode(*artifact, program, variant);
    }
    if (!code) {
      MessageWriter(message).text(path).text(": there is no code of ").text(chosen->code.c_str());
      return SL_INVALID_ARGUMENT;
    }
    if (const int32_t status = openOwnKernels(artifact, *chosen, message)) {
      return status;
    }
    if (const int32_t status = fillImports(*code, path, message)) {
      return status;
    }
    if (const int32_t status = fillImages(artifact, *chosen, *code, message)) {
      return status;
    }
    if (chosen->prepared.empty() && code->program->prepare && !artifact->manifest.weights.empty()) {
      std::string_view weights;
      if (const int32_t status =
              artifact->file(artifact->manifest.weights, false, &weights, message)) {
        return status;
      }
      touch(weights);
    }
    sl_artifact_retain(artifact);
    loaded->artifact.reset(artifact);
    if (const int32_t status = sl_program_create_on(code->program, device, releaseLoaded,
                                                    loaded.get(), out, message)) {
      return status;
    }
    [[maybe_unused]] Loaded* ofProgram = loaded.release();  // owned by it from now on
    if (static_cast<size_t>((*out)->desc->parameter_count) != chosen->parameters.size()) {
      MessageWriter(message)
          .text(path)
          .text(" is damaged: the code has ")
          .number((*out)->desc->parameter_count)
          .text(" parameters but the manifest names ")
          .number(static_cast<int64_t>(chosen->parameters.size()));
      sl_program_release(*out);
      *out = nullptr;
      return SL_INVALID_ARGUMENT;
    }
    return SL_OK;
  });
}

int32_t sl_artifact_tensor(sl_artifact* artifact, const char* name, sl_stored_tensor* out,
                           sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    if (const int32_t status = artifact->readTensors(message)) {
      return status;
    }
    const auto found = artifact->tensors.find(name);
    if (found == artifact->tensors.end()) {
      MessageWriter(message)
          .text(artifact->archive.path().c_str())
          .text(": its weights have no '")
          .text(name)
          .text("'");
      return SL_INVALID_ARGUMENT;
    }
    const StoredTensor& tensor = found->second;
    out->name = found->first.c_str();
    out->dtype = tensor.dtype.c_str();
    out->shape = tensor.shape.data();
    out->rank = static_cast<int32_t>(tensor.shape.size());
    out->data = tensor.bytes.data();
    out->bytes = tensor.bytes.size();
    return SL_OK;
  });
}

int32_t sl_artifact_prepared(sl_artifact* artifact, int32_t program, int32_t variant,
                             const sl_program* loaded, const void** data, size_t* bytes,
                             sl_message* message) {
  return atBoundary(message, [&]() -> int32_t {
    const Variant* chosen = variantOf(*artifact, program, variant, message);
    if (!chosen) {
      return SL_INVALID_ARGUMENT;
    }
    const sl_program_desc& desc = *loaded->desc;
    std::string_view contents;
    if (!chosen->prepared.empty()) {
      if (const int32_t status = artifact->file(chosen->prepared, false, &contents, message)) {
        return status;
      }
    }
    size_t at = 0;
    for (int32_t i = 0; i < desc.space_count; ++i) {
      const int64_t wanted = sl_expr_value(&desc.prepared_bytes[i], nullptr);
      bytes[i] = contents.empty() || wanted <= 0 ? 0 : static_cast<size_t>(wanted);
      data[i] = contents.data() + at;
      at += (bytes[i] + 63) / 64 * 64;  // each begins at a multiple of 64
    }
    touch(contents);  // the first run reads all of it
    const bool fits = chosen->sharesFile ? at <= contents.size() : at == contents.size();
    if (contents.empty() ? !chosen->prepared.empty() && at != 0 : !fits) {
      MessageWriter(message)
          .text(artifact->archive.path().c_str())
          .text(" is damaged: ")
          .text(chosen->prepared.c_str())
          .text(" has ")
          .number(static_cast<int64_t>(contents.size()))
          .text(" bytes but the program prepares ")
          .number(static_cast<int64_t>(at));
      return SL_INVALID_ARGUMENT;
    }
    return SL_OK;
  });
}
