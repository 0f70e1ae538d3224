// SPDX-License-Identifier: Apache-2.0
#include "compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

extern char** environ;

namespace sim {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFlags[] = {
    "-x", "c++", "-std=c++20", "-march=native", "-shared", "-fPIC", "-ffreestanding", "-nostdinc++",
    "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
    // Kernels need libm, libc and libgcc; linking what C++ has beside them takes a quarter of the
    // time of a small kernel.
    "-nostdlib",
    // Multiply-adds within an expression only, as our own compiler makes them.
    "-ffp-contract=on",
    // LLVM 22's vectoriser of straight-line code compiles some short rows wrongly for AVX-512.
    "-fno-slp-vectorize", "-w"};

/// A folder that goes with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "sim_device_XXXXXX").string();
    if (mkdtemp(name.data())) {
      path_ = name;
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) {
      fs::remove_all(path_, ignored);
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Runs a command with its output, both streams, in a file. Its exit status; -1: it did not start.
int run(const std::vector<std::string>& command, const fs::path& output) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed || waitpid(child, &status, 0) != child) {
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

struct Compiler {
  std::string command{};  ///< "": there is none
  std::string version{};
};

uint64_t hashOf(const void* data, size_t bytes, uint64_t hash = 0xcbf29ce484222325u) {
  for (size_t i = 0; i < bytes; ++i) {
    hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3u;
  }
  return hash;
}

/// The model and features of the first processor, as a number.
uint64_t processorHash() {
  std::ifstream file("/proc/cpuinfo");
  uint64_t hash = hashOf("", 0);
  for (std::string line; std::getline(file, line) && !line.empty();) {
    if (line.rfind("model", 0) == 0 || line.rfind("flags", 0) == 0 ||
        line.rfind("Features", 0) == 0) {
      hash = hashOf(line.data(), line.size(), hash);
    }
  }
  return hash;
}

/// "-O2", or the level that the environment names.
const char* optimization() {
  const char* named = std::getenv("SIM_DEVICE_OPTIMIZE");
  return named && *named ? named : "-O2";
}

const Compiler& compiler() {
  static const Compiler* const found = [] {
    auto* made = new Compiler;
    std::vector<std::string> candidates = {"clang++-22", "clang++"};
    if (const char* named = std::getenv("SIM_DEVICE_CXX")) {
      candidates = {named};
    }
    const TemporaryFolder folder;
    for (const std::string& candidate : candidates) {
      const fs::path output = folder.path() / "version";
      if (run({candidate, "--version"}, output) == 0) {
        const std::string text = contents(output);
        char suffix[64];
        std::snprintf(suffix, sizeof suffix, " %s, processor %016llx", optimization(),
                      static_cast<unsigned long long>(processorHash()));
        made->command = candidate;
        made->version = text.substr(0, text.find('\n')) + suffix;
        return made;
      }
    }
    made->version = "no compiler";
    return made;
  }();
  return *found;
}

/// Writes a header under its name; false: the name leads out of the folder, or writing failed.
bool writeHeader(const fs::path& folder, const sl_source_file& header) {
  const fs::path name = fs::path(header.name).lexically_normal();
  if (name.is_absolute() || *name.begin() == "..") {
    return false;
  }
  std::error_code failed;
  fs::create_directories((folder / name).parent_path(), failed);
  std::ofstream file(folder / name, std::ios::binary);
  file << header.text;
  return !failed && file.good();
}

/// A shared object in memory of its own. Opened once for all kernels that are in it.
struct Library {
  void* opened = nullptr;
  int users = 0;
};
struct Libraries {
  std::mutex mutex;
  std::map<std::pair<uint64_t, uint64_t>, Library> byContents;  ///< (hash, bytes)
};
Libraries& libraries() {
  static Libraries* const instance = new Libraries;
  return *instance;
}

/// dlopen of a memfd, by a link of a name that no library had before: the loader takes libraries of
/// one name for the same.
void* openImage(const void* data, uint64_t bytes, std::string* problem) {
  const int file = memfd_create("sim_kernels", MFD_CLOEXEC);
  const char* at = static_cast<const char*>(data);
  for (uint64_t left = file < 0 ? 0 : bytes; left > 0;) {
    const ssize_t written = write(file, at, left);
    if (written <= 0) {
      break;
    }
    at += written;
    left -= static_cast<uint64_t>(written);
  }
  const TemporaryFolder folder;
  const std::string link = (folder.path() / "kernels.so").string();
  const std::string target = "/proc/self/fd/" + std::to_string(file);
  void* opened = nullptr;
  if (file < 0 || symlink(target.c_str(), link.c_str()) != 0) {
    *problem = std::strerror(errno);
  } else if (!(opened = dlopen(link.c_str(), RTLD_NOW | RTLD_LOCAL))) {
    *problem = dlerror();
  }
  if (file >= 0) {
    close(file);
  }
  return opened;
}

}  // namespace

const char* compilerVersion() { return compiler().version.c_str(); }

int32_t compile(const sl_device_source* source,
                void (*give)(void* user, const void* image, uint64_t bytes), void* user,
                char* reason, size_t reasonBytes) {
  if (source->machine && source->machine[0]) {
    std::snprintf(reason, reasonBytes, "machine '%s' is not known: target=\"sim\" has none",
                  source->machine);
    return SL_INVALID_ARGUMENT;
  }
  if (compiler().command.empty()) {
    std::snprintf(
        reason, reasonBytes,
        "no compiler: install clang 22 (clang++-22), or name a clang++ in SIM_DEVICE_CXX");
    return SL_UNSUPPORTED;
  }
  const TemporaryFolder folder;
  for (int32_t i = 0; i < source->header_count; ++i) {
    sl_source_file header;
    std::memcpy(&header, reinterpret_cast<const char*>(source->headers) + i * source->header_stride,
                sizeof header);
    if (!writeHeader(folder.path(), header)) {
      std::snprintf(reason, reasonBytes, "header '%s' cannot be written", header.name);
      return SL_INTERNAL;
    }
  }
  const fs::path unit = folder.path() / "unit.cpp", image = folder.path() / "unit.so",
                 output = folder.path() / "output";
  std::ofstream(unit, std::ios::binary) << source->text;
  std::vector<std::string> command = {compiler().command};
  command.insert(command.end(), std::begin(kFlags), std::end(kFlags));
  command.emplace_back(optimization());
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    command.push_back("-mprefer-vector-width=512");
  }
#endif
  command.insert(command.end(), {"-I", folder.path().string(), "-o", image.string(), unit.string(),
                                 "-lm", "-lc", "-lgcc"});
  if (run(command, output) != 0) {
    std::snprintf(reason, reasonBytes, "%s failed on %s: %s", compiler().command.c_str(),
                  source->name, contents(output).c_str());
    return SL_INTERNAL;
  }
  const std::string bytes = contents(image);
  give(user, bytes.data(), bytes.size());
  return SL_OK;
}

