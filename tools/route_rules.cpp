// SPDX-License-Identifier: Apache-2.0
#include "tools/route_rules.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "straightline/abi/straightline.h"

namespace straightline {
namespace {

constexpr llvm::StringRef kRouteVariable = "STRAIGHTLINE_ROUTE_";
constexpr llvm::StringRef kEveryOpVariable = "ALL";
constexpr const char* kArgument = "the argument routes";
constexpr const char* kSlots = "the argument slots";

/// In single quotes, as text that any reader can print.
std::string inQuotes(llvm::StringRef text) { return "'" + llvm::json::fixUTF8(text) + "'"; }

bool isName(llvm::StringRef text) {
  return !text.empty() && llvm::all_of(text, [](char c) {
    return llvm::isPrint(c) && !llvm::StringRef(" =,:#").contains(c);
  });
}
bool isNumbers(llvm::StringRef text) {
  return !text.empty() && text.find_first_not_of("0123456789-") == llvm::StringRef::npos;
}

/// "[where :] op" and "target[, target ...]"; false: it is none.
bool parse(llvm::StringRef left, llvm::StringRef right, Route* route) {
  left = left.trim();
  const size_t colon = left.rfind(':');
  const bool hasPlace = colon != llvm::StringRef::npos;
  const llvm::StringRef op = hasPlace ? left.substr(colon + 1).trim() : left;
  const llvm::StringRef where = hasPlace ? left.take_front(colon).trim() : "";
  if (!isName(op) || isNumbers(op) || (hasPlace && where.empty())) {
    return false;
  }
  route->op = op;
  route->where = where;
  llvm::SmallVector<llvm::StringRef> targets;
  right.split(targets, ',');
  for (llvm::StringRef target : targets) {
    if (!isName(target.trim())) {
      return false;
    }
    route->targets.push_back(target.trim().str());
  }
  return true;
}

/// What to write in place of a rule whose op is the number of a line.
std::string hintFor(llvm::StringRef left) {
  return isNumbers(left.rsplit(':').second.trim())
             ? "; all ops of source lines are '" + left.trim().str() + " : *'"
             : "";
}

/// The rules of one file: where each was first written.
class Written {
 public:
  /// A user error where another rule of the same left side has other targets.
  Failure add(Route route, std::vector<Route>* routes) {
    const std::string key = route.where + " : " + route.op;
    const auto [first, isNew] = first_.try_emplace(key, route);
    if (!isNew && first->second.targets != route.targets) {
      return Failure::user("route " + route.text() + " contradicts route " + first->second.text());
    }
    routes->push_back(std::move(route));
    return Failure::none();
  }

