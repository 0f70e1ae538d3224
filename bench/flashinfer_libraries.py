# SPDX-License-Identifier: Apache-2.0
"""FlashInfer's `norm`, `page`, `rope`, `sampling` and `batch_decode` in our programs: built, checked against float64, timed.

    python -m bench.flashinfer_libraries                                   # of the installed package flashinfer-python 0.7.2
    python -m bench.flashinfer_libraries --sources flashinfer_python-0.7.2-py3-none-any.whl --json result.json
    python -m bench.flashinfer_libraries --build-only --arch 90a --libraries FOLDER     # needs no device

The sources are CUDA C++ of the package: nvcc compiles them (84 s on 16 cores), with the package's own `cccl`, which is newer than
that of CUDA 13.0, and apache-tvm-ffi's headers. Libraries that are in `--libraries` already are taken as they are.

A decode step of the shape of Qwen3 takes the norms, rotary embedding, paged cache and top-p sampling from FlashInfer, all else
from us; with batch decode also the attention, whose plan is made in each call and gives its numbers to each layer.

Times are microseconds: until a call returns, until the device is done, and of a call in a sequence of calls. Fails when
an answer is further from float64 than four times eager's own distance.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import straightline as sl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.cuda_decode import distance, times_of

#: By library: its sources in the package's csrc, and flags of its own.
_LIBRARIES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "norm": (("norm", "flashinfer_norm_binding"), ("-DENABLE_BF16", "-DENABLE_FP8")),
    "page": (("page", "flashinfer_page_binding"), ()),
    "rope": (("rope", "flashinfer_rope_binding"), ()),
    "sampling": (("sampling", "renorm", "flashinfer_sampling_binding"), ()),
    "batch_decode": (("batch_decode_kernel", "batch_decode", "batch_decode_jit_binding"), ()),
}
_FLAGS = (
    "-std=c++17", "-use_fast_math", "-Xfatbin=-compress-all", "-static-global-template-stub=false", "--expt-relaxed-constexpr",
    "--compiler-options=-fPIC", "-DFLASHINFER_ENABLE_F16", "-DFLASHINFER_ENABLE_BF16", "-DFLASHINFER_ENABLE_FP8_E4M3",
    "-DFLASHINFER_ENABLE_FP8_E5M2",
)  # fmt: skip
_INCLUDED = (
    "include",
    "csrc",
    "cccl/cub",
    "cccl/libcudacxx/include",
    "cccl/thrust",
    "cutlass/include",
    "spdlog/include",
)
_SCHEMAS = {
    "norm": {
        "rmsnorm": "flashinfer_sl::rmsnorm(Tensor(a!) out, Tensor x, Tensor weight, float eps, bool pdl) -> ()",
    },
    "page": {
        "append_paged_kv_cache": "flashinfer_sl::append_paged_kv_cache(Tensor key, Tensor value, Tensor batch_indices, Tensor "
        "positions, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor kv_indices, Tensor kv_indptr, Tensor last_page_len, int "
        "layout) -> ()",
    },
    "rope": {
        "apply_rope_pos_ids_cos_sin_cache": "flashinfer_sl::apply_rope_pos_ids_cos_sin_cache(Tensor q, Tensor k, Tensor(a!) "
        "q_rope, Tensor(b!) k_rope, Tensor cos_sin_cache, Tensor pos_ids, bool interleave) -> ()",
    },
    "sampling": {
        "top_p_sampling_from_probs": "flashinfer_sl::top_p_sampling_from_probs(Tensor probs, Tensor(a!) output, Tensor(b!) "
        "valid, Tensor? indices, Tensor? top_p_arr, float top_p, bool deterministic, Tensor? seed_arr, int seed, "
        "Tensor? offset_arr, int offset) -> ()",
    },
}
_SCHEMAS["batch_decode"] = {
    "plan": "flashinfer_sl::batch_decode_plan(Tensor(a!) float_workspace, Tensor(b!) int_workspace, int locked, "
    "Tensor indptr, int batch, int heads, int kv_heads, int page, bool graph, int window, float cap, int dim_qk, int dim_vo, "
    "Tensor like_q, Tensor like_kv) -> Tensor",
    "run": "flashinfer_sl::batch_decode_run(Tensor(a!) float_workspace, Tensor int_workspace, Tensor numbers, Tensor q, "
    "Tensor k_cache, Tensor v_cache, Tensor indptr, Tensor indices, Tensor last_page_len, Tensor(b!) out, Tensor? lse, "
    "int layout, int window, bool pdl, Tensor? alibi, float cap, float scale, float rope_scale, float rope_theta) -> ()",
}
#: What `sl.tvm_ffi_library` is told beside them. A plan gives ten numbers (DecodePlanInfo), which a run takes.
_OPTIONS: dict[str, dict[str, Any]] = {
    "batch_decode": {
        "plans": {"plan": {"indptr": "copy", "locked": "scratch"}}, "numbers": {"plan": 10, "run": ["numbers"]},
    },
}  # fmt: skip
#: Bytes of batch decode's workspaces; as many on the host as of the second.
_FLOAT_WORKSPACE, _INT_WORKSPACE = 8 << 20, 64 << 10
_EPS = 1e-6


# Building -------------------------------------------------------------------------------------------------------------


def sources_of(where: str | None, folder: Path) -> Path:
    """The package's `data`: of the installed package, a wheel (its files go to `folder`), or a folder."""
    if where is None:
        spec = importlib.util.find_spec("flashinfer")
        if spec is None or not spec.submodule_search_locations:
            sys.exit(
                "flashinfer is not installed: pip install --no-deps flashinfer-python==0.7.2, or --sources its wheel"
            )
        return Path(spec.submodule_search_locations[0]) / "data"
    path = Path(where)
    if path.is_dir():
        return next(p for p in (path / "flashinfer" / "data", path / "data", path) if (p / "csrc").is_dir())
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith("flashinfer/data/")])
    return folder / "flashinfer" / "data"


