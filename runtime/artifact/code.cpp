// SPDX-License-Identifier: Apache-2.0
#include "artifact/code.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "message_writer.h"

namespace straightline {
namespace {

bool writeAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      return false;
    }
    bytes.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
  return true;
}

/// A file for code: one that has no name, or where $STRAIGHTLINE_JIT_HOOKS asks for "perf" one in
/// the temporary folder that stays there, for perf reads it when it reports.
int openCode(const char* name) {
  const char* hooks = std::getenv("STRAIGHTLINE_JIT_HOOKS");
  if (!hooks || !std::strstr(hooks, "perf")) {
    return memfd_create(name, MFD_CLOEXEC);
  }
  const char* folder = std::getenv("TMPDIR");
  std::string path =
      std::string(folder && folder[0] ? folder : "/tmp") + "/straightline-code-XXXXXX.so";
  return mkostemps(path.data(), 3, O_CLOEXEC);
}

/// The part of the file that holds relocations, in whole pages: begin and bytes. Nothing (0, 0)
/// where it is smaller than a few pages, or the file is of another layout than lld's.
std::pair<size_t, size_t> relocationPages(std::string_view bytes) {
  constexpr size_t kPage = 4096;
  constexpr size_t kFew = 2 * kPage;  // below, giving them back costs more than it saves
  const auto read = [&](auto& part, size_t at) {
    const bool inside = at <= bytes.size() && sizeof(part) <= bytes.size() - at;
    if (inside) {
      std::memcpy(&part, bytes.data() + at, sizeof(part));
    }
    return inside;
  };
  Elf64_Ehdr header;
  Elf64_Phdr segment;
  size_t constantEnd = 0;  // of the first segment, whose addresses are offsets: it is never written
  size_t dynamic = 0, dynamicEnd = 0;
  if (!read(header, 0) || header.e_phentsize != sizeof(segment)) {
    return {};
  }
  for (size_t i = 0; i < header.e_phnum; ++i) {
    if (!read(segment, header.e_phoff + i * sizeof(segment))) {
      return {};
    }
    if (segment.p_type == PT_LOAD && segment.p_vaddr == 0 && segment.p_offset == 0 &&
        (segment.p_flags & (PF_W | PF_X)) == 0) {
      constantEnd = segment.p_filesz;
    } else if (segment.p_type == PT_DYNAMIC) {
      dynamic = segment.p_offset;
      dynamicEnd = dynamic + segment.p_filesz;
    }
  }
  size_t at = 0, size = 0;
  Elf64_Dyn entry;
  for (; dynamic + sizeof(entry) <= dynamicEnd && read(entry, dynamic); dynamic += sizeof(entry)) {
    at = entry.d_tag == DT_RELA ? entry.d_un.d_ptr : at;
    size = entry.d_tag == DT_RELASZ ? entry.d_un.d_val : size;
  }
  if (at > constantEnd || size > constantEnd - at) {
    return {};
  }
  const size_t begin = (at + kPage - 1) / kPage * kPage, end = (at + size) / kPage * kPage;
  return end >= begin + kFew ? std::pair(begin, end - begin) : std::pair<size_t, size_t>{};
}

/// Fills the slots; gives the names that nothing here has, with commas between them.
std::string fill(const sl_code& code) {
  std::string missing;
  for (int32_t i = 0; i < code.import_count; ++i) {
    void* address = sl_symbol(code.imports[i].name);
    if (!address) {
      missing += (missing.empty() ? "" : ", ") + std::string(code.imports[i].name);
    }
    *code.imports[i].slot = address;
  }
  return missing;
}

}  // namespace

int codeFile(std::string_view bytes, const char* name, std::string* path) {
  const int descriptor = openCode(name);
  if (descriptor >= 0 && !writeAll(descriptor, bytes)) {
    close(descriptor);
    return -1;
  }
  // By the number of the process a debugger finds it too, for as long as it is open.
  *path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor);
  return descriptor;
}

MappedCode::~MappedCode() {
  if (library_) {
    dlclose(library_);
  }
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

int32_t MappedCode::open(std::string_view bytes, const char* name, sl_message* message) {
  std::string path;
  descriptor_ = codeFile(bytes, name, &path);
  if (descriptor_ < 0) {
    MessageWriter(message).text(name).text(": no memory for its code: ").text(std::strerror(errno));
    return SL_OUT_OF_MEMORY;
  }
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) {
    const char* error = dlerror();
    MessageWriter(message)
        .text(name)
        .text(": its code cannot be loaded: ")
        .text(error ? error : "");
    return SL_INVALID_ARGUMENT;
  }
  // They have been applied, and are private to the process: a fifth of a model's code.
  const auto [begin, size] = relocationPages(bytes);
  struct stat file;
  if (size != 0 && fstat(descriptor_, &file) == 0 && file.st_nlink == 0) {  // not a file that stays
    // Where the system cannot, they stay.
    (void)fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(begin), static_cast<off_t>(size));
  }
  table_ = static_cast<const sl_code*>(dlsym(library_, SL_CODE_SYMBOL));
  if (!table_) {
    MessageWriter(message).text(name).text(": its code has no symbol " SL_CODE_SYMBOL);
    return SL_INVALID_ARGUMENT;
  }
  return SL_OK;
}

int32_t fillImports(const sl_code& code, const char* name, sl_message* message) {
  if (code.size < offsetof(sl_code, program) + sizeof(code.program) ||
      code.abi_version != SL_ABI_VERSION) {
    MessageWriter(message)
        .text(name)
        .text(": its code was compiled for abi_version ")
        .number(code.abi_version)
        .text(" but this runtime has ")
        .number(SL_ABI_VERSION)
        .text("; save the model again with this release");
    return SL_INVALID_ARGUMENT;
  }
  std::string missing = fill(code);
  if (missing.empty()) {
    return SL_OK;
  }
  if (const int32_t status = sl_backend_search(message)) {  // plug-ins are opened where one lacks
    return status;
  }
  missing = fill(code);
  if (missing.empty()) {
    return SL_OK;
  }
  MessageWriter(message)
      .text(name)
      .text(": it calls ")
      .text(missing.c_str())
      .text(
          ", which neither this runtime, a backend installed beside it nor a plug-in that is open "
          "has; STRAIGHTLINE_BACKEND_PATH or sl_backend_load (in Python load_backend) opens one");
  return SL_UNSUPPORTED;
}

}  // namespace straightline
