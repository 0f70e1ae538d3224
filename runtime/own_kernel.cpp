// SPDX-License-Identifier: Apache-2.0
// C functions of users (sl.c_kernel): opened by their library, found by the symbols that emitted
// text calls them by, and kept from throwing through a program.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "boundary.h"
#include "message_writer.h"
#include "own_kernel.h"
#include "straightline/abi/own_calls.h"
#include "straightline/abi/own_kernel.h"

namespace straightline {
namespace {

/// An element of a list that only grows: it is read without a lock, and never freed, for programs
/// may outlive static objects.
struct OwnKernel {
  const char* symbol;
  void* function;
  OwnKernel* next;
};
std::atomic<OwnKernel*> ownKernels{nullptr};

struct Machine {
  uint16_t number;
  const char* name;
};
constexpr Machine kMachines[] = {{EM_X86_64, "x86-64"},     {EM_AARCH64, "aarch64"},
                                 {EM_386, "x86 (32 bits)"}, {EM_ARM, "arm (32 bits)"},
                                 {EM_RISCV, "riscv"},       {EM_PPC64, "ppc64"}};
#if defined(__x86_64__)
constexpr uint16_t kOwnMachine = EM_X86_64;
#else
constexpr uint16_t kOwnMachine = EM_AARCH64;
#endif

void writeMachine(uint16_t number, MessageWriter* out) {
  for (const Machine& machine : kMachines) {
    if (machine.number == number) {
      out->text(machine.name);
      return;
    }
  }
  out->text("machine ").number(number);
}

/// Whether a file is no shared library of this machine; then `out` has the words.
bool isNoLibrary(int descriptor, MessageWriter* out) {
  Elf64_Ehdr head{};
  const ssize_t count = pread(descriptor, &head, sizeof(head), 0);
  if (count < static_cast<ssize_t>(sizeof(head)) ||
      std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) {
    out->text("it is no shared library: it does not begin with ELF's header");
    return true;
  }
  // type and machine lie where they do in every class
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != kOwnMachine) {
    out->text("it is for ");
    writeMachine(head.e_machine, out);
    if (head.e_machine == kOwnMachine) {
      out->text(head.e_ident[EI_CLASS] == ELFCLASS32 ? " with addresses of 32 bits"
                                                     : " in a form that is no ELF of 64 bits");
    }
    out->text(", this process is ");
    writeMachine(kOwnMachine, out);
    if (head.e_machine == kOwnMachine) {
      out->text(" with addresses of 64 bits");
    }
    return true;
  }
  if (head.e_type != ET_DYN) {
    out->text("it is an object file or a program, not a shared library (-shared)");
    return true;
  }
  return false;
}

/// The words of an exception that is being handled.
void sayThrown(char* text, size_t bytes, const char* who) {
  try {
    throw;
  } catch (const std::exception& error) {
    std::snprintf(text, bytes, "%s throws a C++ exception: %s", who, error.what());
  } catch (...) {
    std::snprintf(text, bytes, "%s throws a C++ exception that is no std::exception", who);
  }
}

/// sl_kernel_guarded_call.
int32_t guardedCall(int32_t (*function)(void*, const void*, int32_t, void*), void* self,
                    const void* arguments, int32_t count, void* result, char* message) {
  try {
    return function(self, arguments, count, result);
  } catch (...) {
    sayThrown(message, SL_KERNEL_MESSAGE_BYTES, "it");
    return SL_KERNEL_THREW;
  }
}

void giveGuard(void* library, const char* function) {
  if (auto* place =
          static_cast<void**>(dlsym(library, (function + std::string("_guard")).c_str()))) {
    __atomic_store_n(place, reinterpret_cast<void*>(guardedCall), __ATOMIC_RELEASE);
  }
}

/// A library whose function calls one of another library says so by two symbols of its own
/// (own_kernel.h); the other function is open already. False: it is not, and `out` has the words.
bool giveWhatItNeeds(void* library, const char* function, MessageWriter* out) {
  const std::string name(function);
  const auto* needed = static_cast<const char*>(dlsym(library, (name + "_needs").c_str()));
  auto* place = static_cast<void**>(dlsym(library, (name + "_given").c_str()));
  if (!needed || !place) {
    return true;
  }
  void* address = ownKernelSymbol(needed);
  if (!address) {
    out->text("it calls ").text(needed).text(", which is not open");
    return false;
  }
  __atomic_store_n(place, address, __ATOMIC_RELEASE);
  return true;
}

}  // namespace

void* ownKernelSymbol(const char* symbol) {
  const OwnKernel* known = ownKernels.load(std::memory_order_acquire);
  while (known && std::strcmp(known->symbol, symbol) != 0) {
    known = known->next;
  }
  return known ? known->function : nullptr;
}

