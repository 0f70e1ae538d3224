// SPDX-License-Identifier: Apache-2.0
// C functions of users (sl.c_kernel): opened by their library, found by the symbols that emitted
// text calls them by, and kept from throwing through a program.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "boundary.h"
#include "message_writer.h"
#include "own_kernel.h"
#include "straightline/abi/own_calls.h"
#include "straightline/abi/own_kernel.h"

namespace straightline {
namespace {

struct OwnKernel {
  std::string symbol;
  void* function;
};

struct OwnKernels {
  std::mutex mutex;
  std::vector<std::unique_ptr<OwnKernel>> known;  // few, and looked up while programs are loaded
};

OwnKernels& ownKernels() {
  static OwnKernels* const instance = new OwnKernels;  // programs may outlive static objects
  return *instance;
}

struct Machine {
  uint16_t number;
  const char* name;
};
constexpr Machine kMachines[] = {{EM_X86_64, "x86-64"},     {EM_AARCH64, "aarch64"},
                                 {EM_386, "x86 (32 bits)"}, {EM_ARM, "arm (32 bits)"},
                                 {EM_RISCV, "riscv"},       {EM_PPC64, "ppc64"},
                                 {EM_S390, "s390"}};
#if defined(__x86_64__)
constexpr uint16_t kOwnMachine = EM_X86_64;
#else
constexpr uint16_t kOwnMachine = EM_AARCH64;
#endif

std::string machineName(uint16_t number) {
  for (const Machine& machine : kMachines) {
    if (machine.number == number) {
      return machine.name;
    }
  }
  return "machine " + std::to_string(number);
}

/// Why a file is no shared library of this machine; "": nothing speaks against it.
std::string whyNoLibrary(int descriptor) {
  unsigned char head[20];
  const ssize_t count = pread(descriptor, head, sizeof(head), 0);
  if (count < static_cast<ssize_t>(sizeof(head)) || std::memcmp(head, ELFMAG, SELFMAG) != 0) {
    return "it is no shared library: it does not begin with ELF's four bytes";
  }
  uint16_t type = 0, machine = 0;
  std::memcpy(&type, head + 16, sizeof(type));
  std::memcpy(&machine, head + 18, sizeof(machine));
  if (head[EI_CLASS] != ELFCLASS64 || machine != kOwnMachine) {
    return "it is for " + machineName(machine) + ", this process is " + machineName(kOwnMachine);
  }
  return type == ET_DYN ? "" : "it is an object file or a program, not a shared library (-shared)";
}

/// Opens the library that `descriptor` is; `path` is how dlopen finds it, `name` how messages call
/// it.
int32_t openFunction(int descriptor, const char* path, const char* name, const char* function,
                     const char* symbol, sl_message* message) {
  const auto refuse = [&](const std::string& why) {
    MessageWriter out(message);
    out.text("own kernel ").text(function).text(" of ").text(name).text(": ").text(why.c_str());
    return static_cast<int32_t>(SL_INVALID_ARGUMENT);
  };
  if (const std::string why = whyNoLibrary(descriptor); !why.empty()) {
    return refuse(why);
  }
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* error = dlerror();
    return refuse(std::string("it cannot be opened: ") + (error ? error : ""));
  }
  void* address = dlsym(library, function);
  if (!address) {
    dlclose(library);
    return refuse(std::string("it has no symbol ") + function +
                  "; export the function with default visibility, and as extern \"C\" in C++");
  }
  OwnKernels& kernels = ownKernels();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  for (const auto& known : kernels.known) {
    if (known->symbol == symbol) {
      return static_cast<int32_t>(
          SL_OK);  // the symbol has the library's digest: it is the same function
    }
  }
  kernels.known.push_back(std::make_unique<OwnKernel>(OwnKernel{symbol, address}));
  return static_cast<int32_t>(SL_OK);
}

}  // namespace

void* ownKernelSymbol(const char* symbol) {
  if (std::strncmp(symbol, "sl_own_", 7) != 0) {
    return nullptr;
  }
  OwnKernels& kernels = ownKernels();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  for (const auto& known : kernels.known) {
    if (known->symbol == symbol) {
      return known->function;
    }
  }
  return nullptr;
}

