// SPDX-License-Identifier: Apache-2.0
// Which kernels the user wants for which ops. Rules travel with the module (#op.options), so that a
// printed module says all that decides about its kernels.
#ifndef STRAIGHTLINE_PASSES_ROUTES_H
#define STRAIGHTLINE_PASSES_ROUTES_H

#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "straightline/abi/kernel.h"

namespace straightline {

/// A rule: the first of `targets` that takes an op that it names runs it, or the compilation fails.
struct Route {
  /// ATen's name ("linear"), an overload of ATen's ("add.Tensor"), or "*"
  std::string op;
  /// "native": any kernel of that backend; "native.gemm"; kAutoRoute; kFrameworkRoute; kGemsRoute
  std::vector<std::string> targets;
  /// who said so, for messages: "the argument routes", "STRAIGHTLINE_ROUTE_linear", "routes.txt:3"
  std::string origin;
  /// "layers.*.attn": ops of these modules and of those within; "model.py:120" or
  /// "model.py:120-140": ops of these source lines; empty: all ops
  std::string where;

  /// "layers.*.attn : linear = native, auto (routes.txt:3)"
  std::string text() const;
};

/// What `where` of a rule names, read once.
class RoutePlace {
 public:
  explicit RoutePlace(llvm::StringRef where);
  bool isLines() const { return !file_.empty(); }
  /// Why `where` is no place, or "". A pattern's components are separated by '.' or '/', and
  /// '*', '?' and [sets] stay within one component.
  std::string whyNone() const;
  /// `module`: path of a module, or name of an ONNX node; `file`: a base name.
  bool contains(llvm::StringRef module, llvm::StringRef file, int64_t line) const;

 private:
  llvm::StringRef where_;
  llvm::StringRef file_;
  int64_t first_ = 0, last_ = 0;
};

/// The backend of torch's ops. A route to it holds for any op, and is done when a model is
/// captured: what would become that op stays torch's. It is the first of a rule's targets.
inline constexpr const char* kFrameworkRoute = "aten";
/// FlagGems' kernels for an op of torch's, by its name there. It is done when a model is captured,
/// as well, and is the first of a rule's targets; those behind it are for what FlagGems does not
/// take.
inline constexpr const char* kGemsRoute = "flaggems";
/// The estimates decide.
inline constexpr const char* kAutoRoute = "auto";
/// Any kernel of the host; in a program for a device with copies around it. Behind other targets:
/// where none of them takes the op.
inline constexpr const char* kHostRoute = "cpu";
inline constexpr const char* kEveryOp = "*";

/// Whether rules may be about ops of this name: those that compute something. Views, storage and
/// structure never are.
bool isRoutable(llvm::StringRef op, mlir::MLIRContext* context);

/// Why a rule names nothing that exists, with what does exist; "" when it is sound. `context`
/// knows the op dialect.
std::string whyNoRoute(const Route& route, mlir::MLIRContext* context);

/// Sorts rules of one source, which stand in the order in which they were written, by what counts
/// first: source lines, modules, everything; then an overload, an op, "*"; then the later one.
void sortRoutes(std::vector<Route>& routes);

/// How a module uses a rule.
struct RouteUse {
  Route route;
  int64_t ops = 0;      ///< that it names, also those that another rule decides about
  int64_t decides = 0;  ///< those that it decides about
  std::string nearest;  ///< of a rule that names none: what it may have meant, or ""
};

/// Writes the rules, of which those before count before those behind, into a captured module, and
/// says which ops each of them names. User errors: no op of a named overload has a kernel of any
/// of the targets; a rule gives to torch an op that is there, which capture has not done.
mlir::FailureOr<std::vector<RouteUse>> setRoutes(mlir::ModuleOp module,
                                                 llvm::ArrayRef<Route> routes);
/// The rule that decides about this op, or about an op `name` in its place.
std::optional<Route> routeOf(mlir::Operation* operation, llvm::StringRef name = "");
/// The same for an op `name` of a module with rules, at a place.
std::optional<Route> routeAt(mlir::ModuleOp module, mlir::Location location, llvm::StringRef name);
/// The first of the rules that names an op of `overload`, `op` at this place.
const Route* findRoute(llvm::ArrayRef<Route> routes, llvm::StringRef op, llvm::StringRef overload,
                       llvm::StringRef module, llvm::StringRef file, int64_t line);

/// Whether a rule gives an op whose kernel is to be emitted to the host, in a program for `device`:
/// one of its targets is kHostRoute, and none before that takes emitted kernels.
bool givesEmittedToHost(const Route& route, llvm::StringRef device);
/// Whether one of the rule's targets is kHostRoute.
bool allowsHost(const Route& route);

/// Whether this kernel is one that the target names.
bool allows(llvm::StringRef target, const sl_kernel_desc& kernel);
/// Whether another backend's kernels than `backend`'s may get the op, or an op `name` in its place,
/// by a rule.
bool isRoutedElsewhere(mlir::Operation* operation, llvm::StringRef backend,
                       llvm::StringRef name = "");

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_ROUTES_H
