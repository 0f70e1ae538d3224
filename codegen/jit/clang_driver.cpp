// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/clang_driver.h"

#include <algorithm>
#include <mutex>

#include "clang/Basic/DiagnosticOptions.h"
#include "clang/Basic/Version.h"
#include "clang/CodeGen/CodeGenAction.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/FrontendAction.h"
#include "clang/Frontend/TextDiagnosticPrinter.h"
#include "clang/Lex/PreprocessorOptions.h"
#include "clang/Serialization/ASTWriter.h"
#include "codegen/jit/embedded_headers.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

namespace straightline::jit {
namespace {

constexpr const char* kRoot = "/straightline";
constexpr const char* kIncludeRoot = "/straightline/include";
constexpr const char* kAllHeadersPath = "/straightline/headers.h";
constexpr const char* kHeadersPath = "/straightline/headers.pch";

void initializeTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
  });
}

/// An in-memory file system with the unit and the embedded headers. The buffers borrow their text.
llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> makeFileSystem(const std::string& path,
                                                                       const std::string& text) {
  llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> files =
      llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  files->addFile(path, 0, llvm::MemoryBuffer::getMemBuffer(text, path));
  for (std::size_t i = 0; i < embeddedHeaderCount; ++i) {
    const EmbeddedHeader& header = embeddedHeaders[i];
    files->addFile(
        std::string(kIncludeRoot) + "/" + header.path, 0,
        llvm::MemoryBuffer::getMemBuffer(llvm::StringRef(header.text, header.bytes), header.path));
  }
  return files;
}

/// A header that includes what emitted C++ may include.
const std::string& allHeaders() {
  static const std::string text = [] {
    std::string lines;
    for (std::size_t i = 0; i < embeddedHeaderCount; ++i) {
      const llvm::StringRef path = embeddedHeaders[i].path;
      if (!path.contains("/cuda")) {
        lines += "#include \"" + path.str() + "\"\n";
      }
    }
    return lines;
  }();
  return text;
}

/// File name of a unit: characters that would confuse a reader of diagnostics are replaced.
std::string unitPath(const std::string& name) {
  std::string safe = name.empty() ? "unit" : name;
  for (char& c : safe) {
    const bool plain = llvm::isAlnum(c) || c == '_' || c == '-' || c == '.';
    c = plain ? c : '_';
  }
  return std::string(kRoot) + "/" + safe + ".cpp";
}

