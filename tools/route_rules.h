// SPDX-License-Identifier: Apache-2.0
// Reads the rules that say which kernels do which ops: of the argument `routes`, of the
// environment, and of files. docs/reference/options.md has their syntax.
#ifndef STRAIGHTLINE_TOOLS_ROUTE_RULES_H
#define STRAIGHTLINE_TOOLS_ROUTE_RULES_H

#include <vector>

#include "llvm/Support/JSON.h"
#include "passes/routes.h"
#include "tools/compile_options.h"

namespace straightline {

/// All rules of a compilation, those first that count first: the argument's, those of
/// STRAIGHTLINE_ROUTE_<op> ('.' of the op written '__', '*' written ALL), those of the file that
/// STRAIGHTLINE_ROUTES names, those that backends bring; within one source as sortRoutes says. User
/// errors: a rule that cannot be read or names nothing that exists, two of one file that contradict
/// each other, a file that is missing, unreadable or empty. `context` knows the op dialect.
Failure readRoutes(const CompileOptions& given, mlir::MLIRContext* context,
                   std::vector<Route>* routes);

/// A user error for a rule of the argument that cannot be read. Looks at no environment.
Failure checkRules(const CompileOptions& given);

/// {"op": "linear", "where": "", "targets": ["native"], "by": "routes.txt:3"}
llvm::json::Object routeJson(const Route& route);

}  // namespace straightline

#endif  // STRAIGHTLINE_TOOLS_ROUTE_RULES_H
