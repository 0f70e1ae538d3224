// SPDX-License-Identifier: Apache-2.0
// An array on the stack for as many elements as a call usually has.
#ifndef STRAIGHTLINE_RUNTIME_FEW_H
#define STRAIGHTLINE_RUNTIME_FEW_H

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace straightline {

/// Up to `most` elements need no allocation. All are Element() at first.
template <typename Element, int32_t most = 64>
class Few {
 public:
  explicit Few(int32_t count) {
    if (count > most) {
      more_.resize(static_cast<size_t>(count));
    } else {
      std::fill_n(few_.data(), count, Element());
    }
  }
  Element* data() { return more_.empty() ? few_.data() : more_.data(); }
  Element& operator[](int32_t i) { return data()[i]; }

 private:
  std::array<Element, static_cast<size_t>(most)> few_;  // its first `count` are set
  std::vector<Element> more_;
};

}  // namespace straightline

#endif  // STRAIGHTLINE_RUNTIME_FEW_H
