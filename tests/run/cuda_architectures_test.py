# SPDX-License-Identifier: Apache-2.0
"""Devices that are not here: every family of kernels (tests/device/families.py) compiled for their architectures.

Compiling makes machine code, for which the assembler in NVRTC refuses instructions that the architecture does not have; what is looked at
here is what kernels take. Nothing runs.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from tests.device.families import OWN, cases
from torch import nn
from torch.nn import functional as F

import straightline as sl

from straightline.testing.cubin import resources_in

#: Turing, Hopper, Blackwell of desks.
_ARCHS = (75, 90, 120)
#: Ampere, Ada (sm_86 has what it has) and Blackwell of data centres, which have little that those have not: what schedules make of their
#: numbers of processors and threads.
_LIKE_OTHERS = (80, 89, 100)
_SCHEDULED = ("rows of a cluster", "parts of rows", "gated", "tiles", "attention of", "selected from", "gru, a")
_FIRST_WITH_CLUSTERS = 90
_STATIC_SHARED = 48 << 10  # bytes that a kernel may declare on any of them
_RESERVED_SHARED = 1 << 10  # of a block, from sm_80 on, counted with those that are declared from sm_90 on
_REGISTERS = 65536  # of a processor
_REGISTERS_AT_ONCE = 8  # of a thread


@contextmanager
def _known_to_nvrtc() -> Iterator[None]:
    try:
        yield
    except sl.UnsupportedError as error:
        if "is unknown to NVRTC" not in str(error):
            raise
        pytest.skip(str(error))


def _fits(
    model: nn.Module,
    inputs: tuple[torch.Tensor, ...],
    arch: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    routes: dict[str, str] = OWN,
) -> str:
    """Compiles for a device of `arch`; no kernel keeps registers in memory or takes more than a processor has. Returns the text."""
    monkeypatch.setenv("STRAIGHTLINE_CACHE_DIR", str(folder))
    with _known_to_nvrtc():
        compiled = sl.compile(model.eval(), inputs, target=f"cuda:sm_{arch}", routes=routes)
    threads = {
        name: int(count) for count, name in re.findall(r"^SL_\w*KERNEL\((\d+)[^)]*\) (\w+)\(", compiled.code, re.M)
    }
    kernels = resources_in(folder)
    assert {kernel.kernel for kernel in kernels} == set(threads)
    for kernel in kernels:
        assert kernel.stack == 0, f"{kernel} spills"
        assert kernel.shared <= _STATIC_SHARED + (_RESERVED_SHARED if arch >= _FIRST_WITH_CLUSTERS else 0), kernel
        registers = -(-kernel.registers // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
        assert 0 < registers * threads[kernel.kernel] <= _REGISTERS, (kernel, threads[kernel.kernel])
    assert "SL_CLUSTER_KERNEL" not in compiled.code or arch >= _FIRST_WITH_CLUSTERS
    return compiled.code


@pytest.mark.parametrize(
    ("name", "arch"),
    [(name, arch) for name in cases() for arch in (*_ARCHS, *(_LIKE_OTHERS if name.startswith(_SCHEDULED) else ()))],
)
def test_every_family(name: str, arch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fits(*cases()[name], arch, tmp_path, monkeypatch)


@pytest.mark.parametrize("arch", [75, 80])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "name", ["few rows", "tiles", "tiles, a long sum", "attention", "convolution", "gru, a cluster"]
)
def test_half_numbers(
    name: str, dtype: torch.dtype, arch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensor cores take bfloat16 from sm_80 on; before, such products are summed by multiply-adds: there are no tiles of warps."""
    model, inputs = cases()[name]
    code = _fits(
        model.to(dtype), tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs), arch, tmp_path, monkeypatch
    )
    tiles = re.findall(
        r"\.mr = (\d+),\s+\.nr = (\d+),\s+\.rows = (\d+),\s+\.columns = (\d+),\s+\.threads = (\d+)", code
    )
    assert bool(tiles) == (name.startswith(("tiles", "convolution", "gru")))
    for mr, nr, rows, columns, threads in (map(int, tile) for tile in tiles):
        assert rows * columns // (mr * nr) == threads // (1 if arch < 80 and dtype is torch.bfloat16 else 32)


