// SPDX-License-Identifier: Apache-2.0
#include "passes/routes.h"

#include <algorithm>

#include "dialect/error_kind.h"
#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"
#include "llvm/Support/JSON.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OperationSupport.h"
#include "passes/external_ops.h"
#include "passes/kernel_facts.h"
#include "straightline/abi/straightline.h"

namespace straightline {
namespace {

/// Ops whose problems have other names in the registry.
struct NamedProblem {
  const char* op;
  const char* problem;
};
constexpr NamedProblem kProblems[] = {{"scaled_dot_product_attention", "attention"}};

llvm::StringRef problemOf(llvm::StringRef op) {
  for (const NamedProblem& named : kProblems) {
    if (op == named.op) {
      return named.problem;
    }
  }
  return op;
}

/// Names in the order of their first mention, each once.
class Names {
 public:
  void add(llvm::StringRef name) {
    if (!contains(name)) {
      names_.push_back(name.str());
    }
  }
  bool contains(llvm::StringRef name) const { return llvm::is_contained(names_, name); }
  llvm::ArrayRef<std::string> all() const { return names_; }
  std::string text() const { return llvm::join(names_, ", "); }

 private:
  llvm::SmallVector<std::string> names_;
};

/// The name that is most like `name`, or "" where none is near.
class Nearest {
 public:
  explicit Nearest(llvm::StringRef name) : name_(name), most_(name.size() / 2 + 1) {}
  void consider(llvm::StringRef other) {
    const unsigned distance = name_.edit_distance(other, true, static_cast<unsigned>(most_));
    if (!other.empty() && distance < most_) {
      most_ = distance;
      best_ = other.str();
    }
  }
  const std::string& best() const { return best_; }