def write_decode(data: Path, folder: Path, head_dim: int = 128) -> None:
    """Writes what FlashInfer generates for batch decode of bfloat16: its templates with these types."""
    scalars = ("logits_soft_cap", "sm_scale", "rope_rcp_scale", "rope_rcp_theta")
    alibi = "maybe_alibi_slopes ? static_cast<float*>(maybe_alibi_slopes.value().data_ptr()) : nullptr"
    values = {
        "additional_params_decl": "float* maybe_alibi_slopes;\n" + "".join(f"double {name};\n" for name in scalars),
        "additional_func_params": ", Optional<ffi::Tensor> maybe_alibi_slopes" + "".join(f", double {n}" for n in scalars),
        "additional_params_setter": f"params.maybe_alibi_slopes = {alibi};"
        + "".join(f" params.{name} = {name};" for name in scalars),
        "variant_name": "DefaultAttention<false, false, false, false>",
        "variant_decl": "#include <flashinfer/attention/variants.cuh>",
        **dict.fromkeys(("dtype_q", "dtype_kv", "dtype_o"), "nv_bfloat16"), "idtype": "int32_t",
        **dict.fromkeys(("head_dim_qk", "head_dim_vo"), str(head_dim)), "pos_encoding_mode": "PosEncodingMode::kNone",
        **dict.fromkeys(("use_logits_soft_cap", "use_sliding_window"), "false"),
    }  # fmt: skip
    for template, name in (("customize_config", "batch_decode_config.inc"), ("kernel_inst", "batch_decode_kernel.cu")):
        text = (data / "csrc" / f"batch_decode_{template}.jinja").read_text()
        (folder / name).write_text(re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: values[found[1]], text))