class _Attention(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize("arch", [80, 90, 120])
@pytest.mark.parametrize(
    ("dtype", "features"), [(torch.float32, 64), (torch.bfloat16, 64), (torch.bfloat16, 128), (torch.float16, 128)]
)
@pytest.mark.parametrize("queries", [33, 5000])
def test_attention_by_warps(
    queries: int, features: int, dtype: torch.dtype, arch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warps that share keys, and warps that do not."""
    inputs = tuple(torch.randn(1, 4, queries, features).to(dtype) for _ in range(3))
    matmul = torch.backends.cuda.matmul
    before, matmul.allow_tf32 = matmul.allow_tf32, True
    try:
        code = _fits(
            _Attention(), inputs, arch, tmp_path, monkeypatch, {"scaled_dot_product_attention": "cuda.attention_warps"}
        )
    finally:
        matmul.allow_tf32 = before
    assert (".warps = 1," in code) == (queries == 5000)


@pytest.mark.parametrize(
    ("arch", "dtype", "features", "why"),
    [
        (75, torch.float16, 64, "the program is for sm_75, needs sm_80 or later"),
        (90, torch.float32, 64, "operands are float32, needs 16 bits, or float32 with TF32 allowed"),
        (90, torch.float16, 136, "head size 136, needs at most 128"),
    ],
)
def test_what_attention_by_warps_refuses(arch: int, dtype: torch.dtype, features: int, why: str) -> None:
    inputs = tuple(torch.randn(1, 2, 16, features).to(dtype) for _ in range(3))
    with _known_to_nvrtc(), pytest.raises(sl.UserError, match=f"cuda.attention_warps: {why}"):
        sl.compile(
            _Attention(),
            inputs,
            target=f"cuda:sm_{arch}",
            routes={"scaled_dot_product_attention": "cuda.attention_warps"},
        )


def _of(linear: nn.Module, rows: int, dtype: torch.dtype) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return linear.to(dtype).eval(), (torch.randn(rows, 64).to(dtype),)


def test_bfloat16_is_not_for_libraries_before_sm_80() -> None:
    model, inputs = _of(nn.Linear(64, 64), 512, torch.bfloat16)
    with _known_to_nvrtc():
        compiled = sl.compile(model, inputs, target="cuda:sm_75")
    (row,) = [row for row in compiled.explain().statements if row["phase"] == "run" and row["kernel"]]
    assert row["backend"] == "cuda" and "cublaslt.linear: bfloat16 on sm_75, needs sm_80 or later" in row["why"]
    with pytest.raises(
        sl.UserError,
        match=r"route linear = cublaslt .* cannot be honoured: cublaslt.linear: bfloat16 on sm_75, needs sm_80 or later",
    ):
        sl.compile(model, inputs, target="cuda:sm_75", routes={"linear": "cublaslt"})
    with pytest.raises(sl.UserError, match="cudnn.convolution: bfloat16 on sm_75, needs sm_80 or later"):
        sl.compile(
            nn.Conv2d(8, 8, 3).bfloat16().eval(),
            (torch.randn(1, 8, 9, 9).bfloat16(),),
            target="cuda:sm_75",
            routes={"convolution": "cudnn"},
        )


@pytest.mark.parametrize(
    ("arch", "head", "why"),
    [
        (75, 64, "the program is for sm_75, needs sm_80 or later"),
        (89, 256, "head size 256 on sm_89, needs at most 128 there"),
        (120, 136, "head size 136 on sm_120, needs at most 128 there"),
        (80, 128, ""),
        (90, 256, ""),
    ],
)
def test_which_attention_cudnn_has(arch: int, head: int, why: str) -> None:
    inputs = tuple(torch.randn(1, 2, 512, head, dtype=torch.float16) for _ in range(3))
    with _known_to_nvrtc():
        (row,) = [
            row
            for row in sl.compile(F.scaled_dot_product_attention, inputs, target=f"cuda:sm_{arch}").explain().statements
            if row["phase"] == "run" and row["kernel"]
        ]
    assert row["backend"] == ("cuda" if why else "cudnn") and why in row["why"], row["why"]


@pytest.mark.parametrize(("arch", "rounded"), [(75, 0), (80, 2)])
def test_tf32_begins_with_sm_80(arch: int, rounded: int) -> None:
    """Torch's flags mean nothing on older devices, where float32 is float32."""
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.Flatten(2), nn.Linear(36, 40)).eval()
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32
    try:
        cudnn.allow_tf32 = matmul.allow_tf32 = True
        with _known_to_nvrtc():
            compiled = sl.compile(model, (torch.randn(4, 8, 8, 8),), target=f"cuda:sm_{arch}", routes=OWN)
    finally:
        cudnn.allow_tf32, matmul.allow_tf32 = before
    assert compiled.code.count(".tf32 = 1") == rounded


@pytest.mark.parametrize("arch", [20, 52, 60, 70, 72])
def test_what_is_too_old(arch: int) -> None:
    with pytest.raises(
        sl.UnsupportedError, match=rf"target cuda:sm_{arch} is too old, needs sm_75 \(Turing\) or later"
    ):
        sl.compile(lambda x: x + 1, (torch.randn(4),), target=f"cuda:sm_{arch}", cache=False)


@pytest.mark.parametrize(
    ("arch", "advice"),
    [
        (119, r"; its devices run what target='cuda:sm_110' gives"),
        (999, r"; a newer one is `pip install --upgrade nvidia-cuda-nvrtc`, or named by"),
    ],
)
def test_what_nvrtc_does_not_know(arch: int, advice: str) -> None:
    with pytest.raises(
        sl.UnsupportedError, match=rf"target cuda:sm_{arch} is unknown to NVRTC \d+\.\d+, which knows sm_75, .*{advice}"
    ):
        sl.compile(lambda x: x + 1, (torch.randn(4),), target=f"cuda:sm_{arch}", cache=False)


def test_an_nvrtc_that_is_too_old(tmp_path: Path) -> None:
    names = ("GetNumSupportedArchs", "GetSupportedArchs", "GetErrorString", "CreateProgram", "DestroyProgram", "CompileProgram",
             "GetProgramLogSize", "GetProgramLog", "GetCUBINSize", "GetCUBIN", "GetPTXSize", "GetPTX")  # fmt: skip
    source = "int nvrtcVersion(int* major, int* minor) { *major = 12; *minor = 2; return 0; }\n"
    (tmp_path / "nvrtc.c").write_text(source + "".join(f"int nvrtc{name}(void) {{ return 1; }}\n" for name in names))
    library = tmp_path / "libnvrtc.so.12"
    subprocess.run(["clang-22", "-shared", "-fPIC", "-o", library, tmp_path / "nvrtc.c"], check=True)
    script = (
        "import torch, straightline as sl\n"
        "try: sl.compile(lambda x: x + 1, (torch.randn(4),), target='cuda:sm_80', cache=False)\n"
        "except sl.UnsupportedError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env={**os.environ, "STRAIGHTLINE_NVRTC": str(library)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"{library} is NVRTC 12.2, needs 12.3 or newer" in done.stdout, done.stdout


_EVERY_FAMILY = """
import straightline as sl
from tests.device.families import OWN, cases

compiled = 0
for name, (model, inputs) in cases().items():
    try:
        sl.compile(model.eval(), inputs, target="cuda:sm_90", routes=OWN)
        compiled += 1
    except sl.StraightlineError as error:
        print(f"{name}: {type(error).__name__}: {error}")
print("compiled", compiled)
"""


def test_every_family_by_the_oldest_nvrtc(tmp_path: Path) -> None:
    """The run-time compiler of CUDA 12.3 knows less of C++ than the newest (no __builtin_offsetof, for one)."""
    folders = importlib.util.find_spec("nvidia").submodule_search_locations
    (library,) = [path for folder in folders for path in Path(folder).glob("cuda_nvrtc/lib/libnvrtc.so.12")]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _EVERY_FAMILY],
        env={
            **os.environ,
            "STRAIGHTLINE_NVRTC": str(library),
            "STRAIGHTLINE_CACHE_DIR": str(tmp_path),
            "PYTHONPATH": os.pathsep.join([*sys.path, str(root)]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"compiled {len(cases())}\n", done.stdout + done.stderr


class _Fused(nn.Module):
    def __init__(self, k: int, n: int) -> None:
        super().__init__()
        self.linear = nn.Linear(k, n)

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.linear(x)) * gate


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("size", [(64, 64, 64), (130, 72, 1024), (1024, 3072, 1024), (3136, 384, 96)], ids=str)
def test_products_by_warpgroups(
    size: tuple[int, int, int],
    dtype: torch.dtype,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Hopper: no tile keeps sums in memory, each block has its shared memory, and the workspace holds two maps for each."""
    (m, n, k), routes = size, {"linear": "cuda.linear_warpgroups"}
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
    request.addfinalizer(lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", before))
    model, inputs = _Fused(k, n).to(dtype), (torch.randn(m, k, dtype=dtype), torch.randn(m, n, dtype=dtype))
    text = _fits(model, inputs, 90, tmp_path, monkeypatch, routes)
    assert (
        ".stages = " in text
        and re.search(r"sl_own_code\), parameters_\w+, \d+, (\d+)", text)
        and int(re.findall(r"sl_own_code\), parameters_\w+, \d+, (\d+)", text)[0]) > 48 << 10
    )
    with pytest.raises(sl.UserError, match="needs machine code for sm_90"):
        sl.compile(model, inputs, target="cuda:sm_80", routes=routes)


class _Projections(nn.Module):
    """Products of one x that become one kernel each: three with epilogues, and two of one result."""

    def __init__(self, k: int, widths: tuple[int, int, int], hidden: int) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(k, n) for n in widths)
        self.gate, self.up = (nn.Linear(widths[0], hidden, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor, r: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = self.a(x) + r
        return F.silu(self.gate(a)) * self.up(a), F.gelu(self.b(x)), self.c(x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize(
    ("m", "k", "widths", "hidden"),
    [(64, 64, (72, 64, 40), 96), (130, 512, (1024, 260, 256), 2050), (1024, 1024, (2048, 1024, 1024), 3072)],
)
def test_groups_of_products_by_warpgroups(
    m: int,
    k: int,
    widths: tuple[int, int, int],
    hidden: int,
    dtype: torch.dtype,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Hopper: no tile keeps sums in memory; each block has its shared memory. Later devices have text without warpgroups."""
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
    request.addfinalizer(lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", before))
    model = _Projections(k, widths, hidden).to(dtype)
    inputs = (torch.randn(m, k, dtype=dtype), torch.randn(m, widths[0], dtype=dtype))
    text = _fits(model, inputs, 90, tmp_path / "cache", monkeypatch)
    assert text.count("sl::matmul_group<") == 2
    if m < 100:
        compiled = sl.compile(model, inputs, target="cuda:sm_90", routes=OWN)
        compiled.save(tmp_path / "both.sl", devices=("sm_90", "sm_100"))
        assert "sl::matmul_group<" not in sl.compile(model, inputs, target="cuda:sm_80", routes=OWN).code


def test_what_keeps_products_of_many_rows_apart() -> None:
    """Weights of one product each time; a library that a rule names; rows of any number; odd sizes."""

    def families(model: nn.Module, *inputs: torch.Tensor, **options: object) -> list[str]:
        compiled = sl.compile(model, inputs, target="cuda:sm_90", **options)  # type: ignore[arg-type]
        return [str(row["family"] or row["backend"]) for row in compiled.explain().statements if row["phase"] == "run"]

    model, x, r = _Projections(512, (512, 256, 256), 1024).bfloat16(), torch.randn(128, 512), torch.randn(128, 512)
    given = (x.bfloat16(), r.bfloat16())
    assert families(model, *given) == ["matmul_group"] * 2
    assert "matmul_group" not in families(model, *given, routes={"linear": "cublaslt"})
    assert "matmul_group" not in families(model, *given, routes={"linear": "cuda.linear_warpgroups"})
    rows = torch.export.Dim("rows", min=17, max=4096)
    assert "matmul_group" not in families(model, *given, dynamic_shapes=({0: rows}, {0: rows}))
    odd = _Projections(508, (512, 256, 256), 1024).bfloat16()
    assert families(odd, given[0][:, :508].contiguous(), given[1]).count("matmul_group") == 1, "508 is no multiple of 8"


def _by_weight(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w


def _by_value(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ torch.relu(w)


def _in_a_loop(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    def more(i: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return i < 3

    def step(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return i + 1, y @ w

    return torch.while_loop(more, step, (torch.zeros((), dtype=torch.int64), x))[1]


@pytest.mark.parametrize(("product", "early"), [(_by_weight, 2), (_by_value, 1), (_in_a_loop, 0)])
def test_what_warpgroups_do_before_the_kernel_ahead_has_ended(product: Callable[..., torch.Tensor], early: int) -> None:
    """Their maps, and tiles of what no kernel of a run writes; nothing in a loop, whose next turn writes the same maps."""
    given = (torch.randn(128, 128).bfloat16(), torch.randn(128, 128).bfloat16())
    compiled = sl.compile(product, given, target="cuda:sm_90", routes={"matmul": "cuda.matmul_warpgroups"})
    assert re.findall(r"\.early = (\d)", compiled.code) == [str(early)]


def _gated(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.silu(F.linear(x, w)) * F.linear(x, v)


def _gated_by_values(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return _gated(x, w, torch.relu(v))


def _gated_in_a_loop(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    def more(i: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return i < 3

    def step(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return i + 1, _gated(y, w, v)

    return torch.while_loop(more, step, (torch.zeros((), dtype=torch.int64), x))[1]


@pytest.mark.parametrize(("product", "early"), [(_gated, 2), (_gated_by_values, 1), (_gated_in_a_loop, 0)])
def test_what_groups_do_before_the_kernel_ahead_has_ended(product: Callable[..., torch.Tensor], early: int) -> None:
    given = tuple(torch.randn(256, 256).bfloat16() for _ in range(3))
    compiled = sl.compile(product, given, target="cuda:sm_90", routes={"linear": "cuda"})
    assert compiled.code.count("sl::matmul_group<") == 1
    assert re.findall(r"\.early = (\d)", compiled.code) == [str(early)]


def test_warpgroups_have_text_for_later_devices(tmp_path: Path) -> None:
    """Saved for several devices a program has PTX, in which the same tiles are made without warpgroups."""
    model = nn.Sequential(nn.Linear(768, 3072), nn.GELU()).bfloat16()
    compiled = sl.compile(model, (torch.randn(512, 768).bfloat16(),), target="cuda:sm_90", routes={"linear": "cuda"})
    assert ".stages = " in compiled.code
    compiled.save(tmp_path / "both.sl", devices=("sm_90", "sm_100"))


def test_what_warpgroups_refuse() -> None:
    routes = {"linear": "cuda.linear_warpgroups"}
    for (m, n, k), dtype, words in (
        ((63, 64, 64), torch.bfloat16, "m=63, needs 64 or more"),
        ((64, 64, 60), torch.bfloat16, "k=60, needs a multiple of 8"),
        ((64, 64, 64), torch.float64, "operand 0 is float64, needs 16 bits, or float32 that may be rounded"),
    ):
        model, inputs = _Fused(k, n).to(dtype), (torch.randn(m, k, dtype=dtype), torch.randn(m, n, dtype=dtype))
        with pytest.raises(sl.UserError, match=words):
            sl.compile(model, inputs, target="cuda:sm_90", routes=routes)