 private:
  llvm::StringRef name_;
  size_t most_;
  std::string best_;
};

std::string nearestOp(llvm::StringRef name, mlir::MLIRContext* context) {
  Nearest nearest(name);
  for (mlir::RegisteredOperationName op : context->getRegisteredOperations()) {
    if (op.getDialectNamespace() == op::OpDialect::getDialectNamespace() &&
        isRoutable(op.stripDialect(), context)) {
      nearest.consider(op.stripDialect());
    }
  }
  return nearest.best();
}

/// What the registry has for an op; nullopt: for any op.
struct Offers {
  Names backends;  ///< all that there are
  Names capable;   ///< backends with a kernel for the op, or that emit one
  Names kernels;
};

Offers offersFor(std::optional<llvm::StringRef> op) {
  Offers offers;
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    const sl_backend_desc* backend = sl_backend_at(i);
    offers.backends.add(backend->name);
    if (emitsKernels(backend->name)) {
      offers.capable.add(backend->name);
    }
    for (int32_t k = 0; k < backend->kernel_count; ++k) {
      const sl_kernel_desc& kernel = backend->kernels[k];
      if (!op || problemOf(*op) == kernel.op) {
        offers.capable.add(kernel.backend);
        offers.kernels.add(kernel.name);
      }
    }
  }
  return offers;
}

/// Why nothing has that name, of an op or ("", for several) of any.
std::string whyNoTarget(llvm::StringRef target, llvm::StringRef op) {
  Offers offers = offersFor(op.empty() ? std::nullopt : std::optional(op));
  const bool isKernel = target.contains('.');
  if ((isKernel ? offers.kernels : offers.capable).contains(target)) {
    return "";
  }
  const llvm::StringRef backend = target.split('.').first;
  if (!offers.backends.contains(backend)) {
    for (llvm::StringRef each : {kAutoRoute, kHostRoute, kFrameworkRoute, kGemsRoute}) {
      offers.backends.add(each);  // aten is a backend, too
    }
    Nearest nearest(backend);
    for (llvm::StringRef each : offers.backends.all()) {
      nearest.consider(each);
    }
    return "unknown backend '" + backend.str() + "'; " +
           (nearest.best().empty() ? "" : "the nearest is '" + nearest.best() + "'; ") +
           "there are " + offers.backends.text();
  }
  const std::string able =
      offers.kernels.text().empty() ? offers.capable.text() : offers.kernels.text();
  const std::string of = op.empty() ? "" : " for " + op.str();
  if (!offers.capable.contains(backend)) {
    return "backend '" + backend.str() + "' has no kernel" + of + "; " + able + " can do it";
  }
  return "there is no kernel '" + target.str() + "'" + of + "; there are " + able;
}

/// Whether capture decides about the target: then it is the first of a rule's.
bool isOfCapture(llvm::StringRef target) {
  return target == kFrameworkRoute || target == kGemsRoute;
}

/// Whether the target has, or emits, a kernel for ops of that name.
bool hasKernelFor(llvm::StringRef target, llvm::StringRef op) {
  return target == kAutoRoute || isOfCapture(target) || target == kHostRoute ||
         whyNoTarget(target, op).empty();
}

/// Whether capture honours the rule: passes do not ask it, also not about what they make of an op.
/// Behind FlagGems stand targets for what that does not take, which passes do ask.
bool isHonoured(llvm::StringRef first, size_t targets) {
  return first == kFrameworkRoute || (first == kGemsRoute && targets == 1);
}

bool isOverload(llvm::StringRef op) { return op.contains('.'); }

/// A place in the source, as locations have it.
struct Source {
  llvm::StringRef overload, module, file;
  int64_t line = 0;
};

/// Whether `is` holds for a source of the location.
bool anySource(mlir::Location location, Source around, llvm::function_ref<bool(const Source&)> is) {
  if (auto fused = llvm::dyn_cast<mlir::FusedLoc>(location)) {
    if (auto overload = llvm::dyn_cast_or_null<op::OverloadAttr>(fused.getMetadata())) {
      around.overload = overload.getName();
    }
    return llvm::any_of(fused.getLocations(),
                        [&](mlir::Location part) { return anySource(part, around, is); });
  }
  if (auto named = llvm::dyn_cast<mlir::NameLoc>(location)) {
    around.module = named.getName();
    return anySource(named.getChildLoc(), around, is);
  }
  if (auto call = llvm::dyn_cast<mlir::CallSiteLoc>(location)) {
    return anySource(call.getCallee(), around, is);
  }
  if (auto file = llvm::dyn_cast<mlir::FileLineColLoc>(location)) {
    around.file = file.getFilename();
    around.line = file.getLine();
  }
  return is(around);
}

/// A location with the rule that was found for an op by the overload from which it was captured:
/// metadata [name of the op, rule].
mlir::Location withRule(mlir::Location location, llvm::StringRef op, op::RouteAttr rule) {
  mlir::MLIRContext* context = location.getContext();
  return mlir::FusedLoc::get(
      context, {location},
      mlir::ArrayAttr::get(context, {mlir::StringAttr::get(context, op), rule}));
}
/// That rule.
op::RouteAttr ruleIn(mlir::Location location, llvm::StringRef op) {
  auto fused = llvm::dyn_cast<mlir::FusedLoc>(location);
  if (!fused) {
    return {};
  }
  if (auto found = llvm::dyn_cast_or_null<mlir::ArrayAttr>(fused.getMetadata());
      found && found.size() == 2) {
    const auto name = llvm::dyn_cast<mlir::StringAttr>(found[0]);
    if (name && name.getValue() == op) {
      return llvm::dyn_cast<op::RouteAttr>(found[1]);
    }
  }
  for (mlir::Location part : fused.getLocations()) {
    if (op::RouteAttr rule = ruleIn(part, op)) {
      return rule;
    }
  }
  return {};
}

op::RouteAttr attributeOf(const Route& route, mlir::MLIRContext* context) {
  mlir::Builder builder(context);
  llvm::SmallVector<llvm::StringRef> targets(route.targets.begin(), route.targets.end());
  return op::RouteAttr::get(
      context, builder.getStringAttr(route.op), builder.getStrArrayAttr(targets),
      route.where.empty() ? mlir::StringAttr() : builder.getStringAttr(route.where),
      builder.getStringAttr(route.origin));
}

Route routeIn(op::RouteAttr attribute) {
  Route route{attribute.getOp().str(),
              {},
              attribute.getBy().str(),
              attribute.getWhere() ? attribute.getWhere().str() : ""};
  for (mlir::Attribute target : attribute.getTargets()) {
    if (llvm::cast<mlir::StringAttr>(target) == kGemsRoute && attribute.getTargets().size() > 1) {
      continue;  // capture has asked it
    }
    route.targets.push_back(llvm::cast<mlir::StringAttr>(target).str());
  }
  return route;
}

/// Whether the rule names an op `op` at a place. `overload`: also by that.
bool names(llvm::StringRef ruleOp, llvm::StringRef where, mlir::Location location,
           llvm::StringRef op, bool overload) {
  if (ruleOp != kEveryOp && ruleOp != op && !(overload && isOverload(ruleOp))) {
    return false;
  }
  if (where.empty() && !isOverload(ruleOp)) {
    return true;
  }
  const RoutePlace place(where);
  return anySource(location, {}, [&](const Source& source) {
    return (!isOverload(ruleOp) || source.overload == ruleOp) &&
           (where.empty() || place.contains(source.module, source.file, source.line));
  });
}

/// Whether an op that was captured from an overload only makes a number for the one that it is
/// about: an addition of a number also makes an op.full.
bool isBeside(mlir::Operation* operation, llvm::StringRef overload) {
  return operation->getNumOperands() == 0 &&
         operation->getName().stripDialect() != overload.split('.').first;
}

std::string nearestOf(const Route& route, llvm::ArrayRef<mlir::Operation*> ops) {
  const RoutePlace place(route.where);
  Nearest op(route.op), where(route.where);
  bool isPlace = route.where.empty();
  for (mlir::Operation* each : ops) {
    anySource(each->getLoc(), {}, [&](const Source& source) {
      op.consider(isOverload(route.op) ? source.overload : each->getName().stripDialect());
      isPlace |= place.contains(source.module, source.file, source.line);
      if (!place.isLines()) {
        where.consider(source.module);
      } else {
        where.consider((source.file + ":" + llvm::Twine(source.line)).str());
      }
      return false;
    });
  }
  return isPlace ? op.best() : where.best();
}

}  // namespace

