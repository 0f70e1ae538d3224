# SPDX-License-Identifier: Apache-2.0
"""The environment of Paddle's tests is what requirements/paddle.txt says."""

from __future__ import annotations

from importlib.metadata import version


def test_the_package_loads_beside_paddle() -> None:
    import paddle
    import straightline

    assert version("paddlepaddle") == paddle.__version__
    assert callable(straightline.compile)
