// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/disassembler.h"

#include <memory>

#include "codegen/jit/clang_driver.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Triple.h"

namespace straightline::jit {
namespace {

/// The bytes of a function; empty with a message.
llvm::ArrayRef<uint8_t> bytesOf(const llvm::object::ELFObjectFileBase& file,
                                const std::string& symbol, std::string* error) {
  for (const llvm::object::ELFSymbolRef found : file.symbols()) {
    llvm::Expected<llvm::StringRef> name = found.getName();
    if (!name) {
      llvm::consumeError(name.takeError());
      continue;
    }
    if (*name != symbol || found.getELFType() != llvm::ELF::STT_FUNC) {
      continue;
    }
    auto section = found.getSection();
    llvm::Expected<uint64_t> address = found.getAddress();
    if (!section || !address || *section == file.section_end()) {
      *error = "the function " + symbol + " is in no section";
      llvm::consumeError(section.takeError());
      llvm::consumeError(address.takeError());
      return {};
    }
    llvm::Expected<llvm::StringRef> contents = (*section)->getContents();
    if (!contents) {
      *error = llvm::toString(contents.takeError());
      return {};
    }
    const uint64_t begin = *address - (*section)->getAddress();
    if (begin > contents->size() || found.getSize() > contents->size() - begin) {
      *error = "the function " + symbol + " lies outside of its section";
      return {};
    }
    return llvm::arrayRefFromStringRef(contents->substr(begin, found.getSize()));
  }
  *error = "there is no function " + symbol;
  return {};
}

/// LLVM's objects for x86-64 with every feature.
struct Machine {
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  std::unique_ptr<llvm::MCAsmInfo> assembler;
  std::unique_ptr<llvm::MCSubtargetInfo> subtarget;
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCContext> context;
  std::unique_ptr<llvm::MCDisassembler> disassembler;
  std::unique_ptr<llvm::MCInstPrinter> printer;

  bool open(std::string* error) {
    static const bool registered = [] {
      LLVMInitializeX86TargetInfo();
      LLVMInitializeX86TargetMC();
      LLVMInitializeX86Disassembler();
      return true;
    }();
    (void)registered;
    const llvm::Triple triple(hostTarget().triple);
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, *error);
    if (target == nullptr) {
      return false;
    }
    registers.reset(target->createMCRegInfo(triple));
    assembler.reset(target->createMCAsmInfo(*registers, triple, llvm::MCTargetOptions()));
    // a later CPU than any that is here, so that every instruction has a name
    subtarget.reset(target->createMCSubtargetInfo(triple, "diamondrapids", ""));
    instructions.reset(target->createMCInstrInfo());
    context = std::make_unique<llvm::MCContext>(triple, assembler.get(), registers.get(),
                                                subtarget.get());
    disassembler.reset(target->createMCDisassembler(*subtarget, *context));
    printer.reset(target->createMCInstPrinter(triple, /*Intel's syntax*/ 1, *assembler,
                                              *instructions, *registers));
    if (!disassembler || !printer) {
      *error = "LLVM has no disassembler for " + triple.str();
      return false;
    }
    printer->setPrintBranchImmAsAddress(true);
    return true;
  }
};

}  // namespace

bool disassemble(const std::string& elf, const std::string& symbol, std::string* text,
                 std::string* error) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(elf, "code"));
  if (!file) {
    *error = llvm::toString(file.takeError());
    return false;
  }
  const auto* object = llvm::cast<llvm::object::ELFObjectFileBase>(file->get());
  const llvm::ArrayRef<uint8_t> bytes = bytesOf(*object, symbol, error);
  Machine machine;
  if (bytes.empty() || !machine.open(error)) {
    return false;
  }
  llvm::raw_string_ostream stream(*text);
  for (uint64_t at = 0; at < bytes.size();) {
    llvm::MCInst instruction;
    uint64_t size = 0;
    const bool known =
        machine.disassembler->getInstruction(instruction, size, bytes.slice(at), at,
                                             llvm::nulls()) == llvm::MCDisassembler::Success;
    stream << llvm::formatv("{0,6:x}:", at);
    if (known) {
      // targets of branches count from the end of the instruction
      machine.printer->printInst(&instruction, at + size, "", *machine.subtarget, stream);
    } else {
      stream << llvm::formatv("\t.byte\t{0:x2}", bytes[at]);
      size = 1;
    }
    stream << "\n";
    at += size == 0 ? 1 : size;
  }
  return true;
}

}  // namespace straightline::jit
