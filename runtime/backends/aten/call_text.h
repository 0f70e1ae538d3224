// SPDX-License-Identifier: Apache-2.0
// The text of an "aten" problem: which op, with which arguments. Seven lines:
//
//   aten::topk                                  name
//                                               overload, often empty
//   2.13.0                                      torch that captured it
//   dispatcher                                  or python: through which door
//   aten::topk(Tensor self, SymInt k, ..) ->..  its schema there
//   self=%0, k=5, dim=-1, largest=true          every argument, in the order of the schema
//   @0, @1                                      what becomes of the results, in their order
//
// Values: %N input N, @N output N (as an argument: updated in place), $N a size known per call, 12,
// 1.5 (always with a point, an exponent, inf or nan), complex[1.5, -2.0] (through Python alone),
// true, false, none, "text", [a, b], dtype.float32, layout.strided, device.cpu,
// format.channels_last. `?` before a value: its type in the schema is optional. `%0:complex64`: the
// tensor's last dim holds real and imaginary part. A result that nobody reads is `none`.
#ifndef STRAIGHTLINE_RUNTIME_BACKENDS_ATEN_CALL_TEXT_H
#define STRAIGHTLINE_RUNTIME_BACKENDS_ATEN_CALL_TEXT_H

#include <cstdint>
#include <string>
#include <vector>

namespace straightline::aten {

struct Value {
  enum class Kind {
    none,
    input,
    output,
    size,
    integer,
    real,
    boolean,
    complex,
    text,
    list,
    dtype,
    layout,
    device,
    format
  };
  Kind kind = Kind::none;
  bool optional = false;
  int64_t number = 0;  ///< integer, boolean, or which input, output or size
  double real = 0;
  /// text, a name after the point, or a tensor's own dtype after ':' ("" when its operand's)
  std::string text;
  std::vector<Value> items;  ///< of a list; real and imaginary part of a complex number
};

struct CallText {
  std::string name, overload, version, door, schema;
  std::vector<Value> arguments;
  std::vector<Value> results;
};

/// False when the text is not one; `error` then says what was expected where.
bool parseCallText(const char* text, CallText* call, std::string* error);

}  // namespace straightline::aten

#endif  // STRAIGHTLINE_RUNTIME_BACKENDS_ATEN_CALL_TEXT_H