bool contains(const std::vector<std::string>& list, llvm::StringRef value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// Names of what is on, sorted.
std::vector<std::string> sortedNames(const llvm::StringMap<bool>& features) {
  std::vector<std::string> names;
  for (const auto& entry : features) {
    if (entry.second) {
      names.push_back(entry.first().str());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The features that the name of a CPU stands for, sorted. LLVM's list names some of them only by
/// others that need them (avx512f of x86-64-v4).
std::vector<std::string> featuresOfName(const std::string& cpu) {
  llvm::SmallVector<llvm::StringRef, 64> named;
  llvm::X86::getFeaturesForCPU(cpu, named);
  llvm::StringMap<bool> all;
  for (llvm::StringRef feature : named) {
    all[feature] = true;
    llvm::X86::updateImpliedFeatures(feature, /*Enabled=*/true, all);
  }
  return sortedNames(all);
}

/// The features that differ from those which the name of the CPU implies. Each function carries its
/// features as text, which clang and LLVM parse again and again: all of them cost 1 to 3 % of the
/// time.
std::vector<std::string> differingFeatures(const Target& target) {
  const std::vector<std::string> implied = featuresOfName(target.cpu);
  std::vector<std::string> differing;
  for (const std::string& feature : target.features) {
    const bool on = feature.front() == '+';
    if (on != contains(implied, llvm::StringRef(feature).drop_front())) {
      differing.push_back(feature);
    }
  }
  return differing;
}

}  // namespace

const Target& hostTarget() {
  static const Target target = [] {
    Target host;
    host.triple = llvm::sys::getProcessTriple();
    host.cpu = llvm::sys::getHostCPUName().str();
    for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
      host.features.push_back((feature.second ? "+" : "-") + feature.first().str());
    }
    std::sort(host.features.begin(), host.features.end());
    return host;
  }();
  return target;
}

std::optional<Target> targetNamed(const std::string& cpu) {
  if (cpu.empty() || cpu == "host") {
    return hostTarget();
  }
  llvm::SmallVector<llvm::StringRef, 128> known;
  llvm::X86::fillValidCPUArchList(known, /*Only64Bit=*/true);
  if (!llvm::is_contained(known, llvm::StringRef(cpu))) {
    return std::nullopt;
  }
  return Target{hostTarget().triple, cpu, {}};
}

bool hasFeature(const Target& target, const std::string& feature) {
  if (!target.features.empty()) {
    return contains(target.features, "+" + feature);
  }
  return contains(featuresOfName(target.cpu), feature);
}

bool beginsTwoWideVectors(const Target& target) {
  if (!hasFeature(target, "avx512f")) {
    return false;
  }
  // A virtual machine may give its processor another name; tiles of a matrix unit are in server
  // cores only.
  static constexpr llvm::StringLiteral kNames[] = {"skylake-avx512", "cascadelake", "cooperlake",
                                                   "icelake-server", "znver5",      "znver6"};
  // one that hides the unit itself does not change the core
  return hasFeature(target, "amx-tile") || contains(featuresOfName(target.cpu), "amx-tile") ||
         llvm::is_contained(kNames, llvm::StringRef(target.cpu));
}

std::vector<std::string> neededFeatures(const Target& target) {
  llvm::StringMap<bool> all;
  for (const std::string& feature : featuresOfName(target.cpu)) {
    all[feature] = true;
  }
  for (const std::string& feature : target.features) {
    if (feature[0] == '+') {
      all[feature.substr(1)] = true;
      llvm::X86::updateImpliedFeatures(feature.substr(1), /*Enabled=*/true, all);
    }
  }
  for (const std::string& feature : target.features) {
    if (feature[0] == '-') {
      all[feature.substr(1)] = false;
    }
  }
  all.erase("avx10.1");  // a version number: its instructions are those of what it implies
  return sortedNames(all);
}

std::vector<std::string> featuresMissingHere(const Target& target) {
  std::vector<std::string> missing;
  if (target.cpu == hostTarget().cpu) {
    return missing;
  }
  for (const std::string& feature : featuresOfName(target.cpu)) {
    // Only features that the host detection reports as absent count: it does not report tuning
    // hints.
    if (contains(hostTarget().features, "-" + feature)) {
      missing.push_back(feature);
    }
  }
  return missing;
}

std::vector<std::string> clangArguments(const ClangOptions& options) {
  std::vector<std::string> arguments = {
      "-triple", options.target.triple, "-target-cpu", options.target.cpu, "-emit-obj", "-O3",
      // cc1 does not switch the vectorisers on by itself at -O3; the driver does. The
      // vectoriser of straight-line code (SLP) stays off: kernels are written with vectors, and its
      // output for short rows (sitofp of two i64) is compiled wrongly by LLVM 22.1 for AVX-512.
      "-vectorize-loops", "-std=c++20", "-x", "c++", "-nostdsysteminc", "-nobuiltininc",
      "-nostdinc++", "-I", kIncludeRoot, "-mrelocation-model", "pic", "-pic-level", "2",
      // Unwind tables let profilers and debuggers walk through compiled code.
      "-mframe-pointer=none", "-funwind-tables=2", "-fno-rtti", "-fno-threadsafe-statics",
      // Within an expression of a kernel's header, not from one op to the next: a product that is
      // used twice, once rounded (the maximum of a row) and once inside a multiply-add, would not
      // be the same number.
      "-ffp-contract=on",
      // As the driver of a release does: names of values and checks of every function cost a tenth
      // of the time.
      "-discard-value-names", "-disable-llvm-verifier",
      // Nobody runs static initialisers of a unit, so one must not have any.
      "-Werror=global-constructors"};
  for (const std::string& feature : differingFeatures(options.target)) {
    arguments.insert(arguments.end(), {"-target-feature", feature});
  }
  if (hasFeature(options.target, "avx512f")) {
    // Some CPUs are tuned for 256 bits by default, which would split 512-bit vector types.
    arguments.push_back("-mprefer-vector-width=512");
  }
  if (options.lineTables) {
    arguments.insert(arguments.end(), {"-debug-info-kind=line-tables-only", "-dwarf-version=4"});
  }
  arguments.insert(arguments.end(), options.extra.begin(), options.extra.end());
  return arguments;
}

namespace {

/// One run of clang over `text`, with what `prepare` changes about it.
template <typename Prepare, typename Run>
ClangOutput runClang(const std::string& path, const std::string& text,
                     const std::vector<std::string>& arguments, const Prepare& prepare,
                     const Run& run) {
  initializeTarget();
  std::vector<const char*> argv;
  argv.reserve(arguments.size() + 3);
  for (const std::string& argument : arguments) {
    argv.push_back(argument.c_str());
  }
  argv.insert(argv.end(),
              {"-main-file-name", path.c_str() + std::string(kRoot).size() + 1, path.c_str()});

  ClangOutput output;
  llvm::raw_string_ostream diagnosticStream(output.diagnostics);
  llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> files = makeFileSystem(path, text);
  clang::DiagnosticOptions diagnosticOptions;
  llvm::IntrusiveRefCntPtr<clang::DiagnosticsEngine> argumentDiagnostics =
      clang::CompilerInstance::createDiagnostics(
          *files, diagnosticOptions,
          new clang::TextDiagnosticPrinter(diagnosticStream, diagnosticOptions),
          /*ShouldOwnClient=*/true);
  auto invocation = std::make_shared<clang::CompilerInvocation>();
  if (!clang::CompilerInvocation::CreateFromArgs(*invocation, argv, *argumentDiagnostics)) {
    return output;
  }
  prepare(*invocation, *files);
  clang::CompilerInstance compiler(std::move(invocation));
  compiler.setVirtualFileSystem(files);
  compiler.createDiagnostics(
      new clang::TextDiagnosticPrinter(diagnosticStream, compiler.getDiagnosticOpts()),
      /*ShouldOwnClient=*/true);
  compiler.setVerboseOutputStream(diagnosticStream);  // else "1 error generated" goes to stderr
  compiler.createFileManager();
  output.ok = run(compiler, &output.object);
  return output;
}

/// Hands the serialised headers over instead of writing a file.
class HeadersConsumer final : public clang::PCHGenerator {
 public:
  HeadersConsumer(clang::CompilerInstance& compiler, std::string* out)
      : PCHGenerator(compiler.getPreprocessor(), compiler.getModuleCache(), /*OutputFile=*/"",
                     /*isysroot=*/"", std::make_shared<clang::PCHBuffer>(),
                     compiler.getCodeGenOpts(), {},
                     /*AllowASTWithErrors=*/false, /*IncludeTimestamps=*/false),
        out_(out) {}

  void HandleTranslationUnit(clang::ASTContext& context) override {
    PCHGenerator::HandleTranslationUnit(context);
    if (hasEmittedPCH()) {
      out_->assign(getPCH().data(), getPCH().size());
    }
  }

 private:
  std::string* out_;
};

class HeadersAction final : public clang::ASTFrontendAction {
 public:
  explicit HeadersAction(std::string* out) : out_(out) {}
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler,
                                                        llvm::StringRef) override {
    return std::make_unique<HeadersConsumer>(compiler, out_);
  }
  clang::TranslationUnitKind getTranslationUnitKind() override { return clang::TU_Prefix; }
  bool hasASTFileSupport() const override { return false; }

 private:
  std::string* out_;
};

/// Lowers the level behind the front end: precompiled headers are of one level.
class ObjectAction final : public clang::EmitObjAction {
 public:
  ObjectAction(llvm::LLVMContext* context, bool runsOnce)
      : EmitObjAction(context), runsOnce_(runsOnce) {}
  void ExecuteAction() override {
    if (runsOnce_) {
      getCompilerInstance().getCodeGenOpts().OptimizationLevel = 1;
    }
    EmitObjAction::ExecuteAction();
  }

 private:
  bool runsOnce_;
};

}  // namespace

ClangOutput compileToObject(const std::string& name, const std::string& text,
                            const std::vector<std::string>& arguments, const std::string* headers,
                            bool runsOnce) {
  const auto prepare = [&](clang::CompilerInvocation& invocation,
                           llvm::vfs::InMemoryFileSystem& files) {
    if (headers != nullptr) {
      // what it was made of
      files.addFile(kAllHeadersPath, 0,
                    llvm::MemoryBuffer::getMemBuffer(allHeaders(), kAllHeadersPath));
      files.addFile(kHeadersPath, 0,
                    llvm::MemoryBuffer::getMemBuffer(*headers, kHeadersPath,
                                                     /*RequiresNullTerminator=*/false));
      invocation.getPreprocessorOpts().ImplicitPCHInclude = kHeadersPath;
    }
  };
  return runClang(unitPath(name), text, arguments, prepare,
                  [runsOnce](clang::CompilerInstance& compiler, std::string* out) {
                    llvm::SmallString<0> object;
                    compiler.setOutputStream(std::make_unique<llvm::raw_svector_ostream>(object));
                    llvm::LLVMContext context;
                    ObjectAction action(&context, runsOnce);
                    const bool ok = compiler.ExecuteAction(action);
                    if (ok) {
                      out->assign(object.data(), object.size());
                    }
                    return ok;
                  });
}

ClangOutput compileHeaders(std::vector<std::string> arguments) {
  std::replace(arguments.begin(), arguments.end(), std::string("-emit-obj"),
               std::string("-emit-pch"));
  // what functions of the headers need, once here and not in each unit
  arguments.push_back("-fpch-instantiate-templates");
  const auto prepare = [](clang::CompilerInvocation&, llvm::vfs::InMemoryFileSystem&) {};
  return runClang(kAllHeadersPath, allHeaders(), arguments, prepare,
                  [](clang::CompilerInstance& compiler, std::string* out) {
                    HeadersAction action(out);
                    return compiler.ExecuteAction(action) && !out->empty();
                  });
}

const std::string& compilerVersion() {
  static const std::string version = clang::getClangFullVersion();
  return version;
}

}  // namespace straightline::jit
