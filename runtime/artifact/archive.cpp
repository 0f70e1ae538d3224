// SPDX-License-Identifier: Apache-2.0
#include "artifact/archive.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "message_writer.h"

namespace straightline {
namespace {

// Signatures and sizes of PKWARE's APPNOTE.TXT 6.3.10, sections 4.3.7 to 4.3.16.
constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56;
constexpr size_t kLocatorBytes = 20, kMaxComment = 65535;
constexpr uint64_t kMaxEntries = 1 << 20;

/// Little-endian numbers of a file; nothing outside of it is read.
class Bytes {
 public:
  explicit Bytes(std::string_view data) : data_(data) {}
  bool has(uint64_t at, uint64_t count) const {
    return at <= data_.size() && count <= data_.size() - at;
  }
  uint16_t u16(uint64_t at) const { return static_cast<uint16_t>(number(at, 2)); }
  uint32_t u32(uint64_t at) const { return static_cast<uint32_t>(number(at, 4)); }
  uint64_t u64(uint64_t at) const { return number(at, 8); }
  std::string_view text(uint64_t at, uint64_t count) const { return data_.substr(at, count); }
  uint64_t size() const { return data_.size(); }

 private:
  uint64_t number(uint64_t at, size_t count) const {
    uint64_t value = 0;
    std::memcpy(&value, data_.data() + at, count);
    return value;
  }
  std::string_view data_;
};

struct Entry {
  std::string name;
  uint64_t bytes = 0, header = 0, data = 0;
};

/// Where the directory is: its offset, its bytes and the number of its entries.
struct Directory {
  uint64_t offset = 0, bytes = 0, entries = 0;
};

const char* findDirectory(const Bytes& file, Directory* directory) {
  if (file.size() < kEndBytes) {
    return "it is too short to be a zip file";
  }
  const uint64_t last = file.size() - kEndBytes;
  const uint64_t first = last > kMaxComment ? last - kMaxComment : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    if (file.u32(at) != kEnd || at + kEndBytes + file.u16(at + 20) != file.size()) {
      continue;
    }
    directory->entries = file.u16(at + 10);
    directory->bytes = file.u32(at + 12);
    directory->offset = file.u32(at + 16);
    if (at >= kLocatorBytes && file.u32(at - kLocatorBytes) == kEnd64Locator) {
      const uint64_t end64 = file.u64(at - kLocatorBytes + 8);
      if (!file.has(end64, kEnd64Bytes) || file.u32(end64) != kEnd64) {
        return "its zip64 directory is not where the file says";
      }
      directory->entries = file.u64(end64 + 32);
      directory->bytes = file.u64(end64 + 40);
      directory->offset = file.u64(end64 + 48);
      at = end64;
    }
    if (directory->offset > at || directory->bytes > at - directory->offset) {
      return "its directory lies outside of the file";
    }
    return directory->entries <= kMaxEntries ? nullptr : "its directory has too many entries";
  }
  return "it has no zip directory at its end: it was cut short, or is something else";
}

/// Takes 64-bit numbers from an extra field for those that are all ones, in the format's order.
void readZip64(std::string_view extra, std::initializer_list<uint64_t*> numbers) {
  const Bytes bytes(extra);
  for (uint64_t at = 0; bytes.has(at, 4);) {
    const uint64_t tag = bytes.u16(at), size = bytes.u16(at + 2);
    uint64_t from = at + 4;
    if (tag == 1 && bytes.has(from, size)) {
      const uint64_t end = from + size;
      for (uint64_t* number : numbers) {
        if (*number == 0xffffffffu && from + 8 <= end) {
          *number = bytes.u64(from);
          from += 8;
        }
      }
      return;
    }
    at = from + size;
  }
}

/// Reads the directory entry at `*at` and what it points to, and moves on. Null, or what is wrong.
const char* readEntry(const Bytes& file, const Directory& directory, uint64_t* at, Entry* entry) {
  const uint64_t end = directory.offset + directory.bytes;
  if (end - *at < kCentralBytes || file.u32(*at) != kCentralHeader) {
    return "its directory is damaged";
  }
  const uint64_t flags = file.u16(*at + 8), method = file.u16(*at + 10);
  uint64_t stored = file.u32(*at + 20);
  entry->bytes = file.u32(*at + 24);
  const uint64_t name = file.u16(*at + 28), extra = file.u16(*at + 30);
  const uint64_t comment = file.u16(*at + 32);
  entry->header = file.u32(*at + 42);
  if (end - *at - kCentralBytes < name + extra + comment) {
    return "its directory is damaged";
  }
  entry->name = file.text(*at + kCentralBytes, name);
  readZip64(file.text(*at + kCentralBytes + name, extra), {&entry->bytes, &stored, &entry->header});
  *at += kCentralBytes + name + extra + comment;
  if (!isPlainName(entry->name)) {
    return "an entry's name is no plain relative path";
  }
  if (method != 0 || (flags & 1) != 0 || stored != entry->bytes) {
    return "an entry is compressed or encrypted";
  }
  if (!file.has(entry->header, kLocalBytes) || file.u32(entry->header) != kLocalHeader) {
    return "an entry lies outside of the file";
  }
  const uint64_t localName = file.u16(entry->header + 26),
                 localExtra = file.u16(entry->header + 28);
  entry->data = entry->header + kLocalBytes + localName + localExtra;
  if (entry->data > directory.offset || entry->bytes > directory.offset - entry->data) {
    return "an entry lies outside of the file";
  }
  uint64_t localStored = file.u32(entry->header + 18), localBytes = file.u32(entry->header + 22);
  readZip64(file.text(entry->header + kLocalBytes + localName, localExtra),
            {&localBytes, &localStored});
  if (file.u16(entry->header + 8) != 0 || localStored != entry->bytes ||
      localBytes != entry->bytes ||
      file.text(entry->header + kLocalBytes, localName) != std::string_view(entry->name)) {
    return "an entry's header and the directory differ";
  }
  return nullptr;
}

}  // namespace

