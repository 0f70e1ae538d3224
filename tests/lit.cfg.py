# SPDX-License-Identifier: Apache-2.0
"""Lit configuration: MLIR files run through straightline-opt and FileCheck."""

import os

import lit.formats

config.name = "straightline"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.sl_build_root, "tests")
config.excludes = ["inputs", "golden", "models", "python", "codegen"]

tools = [os.path.join(config.sl_build_root, "tools"), config.sl_llvm_tools]
#: A library of external kernels (tests/vendor).
config.substitutions.append(
    ("%vendor", os.path.join(config.sl_build_root, "python", "straightline", "libstraightline_test_vendor.so"))
)
config.environment["PATH"] = os.pathsep.join([*tools, config.environment.get("PATH", "")])