def build(data: Path, folder: Path, arch: str, jobs: int, include: Sequence[str] = ()) -> float:
    """Compiles what is not in the folder yet for `arch` ("90a"); returns the seconds that it took."""
    import tvm_ffi

    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    tvm = Path(tvm_ffi.__file__).parent
    places = [f"-I{data / name}" for name in _INCLUDED]
    places += [f"-isystem={place}" for place in (tvm / "include", *include)]
    wanted = {name: facts for name, facts in _LIBRARIES.items() if not library_of(folder, name).exists()}
    start = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    if "batch_decode" in wanted:
        write_decode(data, folder)

    def compiled(source: str, flags: Sequence[str]) -> None:
        command = [nvcc, *_FLAGS, *flags, f"-gencode=arch=compute_{arch},code=sm_{arch}", f"-I{folder}", *places, "-w"]
        generated = folder / f"{source}.cu"
        path = generated if generated.exists() else data / "csrc" / f"{source}.cu"
        subprocess.run([*command, "-c", path, "-o", folder / f"{source}.o"], check=True)

    with ThreadPoolExecutor(jobs) as pool:  # the longest first
        order = [(source, flags) for names, flags in reversed(wanted.values()) for source in names]
        list(pool.map(lambda one: compiled(*one), order))
    for name, (names, _) in wanted.items():
        objects = [folder / f"{source}.o" for source in names]
        libraries = [f"-L{tvm / 'lib'}", "-ltvm_ffi", "-lcudart"]
        subprocess.run([nvcc, "-shared", "-o", library_of(folder, name), *objects, *libraries], check=True)
        for each in objects:
            each.unlink()
    return time.perf_counter() - start


def library_of(folder: Path, name: str) -> Path:
    """The shared library of one of them."""
    return folder / f"libflashinfer_{name}.so"


def register(folder: Path) -> None:
    """Makes their functions ops, torch.ops.flashinfer_sl."""
    for name, schemas in _SCHEMAS.items():
        sl.tvm_ffi_library(library_of(folder, name), schemas, device="cuda", **_OPTIONS.get(name, {}))


# Models ---------------------------------------------------------------------------------------------------------------


def rmsnorm(x: Tensor, weight: Tensor, ours: bool) -> Tensor:
    """By torch (and so by us), or by FlashInfer; of rank 2 or 3."""
    if ours:
        return F.rms_norm(x, (x.shape[-1],), weight, _EPS)
    out = torch.empty_like(x)
    torch.ops.flashinfer_sl.rmsnorm(out, x, weight, _EPS, False)
    return out


