// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/object_cache.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

#include "codegen/jit/clang_driver.h"
#include "codegen/jit/embedded_headers.h"
#include "codegen/jit/source_normal_form.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

namespace straightline::jit {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'S', 'L', 'O', 'B', 'J', 'E', 'C', 'T'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kDefaultCapMegabytes = 512;
constexpr const char* kSuffix = ".slo";
constexpr const char* kTemporaryPrefix = "tmp-";
constexpr std::chrono::hours kTemporaryLifetime{1};

using Digest = std::array<std::uint8_t, 32>;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t length;
  Digest checksum;
};
static_assert(sizeof(Header) == 56);

Digest digestOf(std::string_view bytes) {
  return llvm::BLAKE3::hash<32>(
      llvm::ArrayRef(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
}

/// Length first, so that two lists of strings never hash alike by shifting bytes from one string to
/// the next.
void add(llvm::BLAKE3& hasher, std::string_view text) {
  const std::uint64_t length = text.size();
  hasher.update(llvm::ArrayRef(reinterpret_cast<const std::uint8_t*>(&length), sizeof(length)));
  hasher.update(llvm::StringRef(text.data(), text.size()));
}

const std::string& headersDigest() {
  static const std::string digest = [] {
    llvm::BLAKE3 hasher;
    for (std::size_t i = 0; i < embeddedHeaderCount; ++i) {
      add(hasher, embeddedHeaders[i].path);
      add(hasher, std::string_view(embeddedHeaders[i].text, embeddedHeaders[i].bytes));
    }
    return llvm::toHex(hasher.final<32>(), /*LowerCase=*/true);
  }();
  return digest;
}

/// A file descriptor that closes itself.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

bool writeAll(int descriptor, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor, at, bytes);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return true;
}

std::optional<std::string> readAll(int descriptor) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t count = ::read(descriptor, bytes.data() + at, bytes.size() - at);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      break;
    }
    at += static_cast<std::size_t>(count);
  }
  bytes.resize(at);
  return bytes;
}

/// The object inside a cache file, or nullopt when it is not whole.
std::optional<std::string> objectIn(const std::string& bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) {
    return std::nullopt;
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::string_view object = std::string_view(bytes).substr(sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.version != kVersion ||
      header.length != object.size() || header.checksum != digestOf(object)) {
    return std::nullopt;
  }
  return std::string(object);
}

struct Entry {
  fs::path path;
  std::uint64_t bytes;
  fs::file_time_type used;
};

/// All entries; left-over temporary files of writers that died are removed on the way.
std::vector<Entry> survey(const std::string& directory) {
  std::vector<Entry> entries;
  std::error_code error;
  const fs::file_time_type now = fs::file_time_type::clock::now();
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    Entry entry{at->path(), at->file_size(ignored), at->last_write_time(ignored)};
    if (ignored) {
      continue;  // another process removed it meanwhile
    }
    const std::string name = entry.path.filename().string();
    if (name.starts_with(kTemporaryPrefix)) {
      if (now - entry.used > kTemporaryLifetime) {
        fs::remove(entry.path, ignored);
      }
    } else if (entry.path.extension() == kSuffix) {
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

std::string defaultDirectory() {
  if (const char* chosen = std::getenv("STRAIGHTLINE_CACHE_DIR")) {
    return chosen;
  }
  const char* base = std::getenv("XDG_CACHE_HOME");
  if (base != nullptr && base[0] == '/') {
    return std::string(base) + "/straightline";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] == '\0') {
    const passwd* user = ::getpwuid(::getuid());
    home = user != nullptr ? user->pw_dir : nullptr;
  }
  return home != nullptr ? std::string(home) + "/.cache/straightline" : "";
}

/// Megabytes of $STRAIGHTLINE_CACHE_MAX_MB; nullopt when it is not a number.
std::optional<std::uint64_t> capMegabytes() {
  const char* text = std::getenv("STRAIGHTLINE_CACHE_MAX_MB");
  if (text == nullptr || text[0] == '\0') {
    return kDefaultCapMegabytes;
  }
  std::uint64_t value = 0;
  const char* end = text + std::strlen(text);
  const std::from_chars_result result = std::from_chars(text, end, value);
  if (result.ec != std::errc() || result.ptr != end || value > (std::uint64_t{1} << 40)) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

ObjectCache::ObjectCache(std::string directory, std::uint64_t capBytes)
    : directory_(std::move(directory)),
      capBytes_(capBytes),
      enabled_(!directory_.empty() && capBytes > 0) {}

ObjectCache& ObjectCache::process() {
  static std::mutex mutex;
  static auto* caches =
      new std::map<std::pair<std::string, std::uint64_t>, std::unique_ptr<ObjectCache>>;
  const std::lock_guard<std::mutex> lock(mutex);
  const std::uint64_t cap = capMegabytes().value_or(kDefaultCapMegabytes) << 20;
  std::unique_ptr<ObjectCache>& cache = (*caches)[{defaultDirectory(), cap}];
  if (!cache) {
    cache = std::make_unique<ObjectCache>(defaultDirectory(), cap);
  }
  return *cache;
}

std::string ObjectCache::environmentTrouble() {
  return capMegabytes() ? ""
                        : "STRAIGHTLINE_CACHE_MAX_MB is '" +
                              std::string(std::getenv("STRAIGHTLINE_CACHE_MAX_MB")) +
                              "'; valid are a number of megabytes, and 0 for no cache";
}

std::string ObjectCache::key(std::string_view text, const std::vector<std::string>& arguments) {
  const bool linesMatter =
      text.find("__LINE__") != std::string_view::npos ||
      std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
        return argument.starts_with("-debug-info-kind");
      });
  llvm::BLAKE3 hasher;
  add(hasher, "straightline object 1");
  add(hasher, compilerVersion());
  add(hasher, headersDigest());
  for (const std::string& argument : arguments) {
    add(hasher, argument);
  }
  add(hasher, "text");
  add(hasher, linesMatter ? std::string(text) : sourceNormalForm(text));
  return llvm::toHex(hasher.final<32>(), /*LowerCase=*/true);
}

