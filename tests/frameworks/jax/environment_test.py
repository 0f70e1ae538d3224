# SPDX-License-Identifier: Apache-2.0
"""The environment of JAX's tests is what requirements/jax.txt says."""

from __future__ import annotations

from importlib.metadata import version


def test_the_package_loads_beside_jax() -> None:
    import jax
    import straightline

    assert version("jax") == jax.__version__
    assert callable(straightline.compile)
