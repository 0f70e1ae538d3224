// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_CODEGEN_JIT_DISASSEMBLER_H
#define STRAIGHTLINE_CODEGEN_JIT_DISASSEMBLER_H

#include <string>

namespace straightline::jit {

/// The instructions of a function of an ELF file for x86-64 as assembler text, a line each: offset
/// within the function, and the instruction. False with a message: the file is none, or has no such
/// function. Thread-safe.
bool disassemble(const std::string& elf, const std::string& symbol, std::string* text,
                 std::string* error);

}  // namespace straightline::jit

#endif  // STRAIGHTLINE_CODEGEN_JIT_DISASSEMBLER_H
