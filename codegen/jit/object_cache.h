// SPDX-License-Identifier: Apache-2.0
// Compiled objects on disk, one file per unit. Safe under concurrent processes: files appear whole
// (written aside, then renamed) and carry a checksum; a damaged one is deleted and counts as
// absent. Trouble with the disk means no cache and one note, never an error.
//
// File: magic "SLOBJECT", u32 version, u32 zero, u64 length, 32 bytes BLAKE3 of the object, then
// the object; little endian.
#ifndef STRAIGHTLINE_CODEGEN_JIT_OBJECT_CACHE_H
#define STRAIGHTLINE_CODEGEN_JIT_OBJECT_CACHE_H

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace straightline::jit {

struct CacheCounts {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t damaged = 0;  ///< entries deleted because they were not whole
  std::uint64_t stored = 0;
  std::uint64_t evicted = 0;
};

/// All functions are thread-safe.
class ObjectCache {
 public:
  /// `directory` "" or a cap of 0: no cache. It is made on the first store.
  ObjectCache(std::string directory, std::uint64_t capBytes);

  /// The cache of this process: $STRAIGHTLINE_CACHE_DIR (empty: none), else
  /// $XDG_CACHE_HOME/straightline, else ~/.cache/straightline; at most $STRAIGHTLINE_CACHE_MAX_MB
  /// (512). The environment is read at each call, so that a program may change it between
  /// compilations; caches made before stay valid.
  static ObjectCache& process();

  /// What is wrong with $STRAIGHTLINE_CACHE_MAX_MB; "" when it is a number or not set.
  static std::string environmentTrouble();

  /// Key of a unit: hex BLAKE3 over its text without comments, the compiler's arguments and
  /// version, and all embedded headers. Text that depends on line numbers counts whole.
  static std::string key(std::string_view text, const std::vector<std::string>& arguments);

  std::optional<std::string> load(const std::string& key);
  void store(const std::string& key, std::string_view object);

  /// The same for what is no unit (precompiled headers): checked, evicted and cleared alike, but
  /// neither a hit, a miss nor stored in counts().
  std::optional<std::string> loadUncounted(const std::string& key);
  void storeUncounted(const std::string& key, std::string_view bytes);
  /// Deletes every entry; returns how many.
  std::uint64_t clear();

  CacheCounts counts() const;
  /// What went wrong since the last call; each kind of trouble is noted once.
  std::vector<std::string> takeNotes();
  const std::string& directory() const { return directory_; }
  std::uint64_t capBytes() const { return capBytes_; }

  /// Bytes of the entries on disk now.
  std::uint64_t sizeBytes() const;

 private:
  std::string pathOf(const std::string& key) const;
  void disable(const std::string& why);
  /// Writes an entry; false where there is no cache. Called with the lock held.
  bool write(const std::string& key, std::string_view bytes);
  /// Removes oldest entries until nine tenths of the cap remain. Called with the lock held.
  void evict();

  const std::string directory_;
  const std::uint64_t capBytes_;
  mutable std::mutex mutex_;
  bool enabled_;
  bool surveyed_ = false;  ///< the directory was looked at once
  /// size at the last survey plus what this process stored since
  std::uint64_t estimateBytes_ = 0;
  std::uint64_t sinceSurveyBytes_ = 0;
  CacheCounts counts_;
  std::vector<std::string> notes_;
};

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_OBJECT_CACHE_H
