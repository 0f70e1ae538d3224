// SPDX-License-Identifier: Apache-2.0
#include "tools/opt_main.h"

int main(int argc, char** argv) { return sl_opt_main(argc, argv); }
