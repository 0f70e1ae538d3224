// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/code_linker.h"

#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>

#include "codegen/jit/clang_driver.h"
#include "lld/Common/Driver.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "straightline/abi/code.h"

LLD_HAS_DRIVER(elf)

namespace straightline::jit {
namespace {

/// A folder of its own that goes with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    if (const std::error_code error =
            llvm::sys::fs::createUniqueDirectory("straightline-link", path_)) {
      error_ = "cannot make a temporary folder: " + error.message();
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    if (!path_.empty()) {
      llvm::sys::fs::remove_directories(path_);
    }
  }

  const std::string& error() const { return error_; }
  std::string file(const std::string& name) const { return (path_ + "/" + name).str(); }

  bool write(const std::string& path, llvm::StringRef bytes) {
    std::error_code error;
    llvm::raw_fd_ostream out(path, error);
    if (!error) {
      out << bytes;
      out.close();
      error = out.error();
      out.clear_error();
    }
    if (error) {
      error_ = "cannot write " + path + ": " + error.message();
    }
    return !error;
  }

 private:
  llvm::SmallString<128> path_;
  std::string error_;
};

/// The global names that objects define, and those that they lack. False with a message.
bool findSymbols(const std::vector<Object>& objects, std::set<std::string>* defined,
                 std::set<std::string>* missing, std::string* error) {
  std::set<std::string> wanted;
  for (const Object& object : objects) {
    auto file = llvm::object::ObjectFile::createELFObjectFile(
        llvm::MemoryBufferRef(object.bytes, object.name));
    if (!file) {
      *error = object.name + ": " + llvm::toString(file.takeError());
      return false;
    }
    for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
      llvm::Expected<uint32_t> flags = symbol.getFlags();
      llvm::Expected<llvm::StringRef> name = symbol.getName();
      if (!flags || !name) {
        *error = object.name + ": " + llvm::toString(!flags ? flags.takeError() : name.takeError());
        return false;
      }
      if ((*flags & llvm::object::SymbolRef::SF_Undefined) != 0 && !name->empty()) {
        wanted.insert(name->str());
      } else if ((*flags & llvm::object::SymbolRef::SF_Global) != 0) {
        defined->insert(name->str());
      }
    }
  }
  for (const std::string& name : wanted) {
    // the linker makes this one
    if (defined->count(name) == 0 && name != "_GLOBAL_OFFSET_TABLE_") {
      missing->insert(name);
    }
  }
  return true;
}

/// The text of the unit with the table. The jumps are assembler: they pass on any arguments.
std::string tableText(const CodeRequest& request, const std::set<std::string>& imports) {
  std::string stubs, names, images, rows;
  int slot = 0;
  for (const std::string& name : imports) {
    const std::string address = "sl_code_slots+" + std::to_string(8 * slot);
    stubs += "asm(\".text\\n.globl " + name + "\\n.hidden " + name + "\\n.type " + name +
             ",@function\\n" + name + ":\\n  jmp *" + address + "(%rip)\\n.size " + name + ",.-" +
             name + "\\n\");\n";
    names += "  {\"" + name + "\", &sl_code_slots[" + std::to_string(slot++) + "]},\n";
  }
  for (const auto& [symbol, unit] : request.images) {
    images += "sl_device_image " + symbol + " = {sizeof(sl_device_image), nullptr, 0, 0};\n";
    rows += "  {\"" + unit + "\", &" + symbol + "},\n";
  }
  const std::string none = "nullptr";
  return "#include <straightline/abi/code.h>\n"
         "extern \"C\" {\n"
         "extern const sl_program_desc " +
         request.program +
         ";\n"
         "[[gnu::visibility(\"hidden\")]] void* sl_code_slots[" +
         std::to_string(std::max(slot, 1)) + "];\n" + stubs + images +
         (names.empty() ? "" : "static const sl_import sl_code_imports[] = {\n" + names + "};\n") +
         (rows.empty() ? "" : "static const sl_image_slot sl_code_images[] = {\n" + rows + "};\n") +
         "extern const sl_code " SL_CODE_SYMBOL
         ";\n"
         "const sl_code " SL_CODE_SYMBOL " = {sizeof(sl_code), SL_ABI_VERSION, " +
         std::to_string(imports.size()) + ", " + (names.empty() ? none : "sl_code_imports") + ", " +
         (rows.empty() ? none : "sl_code_images") + ", " + std::to_string(request.images.size()) +
         ", 0, &" + request.program + "};\n}\n";
}

/// Runs ld.lld with these arguments. lld keeps what it does in globals of the process.
bool runLinker(const std::vector<std::string>& arguments, std::string* error) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  static bool broken = false;
  if (broken) {
    *error = "the linker gave up before and cannot be used again in this process";
    return false;
  }
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(argument.c_str());
  }
  std::string said;
  llvm::raw_string_ostream stream(said);
  const lld::Result result = lld::lldMain(argv, stream, stream, {{lld::Gnu, &lld::elf::link}});
  broken = !result.canRunAgain;
  if (result.retCode != 0) {
    *error = said.empty() ? "the linker gave no reason" : said;
  }
  return result.retCode == 0;
}

}  // namespace

bool addCodeTable(CodeRequest* request, const std::vector<std::string>& arguments,
                  std::string* error) {
  std::set<std::string> defined, imports;
  if (!findSymbols(request->objects, &defined, &imports, error)) {
    return false;
  }
  for (const auto& [symbol, unit] : request->images) {
    imports.erase(symbol);
  }
  ClangOutput output = compileToObject("code_table", tableText(*request, imports), arguments);
  if (!output.ok) {
    *error = output.diagnostics;
    return false;
  }
  request->objects.push_back({"code_table", std::move(output.object)});
  return true;
}

bool linkSharedObject(const CodeRequest& request, std::string* library, std::string* error) {
  TemporaryFolder folder;
  if (!folder.error().empty()) {
    *error = folder.error();
    return false;
  }
  const std::string output = folder.file("code.so"), exports = folder.file("exports.map");
  std::vector<std::string> arguments = {
      "ld.lld", "-shared", "-o", output, "--version-script=" + exports, "-Bsymbolic",
      "--gc-sections", "--build-id=none", "--hash-style=gnu", "--no-undefined", "-z", "noexecstack",
      "-z", "relro", "-z", "now", "--threads=1",
      // the table alone is kept, and what it reaches
      "--undefined=" SL_CODE_SYMBOL};
  if (!folder.write(exports, "{ global: " SL_CODE_SYMBOL "; local: *; };\n")) {
    *error = folder.error();
    return false;
  }
  for (size_t i = 0; i < request.objects.size(); ++i) {
    arguments.push_back(folder.file(std::to_string(i) + ".o"));
    if (!folder.write(arguments.back(), request.objects[i].bytes)) {
      *error = folder.error();
      return false;
    }
  }
  if (!runLinker(arguments, error)) {
    return false;
  }
  auto linked = llvm::MemoryBuffer::getFile(output, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!linked) {
    *error = "cannot read what was linked: " + linked.getError().message();
    return false;
  }
  *library = (*linked)->getBuffer().str();
  return true;
}

}  // namespace straightline::jit
