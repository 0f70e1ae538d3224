// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler_abi.h"

int main(int argc, char** argv) { return sl_opt_main(argc, argv); }
