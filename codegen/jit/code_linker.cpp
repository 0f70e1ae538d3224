// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/code_linker.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <system_error>

#include "codegen/jit/clang_driver.h"
#include "lld/Common/Driver.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/ArchiveWriter.h"
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

/// The arguments for a shared object that needs no other and keeps what one symbol reaches.
std::vector<std::string> sharedArguments(const std::string& symbol) {
  return {"-shared",        "-Bsymbolic", "--gc-sections", "--hash-style=gnu",
          "--no-undefined", "-z",         "noexecstack",   "-z",
          "relro",          "-z",         "now",           "--undefined=" + symbol};
}

/// Links objects with these arguments. `exports`: a version script; "": none.
bool link(const std::vector<Object>& objects, const std::vector<std::string>& how,
          const std::string& exports, std::string* linked, std::string* error) {
  TemporaryFolder folder;
  const std::string output = folder.file("linked");
  std::vector<std::string> arguments = {"ld.lld", "-o", output, "--build-id=none", "--threads=1"};
  arguments.insert(arguments.end(), how.begin(), how.end());
  bool written = folder.error().empty();
  if (!exports.empty()) {
    arguments.push_back("--version-script=" + folder.file("exports.map"));
    written = written && folder.write(folder.file("exports.map"), exports);
  }
  for (size_t i = 0; written && i < objects.size(); ++i) {
    arguments.push_back(folder.file(std::to_string(i) + ".o"));
    written = folder.write(arguments.back(), objects[i].bytes);
  }
  if (!written) {
    *error = folder.error();
    return false;
  }
  if (!runLinker(arguments, error)) {
    return false;
  }
  auto read = llvm::MemoryBuffer::getFile(output, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!read) {
    *error = "cannot read what was linked: " + read.getError().message();
    return false;
  }
  *linked = (*read)->getBuffer().str();
  return true;
}

/// Runs LLVM's objcopy over an object.
bool copyObject(const std::string& object, const llvm::objcopy::ConfigManager& config,
                std::string* out, std::string* error) {
  auto file =
      llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "linked object"));
  if (!file) {
    *error = llvm::toString(file.takeError());
    return false;
  }
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  if (llvm::Error failure = llvm::objcopy::executeObjcopyOnBinary(config, **file, stream)) {
    *error = llvm::toString(std::move(failure));
    return false;
  }
  *out = bytes.str().str();
  return true;
}

/// One global symbol stays, under another name; all others become local.
bool changeSymbols(const std::string& object, const std::string& symbol, const std::string& name,
                   std::string* out, std::string* error) {
  llvm::objcopy::ConfigManager config;
  auto matcher = llvm::objcopy::NameOrPattern::create(symbol, llvm::objcopy::MatchStyle::Literal,
                                                      [](llvm::Error failure) { return failure; });
  if (llvm::Error failure = config.Common.SymbolsToKeepGlobal.addMatcher(std::move(matcher))) {
    *error = llvm::toString(std::move(failure));
    return false;
  }
  if (name != symbol) {
    config.Common.SymbolsToRename[symbol] = name;
  }
  return copyObject(object, config, out, error);
}

/// Adds read-only data that begins at a page, with a hidden symbol.
bool addData(const std::string& object, const std::string& symbol, const std::string& data,
             std::string* out, std::string* error) {
  static constexpr llvm::StringLiteral kSection = ".rodata.sl_model";
  llvm::objcopy::ConfigManager config;
  config.Common.AddSection.emplace_back(
      kSection, llvm::MemoryBuffer::getMemBuffer(data, "", /*RequiresNullTerminator=*/false));
  config.Common.SetSectionAlignment[kSection] = 4096;
  config.Common.SetSectionFlags[kSection] = {
      kSection, llvm::objcopy::SectionFlag(llvm::objcopy::SecAlloc | llvm::objcopy::SecReadonly |
                                           llvm::objcopy::SecData | llvm::objcopy::SecContents)};
  llvm::objcopy::NewSymbolInfo added;
  added.SymbolName = symbol;
  added.SectionName = kSection;
  added.Flags = {llvm::objcopy::SymbolFlag::Global, llvm::objcopy::SymbolFlag::Hidden,
                 llvm::objcopy::SymbolFlag::Object};
  config.Common.SymbolsToAdd.push_back(std::move(added));
  return copyObject(object, config, out, error);
}

bool archiveOf(const std::string& member, const std::string& object, std::string* out,
               std::string* error) {
  std::vector<llvm::NewArchiveMember> members;
  members.emplace_back(llvm::MemoryBufferRef(object, member));
  auto archive = llvm::writeArchiveToBuffer(members, llvm::SymtabWritingMode::NormalSymtab,
                                            llvm::object::Archive::K_GNU, /*Deterministic=*/true,
                                            /*Thin=*/false);
  if (!archive) {
    *error = llvm::toString(archive.takeError());
    return false;
  }
  *out = (*archive)->getBuffer().str();
  return true;
}

std::string codeSymbol(const std::string& name, size_t i) {
  return "sl_code_" + name + "_" + std::to_string(i);
}
std::string dataSymbol(const std::string& name) { return "sl_data_" + name; }

