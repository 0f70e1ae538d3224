// SPDX-License-Identifier: Apache-2.0
#include "codegen/jit/orc_linker.h"

#include <atomic>
#include <cstdlib>

#include "codegen/jit/clang_driver.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/Debugging/DebuggerSupport.h"
#include "llvm/ExecutionEngine/Orc/Debugging/ELFDebugObjectPlugin.h"
#include "llvm/ExecutionEngine/Orc/Debugging/PerfSupportPlugin.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/TargetProcess/JITLoaderGDB.h"
#include "llvm/ExecutionEngine/Orc/TargetProcess/JITLoaderPerf.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"

namespace straightline::jit {
namespace {

namespace orc = llvm::orc;

struct Hooks {
  bool gdb = false;
  bool perf = false;
};

const Hooks& hooks() {
  static const Hooks chosen = [] {
    const char* text = std::getenv("STRAIGHTLINE_JIT_HOOKS");
    const llvm::StringRef list = text != nullptr ? text : "";
    return Hooks{list.contains("gdb"), list.contains("perf")};
  }();
  return chosen;
}

/// ORC reports failures beside the error that a lookup returns; they are collected per thread and
/// joined to its message.
thread_local std::string reportedErrors;

void report(llvm::Error error) {
  const std::string text = llvm::toString(std::move(error));
  reportedErrors += (reportedErrors.empty() ? "" : "; ") + text;
}

/// Resolves names that no unit defines by the caller's resolver.
class ResolverGenerator final : public orc::DefinitionGenerator {
 public:
  explicit ResolverGenerator(SymbolResolver resolver) : resolver_(std::move(resolver)) {}

  llvm::Error tryToGenerate(orc::LookupState&, orc::LookupKind, orc::JITDylib& dylib,
                            orc::JITDylibLookupFlags, const orc::SymbolLookupSet& wanted) override {
    orc::SymbolMap found;
    for (const auto& [name, flags] : wanted) {
      const std::string text = (*name).str();
      void* address = resolver_ ? resolver_(text) : nullptr;
      if (address != nullptr) {
        found[name] = {orc::ExecutorAddr::fromPtr(address),
                       llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
      }
    }
    return found.empty() ? llvm::Error::success()
                         : dylib.define(orc::absoluteSymbols(std::move(found)));
  }

 private:
  SymbolResolver resolver_;
};

/// The one ORC session of the process. Never destroyed: compiled code may run until the very end of
/// the process.
class Session {
 public:
  static Session& process() {
    static Session* session = new Session;
    return *session;
  }

  /// Null when ORC could not be set up; `error()` says why.
  orc::LLJIT* jit() { return jit_.get(); }
  const std::string& error() const { return error_; }
  std::string freshName(const std::string& stem) { return stem + "#" + std::to_string(counter_++); }

 private:
  Session() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::Expected<std::unique_ptr<orc::LLJIT>> jit =
        orc::LLJITBuilder()
            .setJITTargetMachineBuilder(
                orc::JITTargetMachineBuilder(llvm::Triple(hostTarget().triple)))
            .setPlatformSetUp(orc::setUpInactivePlatform)
            // Each lookup links on its own thread. (Concurrent compilation is about IR; only
            // objects come here.)
            .setSupportConcurrentCompilation(false)
            .create();
    if (!jit) {
      error_ = llvm::toString(jit.takeError());
      return;
    }
    jit_ = std::move(*jit);
    jit_->getExecutionSession().setErrorReporter(report);
    if (hooks().gdb || hooks().perf) {
      addHooks();
    }
  }

  /// The hook functions are hidden in this library, so dlsym cannot find them: their addresses are
  /// given by hand.
  void addHooks() {
    orc::ExecutionSession& session = jit_->getExecutionSession();
    orc::JITDylib& symbols = *jit_->getProcessSymbolsJITDylib();
    orc::SymbolMap map;
    const auto add = [&](const char* name, auto* function) {
      map[session.intern(name)] = {orc::ExecutorAddr::fromPtr(reinterpret_cast<void*>(function)),
                                   llvm::JITSymbolFlags::Exported};
    };
    add("llvm_orc_registerJITLoaderPerfStart", &llvm_orc_registerJITLoaderPerfStart);
    add("llvm_orc_registerJITLoaderPerfEnd", &llvm_orc_registerJITLoaderPerfEnd);
    add("llvm_orc_registerJITLoaderPerfImpl", &llvm_orc_registerJITLoaderPerfImpl);
    add("llvm_orc_registerJITLoaderGDBAllocAction", &llvm_orc_registerJITLoaderGDBAllocAction);
    if (llvm::Error error = symbols.define(orc::absoluteSymbols(std::move(map)))) {
      report(std::move(error));
      return;
    }
    auto& layer = static_cast<orc::ObjectLinkingLayer&>(jit_->getObjLinkingLayer());
    if (hooks().gdb) {
      llvm::Error error = llvm::Error::success();
      auto plugin = std::make_unique<orc::ELFDebugObjectPlugin>(
          session, /*RequireDebugSections=*/false, /*AutoRegisterCode=*/true, error);
      if (error) {
        report(std::move(error));
      } else {
        layer.addPlugin(std::move(plugin));
      }
    }
    if (hooks().perf) {
      auto plugin =
          orc::PerfSupportPlugin::Create(session.getExecutorProcessControl(), symbols,
                                         /*EmitDebugInfo=*/false, /*EmitUnwindInfo=*/true);
      if (!plugin) {
        report(plugin.takeError());
      } else {
        layer.addPlugin(std::move(*plugin));
      }
    }
  }

