// SPDX-License-Identifier: Apache-2.0
// The zip reader over files that are right, and over files that are not.
#include "artifact/archive.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "artifact/safetensors.h"

namespace straightline {
namespace {

void put(std::string* out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    out->push_back(static_cast<char>(value >> (8 * i)));
  }
}

struct File {
  std::string name, contents;
  uint16_t method = 0, flags = 0;
  int64_t claimed = -1;   ///< the size that the headers say; -1: the true one
  std::string localName;  ///< in the file's own header; "": the same
};

/// Name and contents one after the other, and a directory behind them.
std::string zipOf(const std::vector<File>& files, bool overlap = false) {
  std::string out, directory;
  for (const File& file : files) {
    const uint64_t bytes =
        file.claimed >= 0 ? static_cast<uint64_t>(file.claimed) : file.contents.size();
    const uint64_t at = overlap ? 0 : out.size();
    const std::string& local = file.localName.empty() ? file.name : file.localName;
    put(&out, 0x04034b50, 4);
    for (uint64_t word :
         {uint64_t{20}, uint64_t{file.flags}, uint64_t{file.method}, uint64_t{0}, uint64_t{0}}) {
      put(&out, word, 2);
    }
    put(&out, 0, 4);
    put(&out, bytes, 4);
    put(&out, bytes, 4);
    put(&out, local.size(), 2);
    put(&out, 0, 2);
    out += local + file.contents;
    put(&directory, 0x02014b50, 4);
    for (uint64_t word : {uint64_t{20}, uint64_t{20}, uint64_t{file.flags}, uint64_t{file.method},
                          uint64_t{0}, uint64_t{0}}) {
      put(&directory, word, 2);
    }
    put(&directory, 0, 4);
    put(&directory, bytes, 4);
    put(&directory, bytes, 4);
    put(&directory, file.name.size(), 2);
    put(&directory, 0, 2);
    put(&directory, 0, 2);
    put(&directory, 0, 2);
    put(&directory, 0, 2);
    put(&directory, 0, 4);
    put(&directory, at, 4);
    directory += file.name;
  }
  const uint64_t at = out.size();
  out += directory;
  put(&out, 0x06054b50, 4);
  put(&out, 0, 4);
  put(&out, files.size(), 2);
  put(&out, files.size(), 2);
  put(&out, directory.size(), 4);
  put(&out, at, 4);
  put(&out, 0, 2);
  return out;
}

std::string refusal(const std::string& zip) {
  Archive archive;
  sl_message message{};
  EXPECT_EQ(SL_INVALID_ARGUMENT, archive.openMemory(zip, "m.sl", &message));
  return message.text;
}

TEST(Archive, Contents) {
  const std::string zip = zipOf({{"a", "one"}, {"b/c.txt", ""}, {"b/d", "two"}});
  Archive archive;
  sl_message message{};
  ASSERT_EQ(SL_OK, archive.openMemory(zip, "m.sl", &message)) << message.text;
  EXPECT_EQ("one", *archive.find("a", &message));
  EXPECT_EQ("", *archive.find("b/c.txt", &message));
  EXPECT_EQ("two", *archive.find("b/d", &message));
  EXPECT_EQ(nullptr, archive.find("c", &message));
  EXPECT_STREQ("m.sl: c is missing", message.text);
}

TEST(Archive, Refusals) {
  EXPECT_EQ("m.sl is no artifact: it is too short to be a zip file", refusal("PK"));
  EXPECT_EQ(
      "m.sl is no artifact: it has no zip directory at its end: it was cut short, or is something "
      "else",
      refusal(std::string(100, 'x')));
  const std::string good = zipOf({{"a", "one"}, {"b", "two"}});
  EXPECT_NE("", refusal(good.substr(0, good.size() - 1)));
  EXPECT_EQ("m.sl is no artifact: an entry is compressed or encrypted (a)",
            refusal(zipOf({{"a", "one", 8}})));
  EXPECT_EQ("m.sl is no artifact: an entry is compressed or encrypted (a)",
            refusal(zipOf({{"a", "one", 0, 1}})));
  EXPECT_EQ("m.sl is no artifact: an entry lies outside of the file (a)",
            refusal(zipOf({{"a", "one", 0, 0, 100000}})));
  EXPECT_EQ("m.sl is no artifact: two entries have the same name (a)",
            refusal(zipOf({{"a", "one"}, {"a", "two"}})));
  EXPECT_EQ("m.sl is no artifact: an entry's header and the directory differ (a)",
            refusal(zipOf({{"a", "one", 0, 0, -1, "b"}})));
  EXPECT_EQ("m.sl is no artifact: two entries share bytes (a)",
            refusal(zipOf({{"a", "one"}, {"a", "one"}}, true)));
  for (const char* name : {"../a", "/a", "a/../b", "a//b", "a/", ".", "a\\b", "a b", "a\n"}) {
    EXPECT_EQ("m.sl is no artifact: an entry's name is no plain relative path",
              refusal(zipOf({{name, "one"}})))
        << name;
  }
}

/// Every flip of one bit and every truncation gives an archive or words, and reads nothing outside
/// (AddressSanitizer's build).
TEST(Archive, DamagedFiles) {
  const std::string good = zipOf({{"manifest.json", "{}"}, {"b/c", std::string(50, 'x')}});
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    const std::vector<char> exact(bad.begin(), bad.end());
    Archive archive;
    sl_message message{};
    if (archive.openMemory({exact.data(), exact.size()}, "m.sl", &message) == SL_OK) {
      for (const char* name : {"manifest.json", "b/c"}) {
        if (const std::string_view* found = archive.find(name, &message)) {
          EXPECT_LE(found->size(), good.size());
        }
      }
    }
  }
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    Archive archive;
    EXPECT_EQ(SL_INVALID_ARGUMENT, archive.openMemory(good.substr(0, bytes), "m.sl", nullptr));
  }
}

