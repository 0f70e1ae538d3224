# SPDX-License-Identifier: Apache-2.0
"""One family of the tour that writes text, as its users have it: do prefill, decoding and `generate` give eager's tokens?

By export: transformers' own module with a static cache (`TorchExportableModuleWithStaticCache`), compiled once for the prompt and
once for a token; both programs write the one cache. By torch.compile: `generate(cache_implementation="static")`, whose `forward`
is compiled. A family whose models have no such cache (state-space models keep a state) generates with the cache that it has.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import straightline as sl
import torch
from torch import Tensor, nn

from bench.tour.models import Stop
from bench.tour.signals import rescale, vary_constants

PROMPT = 9  # tokens
_NEW = 12
_CACHE = 64
_RUNS = 5  # of `generate`, ours and eager's in turn


class Step(nn.Module):
    """tokens [1, n], positions [n] -> scores [1, n, words]."""

    def __init__(self, step: nn.Module) -> None:
        super().__init__()
        self.step = step

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """The scores of the next token at each position."""
        return self.step(input_ids=tokens, cache_position=positions)


class Differs(Exception):
    """Other tokens than eager's."""


def model_of(stop: Stop, seed: int, prompt: Tensor) -> nn.Module:
    """The model with a cache, random weights and results that depend on the prompt."""
    assert stop.generator is not None
    model = stop.generator()
    vary_constants(model, torch.Generator().manual_seed(seed))
    rescale(model, lambda called: called(input_ids=prompt))
    return model


def static_step(model: Any) -> nn.Module | str:
    """The exportable module, or why the family has none."""
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    config = model.generation_config
    config.use_cache, config.cache_implementation = True, "static"
    try:
        step = Step(TorchExportableModuleWithStaticCache(model, 1, _CACHE, next(model.parameters()).device)).eval()
        first = step(torch.tensor([[7]], device=model.device), torch.tensor([0], device=model.device))
        second = step(torch.tensor([[7]], device=model.device), torch.tensor([1], device=model.device))
    except Exception as error:  # of transformers, in eager: the family takes no static cache
        return f"{type(error).__name__}: {error}"[:120]
    finally:
        config.cache_implementation = None
    return step if first.shape == second.shape else "its results have other shapes"


def _written(prefill: Callable[..., Tensor], decode: Callable[..., Tensor], prompt: Tensor) -> list[int]:
    """The tokens that the two functions write behind the prompt."""
    scores = prefill(prompt, torch.arange(prompt.shape[1], device=prompt.device))
    found: list[int] = []
    for position in range(prompt.shape[1], prompt.shape[1] + _NEW):
        token = scores[:, -1:].argmax(-1)
        found.append(int(token))
        scores = decode(token, torch.tensor([position], device=prompt.device))
    return found


def by_export(step: nn.Module, prompts: list[Tensor]) -> tuple[dict[str, Any], Callable[..., Tensor]]:
    """What is recorded of (tokens, positions) -> scores, and a token's program."""
    ours = copy.deepcopy(step)
    positions = torch.arange(prompts[0].shape[1], device=prompts[0].device)
    begin = time.perf_counter()
    prefill = sl.compile(ours, (prompts[0], positions))
    decode = sl.compile(ours, (prompts[0][:, :1], positions[:1]))
    seconds = time.perf_counter() - begin
    for prompt in prompts:
        wanted, got = _written(step, step, prompt), _written(prefill, decode, prompt)
        if wanted != got:
            raise Differs(f"by export {got}, eager {wanted}")
    return {"by_export": "tokens of eager", "compile_s": seconds}, decode


def _new(tokens: Tensor, prompt: Tensor) -> list[int]:
    return tokens[0, prompt.shape[1] :].tolist()


def by_generate(model: Any, prompts: list[Tensor], is_static: bool) -> dict[str, Any]:
    """What is recorded of `generate` by torch.compile."""
    options = {"max_new_tokens": _NEW, "min_new_tokens": _NEW, "do_sample": False, "pad_token_id": 0}
    if is_static:
        options["cache_implementation"] = "static"
    theirs, ours = model, copy.deepcopy(model)
    torch._dynamo.reset()
    ours.forward = torch.compile(ours.forward, backend="straightline", options={"freeze": True})
    written = set()
    for prompt in prompts:
        wanted, got = theirs.generate(prompt, **options), ours.generate(prompt, **options)
        if not torch.equal(wanted, got):
            raise Differs(f"generate gives {_new(got, prompt)}, eager {_new(wanted, prompt)}")
        written.add(tuple(_new(wanted, prompt)))
    if len(written) < 2:
        raise ValueError("the tokens do not depend on the prompt")
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(_RUNS):
        for of, found in zip((ours, theirs), times, strict=True):
            begin = time.perf_counter()
            of.generate(prompts[0], **options)
            found.append((time.perf_counter() - begin) / _NEW * 1e6)
    ours_us, eager_us = min(times[0]), min(times[1])
    return {
        "generate": "tokens of eager", "generate_us": ours_us, "generate_eager_us": eager_us,
        "generate_ratio": ours_us / eager_us,
        "graphs": len(sl.programs(ours)),
    }  # fmt: skip
