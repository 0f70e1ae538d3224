# SPDX-License-Identifier: Apache-2.0
"""A tour of real models: which of 60 `transformers` and 60 vision models are right, refused, wrong or slower than eager?"""
