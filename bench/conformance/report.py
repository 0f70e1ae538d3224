# SPDX-License-Identifier: Apache-2.0
"""The Markdown of a run, and of several.

python -m bench.conformance.report RECORDS.json ... > docs/coverage/index.md
python -m bench.conformance.report --ops RECORDS.json ... > docs/coverage/torch.md
python -m bench.conformance.report --layers RECORDS.json ... > docs/coverage/layers.md
python -m bench.conformance.report --counts RECORDS.json ... > RAW.json    # of another machine or torch, for bench.summarize
"""

from __future__ import annotations

import collections
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from straightline.capture.torch.schemas import KINDS, BaseOp, base_ops

from bench.conformance import made
from bench.conformance.examine import OUTCOMES

_RESULTS = Path(__file__).resolve().parents[2] / "bench" / "results"
_RIGHT = ("native", "torch", "random")
_FAILED = {name for name, fails in OUTCOMES.items() if fails}
_HEAD = """# Coverage

`make conformance` asks the samples with which torch tests its ops (`op_db`), two of each entry
([how](../design/tests.md#torchs-samples-of-its-ops)). *native* is right by kernels of ours alone, *torch* right with
some ops called in the torch of the process, *random* right with eager's numbers for the same seed. What is refused says
so with a reason; none may be wrong, end in an exception that is none of ours, hang or die. Samples that eager refuses,
or that give no tensor, do not count. Which of our ops has a kernel for which element type is on [a page of its
own](../reference/ops.md), and the layers of `torch.nn` are on [one](layers.md), too.
"""


def _reason(record: dict[str, Any]) -> str:
    """The beginning of a reason, without the place in the samples."""
    text = re.sub(r"\s+", " ", record["reason"].split("; nearest supported form")[0])
    text = re.sub(r" at (<root> \()?samples\.py:\d+\)?", "", text).replace("|", r"\|").replace("<", r"\<")
    return text if len(text) <= 160 else text[:160] + " ..."


def _right(counted: dict[str, int]) -> str:
    asked = sum(count for outcome, count in counted.items() if outcome not in ("not for eager", "not captured"))
    right = sum(counted.get(outcome, 0) for outcome in _RIGHT)
    return f"{right} of {asked} ({100 * right / max(asked, 1):.1f} %)"


def _facts(facts: dict[str, Any]) -> str:
    return f"torch {facts['versions']['torch']}, commit {facts['commit']}, {facts['date'][:10]}"


