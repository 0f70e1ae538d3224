// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/object_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "codegen/jit/temporary_folder_for_tests.h"

namespace straightline::jit {
namespace {

constexpr std::uint64_t kMegabyte = std::uint64_t{1} << 20;

std::filesystem::path onlyEntry(const std::string& folder) {
  std::filesystem::path found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_TRUE(found.empty()) << "more than one file";
    found = entry.path();
  }
  return found;
}

TEST(ObjectCache, LoadsWhatItStored) {
  const TemporaryFolder folder;
  ObjectCache cache(folder.path() + "/deep/er", kMegabyte);
  EXPECT_FALSE(cache.load("k"));
  cache.store("k", "object");
  EXPECT_EQ(cache.load("k"), "object");
  EXPECT_EQ(cache.counts().hits, 1u);
  EXPECT_EQ(cache.counts().misses, 1u);
  EXPECT_TRUE(cache.takeNotes().empty());
}

TEST(ObjectCache, DamagedEntriesAreDeletedAndNoted) {
  for (const std::string& damage : {"flip", "truncate", "empty", "grow"}) {
    SCOPED_TRACE(damage);
    const TemporaryFolder folder;
    ObjectCache cache(folder.path(), kMegabyte);
    cache.store("k", std::string(1000, 'x'));
    const std::filesystem::path file = onlyEntry(folder.path());
    if (damage == "flip") {
      std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
      stream.seekp(500);
      stream.put('y');
    } else if (damage == "truncate") {
      std::filesystem::resize_file(file, 900);
    } else if (damage == "empty") {
      std::filesystem::resize_file(file, 0);
    } else {
      std::filesystem::resize_file(file, 2000);
    }
    EXPECT_FALSE(cache.load("k"));
    EXPECT_EQ(cache.counts().damaged, 1u);
    EXPECT_EQ(cache.takeNotes().size(), 1u);
    EXPECT_FALSE(std::filesystem::exists(file));
    cache.store("k", "again");
    EXPECT_EQ(cache.load("k"), "again");
  }
}

TEST(ObjectCache, KeyIgnoresCommentsButNotCodeFlagsOrLines) {
  const std::string key = ObjectCache::key("int a; // x", {"-O3"});
  EXPECT_EQ(key, ObjectCache::key("int a;   // y\n", {"-O3"}));
  EXPECT_NE(key, ObjectCache::key("int b;", {"-O3"}));
  EXPECT_NE(key, ObjectCache::key("int a;", {"-O2"}));
  EXPECT_NE(ObjectCache::key("a", {"bc"}), ObjectCache::key("ab", {"c"}));
  EXPECT_NE(ObjectCache::key("int a = __LINE__;", {}), ObjectCache::key("\nint a = __LINE__;", {}));
}

TEST(ObjectCache, OldestEntriesGoAboveTheCap) {
  const TemporaryFolder folder;
  ObjectCache cache(folder.path(), 10'000);
  const auto now = std::filesystem::file_time_type::clock::now();
  for (int i = 0; i < 9; ++i) {  // 9 * 1056 bytes: below the cap
    const std::string key = "k" + std::to_string(i);
    cache.store(key, std::string(1000, 'x'));
    std::filesystem::last_write_time(folder.path() + "/" + key + ".slo",
                                     now - std::chrono::hours(20 - i));
  }
  EXPECT_EQ(cache.counts().evicted, 0u);
  EXPECT_TRUE(cache.load("k0"));  // now the newest
  cache.store("k9", std::string(1000, 'x'));
  EXPECT_LE(cache.sizeBytes(), 10'000u);
  EXPECT_TRUE(cache.load("k0"));
  EXPECT_FALSE(cache.load("k1"));
  EXPECT_TRUE(cache.load("k9"));
  EXPECT_GT(cache.counts().evicted, 0u);
}

TEST(ObjectCache, ClearDeletesEntriesOnly) {
  const TemporaryFolder folder;
  ObjectCache cache(folder.path(), kMegabyte);
  cache.store("a", "1");
  cache.store("b", "2");
  std::ofstream(folder.path() + "/note.txt") << "not ours";
  EXPECT_EQ(cache.clear(), 2u);
  EXPECT_FALSE(cache.load("a"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/note.txt"));
}

TEST(ObjectCache, PlaceThatCannotBeWrittenMeansNoCacheAndOneNote) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/file") << "in the way";
  ObjectCache cache(folder.path() + "/file/cache", kMegabyte);
  cache.store("a", "1");
  cache.store("b", "2");
  EXPECT_FALSE(cache.load("a"));
  EXPECT_EQ(cache.takeNotes().size(), 1u);
  EXPECT_TRUE(cache.takeNotes().empty());
}

TEST(ObjectCache, NoDirectoryOrNoRoomMeansNoCache) {
  const TemporaryFolder folder;
  ObjectCache none("", kMegabyte);
  none.store("a", "1");
  EXPECT_FALSE(none.load("a"));
  ObjectCache full(folder.path(), 0);
  full.store("a", "1");
  EXPECT_FALSE(full.load("a"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

/// Stores and loads the same keys as the other process does; every object read must be whole.
/// Returns failures.
int hammer(const std::string& folder, char letter) {
  ObjectCache cache(folder, 40'000);  // small: both processes evict all the time
  int failures = 0;
  for (int i = 0; i < 600; ++i) {
    const std::string key = "k" + std::to_string(i % 17);
    cache.store(key, std::string(3000 + i % 7, letter));
    if (const std::optional<std::string> object = cache.load(key)) {
      failures += object->find_first_not_of((*object)[0]) != std::string::npos ? 1 : 0;
    }
  }
  return failures + static_cast<int>(cache.counts().damaged) +
         static_cast<int>(cache.takeNotes().size());
}

TEST(ObjectCache, TwoProcessesShareOneFolder) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::_exit(hammer(folder.path(), 'a') == 0 ? 0 : 1);
  }
  EXPECT_EQ(hammer(folder.path(), 'b'), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace straightline::jit