/// The text of the unit that holds a model's sl_linked_model.
std::string rootText(const std::string& name, size_t codes, size_t bytes) {
  std::string declared, listed;
  for (size_t i = 0; i < codes; ++i) {
    declared += "extern const sl_code " + codeSymbol(name, i) + ";\n";
    listed += "&" + codeSymbol(name, i) + ", ";
  }
  const std::string symbol = "sl_model_" + name;
  return "#include <straightline/abi/model.h>\nextern \"C\" {\n" + declared +
         "[[gnu::visibility(\"hidden\")]] extern const char " + dataSymbol(name) +
         "[];\nstatic const sl_code* const codes[] = {" + listed +
         "};\nextern const sl_linked_model " + symbol + ";\nconst sl_linked_model " + symbol +
         " = {sizeof(sl_linked_model), \"" + name + "\", " + dataSymbol(name) + ", " +
         std::to_string(bytes) + ", codes, " + std::to_string(codes) + ", 0};\n}\n";
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
  return link(request.objects, sharedArguments(SL_CODE_SYMBOL),
              "{ global: " SL_CODE_SYMBOL "; local: *; };\n", library, error);
}

namespace {

/// The objects of a model's library: a code each, and the one with the artifact.
bool modelObjects(const std::string& name, const std::vector<CodeRequest>& codes,
                  const std::string& artifact, const std::vector<std::string>& arguments,
                  std::vector<Object>* out, std::string* error) {
  std::vector<Object>& objects = *out;
  for (size_t i = 0; i < codes.size(); ++i) {
    std::string whole;
    Object object{name + std::to_string(i), ""};
    if (!link(codes[i].objects, {"-r"}, "", &whole, error) ||
        !changeSymbols(whole, SL_CODE_SYMBOL, codeSymbol(name, i), &object.bytes, error)) {
      return false;
    }
    objects.push_back(std::move(object));
  }
  ClangOutput root =
      compileToObject("model", rootText(name, codes.size(), artifact.size()), arguments);
  Object withData{"model", ""};
  if (!root.ok || !addData(root.object, dataSymbol(name), artifact, &withData.bytes, error)) {
    *error = root.ok ? *error : root.diagnostics;
    return false;
  }
  objects.push_back(std::move(withData));
  return true;
}

/// "{ global: a; b; local: *; };"
std::string versionScript(const std::vector<std::string>& exports) {
  std::string script = "{ global: ";
  for (const std::string& symbol : exports) {
    script += symbol + "; ";
  }
  return script + "local: *; };\n";
}

}  // namespace

bool linkModel(const std::string& name, const std::vector<CodeRequest>& codes,
               const std::string& artifact, LibraryKind kind,
               const std::vector<std::string>& arguments, std::string* library,
               std::string* error) {
  std::vector<Object> objects;
  if (!modelObjects(name, codes, artifact, arguments, &objects, error)) {
    return false;
  }
  const std::string symbol = "sl_model_" + name;
  if (kind == LibraryKind::shared) {
    return link(objects, sharedArguments(symbol), versionScript({symbol}), library, error);
  }
  std::string whole, one;
  return link(objects, {"-r"}, "", &whole, error) &&
         changeSymbols(whole, symbol, symbol, &one, error) &&
         archiveOf(name + ".o", one, library, error);
}

bool linkExportedModel(const std::string& name, const std::vector<CodeRequest>& codes,
                       const std::string& artifact, const ExportedText& exported,
                       const std::vector<std::string>& arguments, std::string* library,
                       std::string* error) {
  std::vector<Object> objects;
  ClangOutput text = compileToObject(name, exported.text, arguments);
  Object withRuntime{"exported", ""};
  if (!text.ok ||
      !addData(text.object, "sl_runtime_data", exported.runtime, &withRuntime.bytes, error)) {
    *error = text.ok ? *error : text.diagnostics;
    return false;
  }
  if (!modelObjects(name, codes, artifact, arguments, &objects, error)) {
    return false;
  }
  objects.push_back(std::move(withRuntime));
  std::vector<std::string> how = {"-shared",
                                  "-Bsymbolic",
                                  "--gc-sections",
                                  "--hash-style=gnu",
                                  "-z",
                                  "noexecstack",
                                  "-z",
                                  "relro",
                                  "-z",
                                  "now",
                                  "-z",
                                  "nodelete"};
  return link(objects, how, versionScript(exported.exports), library, error);
}

bool linkText(const std::string& name, const std::string& text,
              const std::vector<std::string>& exports, std::string* library, std::string* error) {
  ClangOutput output = compileToObject(name, text, clangArguments({hostTarget(), false, {}}));
  if (!output.ok) {
    *error = output.diagnostics;
    return false;
  }
  std::vector<std::string> how = sharedArguments(exports.front());
  how.erase(std::find(how.begin(), how.end(), "--no-undefined"));  // the process has libc
  return link({{name, std::move(output.object)}}, how, versionScript(exports), library, error);
}

}  // namespace straightline::jit
