# SPDX-License-Identifier: Apache-2.0
# Configuration of the lit suite; read through the build tree's lit.site.cfg.py, which says where the tools are.
from __future__ import annotations

import os

import lit.formats

config.name = "straightline"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["golden", "models", "python"]
config.test_source_root = os.path.dirname(__file__)
config.environment["PATH"] = os.pathsep.join(
    [config.opt_directory, config.llvm_tools_directory, config.environment["PATH"]]
)
