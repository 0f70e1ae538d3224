// SPDX-License-Identifier: Apache-2.0
// Which kernel the user wants for an op. Routes travel with the module (#op.options), so
// that a printed module says all that decides about its kernels.
#ifndef STRAIGHTLINE_PASSES_ROUTES_H
#define STRAIGHTLINE_PASSES_ROUTES_H

#include <optional>
#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "straightline/abi/kernel.h"

namespace straightline {

/// `kernel` must run every `op`, or the compilation fails.
struct Route {
  std::string op;      ///< ATen's name: "linear"
  std::string kernel;  ///< "native", any kernel of that backend, or "native.gemm"
  /// who said so, for messages: "the argument routes", "STRAIGHTLINE_ROUTE_linear", "routes.txt:3"
  std::string origin;
};

/// An op that kernels compete for, and its name in the registry. Everything else has one family
/// that can do it.
struct RoutedOp {
  const char* name;
  const char* problem;
};
llvm::ArrayRef<RoutedOp> routedOps();

/// The backend of torch's ops. A route to it holds for any op, and is done when a model is
/// captured: what would become that op stays torch's.
inline constexpr const char* kFrameworkRoute = "aten";

/// Why a route names nothing that exists, with what does exist; "" when it is sound. `context`
/// knows the op dialect.
std::string whyNoRoute(const Route& route, mlir::MLIRContext* context);

/// Writes the routes into the module. At most one for each op.
void setRoutes(mlir::ModuleOp module, llvm::ArrayRef<Route> routes);
std::optional<Route> routeOf(mlir::ModuleOp module, llvm::StringRef op);

/// Whether this kernel is one that the route allows.
bool allows(const Route& route, const sl_kernel_desc& kernel);

}  // namespace straightline

#endif  // STRAIGHTLINE_PASSES_ROUTES_H
