# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.jax_cases`: what does a call of a program of JAX cost beside `jax.jit`?

    .venv-jax/bin/python -m bench.jax_cases --rounds 15

Both sides run on one thread of one processor, are called from Python and are waited for. In each round every contender takes its
calls in turn; a column has the least of all rounds and their median, in microseconds. Answers are compared first. The first call
of each side, which compiles, is not in the rounds and stands in a table of its own. `torch` is a program of ours from the same
model in torch, with torch tensors.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import straightline as sl  # noqa: E402
import torch  # noqa: E402

from bench import jax_models as models  # noqa: E402

#: A round of a contender takes about so long.
_ROUND_SECONDS = 0.02


class Case(NamedTuple):
    """A function of arrays, and the same model in torch with its inputs, if there is one."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    torch: tuple[torch.nn.Module | Callable[..., Any], tuple[torch.Tensor, ...]] | None = None


def cases(seed: int) -> list[Case]:
    """The cases, with random weights."""
    numbers = np.random.default_rng(seed)
    x = jnp.arange(16, dtype="float32")
    sequence = models.weights(numbers, 20, 1, models.HIDDEN)
    tokens = models.weights(numbers, 1, models.STEPS, models.WIDTH)
    layer = models.transformer_weights(numbers)
    images = jnp.asarray(numbers.standard_normal((2, 16, 16, 3)).astype(np.float32))
    gru = torch.nn.GRU(models.HIDDEN, models.HIDDEN).eval()
    return [
        Case("single_add, 16", lambda a, b: a + b, (x, x + 1), (torch.add, (torch.ones(16), torch.ones(16)))),
        Case("perceptron, 7 rows", models.mlp(numbers), (models.weights(numbers, 7, 20),)),
        Case("GRU of 20 steps, 32", models.gru(numbers), (sequence, jnp.zeros((1, models.HIDDEN))),
             (gru, (torch.zeros(20, 1, models.HIDDEN), torch.zeros(1, 1, models.HIDDEN)))),
        Case("transformer layer, d 128, s 16", lambda t: models.transformer_layer(layer, t), (tokens,),
             (models.TorchLayer().eval(), (torch.zeros(1, models.STEPS, models.WIDTH),))),
        Case("residual net, 2 x 16 x 16", models.resnet(numbers), (images,)),
    ]  # fmt: skip


def _timed(call: Callable[[], Any], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) / calls * 1e6


def _contenders(case: Case) -> tuple[dict[str, Callable[[], Any]], dict[str, float]]:
    """What each contender does in a call, and the seconds of its first."""
    first: dict[str, float] = {}
    jitted = jax.jit(case.function)
    begin = time.perf_counter()
    want = jax.block_until_ready(jitted(*case.args))
    first["jax.jit"] = time.perf_counter() - begin
    begin = time.perf_counter()
    ours = sl.compile(jax.jit(case.function), case.args, threads=1, cache=False)
    got = ours(*case.args)
    first["ours"] = time.perf_counter() - begin
    for a, b in zip(jax.tree_util.tree_leaves(got), jax.tree_util.tree_leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    arrays = [np.array(a) for a in case.args]
    calls = {
        "jax.jit": lambda: jax.block_until_ready(jitted(*case.args)),
        "ours, JAX arrays": lambda: ours(*case.args),
        "ours, numpy": lambda: ours(*arrays),
    }
    if case.torch is not None:
        with torch.no_grad():
            twin = sl.compile(case.torch[0], case.torch[1], threads=1)
        given = case.torch[1]
        calls["ours, torch"] = lambda: twin(*given)
    return calls, first


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    print(f"seed {parsed.seed}, jax {jax.__version__}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    columns = ("jax.jit", "ours, JAX arrays", "ours, numpy", "ours, torch")
    print(f"| case | {' | '.join(columns)} | JAX arrays to jax.jit |\n|---|{'---|' * (len(columns) + 1)}")
    compiled = []
    with torch.no_grad():
        for case in cases(parsed.seed):
            calls, first = _contenders(case)
            counts = {name: max(int(_ROUND_SECONDS * 1e6 / _timed(call, 20)), 5) for name, call in calls.items()}
            rounds = [{n: _timed(call, counts[n]) for n, call in calls.items()} for _ in range(parsed.rounds)]
            cells = []
            for name in columns:
                times = [r[name] for r in rounds if name in r]
                cells.append(f"{min(times):.2f} / {statistics.median(times):.2f}" if times else "")
            ratio = statistics.median(r["ours, JAX arrays"] / r["jax.jit"] for r in rounds)
            print(f"| {case.name} | {' | '.join(cells)} | {ratio:.2f} |", flush=True)
            compiled.append(f"| {case.name} | {first['jax.jit']:.2f} | {first['ours']:.2f} |")
    print("\n| first call, s | jax.jit | ours |\n|---|---|---|\n" + "\n".join(compiled))


if __name__ == "__main__":
    main()
