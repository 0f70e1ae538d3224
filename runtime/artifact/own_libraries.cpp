// SPDX-License-Identifier: Apache-2.0
#include "artifact/own_libraries.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "artifact/code.h"
#include "message_writer.h"
#include "own_kernel.h"

namespace straightline {
namespace {

struct Close {
  void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
};

/// False with `errno` where the file cannot be read.
bool readFile(const char* path, std::string* out) {
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path, "rbe"));
  char buffer[1 << 16];
  size_t count = 0;
  while (file && (count = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0) {
    out->append(buffer, count);
  }
  return file && !std::ferror(file.get());
}

int32_t openOne(sl_artifact* artifact, const OwnLibrary& own, sl_message* message) {
  if (ownKernelSymbol(own.symbol.c_str())) {
    return SL_OK;
  }
  const char* path = artifact->archive.path().c_str();
  if (!own.file.empty()) {
    std::string_view bytes;
    if (const int32_t status = artifact->file(own.file, true, &bytes, message)) {
      return status;
    }
    const std::string name = std::string(path) + "/" + own.file;
    std::string place;
    const int descriptor = codeFile(bytes, own.function.c_str(), &place);
    const int32_t status = openOwnFunction(descriptor, place.c_str(), name.c_str(),
                                           own.function.c_str(), own.symbol.c_str(), message);
    if (status != SL_OK && descriptor >= 0) {
      close(descriptor);
    }  // else it stays open: dlopen takes two libraries of one path for the same one
    return status;
  }
  std::string bytes;
  if (!readFile(own.library.c_str(), &bytes)) {
    MessageWriter(message)
        .text(path)
        .text(": it calls ")
        .text(own.function.c_str())
        .text(" of the library ")
        .text(own.library.c_str())
        .text(", which cannot be read: ")
        .text(std::strerror(errno))
        .text("; save it with own_libraries=\"embed\", or bring the library there");
    return SL_INVALID_ARGUMENT;
  }
  if (const std::string digest = digestOf(bytes); digest != own.digest) {
    MessageWriter(message)
        .text(path)
        .text(": it was saved with the library ")
        .text(own.library.c_str())
        .text(" of digest ")
        .text(own.digest.c_str())
        .text(" but the one that is there has ")
        .text(digest.c_str())
        .text("; save the model again with this library");
    return SL_INVALID_ARGUMENT;
  }
  return sl_own_kernel_open(own.library.c_str(), own.function.c_str(), own.symbol.c_str(), message);
}

}  // namespace

int32_t openOwnKernels(sl_artifact* artifact, const Variant& variant, sl_message* message) {
  for (const OwnLibrary& own : variant.ownLibraries) {
    if (const int32_t status = openOne(artifact, own, message)) {
      return status;
    }
  }
  return SL_OK;
}

}  // namespace straightline