 private:
  std::map<std::string, Route> first_;
};

/// Rules, a line each; `name` is what their origins say.
Failure readLines(std::istream& lines, const std::string& name, std::vector<Route>* routes) {
  std::string line;
  Written written;
  for (int number = 1; lines && std::getline(lines, line); ++number) {
    const llvm::StringRef text = llvm::StringRef(line).split('#').first.trim();
    if (text.empty()) {
      continue;
    }
    Route route;
    route.origin = name + ":" + std::to_string(number);
    const auto [left, right] = text.split('=');
    if (!parse(left, right, &route)) {
      return Failure::user(route.origin + ": " + inQuotes(text) +
                           " is no rule; a line is '[where :] op = target[, target ...]'" +
                           hintFor(left));
    }
    if (Failure failure = written.add(std::move(route), routes); failure.failed()) {
      return failure;
    }
  }
  return Failure::none();
}

Failure readFile(const std::string& path, const std::string& who, std::vector<Route>* routes) {
  errno = 0;
  std::ifstream file(path);
  const size_t before = routes->size();
  const std::string name = std::filesystem::path(path).filename().string();
  if (Failure failure = readLines(file, name, routes); failure.failed()) {
    return failure;
  }
  if (!file.eof()) {  // a folder opens and fails at the first line
    return Failure::user(who + " is " + inQuotes(path) +
                         ", which cannot be read: " + std::strerror(errno != 0 ? errno : EIO));
  }
  if (routes->size() == before) {
    return Failure::user(who + " is " + inQuotes(path) + ", which has no rule");
  }
  return Failure::none();
}

Failure readArgument(const CompileOptions& given, std::vector<Route>* routes) {
  for (size_t i = 0; i < given.routes.size(); ++i) {
    const auto& [left, right] = given.routes[i];
    const bool isSlot = i + static_cast<size_t>(given.slotRules) >= given.routes.size();
    if (left.empty()) {
      if (Failure failure = readFile(right, "routes", routes); failure.failed()) {
        return failure;
      }
      continue;
    }
    Route route;
    route.origin = isSlot ? kSlots : kArgument;
    if (!parse(left, right, &route)) {
      return Failure::user((isSlot ? "slots has " : "routes has ") + inQuotes(left) + ": " +
                           inQuotes(right) +
                           "; an entry is '[where :] op' and 'target[, target ...]', such as "
                           "{'layers.*.attn : linear': 'native'}" +
                           hintFor(left));
    }
    routes->push_back(std::move(route));
  }
  return Failure::none();
}

std::string opOfVariable(llvm::StringRef name) {
  if (name == kEveryOpVariable) {
    return kEveryOp;
  }
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool isDot = name.substr(i).starts_with("__");
    text += isDot ? '.' : name[i];
    i += isDot ? 1 : 0;
  }
  return text;
}

Failure readVariables(std::vector<Route>* routes) {
  std::vector<llvm::StringRef> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (llvm::StringRef(*entry).starts_with(kRouteVariable)) {
      entries.emplace_back(*entry);
    }
  }
  // so that messages do not depend on the order of the environment
  std::sort(entries.begin(), entries.end());
  for (llvm::StringRef entry : entries) {
    const auto [name, value] = entry.split('=');
    if (value.empty()) {
      continue;
    }
    Route route;
    route.origin = name;
    const std::string op = opOfVariable(name.drop_front(kRouteVariable.size()));
    if (!parse(op, value, &route)) {
      return Failure::user(name.str() + " is " + inQuotes(value) +
                           ", expected 'target[, target ...]'");
    }
    routes->push_back(std::move(route));
  }
  return Failure::none();
}

/// The rules that backends bring.
Failure readDefaults(std::vector<Route>* routes) {
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    const sl_backend_desc* backend = sl_backend_at(i);
    if (backend->default_routes != nullptr) {
      std::istringstream lines(backend->default_routes);
      const std::string name = std::string("default rules of ") + backend->name;
      if (Failure failure = readLines(lines, name, routes); failure.failed()) {
        return failure;
      }
    }
  }
  return Failure::none();
}

}  // namespace

llvm::json::Object routeJson(const Route& route) {
  return llvm::json::Object{{"op", llvm::json::fixUTF8(route.op)},
                            {"where", llvm::json::fixUTF8(route.where)},
                            {"targets", llvm::json::Array(route.targets)},
                            {"by", llvm::json::fixUTF8(route.origin)}};
}

Failure checkRules(const CompileOptions& given) {
  std::vector<Route> rules;
  return readArgument(given, &rules);
}

Failure readRoutes(const CompileOptions& given, mlir::MLIRContext* context,
                   std::vector<Route>* routes) {
  std::vector<Route> sources[4];
  if (Failure failure = readArgument(given, &sources[0]); failure.failed()) {
    return failure;
  }
  if (Failure failure = readVariables(&sources[1]); failure.failed()) {
    return failure;
  }
  if (const char* path = std::getenv("STRAIGHTLINE_ROUTES"); path != nullptr && path[0] != '\0') {
    if (Failure failure = readFile(path, "STRAIGHTLINE_ROUTES", &sources[2]); failure.failed()) {
      return failure;
    }
  }
  if (Failure failure = readDefaults(&sources[3]); failure.failed()) {
    return failure;
  }
  for (std::vector<Route>& source : sources) {
    sortRoutes(source);
    for (Route& route : source) {
      if (const std::string why = whyNoRoute(route, context); !why.empty()) {
        return Failure::user("route " + route.text() + ": " + why);
      }
      routes->push_back(std::move(route));
    }
  }
  return Failure::none();
}

}  // namespace straightline