std::string Route::text() const {
  return llvm::json::fixUTF8((where.empty() ? "" : where + " : ") + op + " = " +
                             llvm::join(targets, ", ") + " (" + origin + ")");
}

RoutePlace::RoutePlace(llvm::StringRef where) : where_(where) {
  const auto [file, lines] = where.rsplit(':');
  auto [first, last] = lines.split('-');
  last = last.empty() ? first : last;
  if (!file.empty() && !lines.empty() && !first.getAsInteger(10, first_) &&
      !last.getAsInteger(10, last_)) {
    file_ = file;
  }
}

std::string RoutePlace::whyNone() const {
  if (isLines()) {
    return first_ >= 1 && first_ <= last_
               ? ""
               : "'" + where_.str() + "' has no lines; expected FILE:FIRST-LAST, counted from 1";
  }
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::SplitString(where_, parts, "./");
  for (llvm::StringRef part : parts) {
    if (auto glob = llvm::GlobPattern::create(part); !glob) {
      return "'" + where_.str() + "' is no pattern: " + llvm::toString(glob.takeError());
    }
  }
  return !parts.empty() && !where_.contains(':')
             ? ""
             : "'" + where_.str() + "' is no place; expected a module pattern (layers.*.attn), " +
                   "FILE:LINE or FILE:FIRST-LAST";
}

bool RoutePlace::contains(llvm::StringRef module, llvm::StringRef file, int64_t line) const {
  if (isLines()) {
    return file == file_ && line >= first_ && line <= last_;
  }
  llvm::SmallVector<llvm::StringRef> wanted, parts;
  llvm::SplitString(where_, wanted, "./");
  llvm::SplitString(module, parts, "./");
  if (wanted.empty() || wanted.size() > parts.size()) {
    return false;
  }
  return llvm::all_of(llvm::zip_first(wanted, parts), [](auto pair) {
    const auto [pattern, part] = pair;
    if (pattern == part || pattern == kEveryOp ||
        pattern.find_first_of("*?[\\") == llvm::StringRef::npos) {
      return pattern == part || pattern == kEveryOp;
    }
    auto glob = llvm::GlobPattern::create(pattern);
    if (!glob) {
      llvm::consumeError(glob.takeError());
      return false;
    }
    return glob->match(part);
  });
}