  std::unique_ptr<orc::LLJIT> jit_;
  std::string error_;
  std::atomic<unsigned long> counter_{0};
};

std::string describe(llvm::Error error) {
  std::string text = llvm::toString(std::move(error));
  if (!reportedErrors.empty()) {
    text += "; " + reportedErrors;
    reportedErrors.clear();
  }
  return text;
}

class OrcProgram final : public LinkedProgram {
 public:
  explicit OrcProgram(orc::LLJIT& jit) : jit_(jit) {}

  ~OrcProgram() override {
    if (llvm::Error error = jit_.getExecutionSession().removeJITDylibs(std::move(dylibs_))) {
      // nothing can be done about it here; the code stays mapped
      llvm::consumeError(std::move(error));
    }
  }

  llvm::Error add(std::vector<Object> objects, const SymbolResolver& resolver) {
    orc::ExecutionSession& session = jit_.getExecutionSession();
    for (const Object& object : objects) {
      dylibs_.push_back(&session.createBareJITDylib(Session::process().freshName(object.name)));
    }
    orc::JITDylib& outside = session.createBareJITDylib(Session::process().freshName("symbols"));
    outside.addGenerator(std::make_unique<ResolverGenerator>(resolver));
    for (const orc::JITDylibSP& dylib : dylibs_) {
      order_.emplace_back(dylib.get(), orc::JITDylibLookupFlags::MatchExportedSymbolsOnly);
    }
    orc::JITDylibSearchOrder order = order_;
    order.emplace_back(&outside, orc::JITDylibLookupFlags::MatchExportedSymbolsOnly);
    for (const orc::JITDylibSP& dylib : dylibs_) {
      dylib->setLinkOrder(order, /*LinkAgainstThisJITDylibFirst=*/true);
    }
    const std::size_t units = dylibs_.size();
    dylibs_.push_back(&outside);
    for (std::size_t i = 0; i < units; ++i) {
      std::unique_ptr<llvm::MemoryBuffer> buffer =
          llvm::MemoryBuffer::getMemBufferCopy(objects[i].bytes, objects[i].name);
      if (llvm::Error error = jit_.addObjectFile(*dylibs_[i], std::move(buffer))) {
        return error;
      }
    }
    return llvm::Error::success();
  }

  void* lookup(const std::string& symbol, std::string* error) override {
    reportedErrors.clear();
    llvm::Expected<orc::ExecutorSymbolDef> found =
        jit_.getExecutionSession().lookup(order_, jit_.mangleAndIntern(symbol));
    if (!found) {
      *error = describe(found.takeError());
      return nullptr;
    }
    return found->getAddress().toPtr<void*>();
  }

 private:
  orc::LLJIT& jit_;
  std::vector<orc::JITDylibSP> dylibs_;  ///< one per unit, then the one of outside symbols
  orc::JITDylibSearchOrder order_;       ///< the units
};

}  // namespace

std::unique_ptr<LinkedProgram> linkProgram(std::vector<Object> objects,
                                           const SymbolResolver& resolver,
                                           const std::vector<std::string>& symbols,
                                           std::string* error) {
  Session& session = Session::process();
  if (session.jit() == nullptr) {
    *error = "cannot set up the linker: " + session.error();
    return nullptr;
  }
  auto program = std::make_unique<OrcProgram>(*session.jit());
  reportedErrors.clear();
  if (llvm::Error failure = program->add(std::move(objects), resolver)) {
    *error = describe(std::move(failure));
    return nullptr;
  }
  for (const std::string& symbol : symbols) {
    if (program->lookup(symbol, error) == nullptr) {
      return nullptr;
    }
  }
  return program;
}

bool debuggerHookWanted() { return hooks().gdb; }

}  // namespace straightline::jit
