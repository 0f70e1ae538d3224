// SPDX-License-Identifier: Apache-2.0
#include "expression.h"

#include <limits>
#include <string>

namespace straightline {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

// Arithmetic saturates: an extent may be anything that a user can write into a tensor's shape (an
// expanded tensor of 2^40 rows is legal), and a size that wrapped around to a small number would
// pass every later check.
int64_t add(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? (a < 0 ? kMin : kMax) : r;
}

int64_t multiply(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? ((a < 0) != (b < 0) ? kMin : kMax) : r;
}

// Floor division and modulo, as in Python. A zero divisor gives 0: it can only come from an extent
// of 0, and then the storage is empty as well.
int64_t floorDivide(int64_t a, int64_t b) {
  if (b == 0) {
    return 0;
  }
  if (b == -1) {
    return multiply(a, -1);
  }
  const int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

int64_t floorModulo(int64_t a, int64_t b) {
  if (b == 0 || b == -1) {
    return 0;
  }
  const int64_t r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}

int64_t combine(int64_t op, int64_t a, int64_t b) {
  switch (op) {
    case '+':
      return add(a, b);
    case '*':
      return multiply(a, b);
    case '/':
      return floorDivide(a, b);
    case '%':
      return floorModulo(a, b);
    default:
      return a < b ? b : a;  // 'M'; checkExpression refused all others
  }
}

}  // namespace

const char* checkExpression(const sl_expr& expression, int32_t extentCount,
                            int32_t statementCount) {
  if (expression.count == 0) {
    return nullptr;
  }
  if (expression.count < 0 || !expression.steps) {
    return "it has no steps";
  }
  int32_t depth = 0;
  for (int64_t i = 0; i < expression.count; ++i) {
    const sl_expr_step& step = expression.steps[i];
    switch (step.op) {
      case 'c':
        ++depth;
        break;
      case 's':
        if (step.value < 0 || step.value >= extentCount) {
          return "it reads an extent that does not exist";
        }
        ++depth;
        break;
      case 'v':
        if (step.value < 0 || step.value >= statementCount) {
          return "it reads a statement that does not exist";
        }
        ++depth;
        break;
      case '+':
      case '*':
      case '/':
      case '%':
      case 'M':
        --depth;
        break;
      default:
        return "it has an unknown operator";
    }
    if (depth < 1) {
      return "an operator lacks an operand";
    }
    if (depth > kMaxExpressionDepth) {
      return "it is nested too deeply";
    }
  }
  return depth == 1 ? nullptr : "it leaves more than one value";
}

bool isConstant(const sl_expr& expression) {
  for (int64_t i = 0; i < expression.count; ++i) {
    if (expression.steps[i].op == 's') {
      return false;
    }
  }
  return true;
}

int32_t bareSymbol(const sl_expr& expression) {
  const bool bare = expression.count == 1 && expression.steps[0].op == 's';
  return bare ? static_cast<int32_t>(expression.steps[0].value) : -1;
}

LinearForm linearForm(const sl_expr& expression) {
  const LinearForm invalid{false, -1, 0, 0};
  LinearForm stack[kMaxExpressionDepth];
  int32_t depth = 0;
  for (int64_t i = 0; i < expression.count; ++i) {
    const sl_expr_step& step = expression.steps[i];
    if (step.op == 'c') {
      stack[depth++] = {true, -1, 0, step.value};
      continue;
    }
    if (step.op == 's') {
      stack[depth++] = {true, static_cast<int32_t>(step.value), 1, 0};
      continue;
    }
    const LinearForm b = stack[--depth];
    LinearForm& a = stack[depth - 1];
    const bool bothConstant = a.symbol < 0 && b.symbol < 0;
    if (bothConstant) {
      a.offset = combine(step.op, a.offset, b.offset);
    } else if (step.op == '+' && (a.symbol < 0 || b.symbol < 0 || a.symbol == b.symbol)) {
      a = {true, a.symbol < 0 ? b.symbol : a.symbol, add(a.scale, b.scale),
           add(a.offset, b.offset)};
    } else if (step.op == '*' && (a.symbol < 0 || b.symbol < 0)) {
      const int64_t factor = a.symbol < 0 ? a.offset : b.offset;
      const LinearForm& linear = a.symbol < 0 ? b : a;
      a = {true, linear.symbol, multiply(linear.scale, factor), multiply(linear.offset, factor)};
    } else {
      return invalid;
    }
  }
  return depth == 1 ? stack[0] : LinearForm{true, -1, 0, 0};
}

void printExpression(const sl_expr& expression, const sl_program_desc& desc, char* text,
                     size_t bytes) {
  // Precedence of the operands on the stack: 0 sum, 1 product, 2 atom.
  struct Piece {
    std::string text;
    int32_t precedence;
  };
  Piece stack[kMaxExpressionDepth];
  int32_t depth = 0;
  auto wrapped = [](const Piece& piece, int32_t least) {
    return piece.precedence < least ? "(" + piece.text + ")" : piece.text;
  };
  for (int64_t i = 0; i < expression.count; ++i) {
    const sl_expr_step& step = expression.steps[i];
    if (step.op == 'c') {
      stack[depth++] = {std::to_string(step.value), 2};
      continue;
    }
    if (step.op == 's') {
      stack[depth++] = {desc.extents[step.value].name, 2};
      continue;
    }
    const Piece b = stack[--depth];
    Piece& a = stack[depth - 1];
    if (step.op == '+') {
      a = {wrapped(a, 0) + " + " + wrapped(b, 0), 0};
    } else if (step.op == 'M') {
      a = {"max(" + a.text + ", " + b.text + ")", 2};
    } else {
      const char* sign = step.op == '*' ? " * " : step.op == '/' ? " // " : " % ";
      a = {wrapped(a, 1) + sign + wrapped(b, 2), 1};
    }
  }
  const std::string result = depth == 1 ? stack[0].text : "0";
  const size_t count = result.size() < bytes - 1 ? result.size() : bytes - 1;
  result.copy(text, count);
  text[count] = '\0';
}

int64_t scalarValue(const sl_expr& expression, const int64_t* extents, const int64_t* scalars) {
  int64_t stack[kMaxExpressionDepth];
  int32_t depth = 0;
  for (int64_t i = 0; i < expression.count; ++i) {
    const sl_expr_step& step = expression.steps[i];
    if (step.op == 'c') {
      stack[depth++] = step.value;
    } else if (step.op == 's') {
      stack[depth++] = extents[step.value];
    } else if (step.op == 'v') {
      stack[depth++] = scalars[step.value];
    } else {
      const int64_t b = stack[--depth];
      stack[depth - 1] = combine(step.op, stack[depth - 1], b);
    }
  }
  return depth == 1 ? stack[0] : 0;
}

}  // namespace straightline

int64_t sl_expr_value(const sl_expr* expression, const int64_t* extents) {
  return straightline::scalarValue(*expression, extents, nullptr);
}