class Norms(nn.Module):
    """One norm behind the other; `halves`: every other one of half rows, so that no two of ours are one kernel."""

    def __init__(self, count: int, dim: int, ours: bool, halves: bool = False) -> None:
        super().__init__()
        sizes = [dim // 2 if halves and i % 2 else dim for i in range(count)]
        self.weights = nn.ParameterList(1 + 0.1 * torch.randn(size) for size in sizes)
        self.ours = ours

    def forward(self, x: Tensor) -> Tensor:
        """Takes [rows, dim]."""
        for weight in self.weights:
            x = rmsnorm(x.reshape(-1, weight.shape[0]), weight, self.ours)
        return x


class Decode(nn.Module):
    """Layers of the shape of Qwen3-0.6B for one token, a paged cache, and the choice of the next token.

    `flashinfer`: norms, rotary, append and sampling are FlashInfer's. Else they are torch's, and the token is the likeliest.
    `batch_decode`: the attention is, too.
    """

    page = 16

    def __init__(
        self, layers: int, flashinfer: bool, dim: int = 1024, heads: int = 16, kv_heads: int = 8, head_dim: int = 128,
        ffn: int = 3072, pages: int = 32, vocabulary: int = 4096, top_p: float = 0.9, batch_decode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.shape = heads, kv_heads, head_dim
        self.flashinfer, self.top_p, self.batch_decode = flashinfer, top_p, batch_decode
        self.layers = nn.ModuleList()
        for _ in range(layers):
            layer = nn.Module()
            for name, size in (("norm1", dim), ("norm2", dim), ("q_norm", head_dim), ("k_norm", head_dim)):
                layer.register_parameter(name, nn.Parameter(1 + 0.1 * torch.randn(size)))
            for name, inner, outer in (
                ("q", dim, heads * head_dim), ("k", dim, kv_heads * head_dim), ("v", dim, kv_heads * head_dim),
                ("o", heads * head_dim, dim), ("gate", dim, ffn), ("up", dim, ffn), ("down", ffn, dim),
            ):  # fmt: skip
                setattr(layer, name, nn.Linear(inner, outer, bias=False))
            layer.register_buffer("k_cache", torch.randn(pages, self.page, kv_heads, head_dim))
            layer.register_buffer("v_cache", torch.randn(pages, self.page, kv_heads, head_dim))
            self.layers.append(layer)
        self.norm = nn.Parameter(1 + 0.1 * torch.randn(dim))
        self.head = nn.Linear(dim, vocabulary, bias=False)
        angles = torch.outer(torch.arange(pages * self.page).float(), 1e4 ** (-torch.arange(0, head_dim, 2) / head_dim))
        self.register_buffer("cos_sin", torch.cat((angles.cos(), angles.sin()), 1))

    def rotated(self, q: Tensor, k: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """[1, heads, head_dim] each."""
        if self.flashinfer:
            q_out, k_out = torch.empty_like(q), torch.empty_like(k)
            torch.ops.flashinfer_sl.apply_rope_pos_ids_cos_sin_cache(q, k, q_out, k_out, self.cos_sin, position, False)
            return q_out, k_out
        halves = self.cos_sin[position.long()].chunk(2, -1)
        cos, sin = (torch.cat((half, half), -1).unsqueeze(1) for half in halves)

        def turned(x: Tensor) -> Tensor:
            a, b = x.to(cos.dtype).chunk(2, -1)
            return (x * cos + torch.cat((-b, a), -1) * sin).to(x.dtype)

        return turned(q), turned(k)

    def appended(self, layer: Any, k: Tensor, v: Tensor, at: dict[str, Tensor]) -> None:
        """Writes a token's row into the cache."""
        if self.flashinfer:
            torch.ops.flashinfer_sl.append_paged_kv_cache(
                k, v, at["batch"], at["position"], layer.k_cache, layer.v_cache, at["indices"], at["indptr"],
                at["last_page_len"], 0,
            )  # fmt: skip
            return
        position = at["position"].long()
        place = (at["indices"].long()[position // self.page], position % self.page)
        layer.k_cache.index_put_(place, k)
        layer.v_cache.index_put_(place, v)

    def plan(self, x: Tensor, at: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """Both workspaces and the numbers of a plan for one sequence; (): the attention is torch's."""
        if not self.batch_decode:
            return ()
        heads, kv_heads, head_dim = self.shape
        floats, ints = (
            torch.empty(count, dtype=torch.uint8, device=x.device) for count in (_FLOAT_WORKSPACE, _INT_WORKSPACE)
        )
        numbers = torch.ops.flashinfer_sl.batch_decode_plan(
            floats,
            ints,
            _INT_WORKSPACE,
            at["indptr"],
            1,
            heads,
            kv_heads,
            self.page,
            False,
            -1,
            0.0,
            head_dim,
            head_dim,
            x,
            x,
        )
        return floats, ints, numbers

    def attention(self, layer: Any, q: Tensor, at: dict[str, Tensor], plan: tuple[Tensor, ...]) -> Tensor:
        """Of one token [1, heads, head_dim] over all that the cache has."""
        heads, kv_heads, head_dim = self.shape
        if plan:
            out = torch.empty_like(q)
            torch.ops.flashinfer_sl.batch_decode_run(
                *plan, q, layer.k_cache, layer.v_cache, at["indptr"], at["indices"], at["last_page_len"], out, None, 0, -1, False,
                None, 0.0, head_dim**-0.5, 1.0, 1e-4,
            )  # fmt: skip
            return out
        count = self.page * at["indices"].shape[0]
        isKnown = (torch.arange(count, device=q.device, dtype=torch.int32) <= at["position"]).view(1, 1, 1, count)
        keys, values = (
            cache[at["indices"].long()].view(1, count, kv_heads, head_dim).transpose(1, 2)
            for cache in (layer.k_cache, layer.v_cache)
        )
        return F.scaled_dot_product_attention(
            q.view(1, heads, 1, head_dim), keys, values, attn_mask=isKnown, enable_gqa=True
        )

    def forward(self, x: Tensor, at: dict[str, Tensor], seed: Tensor) -> tuple[Tensor, Tensor]:
        """Takes [1, dim], places in the cache and a seed; returns probabilities [1, vocabulary] and the next token."""
        heads, kv_heads, head_dim = self.shape
        plan = self.plan(x, at)
        for m in self.layers:
            y = rmsnorm(x, m.norm1, not self.flashinfer)
            q = rmsnorm(m.q(y).view(1, heads, head_dim), m.q_norm, not self.flashinfer)
            k = rmsnorm(m.k(y).view(1, kv_heads, head_dim), m.k_norm, not self.flashinfer)
            q, k = self.rotated(q, k, at["position"])
            self.appended(m, k, m.v(y).view(1, kv_heads, head_dim), at)
            x = x + m.o(self.attention(m, q, at, plan).reshape(1, -1))
            y = rmsnorm(x, m.norm2, not self.flashinfer)
            x = x + m.down(F.silu(m.gate(y)) * m.up(y))
        probs = self.head(rmsnorm(x, self.norm, not self.flashinfer)).float().softmax(-1)
        if not self.flashinfer:
            return probs, probs.argmax(-1).int()
        token = torch.empty(1, dtype=torch.int32, device=x.device)
        valid = torch.empty(1, dtype=torch.bool, device=x.device)
        torch.ops.flashinfer_sl.top_p_sampling_from_probs(
            probs, token, valid, None, None, self.top_p, True, seed, 0, None, 0
        )
        return probs, token


def place_of(position: int, pages: Tensor) -> dict[str, Tensor]:
    """What FlashInfer's paged cache is told for one token at `position`: of `pages` those up to it are in use."""
    size = Decode.page

    def ints(*values: int) -> Tensor:
        return torch.tensor(values, dtype=torch.int32, device=pages.device)

    return {
        "batch": ints(0), "position": ints(position), "indices": pages, "indptr": ints(0, position // size + 1),
        "last_page_len": ints(position % size + 1),
    }  # fmt: skip


# Checks ---------------------------------------------------------------------------------------------------------------


class Report:
    """Collects records, and whether all answers are right."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def add(self, **record: Any) -> None:
        """One record, printed."""
        self.records.append(record)
        print(json.dumps(record), flush=True)

    def answer(self, case: str, got: Tensor, eager: Tensor, exact: Tensor, least: float = 0.0) -> None:
        """Compares a result, and eager's, with float64."""
        mine, torchs = distance(got, exact.double()), distance(eager, exact.double())
        self.add(case=case, error=mine, eager_error=torchs, ok=mine <= 4 * torchs + least)

    @property
    def isGood(self) -> bool:
        """Whether no answer is wrong."""
        return all(record.get("ok", True) for record in self.records)


def check_norms(report: Report, dtype: torch.dtype) -> None:
    """A chain of norms, as a graph, by stream, by the interpreter and in Python, which have equal bits."""
    model = Norms(3, 1024, ours=False).to("cuda", dtype)
    x = torch.randn(7, 1024, device="cuda", dtype=dtype)
    eager, exact = x, x.double()
    for weight in model.weights:
        eager = F.rms_norm(eager, (1024,), weight, _EPS)
        exact = F.rms_norm(exact, (1024,), weight.double(), _EPS)
    first = sl.compile(model, (x,), launch="graph")(x)
    report.answer(f"3 norms, {dtype}", first, eager, exact, 1e-6)
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "m.sl"
        sl.compile(model, (x,)).save(saved)
        ways: dict[str, Callable[[], Tensor]] = {
            "stream": lambda: sl.compile(model, (x,), launch="stream")(x),
            "python": lambda: sl.compile(model, (x,), emit="python")(x),
            "saved": lambda: sl.load(saved)(x),
            "eager": lambda: model(x),
        }
        for name, call in ways.items():
            report.add(case=f"3 norms, {dtype}, {name}: the same bits", ok=torch.equal(call(), first))
    fn = sl.compile(model, (x,))
    with sl.fast_path(False):
        report.add(case=f"3 norms, {dtype}, interpreter: the same bits", ok=torch.equal(fn(x), first))
    other = torch.randn_like(x)  # the graph is updated for an address that is new
    report.add(case=f"3 norms, {dtype}, another address", ok=torch.equal(fn(other), model(other)))


def check_sampling(report: Report) -> None:
    """Draws are of the nucleus, as often as their probability says, and follow the seed of a call."""
    probs = torch.softmax(3 * torch.randn(1, 64, device="cuda"), -1)
    top_p, count = 0.8, 4096

    class Draw(nn.Module):
        def forward(self, probs: Tensor, seed: Tensor) -> Tensor:
            rows = probs.expand(count, 64).contiguous()
            out = torch.empty(count, dtype=torch.int32, device=probs.device)
            valid = torch.empty(count, dtype=torch.bool, device=probs.device)
            torch.ops.flashinfer_sl.top_p_sampling_from_probs(
                rows, out, valid, None, None, top_p, True, seed, 0, None, 0
            )
            return out

    fn = sl.compile(Draw(), (probs, torch.tensor([1], device="cuda")))
    draws = [fn(probs, torch.tensor([seed], device="cuda")) for seed in (1, 2, 1)]
    report.add(
        case="sampling follows the seed", ok=torch.equal(draws[0], draws[2]) and not torch.equal(draws[0], draws[1])
    )
    order = probs[0].argsort(descending=True)
    kept = int((probs[0][order].cumsum(0) < top_p).sum()) + 1
    nucleus = order[:kept]
    seen = torch.bincount(draws[0].long(), minlength=64).double()
    wanted = torch.zeros(64, device="cuda", dtype=torch.double)
    wanted[nucleus] = (probs[0][nucleus] / probs[0][nucleus].sum()).double() * count
    off = ((seen - wanted).abs() / (wanted.sqrt() + 1)).max().item()  # in standard deviations
    report.add(case="sampling, frequencies", deviations=off, ok=off < 6 and bool((seen[wanted == 0] == 0).all()))


def check_decode(report: Report, layers: int, batch_decode: bool = False) -> tuple[Any, tuple[Any, ...]]:
    """Tokens at several places, with batch decode also such whose plans differ; returns the compiled step and its arguments."""
    torch.manual_seed(7)
    with torch.device("cuda"):
        model = Decode(layers, flashinfer=True, batch_decode=batch_decode).eval().requires_grad_(False)
        eager, exact = (Decode(layers, flashinfer=False).eval().requires_grad_(False) for _ in range(2))
        pages = torch.randperm(32)[: 32 if batch_decode else 8].int()
    for other in (eager, exact):
        other.load_state_dict(model.state_dict())
    for other in (model, eager):
        other.bfloat16()
        other.cos_sin = other.cos_sin.float()
    exact.load_state_dict({name: value.double() for name, value in eager.state_dict().items()})
    exact.double()
    seed = torch.tensor([3], device="cuda")
    x = torch.randn(1, 1024, device="cuda").bfloat16()
    fn = sl.compile(model, (x, place_of(40, pages), seed))
    name = f"decode, {layers} layers" + (", batch decode" if batch_decode else "")
    for position in (40, 41, 300, 511, 42) if batch_decode else (40, 41):
        x = torch.randn(1, 1024, device="cuda").bfloat16()
        at = place_of(position, pages)
        probs, token = fn(x, at, seed)
        wanted, _ = exact(x.double(), at, seed)
        report.answer(f"{name}, token {position}", probs, eager(x, at, seed)[0], wanted, 1e-6)
        ordered = wanted[0].sort(descending=True).values
        kept = wanted[0] >= ordered[int((ordered.cumsum(0) < model.top_p + 0.05).sum())]  # rounding at the border
        report.add(
            case=f"{name}, token {position} is of the nucleus", token=int(token), ok=bool(kept[token.long()].all())
        )
        for cache in ("k_cache", "v_cache"):
            mine, right = (torch.stack([getattr(m, cache) for m in each.layers]) for each in (model, exact))
            report.answer(
                f"{name}, {cache} after {position}",
                mine,
                torch.stack([getattr(m, cache) for m in eager.layers]),
                right,
                1e-6,
            )
        if batch_decode:
            report.add(case=f"{name}, the plan at {position}", numbers=model.plan(x, at)[-1].tolist())
    if batch_decode and layers < 4:
        check_ways(report, name, model, fn, (x, at, seed))
    return fn, (x, at, seed)


def check_ways(report: Report, name: str, model: nn.Module, fn: Any, arguments: tuple[Any, ...]) -> None:
    """The step by stream, in Python, by the interpreter, saved, in eager: equal bits where the kernels are the same."""
    wanted = fn(*arguments)[0]
    with tempfile.TemporaryDirectory() as folder:
        fn.save(Path(folder) / "m.sl")
        ways: dict[str, Callable[[], Any]] = {
            "stream": lambda: sl.compile(model, arguments, launch="stream")(*arguments),
            "python": lambda: sl.compile(model, arguments, emit="python")(*arguments),
            "saved": lambda: sl.load(Path(folder) / "m.sl")(*arguments),
        }
        for way, call in ways.items():
            report.add(case=f"{name}, {way}: the same bits", ok=torch.equal(call()[0], wanted))
    with sl.fast_path(False):
        report.add(case=f"{name}, interpreter: the same bits", ok=torch.equal(fn(*arguments)[0], wanted))
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            fn(*arguments)
        report.add(case=f"{name}, in a capture of the caller's: refused", ok=False)
    except sl.OpError as error:
        report.add(case=f"{name}, in a capture of the caller's: refused", ok="plans on the host" in str(error))
    torch.cuda.synchronize()
    report.add(case=f"{name}, behind that: the same bits", ok=torch.equal(fn(*arguments)[0], wanted))


def check_pages(report: Report) -> None:
    """The rows that an append writes, bit by bit, and no others."""

    class Append(nn.Module):
        def forward(self, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, at: dict[str, Tensor]) -> None:
            torch.ops.flashinfer_sl.append_paged_kv_cache(
                k, v, at["batch"], at["position"], k_cache, v_cache, at["indices"], at["indptr"], at["last_page_len"], 0
            )

    caches = [torch.randn(8, 16, 8, 128, device="cuda").bfloat16() for _ in range(2)]
    rows = [torch.randn(1, 8, 128, device="cuda").bfloat16() for _ in range(2)]
    pages = torch.randperm(8, device="cuda")[:4].int()
    fn = sl.compile(Append(), (*rows, *(cache.clone() for cache in caches), place_of(40, pages)))
    for position in (40, 63, 0):
        wanted = [cache.clone() for cache in caches]
        for cache, row in zip(wanted, rows):
            cache[pages[position // 16], position % 16] = row[0]
        fn(*rows, *caches, place_of(position, pages))
        report.add(case=f"append at {position}", ok=all(torch.equal(a, b) for a, b in zip(caches, wanted)))


def time_norms(report: Report, rows: int) -> None:
    """20 norms of FlashInfer in one program against 20 of ours, each a kernel."""
    x = torch.randn(rows, 1024, device="cuda").bfloat16()
    times: dict[tuple[str, str], dict[str, float]] = {}
    for launch in ("graph", "stream"):
        for name in ("flashinfer", "ours"):
            model = Norms(20, 1024, ours=name == "ours", halves=True).cuda().bfloat16().requires_grad_(False)
            fn = sl.compile(model, (x,), launch=launch)
            launches = sum(row["phase"] == "run" for row in fn.explain().statements)
            times[launch, name] = times_of(lambda fn=fn: fn(x))
            report.add(
                case=f"20 norms of [{rows}, 1024]", by=name, launch=launch, launches=launches, **times[launch, name]
            )
        ratio = {key: times[launch, "flashinfer"][key] / times[launch, "ours"][key] for key in times[launch, "ours"]}
        report.add(case=f"20 norms of [{rows}, 1024]", launch=launch, ratio=ratio)


def time_decode(report: Report, layers: int, steps: dict[str, tuple[Any, tuple[Any, ...]]]) -> None:
    """The steps by name, each beside one with our own norms, rotary, cache and attention, which chooses the likeliest token."""
    with torch.device("cuda"):
        own = Decode(layers, flashinfer=False).eval().bfloat16().requires_grad_(False)
    own.cos_sin = own.cos_sin.float()
    for name, (fn, arguments) in steps.items():
        for by, call in ((name, fn), ("ours", sl.compile(own, arguments))):
            launches = sum(row["phase"] == "run" for row in call.explain().statements)
            times = times_of(lambda call=call, arguments=arguments: call(*arguments))
            pages = len(arguments[1]["indices"])
            report.add(case=f"decode, {layers} layers, {pages} pages", by=by, launches=launches, **times)


def main() -> None:
    """Builds, checks, times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", help="FlashInfer's wheel, or a folder of it; default: the installed package")
    parser.add_argument(
        "--libraries", type=Path, help="where the libraries are or are built; default: for this run alone"
    )
    parser.add_argument("--include", action="append", default=[], help="a folder of more headers for nvcc")
    parser.add_argument("--arch", help='default: of the device, as "90a"')
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        libraries = arguments.libraries or Path(folder) / "libraries"
        if not all(library_of(libraries, name).exists() for name in _LIBRARIES):
            major, minor = torch.cuda.get_device_capability() if arguments.arch is None else (0, 0)
            arch = arguments.arch or f"{major}{minor}{'a' if major >= 9 else ''}"
            data = sources_of(arguments.sources, Path(folder))
            report.add(case="build", seconds=build(data, libraries, arch, arguments.jobs, arguments.include), arch=arch)
        if not arguments.build_only:
            _measure(report, libraries, arguments.layers)
    if arguments.json:
        arguments.json.write_text(json.dumps({"records": report.records}, indent=1) + "\n")
    if not report.isGood:
        sys.exit("an answer is wrong")


def _measure(report: Report, libraries: Path, layers: int) -> None:
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    register(libraries)
    report.add(device=torch.cuda.get_device_name(), torch=torch.__version__)
    with torch.inference_mode():
        for dtype in (torch.bfloat16, torch.float16):
            check_norms(report, dtype)
        check_pages(report)
        check_sampling(report)
        check_decode(report, 2)
        check_decode(report, 2, batch_decode=True)
        for rows in (1, 256):
            time_norms(report, rows)
        steps = {
            name: check_decode(report, layers, batch_decode=name != "flashinfer")
            for name in ("flashinfer", "flashinfer with batch decode")
        }
        time_decode(report, layers, steps)


if __name__ == "__main__":
    main()