TEST(Archive, FoldersAndFiles) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("sl_archive_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder / "b");
  std::ofstream(folder / "a") << "one";
  std::ofstream(folder / "b" / "c") << "two";
  sl_message message{};
  {
    Archive archive;
    ASSERT_EQ(SL_OK, archive.open(folder.c_str(), &message)) << message.text;
    EXPECT_EQ("one", *archive.find("a", &message));
    EXPECT_EQ("two", *archive.find("b/c", &message));
    EXPECT_EQ(nullptr, archive.find("b", &message));
    EXPECT_EQ(folder.string() + ": b: it is no file", message.text);
    EXPECT_EQ(nullptr, archive.find("../" + folder.filename().string() + "/a", &message));
    EXPECT_EQ(nullptr, archive.find("d", &message));
    EXPECT_EQ(folder.string() + ": d: No such file or directory", message.text);
  }
  Archive missing;
  EXPECT_EQ(SL_INVALID_ARGUMENT, missing.open((folder / "x.sl").c_str(), &message));
  EXPECT_EQ((folder / "x.sl").string() + ": No such file or directory", message.text);
  std::filesystem::remove_all(folder);
}

std::string safetensors(const std::string& header, const std::string& data) {
  std::string out;
  put(&out, header.size(), 8);
  return out + header + data;
}

TEST(Safetensors, TensorsAndRefusals) {
  std::map<std::string, StoredTensor> tensors;
  const std::string good = safetensors(
      R"({"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})",
      "12345678");
  ASSERT_EQ(nullptr, readSafetensors(good, &tensors));
  ASSERT_EQ(1u, tensors.size());
  EXPECT_EQ((std::vector<int64_t>{1, 2}), tensors["w"].shape);
  EXPECT_EQ("12345678", tensors["w"].bytes);
  const auto wrong = [](const std::string& file) {
    std::map<std::string, StoredTensor> found;
    const char* words = readSafetensors(file, &found);
    return std::string(words ? words : "right");
  };
  EXPECT_EQ("it is too short", wrong("1234"));
  EXPECT_EQ("its header is longer than the file", wrong(good.substr(0, 20)));
  EXPECT_EQ("its header is no JSON object", wrong(safetensors("[1]", "")));
  EXPECT_EQ("a tensor's description is no object", wrong(safetensors(R"({"w":1})", "")));
  EXPECT_EQ("a tensor lacks its dtype, shape or place", wrong(safetensors(R"({"w":{}})", "")));
  const auto one = [&](const std::string& shape, const std::string& offsets) {
    return wrong(safetensors(
        R"({"w":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
        "12345678"));
  };
  EXPECT_EQ("right", one("[2]", "[0,8]"));
  EXPECT_EQ("a tensor lies outside of the file", one("[3]", "[0,12]"));
  EXPECT_EQ("a tensor lies outside of the file", one("[1]", "[8,4]"));
  EXPECT_EQ("a tensor's size and its place differ", one("[1]", "[0,8]"));
  EXPECT_EQ("a tensor's shape is malformed", one("[-1]", "[0,8]"));
  EXPECT_EQ("a tensor's shape is malformed", one("[4294967296,4294967296,4294967296]", "[0,8]"));
  EXPECT_EQ("a tensor lies outside of the file", one("[1]", "[-4,8]"));
}

}  // namespace
}  // namespace straightline