int32_t openOwnKernel(std::string_view bytes, const char* name, const char* function,
                      const char* symbol, sl_message* message) {
  if (ownKernelSymbol(symbol)) {
    return SL_OK;
  }
  // The descriptor stays open, for dlopen takes two libraries of one path for the same one.
  const int descriptor = memfd_create(function, MFD_CLOEXEC);
  std::string_view rest = bytes;
  while (descriptor >= 0 && !rest.empty()) {
    const ssize_t written = write(descriptor, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) {
      break;
    }
    rest.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
  if (descriptor < 0 || !rest.empty()) {
    MessageWriter(message).text(name).text(": no memory for its code: ").text(std::strerror(errno));
    return SL_OUT_OF_MEMORY;
  }
  const std::string path =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor);
  const int32_t status = openFunction(descriptor, path.c_str(), name, function, symbol, message);
  if (status != SL_OK) {
    close(descriptor);
  }
  return status;
}

}  // namespace straightline

int32_t sl_own_kernel_open(const char* path, const char* function, const char* symbol,
                           sl_message* message) {
  return straightline::atBoundary(message, [&] {
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
      straightline::MessageWriter(message)
          .text("own kernel ")
          .text(function)
          .text(" of ")
          .text(path)
          .text(": ")
          .text(std::strerror(errno));
      return static_cast<int32_t>(SL_INVALID_ARGUMENT);
    }
    const int32_t status =
        straightline::openFunction(descriptor, path, path, function, symbol, message);
    close(descriptor);
    return status;
  });
}

namespace straightline {
namespace {

/// Integers and doubles are passed in registers of their own, and integers that have none left on
/// the stack, each 8 bytes and in order (System V x86-64, AAPCS64). So a function of fewer
/// arguments, in whatever order, finds its own when it is called by this type; it reads no others.
template <size_t... I>
int32_t jump(void (*function)(), const int64_t* integers, const double* d,
             std::index_sequence<I...>) {
  using Function = int32_t (*)(std::remove_cvref_t<decltype(integers[I])>..., double, double,
                               double, double, double, double, double, double);
  return reinterpret_cast<Function>(function)(integers[I]..., d[0], d[1], d[2], d[3], d[4], d[5],
                                              d[6], d[7]);
}

/// What a function returns. Whoever throws is called from here, not from emitted text, which no
/// exception can pass through.
template <size_t Count>
int32_t jumpWith(void (*function)(), const int64_t* given, int32_t count, const double* numbers) {
  int64_t integers[Count] = {};
  std::copy_n(given, count, integers);
  return jump(function, integers, numbers, std::make_index_sequence<Count>());
}

/// SL_OK, or SL_OP_FAILED with a text of SL_FAILURE_TEXT_BYTES.
int32_t callOwn(const char* name, void (*function)(), const int64_t* given, int32_t count,
                const double* numbers, int32_t numberCount, bool hasStatus, char* text) {
  constexpr size_t kBytes = SL_FAILURE_TEXT_BYTES;
  constexpr int32_t kFew = 6, kSome = 14;
  double allNumbers[SL_OWN_NUMBERS] = {};
  std::copy_n(numbers, numberCount, allNumbers);
  int64_t integers[SL_OWN_INTEGERS];
  char said[SL_KERNEL_MESSAGE_BYTES];
  if (hasStatus) {
    said[0] = '\0';
    std::copy_n(given, count, integers);
    integers[count++] = static_cast<int64_t>(reinterpret_cast<intptr_t>(said));
    given = integers;
  }
  int32_t status = 0;
  try {
    status = count <= kFew    ? jumpWith<kFew>(function, given, count, allNumbers)
             : count <= kSome ? jumpWith<kSome>(function, given, count, allNumbers)
                              : jumpWith<SL_OWN_INTEGERS>(function, given, count, allNumbers);
  } catch (const std::exception& error) {
    std::snprintf(text, kBytes, "%s throws a C++ exception: %s", name, error.what());
    return SL_OP_FAILED;
  } catch (...) {
    std::snprintf(text, kBytes, "%s throws a C++ exception that is no std::exception", name);
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
