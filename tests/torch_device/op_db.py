# SPDX-License-Identifier: Apache-2.0
"""Eager ops of torch's op_db on the device "sl" against the CPU: all samples of 152 ops, float32 and int64.

    STRAIGHTLINE_BACKEND_PATH=libstraightline_backend_device.so python tests/torch_device/op_db.py [--ops abs,add] [--seconds 600]

A row for each op and type: samples passed, failed (another answer than the CPU's, or another error than a refusal) and refused, with
the first reason. The exit status is 1 if one failed. What time did not allow is said as "not run".
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import straightline.torch_device  # noqa: F401
import torch
from torch.testing._internal.common_methods_invocations import op_db

OPS = """abs acos acosh add addcdiv addcmul addmm addmv all amax amin any argmax argmin asin asinh atan atan2 atanh bitwise_and
bitwise_not bitwise_or bitwise_xor bmm cat ceil chunk clamp clamp_max clamp_min clone constant_pad_nd cos cosh cumsum deg2rad diff
div.floor_rounding div.no_rounding_mode div.trunc_rounding dot eq erf erfc exp exp2 expand expm1 fill flatten flip floor floor_divide
fmax fmin frac full_like gather ge gt heaviside hypot index_add index_select isfinite isinf isnan isneginf isposinf le lerp log log10
log1p log2 log_softmax logical_and logical_not logical_or logical_xor logsumexp lt masked_fill masked_select matmul max.binary
max.reduction_no_dim maximum mean min.binary minimum mm movedim mul mv narrow ne neg nn.functional.elu nn.functional.embedding
nn.functional.gelu nn.functional.hardsigmoid nn.functional.hardswish nn.functional.layer_norm nn.functional.leaky_relu
nn.functional.linear nn.functional.relu nn.functional.relu6 nn.functional.silu nn.functional.softplus nonzero ones_like permute pow
prod rad2deg reciprocal remainder repeat reshape roll round rsqrt rsub scatter_add sigmoid sign sin sinh slice softmax sqrt square
stack std sub sum t tan tanh tile topk trace transpose tril triu trunc unbind unsqueeze var where zeros_like""".split()


def _named(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def _moved(value: Any) -> Any:
    """The value on the device."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("sl")
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(one) for one in value)
    if isinstance(value, dict):
        return {key: _moved(one) for key, one in value.items()}
    if isinstance(value, torch.device) or value == "cpu":
        return torch.device("sl")
    return value


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [one for part in value for one in _tensors(part)] if isinstance(value, (list, tuple)) else []


def _compared(got: Any, expected: Any) -> None:
    a, b = _tensors(got), _tensors(expected)
    assert len(a) == len(b), f"{len(a)} results, expected {len(b)}"
    for x, y in zip(a, b, strict=True):
        assert x.device.type == "sl", f"a result is on {x.device}"
        torch.testing.assert_close(x.cpu(), y, rtol=1e-4 if y.is_floating_point() else 0, atol=1e-5, equal_nan=True)


def outcomes(info: Any, dtype: torch.dtype) -> Iterator[tuple[str, str]]:
    """Of each sample: "passed", "failed" or "refused", and why."""
    for sample in info.sample_inputs("cpu", dtype):
        inputs = _moved(sample.input), _moved(sample.args), _moved(sample.kwargs)
        try:
            expected = info(sample.input, *sample.args, **sample.kwargs)
        except Exception:  # the CPU refuses it, too
            continue
        try:
            _compared(info(inputs[0], *inputs[1], **inputs[2]), expected)
            torch.sl.synchronize()
            yield "passed", ""
        except NotImplementedError as error:
            yield "refused", str(error).splitlines()[0]
        except Exception as error:
            yield "failed", f"{type(error).__name__}: {error} of {sample}"[:600]


def main() -> int:
    """Runs the ops, prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    known = {_named(info): info for info in op_db}
    end = time.monotonic() + arguments.seconds
    total: Counter[str] = Counter()
    for name in arguments.ops.split(","):
        for dtype in (torch.float32, torch.int64):
            if dtype not in known[name].supported_dtypes("cpu"):
                continue
            if time.monotonic() > end:
                total["not run"] += 1
                continue
            found = list(outcomes(known[name], dtype))
            counts = Counter(kind for kind, _ in found)
            total.update(counts)
            why = next(
                (text for kind, text in found if kind == "failed"), next((text for _, text in found if text), "")
            )
            print(f"{name} {str(dtype).removeprefix('torch.')}: {dict(counts)} {why}", flush=True)  # noqa: T201
    print(f"samples: {dict(total)}")  # noqa: T201
    return int(total["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
