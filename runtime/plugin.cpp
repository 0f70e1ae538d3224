// SPDX-License-Identifier: Apache-2.0
#include "plugin.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "boundary.h"
#include "message_writer.h"

namespace straightline {
namespace {

constexpr char kEntry[] = "straightline_backend_v1", kVariable[] = "STRAIGHTLINE_BACKEND_PATH";

/// A plug-in that is open, by its file's real path.
struct Plugin {
  std::string path;
  const sl_backend_desc* backend;
};

struct Plugins {
  std::mutex mutex;
  std::vector<Plugin> open;
};

Plugins& plugins() {
  static Plugins* const instance = new Plugins;
  return *instance;
}

/// "plug-in PATH: WHAT".
int32_t refuse(const char* path, const sl_message& what, sl_message* message) {
  MessageWriter(message).text("plug-in ").text(path).text(": ").text(what.text);
  return SL_INVALID_ARGUMENT;
}

/// Calls a function of a plug-in that may be C++. False, with words, where it throws.
template <typename Call>
bool withoutExceptions(MessageWriter* what, const Call& call) {
  constexpr char kThrows[] = " throws a C++ exception, which may not leave it";
  try {
    call();
    return true;
  } catch (const std::exception& error) {
    what->text(kThrows).text(": ").text(error.what());
  } catch (...) {
    what->text(kThrows);
  }
  return false;
}

/// What the library's entry gives; null, with the reason.
const sl_backend_desc* describedBy(void* library, MessageWriter* why) {
  using Entry = const sl_backend_desc* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kEntry));
  if (!entry) {
    why->text("it has no symbol ")
        .text(kEntry)
        .text(", which a plug-in exports as an extern \"C\" function");
    return nullptr;
  }
  const sl_backend_desc* described = nullptr;
  why->text(kEntry);
  if (withoutExceptions(why, [&] { described = entry(); }) && !described) {
    why->text(" gave NULL, expected a description");
  }
  return described;
}

int32_t openLibrary(const char* path, const sl_backend_desc** backend, sl_message* message) {
  Plugins& known = plugins();
  const std::lock_guard<std::mutex> lock(known.mutex);
  for (const Plugin& plugin : known.open) {
    if (plugin.path == path) {
      *backend = plugin.backend;
      return SL_OK;
    }
  }
  sl_message what{};
  MessageWriter why(&what);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* error = dlerror();
    why.text("it cannot be opened: ").text(error ? error : "");
    return refuse(path, what, message);
  }
  const sl_backend_desc* described = describedBy(library, &why);
  if (!described || addPlugin(described, path, backend, &what) != SL_OK) {
    dlclose(library);
    return refuse(path, what, message);
  }
  known.open.push_back({path, *backend});
  return SL_OK;
}

int32_t openPath(const char* given, const sl_backend_desc** backend, sl_message* message) {
  char path[PATH_MAX];
  struct stat facts{};
  sl_message what{};
  if (!realpath(given, path)) {
    MessageWriter(&what).text(std::strerror(errno));
    return refuse(given, what, message);
  }
  if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    MessageWriter(&what).text("it is no file, or a folder that cannot be read");
    return refuse(path, what, message);
  }
  return openLibrary(path, backend, message);
}

bool isFolder(const std::string& path) {
  struct stat facts{};
  return stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

/// The *.so of a folder, in order of their names; a folder that cannot be read, so that opening it
/// says why.
std::vector<std::string> librariesIn(const std::string& folder) {
  DIR* directory = opendir(folder.c_str());
  if (!directory) {
    return {folder};
  }
  std::vector<std::string> paths;
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    if (name.size() > 3 && name.compare(name.size() - 3, 3, ".so") == 0) {
      paths.push_back(folder + "/" + name);
    }
  }
  closedir(directory);
  std::sort(paths.begin(), paths.end());
  return paths;
}

int32_t search(sl_message* message) {
  const char* text = std::getenv(kVariable);
  std::string rest = text ? text : "";
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    const std::string path = rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
    if (path.empty()) {
      continue;
    }
    for (const std::string& file :
         isFolder(path) ? librariesIn(path) : std::vector<std::string>{path}) {
      const sl_backend_desc* backend = nullptr;
      if (openPath(file.c_str(), &backend, message) != SL_OK) {
        const std::string why = message ? message->text : "";
        MessageWriter(message).text(why.c_str()).text(" (from ").text(kVariable).text(")");
        return SL_INVALID_ARGUMENT;
      }
    }
  }
  return SL_OK;
}

