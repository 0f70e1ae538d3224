// SPDX-License-Identifier: Apache-2.0
#include "tools/dump.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace straightline {
namespace {

Failure cannotWrite(const std::string& path, int error) {
  return Failure::user("STRAIGHTLINE_DUMP: cannot write " + path + ": " + std::strerror(error));
}

std::string numbered(const char* format, int number) {
  char text[32];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

}  // namespace

Failure Dump::open(const std::string& folder) {
  if (folder.empty()) {
    return Failure::none();
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return cannotWrite(folder, error.value());
  }
  for (int number = 1;; ++number) {
    const std::string path = folder + "/" + numbered("compile-%04d", number);
    if (::mkdir(path.c_str(), 0777) == 0) {
      path_ = path;
      return Failure::none();
    }
    if (errno != EEXIST) {
      return cannotWrite(path, errno);
    }
  }
}

void Dump::write(const std::string& name, const std::string& text) {
  if (!isOpen() || failure_.failed()) {
    return;
  }
  const std::string path = path_ + "/" + numbered("%02d-", ++count_) + name;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    failure_ = cannotWrite(path, errno != 0 ? errno : EIO);
  }
}

}  // namespace straightline