std::string ObjectCache::pathOf(const std::string& key) const {
  return directory_ + "/" + key + kSuffix;
}

void ObjectCache::disable(const std::string& why) {
  if (enabled_) {
    enabled_ = false;
    notes_.push_back("compilation cache is off: " + why);
  }
}

std::optional<std::string> ObjectCache::load(const std::string& key) {
  std::optional<std::string> object = loadUncounted(key);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++(object ? counts_.hits : counts_.misses);
  return object;
}

std::optional<std::string> ObjectCache::loadUncounted(const std::string& key) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!enabled_) {
      return std::nullopt;
    }
  }
  const std::string path = pathOf(key);
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::optional<std::string> bytes = file.get() >= 0 ? readAll(file.get()) : std::nullopt;
  if (!bytes) {
    return std::nullopt;
  }
  if (std::optional<std::string> object = objectIn(*bytes)) {
    ::futimens(file.get(), nullptr);  // newest in the order of eviction
    return object;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.damaged;
  notes_.push_back("damaged cache entry deleted and compiled anew: " + path);
  ::unlink(path.c_str());
  return std::nullopt;
}

void ObjectCache::store(const std::string& key, std::string_view object) {
  const std::lock_guard<std::mutex> lock(mutex_);
  counts_.stored += write(key, object) ? 1 : 0;
}

void ObjectCache::storeUncounted(const std::string& key, std::string_view bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  write(key, bytes);
}

bool ObjectCache::write(const std::string& key, std::string_view bytes) {
  if (!enabled_) {
    return false;
  }
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) {
    disable("cannot make " + directory_ + ": " + error.message());
    return false;
  }
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.length = bytes.size();
  header.checksum = digestOf(bytes);

  std::string temporary = directory_ + "/" + kTemporaryPrefix + "XXXXXX";
  bool written = false;
  int failure = 0;
  {
    const File file(::mkostemp(temporary.data(), O_CLOEXEC));
    if (file.get() < 0) {
      disable("cannot write in " + directory_ + ": " + std::strerror(errno));
      return false;
    }
    written = writeAll(file.get(), &header, sizeof(header)) &&
              writeAll(file.get(), bytes.data(), bytes.size());
    failure = errno;
  }
  if (written && ::rename(temporary.c_str(), pathOf(key).c_str()) != 0) {
    failure = errno;
    written = false;
  }
  if (!written) {
    ::unlink(temporary.c_str());
    disable("cannot write " + pathOf(key) + ": " + std::strerror(failure));
    return false;
  }
  estimateBytes_ += sizeof(header) + bytes.size();
  sinceSurveyBytes_ += sizeof(header) + bytes.size();
  // Other processes store too: look again after a while even when our own sum is below the cap.
  if (!surveyed_ || estimateBytes_ > capBytes_ || sinceSurveyBytes_ > capBytes_ / 16) {
    evict();
  }
  return true;
}

void ObjectCache::evict() {
  std::vector<Entry> entries = survey(directory_);
  surveyed_ = true;
  sinceSurveyBytes_ = 0;
  estimateBytes_ = 0;
  for (const Entry& entry : entries) {
    estimateBytes_ += entry.bytes;
  }
  if (estimateBytes_ <= capBytes_) {
    return;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  const std::uint64_t goal = capBytes_ - capBytes_ / 10;
  for (const Entry& entry : entries) {
    if (estimateBytes_ <= goal) {
      break;
    }
    std::error_code ignored;
    if (fs::remove(entry.path, ignored)) {
      ++counts_.evicted;
    }
    estimateBytes_ -= entry.bytes;
  }
}

std::uint64_t ObjectCache::clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::uint64_t removed = 0;
  if (directory_.empty()) {
    return removed;
  }
  for (const Entry& entry : survey(directory_)) {
    std::error_code ignored;
    removed += fs::remove(entry.path, ignored) ? 1 : 0;
  }
  estimateBytes_ = 0;
  sinceSurveyBytes_ = 0;
  return removed;
}

CacheCounts ObjectCache::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

std::vector<std::string> ObjectCache::takeNotes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(notes_, {});
}

std::uint64_t ObjectCache::sizeBytes() const {
  std::uint64_t bytes = 0;
  if (!directory_.empty()) {
    for (const Entry& entry : survey(directory_)) {
      bytes += entry.bytes;
    }
  }
  return bytes;
}

}  // namespace straightline::jit
