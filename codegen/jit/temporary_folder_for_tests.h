// SPDX-License-Identifier: Apache-2.0
// For tests: a folder of its own that goes away with the test.
#ifndef STRAIGHTLINE_CODEGEN_JIT_TEMPORARY_FOLDER_FOR_TESTS_H
#define STRAIGHTLINE_CODEGEN_JIT_TEMPORARY_FOLDER_FOR_TESTS_H

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace straightline::jit {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = (std::filesystem::temp_directory_path() / "straightline-test-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) {
      throw std::runtime_error("cannot make " + path_);
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_TEMPORARY_FOLDER_FOR_TESTS_H