bool isRoutable(llvm::StringRef op, mlir::MLIRContext* context) {
  const auto info = mlir::RegisteredOperationName::lookup(("op." + op).str(), context);
  return mayBeExternal(op, context) ||
         (info && (info->hasTrait<op::Contraction>() || op == "scaled_dot_product_attention"));
}

std::string whyNoRoute(const Route& route, mlir::MLIRContext* context) {
  if (!route.where.empty()) {
    if (std::string why = RoutePlace(route.where).whyNone(); !why.empty()) {
      return why;
    }
  }
  const bool isOne = route.op != kEveryOp && !isOverload(route.op);
  // FlagGems has ops of torch's, which need not be ops here: capture knows them.
  const bool isOfTorch = route.targets.front() == kGemsRoute;
  if (isOne && !isOfTorch && !isRoutable(route.op, context)) {
    if (mlir::RegisteredOperationName::lookup("op." + route.op, context)) {
      return "'" + route.op + "' is never routed: it computes nothing";
    }
    const std::string nearest = nearestOp(route.op, context);
    return "unknown op '" + route.op + "'" +
           (nearest.empty() ? "" : "; the nearest is '" + nearest + "'") +
           "; ops have the names of fn.ir(\"op\"), as linear, or ATen's, as add.Tensor";
  }
  for (const std::string& target : route.targets) {
    if (isOfCapture(target) && target != route.targets.front()) {
      return target + " stands behind '" + route.targets.front() +
             "', but must be the first target: what " +
             (target == kGemsRoute ? "FlagGems does" : "stays torch's") +
             " is decided when the model is captured, before other kernels are asked";
    }
    if (target == kAutoRoute || isOfCapture(target) || target == kHostRoute) {
      continue;
    }
    const bool isKnown = isOne && isRoutable(route.op, context);
    if (std::string why = whyNoTarget(target, isKnown ? route.op : ""); !why.empty()) {
      return why;
    }
  }
  return "";
}

void sortRoutes(std::vector<Route>& routes) {
  const auto rank = [](const Route& route) {
    const int place = route.where.empty() ? 2 : RoutePlace(route.where).isLines() ? 0 : 1;
    const int op = isOverload(route.op) ? 0 : route.op != kEveryOp ? 1 : 2;
    return 3 * place + op;
  };
  std::reverse(routes.begin(), routes.end());
  llvm::stable_sort(routes, [&](const Route& a, const Route& b) { return rank(a) < rank(b); });
}

mlir::FailureOr<std::vector<RouteUse>> setRoutes(mlir::ModuleOp module,
                                                 llvm::ArrayRef<Route> routes) {
  std::vector<RouteUse> uses;
  if (routes.empty()) {
    return uses;
  }
  mlir::MLIRContext* context = module.getContext();
  llvm::SmallVector<mlir::Operation*> ops;
  module.walk([&](mlir::Operation* each) {
    if (llvm::isa_and_nonnull<op::OpDialect>(each->getDialect()) &&
        isRoutable(each->getName().stripDialect(), context)) {
      ops.push_back(each);
    }
  });
  llvm::SmallVector<mlir::Attribute> rules;
  llvm::SmallPtrSet<mlir::Operation*, 16> decided;
  for (const Route& route : routes) {
    rules.push_back(attributeOf(route, context));
    RouteUse use{route, 0, 0, ""};
    mlir::Operation* refused = nullptr;
    for (mlir::Operation* each : ops) {
      const llvm::StringRef op = each->getName().stripDialect();
      if (!names(route.op, route.where, each->getLoc(), op, true) ||
          (isOverload(route.op) && isBeside(each, route.op))) {
        continue;
      }
      if (isOverload(route.op) && llvm::none_of(route.targets, [&](llvm::StringRef target) {
            return hasKernelFor(target, op);
          })) {
        refused = each;
        continue;
      }
      ++use.ops;
      const bool isFirst = decided.insert(each).second;
      use.decides += isFirst ? 1 : 0;
      if (isFirst && isHonoured(route.targets.front(), route.targets.size())) {
        const bool isGems = route.targets.front() == kGemsRoute;
        emitUserError(each) << "route " << route.text() << ": " << each->getName().getStringRef()
                            << " stands in the module, expected a model that is captured, whose "
                               "calls of torch can "
                            << (isGems ? "be FlagGems'" : "stay torch's");
        return mlir::failure();
      }
      if (isFirst && isOverload(route.op)) {
        each->setLoc(withRule(each->getLoc(), op, attributeOf(route, context)));
      }
    }
    if (use.ops == 0 && refused) {
      emitUserError(refused) << "route " << route.text() << ": " << route.op << " is "
                             << refused->getName().getStringRef() << " here; "
                             << whyNoTarget(route.targets.front(),
                                            refused->getName().stripDialect());
      return mlir::failure();
    }
    if (use.ops == 0) {
      use.nearest = nearestOf(route, ops);
    }
    uses.push_back(std::move(use));
  }
  op::setOptions(module, op::optionsOf(module).withRoutes(mlir::ArrayAttr::get(context, rules)));
  return uses;
}