int32_t openOwnFunction(int descriptor, const char* path, const char* name, const char* function,
                        const char* symbol, sl_message* message) {
  MessageWriter out(message);
  out.text("own kernel ").text(function).text(" of ").text(name).text(": ");
  if (descriptor < 0) {
    out.text(std::strerror(errno));
    return SL_INVALID_ARGUMENT;
  }
  if (isNoLibrary(descriptor, &out)) {
    return SL_INVALID_ARGUMENT;
  }
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* error = dlerror();
    out.text("it cannot be opened: ").text(error ? error : "");
    return SL_INVALID_ARGUMENT;
  }
  void* address = dlsym(library, function);
  if (!address) {
    dlclose(library);
    out.text("it has no symbol ")
        .text(function)
        .text("; export the function with default visibility, and as extern \"C\" in C++");
    return SL_INVALID_ARGUMENT;
  }
  if (!giveWhatItNeeds(library, function, &out)) {
    dlclose(library);
    return SL_INVALID_ARGUMENT;
  }
  giveGuard(library, function);
  if (ownKernelSymbol(symbol)) {
    return SL_OK;  // the symbol has the library's digest: it is the same function
  }
  // Two threads may add one symbol twice: the function is the same.
  const char* kept = strdup(symbol);
  auto* added = new OwnKernel{kept, address, ownKernels.load(std::memory_order_relaxed)};
  while (!ownKernels.compare_exchange_weak(added->next, added, std::memory_order_release,
                                           std::memory_order_relaxed)) {
  }
  return SL_OK;
}

}  // namespace straightline

int32_t sl_own_kernel_open(const char* path, const char* function, const char* symbol,
                           sl_message* message) {
  return straightline::atBoundary(message, [&] {
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    const int32_t status =
        straightline::openOwnFunction(descriptor, path, path, function, symbol, message);
    if (descriptor >= 0) {
      close(descriptor);
    }
    return status;
  });
}

namespace straightline {
namespace {

/// What a function is given. Behind `count` integers stands `last`, the place of a message.
struct Given {
  const int64_t* integers;
  int32_t count;
  int64_t last;
  const double* numbers;
  int32_t numberCount;

  int64_t integer(size_t i) const { return static_cast<int32_t>(i) < count ? integers[i] : last; }
  double number(int32_t i) const { return i < numberCount ? numbers[i] : 0.0; }
};

/// What the function returns. Integers and doubles are passed in registers of their own, and
/// integers that have none left on the stack, each 8 bytes and in order (System V x86-64, AAPCS64).
/// So a function of fewer arguments, in whatever order, finds its own when it is called by this
/// type; it reads no others. Whoever throws is called from here, not from emitted text, which no
/// exception can pass through.
template <size_t... I>
int32_t jump(void (*function)(), const Given& given, std::index_sequence<I...>) {
  using Function = int32_t (*)(decltype(given.integer(I))..., double, double, double, double,
                               double, double, double, double);
  return reinterpret_cast<Function>(function)(given.integer(I)..., given.number(0), given.number(1),
                                              given.number(2), given.number(3), given.number(4),
                                              given.number(5), given.number(6), given.number(7));
}

template <size_t Count>
int32_t jumpWith(void (*function)(), const Given& given) {
  return jump(function, given, std::make_index_sequence<Count>());
}

/// SL_OK, or SL_OP_FAILED with a text of SL_FAILURE_TEXT_BYTES.
int32_t callOwn(const char* name, void (*function)(), const int64_t* given, int32_t count,
                const double* numbers, int32_t numberCount, bool hasStatus, char* text) {
  constexpr size_t kBytes = SL_FAILURE_TEXT_BYTES;
  constexpr int32_t kFew = 6, kSome = 14;
  char said[SL_KERNEL_MESSAGE_BYTES];
  said[0] = '\0';
  const int64_t last = hasStatus ? static_cast<int64_t>(reinterpret_cast<intptr_t>(said)) : 0;
  const Given all = {given, count, last, numbers, numberCount};
  const int32_t integers = count + (hasStatus ? 1 : 0);
  int32_t status = 0;
  try {
    status = integers <= kFew    ? jumpWith<kFew>(function, all)
             : integers <= kSome ? jumpWith<kSome>(function, all)
                                 : jumpWith<SL_OWN_INTEGERS>(function, all);
  } catch (...) {
    sayThrown(text, kBytes, name);
    return SL_OP_FAILED;
  }
  if (!hasStatus || status == 0) {
    return SL_OK;
  }
  said[sizeof(said) - 1] = '\0';
  std::snprintf(text, kBytes, "%s returned status %d%s%s", name, status, said[0] ? ": " : "", said);
  return SL_OP_FAILED;
}

}  // namespace
}  // namespace straightline

int32_t sl_own_call(sl_ctx* ctx, const char* name, void (*function)(void), const int64_t* integers,
                    int32_t integer_count, const double* numbers, int32_t number_count,
                    int32_t has_status) {
  char text[SL_FAILURE_TEXT_BYTES];
  const int32_t status = straightline::callOwn(name, function, integers, integer_count, numbers,
                                               number_count, has_status != 0, text);
  if (status != SL_OK) {
    sl_fail_text(ctx, status, text);
  }
  return status;
}

int32_t sl_own_invoke(const char* symbol, const char* name, const int64_t* integers,
                      int32_t integer_count, const double* numbers, int32_t number_count,
                      int32_t has_status, sl_message* message) {
  straightline::MessageWriter out(message);
  void* function = straightline::ownKernelSymbol(symbol);
  if (!function || integer_count + has_status > SL_OWN_INTEGERS || number_count > SL_OWN_NUMBERS) {
    out.text(name)
        .text(function ? " takes more than " : " is not open: ")
        .text(function ? "32 integers and addresses, or 8 doubles" : symbol);
    return SL_INVALID_ARGUMENT;
  }
  char text[SL_FAILURE_TEXT_BYTES];
  const int32_t status =
      straightline::callOwn(name, reinterpret_cast<void (*)()>(function), integers, integer_count,
                            numbers, number_count, has_status != 0, text);
  if (status != SL_OK) {
    out.text(text);
  }
  return status;
}
