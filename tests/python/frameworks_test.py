# SPDX-License-Identifier: Apache-2.0
"""A process whose module `torch` is another framework's proxy, and tensors that say `stop_gradient`.

Each case has a process of its own: what the call path knows of a framework it keeps for good.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parent

#: A framework whose tensors are lent by `__dlpack__` of numpy; `stop_gradient` and grad mode are as Paddle's.
_FRAMEWORK = """
import sys, types
import numpy as np

other = types.ModuleType("other")
other.recording = True
other.is_grad_enabled = lambda: other.recording

class Tensor:
    __module__ = "other"
    stop_gradient = True
    def __init__(self, array, stop_gradient=True):
        self.array, self.stop_gradient = array, stop_gradient
    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)
    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

other.Tensor = Tensor
sys.modules["other"] = other
"""

_CALL = """
from hand_written_callable import Maker, add, add_program
from straightline import _call, _signature, errors
from pathlib import Path

maker = Maker(Path(FOLDER))
capsule = maker.program(add_program())
inputs = tuple((name, _signature.EITHER, ("tensor", name, i)) for i, name in enumerate("xy"))
def made(kind):
    return _call.Callable(capsule, _call.weights(capsule, ()), inputs, ("tensor", "result", 0), {"kind": kind})
def raised(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"
x = np.arange(6, dtype=np.float32).reshape(2, 3)
"""


def _run(tmp_path: Path, *parts: str) -> list[str]:
    text = "\n".join(textwrap.dedent(part) for part in parts).replace("FOLDER", repr(str(tmp_path)))
    command = [sys.executable, "-c", f"import sys\nsys.path.insert(0, {str(_TESTS)!r})\n{text}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


#: In place of torch: one with tensors of another framework, one that lacks everything, one that is no framework at all.
_PROXIES = {
    "another framework's": ("torch.Tensor = other.Tensor", "its Tensor is other.Tensor"),
    "no tensors": ("", "it has no Tensor"),
    "not a type": ("torch.Tensor = 3", "it has no Tensor"),
}


@pytest.mark.parametrize("proxy", _PROXIES)
def test_a_proxy_by_the_name_of_torch(tmp_path: Path, proxy: str) -> None:
    """hand_written imports torch to make its callables, so the proxy comes after it and before the first call."""
    code, words = _PROXIES[proxy]
    stand_in = f"""
    import torch as real
    torch = types.ModuleType("torch")
    {code}
    sys.modules["torch"] = torch
    """
    calls = """
    print(made("numpy")(x, x).tolist() == (x + x).tolist())
    print(made("numpy")(other.Tensor(x), other.Tensor(x)).tolist() == (x + x).tolist())
    print(raised(lambda: made("torch")(other.Tensor(x), other.Tensor(x))))
    print(raised(lambda: made("numpy")(real.zeros(2, 3), x)))
    print(raised(lambda: made("numpy")(7, x)))
    import straightline as sl
    print(raised(lambda: sl.compile(lambda x: x, (x,))))
    """
    lines = _run(tmp_path, _FRAMEWORK, _CALL, stand_in, calls)
    assert lines[:2] == ["True", "True"]
    assert lines[2] == (
        f"UserError: a result is to be a tensor of torch, but the module 'torch' of this process is not PyTorch: {words}"
    )
    assert lines[3].startswith("GuardTypeError: ")
    assert lines[4] == "GuardTypeError: 'x' must be a tensor but is a int"
    assert lines[5] == (
        f"UserError: compile captures models by torch, but this process's 'torch' is not PyTorch: {words}"
    )


_MISSING = {
    "is_neg": (
        "Tensor.is_neg = property(lambda self: (_ for _ in ()).throw(AttributeError('no is_neg')))",
        "no is_neg",
    ),
    "empty": ("del torch.empty", "empty"),
    "requires_grad": ("del Tensor.requires_grad", "requires_grad"),
    "is_grad_enabled": ("del torch.is_grad_enabled", "is_grad_enabled"),
    "version counters": ("del torch._C._increment_version", "_increment_version"),
    "the exchange table": ("", "no dlpack exchange table"),
    "is_neg in C": ("Tensor.__dlpack_c_exchange_api__ = table", "is not what it was"),
}


@pytest.mark.parametrize("part", _MISSING)
def test_a_torch_that_lacks_a_part(tmp_path: Path, part: str) -> None:
    code, words = _MISSING[part]
    stand_in = f"""
    import torch as real
    table = real.Tensor.__dict__.get("__dlpack_c_exchange_api__") or real.Tensor.__dlpack_c_exchange_api__
    class Tensor:
        __module__ = "torch"
        requires_grad = property(lambda self: False)
        def is_neg(self):
            return False
    torch, nn = types.ModuleType("torch"), types.ModuleType("torch.nn")
    torch.Tensor, torch.nn, nn.Parameter = Tensor, nn, Tensor
    torch.empty, torch.is_grad_enabled = lambda n: Tensor(), lambda: False
    torch._C = types.SimpleNamespace(_increment_version=lambda tensor: None)
    {code}
    sys.modules.update({{"torch": torch, "torch.nn": nn}})
    """
    call = 'print(raised(lambda: made("numpy")(other.Tensor(x), other.Tensor(x))))'
    (line,) = _run(tmp_path, _FRAMEWORK, _CALL, stand_in, call)
    assert line.startswith("UnsupportedError: ") and words in line


def test_stop_gradient(tmp_path: Path) -> None:
    """As `requires_grad` of torch: refused while gradients are recorded, taken else; a parameter is never asked."""
    calls = """
    fn, fixed, moving = made("numpy"), other.Tensor(x), other.Tensor(x, stop_gradient=False)
    print(fn(fixed, fixed).tolist() == (x + x).tolist())
    print(raised(lambda: fn(fixed, moving)))
    other.recording = False
    print(fn(fixed, moving).tolist() == (x + x).tolist())
    del other.is_grad_enabled
    print(raised(lambda: fn(moving, fixed)))
    class Asks:
        __dlpack__ = Tensor.__dlpack__
        __dlpack_device__ = Tensor.__dlpack_device__
        array = x
        @property
        def stop_gradient(self):
            raise ValueError("asked")
    print(raised(lambda: fn(Asks(), fixed)))
    """
    lines = _run(tmp_path, _FRAMEWORK, _CALL, calls)
    words = "has stop_gradient=False while grad mode is on, but a compiled program records no gradient: "
    words += "give x.detach() or call under no_grad()"
    assert lines == [
        "True",
        f"GuardTypeError: 'y' {words}",
        "True",
        f"GuardTypeError: 'x' {words}",
        "ValueError: asked",
    ]


def test_stop_gradient_beside_an_exchange_table(tmp_path: Path) -> None:
    """A framework with DLPack's table in C, here torch's, which is never asked: refused before that."""
    calls = """
    import torch as real
    class Foreign:
        __module__ = "other"
        __dlpack_c_exchange_api__ = real.Tensor.__dlpack_c_exchange_api__
        stop_gradient = False
    fn = made("numpy")
    print(raised(lambda: fn(Foreign(), Foreign())))
    """
    (line,) = _run(tmp_path, _FRAMEWORK, _CALL, calls)
    assert line.startswith("GuardTypeError: 'x' has stop_gradient=False while grad mode is on")