bool isPlainName(std::string_view name) {
  if (name.empty() || name.size() > 4096 || name.front() == '/' || name.back() == '/') {
    return false;
  }
  for (size_t at = 0; at < name.size();) {
    const size_t slash = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, slash - at);
    if (part.empty() || part == "." || part == "..") {
      return false;
    }
    at = slash + 1;
  }
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::strchr("._-+/:", c) != nullptr;
  });
}

MappedFile::~MappedFile() {
  if (address_) {
    munmap(address_, bytes_);
  }
}

int32_t MappedFile::open(int folder, const char* name, const char* shown,
                         std::string_view* contents, sl_message* message) {
  const auto fail = [&](int error) {
    MessageWriter(message).text(shown).text(": ").text(error == EISDIR ? "it is no file"
                                                                       : std::strerror(error));
    return SL_INVALID_ARGUMENT;
  };
  // A pipe would block.
  const int descriptor = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return fail(errno);
  }
  struct stat status;
  int error = fstat(descriptor, &status) != 0 ? errno : S_ISREG(status.st_mode) ? 0 : EISDIR;
  if (error == 0 && status.st_size > 0) {
    bytes_ = static_cast<size_t>(status.st_size);
    address_ = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    error = address_ == MAP_FAILED ? errno : 0;
    address_ = error != 0 ? nullptr : address_;
  }
  close(descriptor);
  if (error != 0) {
    return fail(error);
  }
  *contents = std::string_view(bytes_ ? static_cast<const char*>(address_) : "", bytes_);
  return SL_OK;
}

Archive::~Archive() {
  if (folder_ >= 0) {
    close(folder_);
  }
}

int32_t Archive::open(const char* path, sl_message* message) {
  path_ = path;
  struct stat status;
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
    folder_ = ::open(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (folder_ < 0) {
      MessageWriter(message).text(path).text(": ").text(std::strerror(errno));
      return SL_INVALID_ARGUMENT;
    }
    return SL_OK;
  }
  std::string_view file;
  mappings_.emplace_back();
  if (const int32_t error = mappings_.back().open(AT_FDCWD, path, path, &file, message)) {
    return error;
  }
  return readZip(file, message);
}

int32_t Archive::openMemory(std::string_view bytes, const char* name, sl_message* message) {
  path_ = name;
  return readZip(bytes, message);
}

int32_t Archive::readZip(std::string_view data, sl_message* message) {
  const Bytes file(data);
  Directory directory;
  std::string culprit;
  const char* wrong = findDirectory(file, &directory);
  std::vector<Entry> entries;
  for (uint64_t i = 0, at = directory.offset; !wrong && i < directory.entries; ++i) {
    Entry entry;
    wrong = readEntry(file, directory, &at, &entry);
    culprit = entry.name;
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.header < b.header; });
  for (size_t i = 0; !wrong && i < entries.size(); ++i) {
    if (i > 0 && entries[i].header < entries[i - 1].data + entries[i - 1].bytes) {
      wrong = "two entries share bytes";
      culprit = entries[i].name;
    } else if (!entries_.emplace(entries[i].name, data.substr(entries[i].data, entries[i].bytes))
                    .second) {
      wrong = "two entries have the same name";
      culprit = entries[i].name;
    }
  }
  if (!wrong) {
    return SL_OK;
  }
  MessageWriter writer(message);
  writer.text(path_.c_str()).text(" is no artifact: ").text(wrong);
  if (isPlainName(culprit)) {
    writer.text(" (").text(culprit.c_str()).text(")");
  }
  return SL_INVALID_ARGUMENT;
}

const std::string_view* Archive::find(const std::string& name, sl_message* message) {
  const auto found = entries_.find(name);
  if (found != entries_.end()) {
    return &found->second;
  }
  const std::string shown = path_ + ": " + name;
  if (folder_ < 0 || !isPlainName(name)) {
    MessageWriter(message).text(shown.c_str()).text(" is missing");
    return nullptr;
  }
  std::string_view contents;
  mappings_.emplace_back();
  if (mappings_.back().open(folder_, name.c_str(), shown.c_str(), &contents, message)) {
    mappings_.pop_back();
    return nullptr;
  }
  return &entries_.emplace(name, contents).first->second;
}

}  // namespace straightline
