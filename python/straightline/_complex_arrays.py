# SPDX-License-Identifier: Apache-2.0
"""Complex arrays at the border of a program of JAX or Paddle, which has real ones: their last dimension holds both parts."""

from __future__ import annotations

import functools
import sys
from typing import Any

from straightline import _frameworks
from straightline.errors import GuardTypeError


def node(name: str, dtype: str, leaf: tuple[Any, ...], is_result: bool = False) -> tuple[Any, ...]:
    """The node (`_signature`) of a complex array, of which `leaf` is the real one.

    Numbers and numpy's arrays of another precision are converted, except where they are what a call writes to.
    """
    flatten = functools.partial(_parts, dtype, name, is_result)
    return ("custom", name, None, flatten, _whole, None, (leaf,))


def _parts(dtype: str, name: str, is_result: bool, value: Any) -> tuple[list[Any], None]:
    import numpy as np

    jax, torch = sys.modules.get("jax"), _frameworks.imported_torch()
    if jax is not None and isinstance(value, jax.core.Tracer):
        return [value], None  # refused as such by the call
    given = str(getattr(value, "dtype", "")).rpartition(".")[2]
    if isinstance(value, (complex, float, int, np.number)) and not is_result:
        value, given = np.asarray(value, dtype), dtype
    elif isinstance(value, np.ndarray) and value.dtype.kind == "c" and not is_result:
        value, given = value.astype(dtype, copy=False), dtype
    if not hasattr(value, "shape"):
        return [value], None
    if given != dtype:
        raise GuardTypeError(f"input '{name}': dtype is {given} but this program was compiled for {dtype}")
    if torch is not None and isinstance(value, torch.Tensor):
        return [torch.view_as_real(value.resolve_conj())], None
    if isinstance(value, np.ndarray):
        return [view(value)], None
    if jax is not None and isinstance(value, jax.Array):
        return [_in_jax()[0](value)], None
    paddle = _frameworks.imported_paddle()
    if paddle is not None and isinstance(value, paddle.Tensor):
        return [paddle.as_real(value)], None
    return [value], None


def view(array: Any) -> Any:
    """The parts of numpy's complex array, in its memory."""
    import numpy as np

    half = array.itemsize // 2
    return np.lib.stride_tricks.as_strided(
        array.real, (*array.shape, 2), (*array.strides, half), writeable=array.flags.writeable
    )


def _whole(children: Any, context: None) -> Any:
    return whole(children[0])


def whole(parts: Any) -> Any:
    """The complex array of the parts that a call gives."""
    import numpy as np

    if isinstance(parts, np.ndarray):
        kind = np.complex64 if parts.dtype == np.float32 else np.complex128
        return np.ascontiguousarray(parts).view(kind)[..., 0]
    torch = _frameworks.imported_torch()
    if torch is not None and isinstance(parts, torch.Tensor):
        return torch.view_as_complex(parts)
    paddle = _frameworks.imported_paddle()
    if paddle is not None and isinstance(parts, paddle.Tensor):
        return paddle.as_complex(parts)
    return _in_jax()[1](parts)


@functools.cache
def _in_jax() -> tuple[Any, Any]:
    """JAX's own conversions to parts and back: 3 us each, where a new array of numpy's memory takes 10 us (Zen 5)."""
    import jax

    def parts(array: Any) -> Any:
        return jax.numpy.stack([jax.lax.real(array), jax.lax.imag(array)], -1)

    return jax.jit(parts), jax.jit(lambda pair: jax.lax.complex(pair[..., 0], pair[..., 1]))