/// Whether a kernel's description lacks something, or contradicts itself; then `out` has the words.
bool isWrong(const sl_kernel_desc& kernel, const sl_backend_desc& backend, MessageWriter* out) {
  const auto says = [&](bool isSo, const char* what) {
    if (isSo) {
      out->text(what);
    }
    return isSo;
  };
  if (std::strcmp(kernel.backend, backend.name) != 0) {
    out->text("is of backend '").text(kernel.backend).text("', the plug-in's is '");
    out->text(backend.name).text("'");
    return true;
  }
  for (const char* symbol : {kernel.run_symbol, kernel.plan_symbol}) {
    if (symbol && isOwnSymbol(symbol)) {
      out->text("has the symbol ").text(symbol).text(", which is the runtime's own");
      return true;
    }
  }
  const bool isExclusive = (kernel.properties & SL_KERNEL_EXCLUSIVE_HANDLE) != 0;
  return says(!kernel.run_symbol, "has no run_symbol, which a library's kernel needs") ||
         says(!kernel.run, "has no run, which a library's kernel needs") ||
         says(kernel.plan && !kernel.plan_symbol, "has no plan_symbol, which plan needs") ||
         says(!kernel.plan && kernel.plan_symbol, "has no plan, which plan_symbol needs") ||
         says(kernel.plan && !kernel.destroy, "has no destroy, which plan needs") ||
         says(kernel.operand_count > 0 && !kernel.operands,
              "has no operands, which operand_count > 0 needs") ||
         says(kernel.epilogue_count > 0 && !kernel.epilogues,
              "has no epilogues, which epilogue_count > 0 needs") ||
         says(isExclusive && !kernel.plan, "has no plan, which SL_KERNEL_EXCLUSIVE_HANDLE needs") ||
         says(isExclusive && kernel.whole_team,
              "has SL_KERNEL_EXCLUSIVE_HANDLE and whole_team, of which it can have one: threads of "
              "a team use one handle at once") ||
         says(isExclusive && (kernel.properties & SL_KERNEL_CONCURRENT) != 0,
              "has SL_KERNEL_EXCLUSIVE_HANDLE and SL_KERNEL_CONCURRENT, which contradict each "
              "other") ||
         says(isExclusive && (backend.device || backend.runs_on),
              "has SL_KERNEL_EXCLUSIVE_HANDLE on a device, whose queues use a handle after run has "
              "returned; nearest: one handle for all runs");
}

/// Whether something of the kernel would be found by a name of another one; then `out` has the
/// words.
bool isTaken(const sl_kernel_desc& kernel, const sl_kernel_desc& other, MessageWriter* out) {
  const auto differ = [](const char* one, const char* two, bool isSame) {
    return one && two && std::strcmp(one, two) == 0 && !isSame;
  };
  if (std::strcmp(kernel.name, other.name) == 0) {
    out->text("is there twice: backend '").text(other.backend).text("' has a kernel of that name");
    return true;
  }
  const bool isRun = differ(kernel.run_symbol, other.run_symbol, kernel.run == other.run);
  if (isRun || differ(kernel.plan_symbol, other.plan_symbol,
                      kernel.plan == other.plan && kernel.destroy == other.destroy)) {
    out->text("has the symbol ").text(isRun ? kernel.run_symbol : kernel.plan_symbol);
    out->text(" for another function than kernel '").text(other.name).text("'");
    return true;
  }
  return false;
}

}  // namespace

bool checkPlugin(const sl_backend_desc& backend, sl_message* message) {
  for (int32_t i = 0; i < backend.kernel_count; ++i) {
    const sl_kernel_desc& kernel = backend.kernels[i];
    MessageWriter out(message);
    out.text("kernel '").text(kernel.name).text("' ");
    if (isWrong(kernel, backend, &out)) {
      return false;
    }
    for (int32_t k = 0; k < i; ++k) {
      if (isTaken(kernel, backend.kernels[k], &out)) {
        return false;
      }
    }
    for (int32_t b = 0; b < sl_backend_count(); ++b) {
      const sl_backend_desc& other = *sl_backend_at(b);
      const bool isItself = std::strcmp(other.name, backend.name) == 0;
      for (int32_t k = 0; !isItself && k < other.kernel_count; ++k) {
        if (isTaken(kernel, other.kernels[k], &out)) {
          return false;
        }
      }
    }
  }
  return true;
}

}  // namespace straightline

int32_t sl_backend_load(const char* path, const sl_backend_desc** backend, sl_message* message) {
  return straightline::atBoundary(message, [&] {
    const sl_backend_desc* found = nullptr;
    const int32_t status = straightline::openPath(path, &found, message);
    if (backend) {
      *backend = found;
    }
    return status;
  });
}

int32_t sl_backend_search(sl_message* message) {
  return straightline::atBoundary(message, [&] { return straightline::search(message); });
}

const char* sl_backend_file(const char* name) {
  const straightline::LoadedBackend* plugin = straightline::findPlugin(name);
  return plugin ? plugin->file() : nullptr;
}

int32_t sl_kernel_ask(const sl_kernel_desc* kernel, const sl_problem* problem, double* cost,
                      char* reason, size_t reason_bytes) {
  reason[0] = '\0';
  int32_t answer = 0;
  double us = 0;
  int64_t workspace = 0;
  const char* asked = "accepts";
  sl_message thrown{};
  straightline::MessageWriter what(&thrown);
  const bool returned = straightline::withoutExceptions(&what, [&] {
    answer = kernel->accepts(problem, reason, reason_bytes);
    if (answer != 1) {
      return;
    }
    asked = "cost";
    us = kernel->cost(problem);
    asked = "workspace";
    workspace = kernel->workspace ? kernel->workspace(problem) : 0;
  });
  if (!returned) {
    std::snprintf(reason, reason_bytes, "%s%s", asked, thrown.text);
  } else if (answer != 1 && answer != 0 && answer != -1) {
    std::snprintf(reason, reason_bytes, "accepts gave %d, expected 1, 0 or -1", answer);
  } else if (answer == 0 && reason[0] == '\0') {
    std::snprintf(reason, reason_bytes, "accepts refuses without a reason");
  } else if (answer == 1 && !(std::isfinite(us) && us >= 0)) {
    std::snprintf(reason, reason_bytes, "cost is %g, expected a number from 0 on", us);
  } else if (workspace < 0) {
    std::snprintf(reason, reason_bytes, "workspace is %lld, expected a number from 0 on",
                  static_cast<long long>(workspace));
  } else {
    *cost = us;
    return answer;
  }
  return -2;
}
