# SPDX-License-Identifier: Apache-2.0
"""ONNX models and the suites of ONNX."""
