// SPDX-License-Identifier: Apache-2.0
// The files of an artifact where they lie: an uncompressed zip file, a folder, or memory that holds
// such a zip. Everything is mapped, nothing is copied.
#ifndef STRAIGHTLINE_RUNTIME_ARTIFACT_ARCHIVE_H
#define STRAIGHTLINE_RUNTIME_ARTIFACT_ARCHIVE_H

#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "straightline/abi/straightline.h"

namespace straightline {

/// One file, mapped for as long as the object lives.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  /// Maps the file that `name` is below an open folder (AT_FDCWD: below the current one). User
  /// error: it is missing or no file; the message begins with `shown`.
  int32_t open(int folder, const char* name, const char* shown, std::string_view* contents,
               sl_message* message);

 private:
  void* address_ = nullptr;
  size_t bytes_ = 0;
};

/// Immutable once open; any thread may read it. The views that it gives live as long as it does.
class Archive {
 public:
  Archive() = default;
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;
  ~Archive();

  /// Maps the file or folder at `path`. Structure is checked, contents are not: of a zip every
  /// entry lies inside the file, is stored as it is, has a plain relative name and shares no byte
  /// with another. Returns sl_status.
  int32_t open(const char* path, sl_message* message);
  /// The same for a zip in memory, which outlives the archive; `name` stands for it in messages.
  int32_t openMemory(std::string_view bytes, const char* name, sl_message* message);

  /// Contents of an entry; null: there is none of that name. A folder's file is mapped when it is
  /// asked for first.
  const std::string_view* find(const std::string& name, sl_message* message);
  const std::string& path() const { return path_; }

 private:
  int32_t readZip(std::string_view file, sl_message* message);

  std::string path_;
  int folder_ = -1;
  std::map<std::string, std::string_view> entries_;
  std::deque<MappedFile> mappings_;
};

/// Whether a name is a plain relative path: no "..", no root, no unusual character.
bool isPlainName(std::string_view name);

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_ARTIFACT_ARCHIVE_H
