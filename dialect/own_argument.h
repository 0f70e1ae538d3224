// SPDX-License-Identifier: Apache-2.0
// An argument of a user's own kernel, as both levels record it: a text for each parameter of its C
// function (docs/design/own_kernels.md).
#ifndef STRAIGHTLINE_DIALECT_OWN_ARGUMENT_H
#define STRAIGHTLINE_DIALECT_OWN_ARGUMENT_H

#include <cstdint>
#include <optional>

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace straightline {

/// What a user's own function takes or gives beside its arguments (op.own_kernel).
inline bool isOwnTrait(llvm::StringRef trait) {
  return trait == "status" || trait == "stream" || trait == "device" || trait == "outside";
}

enum class OwnArgumentKind {
  tensors,   ///< `%0`, `@1`, or a list `[%0, @1]`; `h:%0`: one that lies on the host
  absent,    ///< `none`: a tensor that is not given
  integers,  ///< `i:5`, or a list `i:[5, 6]`
  numbers,   ///< `f:0.5`, or a list `f:[0.5, inf]`
  text,      ///< `s:anything`
  dtype,     ///< `d:2:32`: DLPack's code and bits
  size       ///< `$0`: an integer that is known per call
};

/// One argument. Views into the text that it was read from.
struct OwnArgument {
  /// Input `number` (`%`) or output `number` (`@`).
  struct Tensor {
    bool isOutput;
    int64_t number;
  };
  OwnArgumentKind kind = OwnArgumentKind::absent;
  bool isList = false;
  bool isOnHost = false;  ///< the tensor is the host's in a program for a device, too
  llvm::SmallVector<Tensor> tensors;
  llvm::SmallVector<int64_t> integers;  ///< also the code and bits of a dtype, the number of a size
  llvm::SmallVector<llvm::APFloat, 1> numbers;
  llvm::StringRef text;
};

/// Reads one; nullopt: the text is none.
inline std::optional<OwnArgument> parseOwnArgument(llvm::StringRef text) {
  using Kind = OwnArgumentKind;
  OwnArgument argument;
  if (text == "none") {
    return argument;
  }
  if (text.consume_front("s:")) {
    argument.kind = Kind::text;
    argument.text = text;
    return argument;
  }
  argument.isOnHost = text.consume_front("h:");
  if (argument.isOnHost && !text.starts_with("%") && !text.starts_with("@")) {
    return std::nullopt;
  }
  argument.kind = text.consume_front("i:")   ? Kind::integers
                  : text.consume_front("f:") ? Kind::numbers
                  : text.consume_front("d:") ? Kind::dtype
                  : text.consume_front("$")  ? Kind::size
                                             : Kind::tensors;
  llvm::SmallVector<llvm::StringRef> items = {text};
  if (text.consume_front("[")) {
    if (!text.consume_back("]") || argument.kind == Kind::dtype || argument.kind == Kind::size) {
      return std::nullopt;
    }
    argument.isList = true;
    items.clear();
    if (!text.empty()) {
      text.split(items, ", ");
    }
  } else if (argument.kind == Kind::dtype) {
    items.clear();
    text.split(items, ':');
    if (items.size() != 2) {
      return std::nullopt;
    }
  }
  for (llvm::StringRef item : items) {
    int64_t number = 0;
    if (argument.kind == Kind::numbers) {
      llvm::APFloat value(llvm::APFloat::IEEEdouble());
      llvm::Expected<llvm::APFloat::opStatus> status =
          value.convertFromString(item, llvm::APFloat::rmNearestTiesToEven);
      if (!status) {
        llvm::consumeError(status.takeError());
        return std::nullopt;
      }
      argument.numbers.push_back(value);
    } else if (argument.kind == Kind::tensors) {
      const bool isOutput = item.consume_front("@");
      if ((!isOutput && !item.consume_front("%")) || item.getAsInteger(10, number) || number < 0) {
        return std::nullopt;
      }
      argument.tensors.push_back({isOutput, number});
    } else if (item.getAsInteger(10, number)) {
      return std::nullopt;
    } else {
      argument.integers.push_back(number);
    }
  }
  return argument;
}

}  // namespace straightline

#endif  // STRAIGHTLINE_DIALECT_OWN_ARGUMENT_H
