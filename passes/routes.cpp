// SPDX-License-Identifier: Apache-2.0
#include "passes/routes.h"

#include "dialect/op/recorded.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OperationSupport.h"
#include "passes/external_ops.h"
#include "passes/kernel_facts.h"
#include "straightline/abi/straightline.h"

namespace straightline {
namespace {

constexpr RoutedOp kRoutedOps[] = {
    {"convolution", "convolution"},
    {"linear", "linear"},
    {"matmul", "matmul"},
    {"scaled_dot_product_attention", "attention"},
};

/// Names in the order of their first mention, each once.
class Names {
 public:
  void add(llvm::StringRef name) {
    if (seen_.insert(name).second) {
      text_ += (text_.empty() ? "" : ", ") + name.str();
    }
  }
  bool contains(llvm::StringRef name) const { return seen_.contains(name); }
  const std::string& text() const { return text_; }

 private:
  llvm::StringSet<> seen_;
  std::string text_;
};

std::string opNames() {
  Names names;
  for (const RoutedOp& op : kRoutedOps) {
    names.add(op.name);
  }
  return names.text();
}

std::string whyNoSuchOp(const Route& route, mlir::MLIRContext* context) {
  const bool exists = mlir::RegisteredOperationName::lookup("op." + route.op, context).has_value();
  return (exists ? "'" + route.op +
                       "' has one implementation only: emitted kernels, which compute it with the "
                       "ops around it"
                 : "unknown op '" + route.op + "'") +
         "; routes are for " + opNames() + ", and to aten for any op";
}

}  // namespace

llvm::ArrayRef<RoutedOp> routedOps() { return kRoutedOps; }

std::string whyNoRoute(const Route& route, mlir::MLIRContext* context) {
  const RoutedOp* op =
      llvm::find_if(kRoutedOps, [&](const RoutedOp& known) { return route.op == known.name; });
  if (route.kernel == kFrameworkRoute &&
      mlir::RegisteredOperationName::lookup("op." + route.op, context)) {
    return "";
  }
  // Emitted kernels and external ones compete for it.
  const bool isExternal =
      op == std::end(kRoutedOps) && mayBeExternal(route.op, context) && hasExternalKernel(route.op);
  if (op == std::end(kRoutedOps) && !isExternal) {
    return whyNoSuchOp(route, context);
  }
  const llvm::StringRef problem = isExternal ? llvm::StringRef(route.op) : op->problem;
  Names backends, capable, kernels;
  for (int32_t i = 0; i < sl_backend_count(); ++i) {
    const sl_backend_desc* backend = sl_backend_at(i);
    backends.add(backend->name);
    if (isExternal && emitsKernels(backend->name)) {
      capable.add(backend->name);
    }
    for (int32_t k = 0; k < backend->kernel_count; ++k) {
      if (llvm::StringRef(backend->kernels[k].op) == problem) {
        capable.add(backend->kernels[k].backend);
        kernels.add(backend->kernels[k].name);
      }
    }
  }
  if (capable.contains(route.kernel) || kernels.contains(route.kernel)) {
    return "";
  }
  const llvm::StringRef backend = llvm::StringRef(route.kernel).split('.').first;
  if (!backends.contains(backend)) {
    return "unknown backend '" + backend.str() + "'; there are " + backends.text();
  }
  if (!capable.contains(backend)) {
    return "backend '" + backend.str() + "' has no kernel for " + route.op + "; " + kernels.text() +
           " can do it";
  }
  return "there is no kernel '" + route.kernel + "' for " + route.op + "; there are " +
         kernels.text();
}

void setRoutes(mlir::ModuleOp module, llvm::ArrayRef<Route> routes) {
  mlir::Builder builder(module.getContext());
  llvm::SmallVector<mlir::NamedAttribute> entries;
  for (const Route& route : routes) {
    entries.push_back(builder.getNamedAttr(
        route.op, op::RouteAttr::get(module.getContext(), builder.getStringAttr(route.kernel),
                                     builder.getStringAttr(route.origin))));
  }
  if (!entries.empty()) {
    op::setOptions(module, op::optionsOf(module).withRoutes(builder.getDictionaryAttr(entries)));
  }
}

std::optional<Route> routeOf(mlir::ModuleOp module, llvm::StringRef op) {
  const mlir::DictionaryAttr routes = op::optionsOf(module).getRoutes();
  auto route = routes ? routes.getAs<op::RouteAttr>(op) : op::RouteAttr();
  if (!route) {
    return std::nullopt;
  }
  return Route{op.str(), route.getKernel().str(), route.getOrigin().str()};
}

bool allows(const Route& route, const sl_kernel_desc& kernel) {
  return route.kernel == kernel.backend || route.kernel == kernel.name;
}

}  // namespace straightline
