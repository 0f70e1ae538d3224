// SPDX-License-Identifier: Apache-2.0
// arc4random is the only symbol of glibc 2.36 that LLVM's archives want; a hidden one of our own
// lowers the floor to 2.34.
#include <stdint.h>
#include <sys/random.h>

extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
  uint32_t value = 0;
  while (getrandom(&value, sizeof(value), 0) != static_cast<ssize_t>(sizeof(value))) {
  }
  return value;
}
