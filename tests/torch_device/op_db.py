# SPDX-License-Identifier: Apache-2.0
"""Eager ops of torch's op_db on the device "sl" against the CPU: all samples of 152 ops, float32 and int64.

    STRAIGHTLINE_BACKEND_PATH=libstraightline_backend_device.so python tests/torch_device/op_db.py [--ops abs,add] [--seconds 600]
        [--page docs/coverage/torch_device.md]

A row for each op and type: samples passed, failed (another answer than the CPU's, or another error than a refusal) and refused, with
the first reason. The exit status is 1 if one failed. What time did not allow is said as "not run". Of equal elements `topk` may name
any: its indices are compared by what they point to.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
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


def _pointed_to(name: str, sample: Any, result: Any) -> Any:
    """The result, with the elements that indices point to in place of them where equal elements may have either."""
    if name != "topk":
        return result
    values, indices = result
    dim = sample.kwargs.get("dim", sample.args[1] if len(sample.args) > 1 else -1)
    source = sample.input.detach().to(indices.device)
    found = source.gather(dim, indices) if source.dim() else source.expand_as(indices)
    return values, found, (indices.sort(dim).values.diff(dim=dim) != 0 if source.dim() else indices)


def outcomes(info: Any, dtype: torch.dtype) -> Iterator[tuple[str, str]]:
    """Of each sample: "passed", "failed" or "refused", and why."""
    for sample in info.sample_inputs("cpu", dtype):
        inputs = _moved(sample.input), _moved(sample.args), _moved(sample.kwargs)
        try:
            expected = info(sample.input, *sample.args, **sample.kwargs)
        except Exception:  # the CPU refuses it, too
            continue
        try:
            got = info(inputs[0], *inputs[1], **inputs[2])
            _compared(_pointed_to(info.name, sample, got), _pointed_to(info.name, sample, expected))
            torch.sl.synchronize()
            yield "passed", ""
        except NotImplementedError as error:
            yield "refused", str(error)
        except Exception as error:
            yield "failed", f"{type(error).__name__}: {error} of {sample}"[:600]


def _page(rows: list[tuple[str, str, Counter[str], str]], total: Counter[str], seconds: float) -> str:
    """docs/coverage/torch_device.md."""
    ops = {name for name, _, _, _ in rows}
    lines = [
        "# Eager ops on PyTorch's device",
        "",
        f'All samples that torch\'s `op_db` has of {len(ops)} ops, in float32 and int64, by eager ops on "sl" over the simulated accelerator of',
        "`examples/backend_device`, against the CPU. *Refused*: `NotImplementedError` with a reason. Written by",
        "",
        "    python tests/torch_device/op_db.py --page docs/coverage/torch_device.md",
        "",
        f"Torch {torch.__version__}: {total['passed']} samples passed, {total['failed']} failed, {total['refused']} refused, {total['not run']} rows",
        f"not run; {straightline.torch_device.programs_built()} programs, {seconds / 60:.0f} minutes.",
        "",
        "| op | type | passed | failed | refused | first reason |",
        "|---|---|---|---|---|---|",
    ]
    for name, dtype, counts, why in rows:
        reason = " ".join(why.split())[:160].replace("|", "\\|")
        lines.append(f"| {name} | {dtype} | {counts['passed']} | {counts['failed']} | {counts['refused']} | {reason} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Runs the ops, prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--page", type=Path, help="where the table is written")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    known = {_named(info): info for info in op_db}
    began = time.monotonic()
    end = began + arguments.seconds
    rows = []
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
            rows.append((name, str(dtype).removeprefix("torch."), counts, why))
            print(f"{name} {str(dtype).removeprefix('torch.')}: {dict(counts)} {' '.join(why.split())}", flush=True)  # noqa: T201
    print(f"samples: {dict(total)}")  # noqa: T201
    if arguments.page:
        arguments.page.write_text(_page(rows, total, time.monotonic() - began))
    return int(total["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
