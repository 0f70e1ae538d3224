// SPDX-License-Identifier: Apache-2.0
#include "architecture.h"

namespace straightline::cuda {
namespace {

constexpr int32_t kMachineCode = 10000;  // every fit of PTX is less
/// From here on kernels may be clusters of up to 8 blocks (passes/targets/cuda/architecture.h), of
/// which one later device has no room for more than 4.
constexpr int kFirstWithClusters = 90, kSmallClusters = 110;

/// Of up to four digits, which it takes away; 0: there are none.
int numberAt(std::string_view* text) {
  int number = 0;
  size_t count = 0;
  while (count < text->size() && count < 4 && (*text)[count] >= '0' && (*text)[count] <= '9') {
    number = 10 * number + ((*text)[count++] - '0');
  }
  text->remove_prefix(count);
  return number;
}

}  // namespace

Architecture architectureOf(std::string_view name) {
  Architecture found;
  for (const std::string_view prefix : {std::string_view("sm_"), std::string_view("compute_")}) {
    if (name.substr(0, prefix.size()) == prefix) {
      found.isText = prefix[0] == 'c';
      name.remove_prefix(prefix.size());
      found.number = numberAt(&name);
      break;
    }
  }
  if (found.number > 0 && name.size() == 1 && (name[0] == 'a' || name[0] == 'f')) {
    found.suffix = name[0];
    name.remove_prefix(1);
  }
  return name.empty() ? found : Architecture{};
}

int32_t fitOf(const Architecture& code, int major, int minor) {
  const int own = 10 * major + minor;
  if (code.number <= 0 || code.number > own) {
    return 0;
  }
  if (code.isText) {
    const bool hasRoom =
        own != kSmallClusters || code.number == own || code.number < kFirstWithClusters;
    return code.suffix == 0 && hasRoom ? code.number : 0;
  }
  if (code.number / 10 != major || (code.suffix == 'a' && code.number != own)) {
    return 0;
  }
  return kMachineCode + 10 * code.number + (code.suffix == 'a' ? 2 : code.suffix == 'f' ? 1 : 0);
}

bool isText(std::string_view image) { return image.substr(0, 4) != "\177ELF"; }

int imageArchitecture(std::string_view image, int deviceNumber) {
  if (!isText(image)) {
    return deviceNumber;
  }
  constexpr std::string_view kDirective = "\n.target ";
  const size_t at = image.find(kDirective);
  if (at == std::string_view::npos) {
    return 0;
  }
  const std::string_view rest = image.substr(at + kDirective.size(), 16);
  return architectureOf(rest.substr(0, rest.find_first_of(", \t\r\n"))).number;
}

}  // namespace straightline::cuda