std::optional<Route> routeOf(mlir::Operation* operation, llvm::StringRef name) {
  auto module = operation->getParentOfType<mlir::ModuleOp>();
  return module ? routeAt(module, operation->getLoc(),
                          name.empty() ? operation->getName().stripDialect() : name)
                : std::nullopt;
}

std::optional<Route> routeAt(mlir::ModuleOp module, mlir::Location location, llvm::StringRef op) {
  const mlir::ArrayAttr routes = op::optionsOf(module).getRoutes();
  if (!routes) {
    return std::nullopt;
  }
  if (op::RouteAttr own = ruleIn(location, op)) {
    return routeIn(own);
  }
  for (op::RouteAttr route : routes.getAsRange<op::RouteAttr>()) {
    const llvm::StringRef where = route.getWhere() ? route.getWhere().getValue() : "";
    const auto first = llvm::cast<mlir::StringAttr>(route.getTargets()[0]);
    if (isHonoured(first.getValue(), route.getTargets().size())) {
      continue;  // capture has honoured it
    }
    if (!isOverload(route.getOp()) && names(route.getOp(), where, location, op, false)) {
      return routeIn(route);
    }
  }
  return std::nullopt;
}

const Route* findRoute(llvm::ArrayRef<Route> routes, llvm::StringRef op, llvm::StringRef overload,
                       llvm::StringRef module, llvm::StringRef file, int64_t line) {
  const Route* found = llvm::find_if(routes, [&](const Route& route) {
    return (route.op == kEveryOp || route.op == op || route.op == overload) &&
           (route.where.empty() || RoutePlace(route.where).contains(module, file, line));
  });
  return found == routes.end() ? nullptr : found;
}

bool allows(llvm::StringRef target, const sl_kernel_desc& asked) {
  return target == kAutoRoute || target == asked.backend || target == asked.name ||
         (target == kHostRoute && deviceOf(asked.backend) == target);
}

bool allowsHost(const Route& route) { return llvm::is_contained(route.targets, kHostRoute); }

bool givesEmittedToHost(const Route& route, llvm::StringRef device) {
  if (!compilesHostKernels(device)) {
    return allowsHost(route);
  }
  for (llvm::StringRef target : route.targets) {
    if (target == kHostRoute) {
      return true;
    }
    if (target == kAutoRoute || target.split('.').first == emittingBackend(device)) {
      return false;
    }
  }
  return false;
}

bool isRoutedElsewhere(mlir::Operation* operation, llvm::StringRef backend, llvm::StringRef name) {
  const std::optional<Route> route = routeOf(operation, name);
  return route && llvm::any_of(route->targets, [&](llvm::StringRef target) {
           return target != kAutoRoute && target != kHostRoute &&
                  target.split('.').first != backend;
         });
}

}  // namespace straightline