def _not_right(facts: dict[str, Any]) -> list[str]:
    """A table of what is not right, and the entries that call torch."""
    found = facts["records"]
    rows: dict[tuple[str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    for record in found:
        if record["outcome"] not in (*_RIGHT, "not for eager"):
            rows[record["op"], record["outcome"]].append(record)
    lines = ["| entry | outcome | samples | reason of the first |", "|---|---|---|---|"]
    lines += [
        f"| `{op}` | {outcome} | {len(several)} | {_reason(several[0])} |"
        for (op, outcome), several in sorted(rows.items())
    ]
    through = sorted({record["op"] for record in found if record["outcome"] == "torch"})
    return [*lines, "", "Right with some ops of torch's: " + (", ".join(f"`{op}`" for op in through) or "none") + "."]


def markdown(facts: dict[str, Any]) -> str:
    """Counts of one run, what is not right, and which entries call torch."""
    options, counted = facts["options"], facts["counts"]
    words = ", ".join(f"{count} {outcome}" for outcome, count in counted.items())
    head = f"{options['dtype']} on {options['device']}, {_facts(facts)}: {words}. Right: {_right(counted)}."
    return "\n".join([head, "", *_not_right(facts)]) + "\n"


def counts(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What bench.summarize keeps of several runs on one machine: the counts of each."""
    records = [
        {
            "dtype": facts["options"]["dtype"],
            "device": facts["options"]["device"],
            "torch": facts["versions"]["torch"],
            "counts": facts["counts"],
        }
        for facts in runs
    ]
    return {"measurement": "conformance", "records": records} | {
        name: runs[0][name] for name in ("machine", "versions", "date", "commit")
    }


def elsewhere(paths: Iterable[Path]) -> list[str]:
    """A table of the newest counts in summaries: by device, torch and dtype."""
    found: dict[tuple[str, str, str], tuple[str, str, dict[str, Any]]] = {}
    for path in sorted(paths):
        summary = json.loads(path.read_text(encoding="utf-8"))
        measured = summary["measurements"].get("conformance", {"rows": []})
        for row in measured["rows"]:
            key = (summary["machine"].get("gpu") or "cpu", row["torch"], row["dtype"])
            if key not in found or found[key][0] < measured["date"]:
                found[key] = (measured["date"], summary["commit"], row["counts"])
    lines = ["| on | torch | dtype | right | native | refused | commit |", "|---" * 7 + "|"]
    for (device, torch, dtype), (_, commit, counted) in sorted(found.items()):
        cells = [
            device,
            torch,
            dtype,
            _right(counted),
            str(counted.get("native", 0)),
            str(counted.get("refused", 0)),
            commit,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def page(runs: list[dict[str, Any]]) -> str:
    """A table of several runs, and the details of the first."""
    lines = [_HEAD, "| dtype | on | right | native | torch | random | refused | others |", "|---" * 8 + "|"]
    for facts in runs:
        counted = facts["counts"]
        others = [f"{n} {name}" for name, n in counted.items() if name not in (*_RIGHT, "refused", "not for eager")]
        cells = [facts["options"]["dtype"], facts["options"]["device"], _right(counted)]
        cells += [str(counted.get(name, 0)) for name in (*_RIGHT, "refused")]
        lines.append("| " + " | ".join([*cells, ", ".join(others) or "none"]) + " |")
    lines += [
        "",
        f"Measured with {_facts(runs[0])}.",
        "",
        "Other machines and versions of torch (`bench/results`). Ten samples of each dtype are `jiterator_*` on a device, which",
        "torch cannot capture:",
        "",
        *elsewhere(_RESULTS.glob("*.json")),
        "",
        f"## {runs[0]['options']['dtype']}",
        "",
        *_not_right(runs[0]),
    ]
    return "\n".join(lines) + "\n"


_LAYERS_HEAD = """# Layers of PyTorch

`python -m bench.conformance --modules --samples 8 --way export` (and `compile`, `jit`) asks the layers with which torch tests
`torch.nn` (`module_db`) in inference, up to eight samples of each: given to `sl.compile` (by torch.export), to
`torch.compile(layer, backend="straightline")` and to `sl.jit`, called twice by the last two. *native*, *torch*, *random* and
*refused* are as on [the page of ops](index.md). *Not captured* is what Dynamo runs in eager (right, but no graph reaches the
backend); it does not count, nor does what eager refuses.
"""

_WAYS = {"export": "`sl.compile`", "compile": "`torch.compile`", "jit": "`sl.jit`"}


def layers_page(runs: list[dict[str, Any]]) -> str:
    """Counts of each way to compile a layer, and what is not right."""
    names = (*_RIGHT, "refused", "not captured")
    lines = [_LAYERS_HEAD, "| by | right | " + " | ".join(names) + " | others |", "|---" * 8 + "|"]
    for facts in runs:
        counted = facts["counts"]
        others = [f"{n} {name}" for name, n in counted.items() if name not in (*names, "not for eager")]
        cells = [_WAYS[facts["options"]["way"]], _right(counted), *(str(counted.get(name, 0)) for name in names)]
        lines.append("| " + " | ".join([*cells, ", ".join(others) or "none"]) + " |")
    lines += ["", f"{runs[0]['options']['dtype']}, {_facts(runs[0])}."]
    for facts in runs:
        lines += ["", f"## By {_WAYS[facts['options']['way']]}", "", *_not_right(facts)]
    return "\n".join(lines).replace("`module.nn_", "`nn.") + "\n"


_OPS_HEAD = """# Ops of PyTorch

Every op in the schemas of the torch that is installed (`straightline coverage torch`), by what becomes of it: *native* ops
have a converter, *parts* are taken apart into other ops, *torch* ops are called in the torch of the process, and what is
*refused* has a reason. An op is *passed* where a sample that reaches it in eager is right, whichever ops of ours compute it;
*failed* where one is wrong. The samples are torch's own, and for ops without one calls made from their schemas
(`make coverage`).
"""


def _outcomes(runs: list[dict[str, Any]]) -> dict[str, set[str]]:
    """For each op the outcomes of the samples that reach it."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for facts in runs:
        for record in facts["records"]:
            for name in record.get("reached", ()):
                found[name].add(record["outcome"])
    return found


def _state(op: BaseOp, outcomes: set[str]) -> tuple[str, str]:
    """passed, failed or skipped, with the reason of the last."""
    if outcomes & _FAILED:
        return "failed", ", ".join(sorted(outcomes & _FAILED))
    if outcomes & set(_RIGHT):
        return "passed", ""
    reason = op.reason or made.not_asked(op.name)
    if not reason and "refused" in outcomes:
        reason = "the samples that reach it are refused for another op"
    return "skipped", reason or "no call of it was found that eager takes"


def ops_page(runs: list[dict[str, Any]]) -> str:
    """Every op of torch: passed, failed or skipped."""
    found = _outcomes(runs)
    states = [(op, *_state(op, found[op.name])) for op in base_ops()]
    lines = [_OPS_HEAD, "| kind | ops | passed | failed | skipped |", "|---|---|---|---|---|"]
    for kind in (*KINDS, None):
        chosen = [state for op, state, _ in states if kind in (op.kind, None)]
        cells = [
            kind or "all",
            str(len(chosen)),
            *(str(chosen.count(name)) for name in ("passed", "failed", "skipped")),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"Measured with {_facts(runs[0])}: {sum(len(facts['records']) for facts in runs):,} samples."]
    for kind in KINDS[:-1]:
        passed = [f"`{op.name}`" for op, state, _ in states if op.kind == kind and state == "passed"]
        lines += ["", f"## Passed, {kind}", "", ", ".join(passed) + "."]
    lines += ["", "## Failed and skipped", "", "| op | kind | state | reason |", "|---|---|---|---|"]
    lines += [f"| `{op.name}` | {op.kind} | {state} | {reason} |" for op, state, reason in states if state != "passed"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes the page of samples; `--ops`: of ops, `--layers`: of layers, `--counts`: the counts as JSON."""
    names = [name for name in sys.argv[1:] if not name.startswith("--")]
    runs = [json.loads(Path(name).read_text()) for name in names]
    if "--counts" in sys.argv:
        sys.stdout.write(json.dumps(counts(runs)) + "\n")
        return
    make = ops_page if "--ops" in sys.argv else layers_page if "--layers" in sys.argv else page
    sys.stdout.write(make(runs))


if __name__ == "__main__":
    main()
