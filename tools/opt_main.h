// SPDX-License-Identifier: Apache-2.0
#ifndef STRAIGHTLINE_TOOLS_OPT_MAIN_H
#define STRAIGHTLINE_TOOLS_OPT_MAIN_H

/// `straightline-opt`: any pass of ours, and MLIR's own, on a file. Returns the exit code.
extern "C" int sl_opt_main(int argc, char** argv);

#endif  // STRAIGHTLINE_TOOLS_OPT_MAIN_H