Kernel* loadKernel(const sl_device_code* code, char* reason, size_t reasonBytes) {
  const auto key =
      std::make_pair(hashOf(code->image->data, code->image->bytes), code->image->bytes);
  const std::lock_guard<std::mutex> lock(libraries().mutex);
  Library& library = libraries().byContents[key];
  std::string problem;
  if (!library.opened) {
    library.opened = openImage(code->image->data, code->image->bytes, &problem);
  }
  const std::string symbol = std::string(code->symbol) + "_start";
  void* found = library.opened ? dlsym(library.opened, symbol.c_str()) : nullptr;
  if (!found) {
    std::snprintf(reason, reasonBytes, "the image of kernel %s cannot be used: %s", code->symbol,
                  library.opened ? ("it has no symbol " + symbol).c_str() : problem.c_str());
    if (library.users == 0) {
      if (library.opened) {
        dlclose(library.opened);
      }
      libraries().byContents.erase(key);
    }
    return nullptr;
  }
  ++library.users;
  auto* kernel = new Kernel;
  kernel->start = reinterpret_cast<StartFunction>(found);
  kernel->argumentCount = code->argument_count;
  kernel->library = library.opened;
  std::snprintf(kernel->name, sizeof kernel->name, "%s", code->symbol);
  return kernel;
}

void unloadKernel(Kernel* kernel) {
  const std::lock_guard<std::mutex> lock(libraries().mutex);
  auto& all = libraries().byContents;
  for (auto it = all.begin(); it != all.end(); ++it) {
    if (it->second.opened == kernel->library && --it->second.users == 0) {
      dlclose(it->second.opened);
      all.erase(it);
      break;
    }
  }
  delete kernel;
}

}  // namespace sim
