# SPDX-License-Identifier: Apache-2.0
"""The Markdown of a tour."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any


def _us(value: float) -> str:
    return f"{value / 1000:,.1f} ms" if value >= 1000 else f"{value:.0f} us"


def _words(record: dict[str, Any]) -> str:
    """The reason, or which ops of torch's the program calls."""
    if record.get("reason"):
        text = re.sub(r"\s+", " ", record["reason"])
        return (text if len(text) <= 200 else text[:200] + " ...").replace("|", r"\|")
    ops = record.get("of_torch", {})
    return ", ".join(f"{name} x {count}" if count > 1 else name for name, count in ops.items())


def _median(records: list[dict[str, Any]], name: str) -> float:
    """Of the models that were timed."""
    return statistics.median(record[name] for record in records if "ratio" in record)


def _row(record: dict[str, Any]) -> str:
    timed = "ratio" in record
    cells = [
        f"`{record['model']}`",
        record["outcome"],
        _us(record["us"]) if timed else "",
        _us(record["eager_us"]) if timed else "",
        f"{record['ratio']:.2f}" if timed else "",
        f"{record['compile_s']:.1f}" if "compile_s" in record else "",
        str(record.get("kernels", "")),
        _words(record),
    ]
    return "| " + " | ".join(cells) + " |"


def markdown(facts: dict[str, Any]) -> str:
    """Counts, means and a table a package, what went wrong first."""
    records = facts["records"]
    machine = facts["machine"]
    name = machine.get("gpu") or machine["cpu"]
    versions = ", ".join(f"{key} {value}" for key, value in facts["versions"].items())
    way = facts["options"].get("way", "export")
    lines = [
        f"By {way}; {name}, {facts['options']['threads']} threads, commit {facts['commit']}, {facts['date'][:10]}; {versions}. "
        + ", ".join(f"{count} {outcome}" for outcome, count in facts["counts"].items())
        + f" of {len(records)}."
    ]
    ratios = [record["ratio"] for record in records if "ratio" in record]
    if ratios:
        line = (
            f"Time of a call over eager's, geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.2f}; "
        )
        line += f"median of compile times {_median(records, 'compile_s'):.1f} s"
        if all("compile_own_s" in record for record in records if "ratio" in record):
            line += f", {_median(records, 'compile_own_s'):.2f} s of it beyond torch's export"
        lines += ["", line + "."]
    for package in dict.fromkeys(record["package"] for record in records):
        lines += [
            "",
            f"## {package}",
            "",
            "| model | outcome | call | eager | x eager | compile s | kernels | ops of torch, or why not |",
        ]
        lines.append("|---" * 8 + "|")
        own = [record for record in records if record["package"] == package]
        lines += [_row(record) for record in sorted(own, key=lambda record: record["outcome"] == "right")]
    return "\n".join(lines) + "\n"


def generated(facts: dict[str, Any]) -> str:
    """Counts and a table of what `--way generate` found."""
    records = facts["records"]
    versions = ", ".join(f"{key} {value}" for key, value in facts["versions"].items())
    name = facts["machine"].get("gpu") or facts["machine"]["cpu"]
    lines = [
        f"{name}, {facts['options']['threads']} threads, commit {facts['commit']}, {facts['date'][:10]}; {versions}. "
        + ", ".join(f"{count} {outcome}" for outcome, count in facts["counts"].items())
        + f" of {len(records)}.",
        "",
        "| model | outcome | prefill and decode by export | a token, us | eager | ratio "
        "| `generate` by torch.compile | a token, us | eager | ratio | graphs | why not |",
        "|---" * 12 + "|",
    ]  # fmt: skip
    for record in sorted(records, key=lambda record: record["outcome"] == "right"):
        of_token = [f"{record[key]:,.0f}" if key in record else "" for key in ("us", "eager_us")]
        of_token.append(f"{record['ratio']:.2f}" if "us" in record else "")
        of_generate = [f"{record[key]:,.0f}" if key in record else "" for key in ("generate_us", "generate_eager_us")]
        of_generate.append(f"{record['generate_ratio']:.2f}" if "generate_ratio" in record else "")
        cells = [
            f"`{record['model']}`", record["outcome"], record.get("by_export", ""), *of_token,
            record.get("generate", ""), *of_generate, str(record.get("graphs", "")),
            _words(record) if record.get("reason") else record.get("why_no_cache", "").replace("|", r"\|"),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def ways(tours: Sequence[dict[str, Any]]) -> str:
    """A table of several tours: how each was made, and of each model its time over eager's, or why there is none."""
    lines = []
    heads = [f"{facts['machine'].get('gpu') or 'CPU'}, {facts['options'].get('way', 'export')}" for facts in tours]
    for head, facts in zip(heads, tours, strict=True):
        records = facts["records"]
        counted = Counter(record["outcome"] for record in records)
        ratios = [record["ratio"] for record in records if "ratio" in record]
        mean = f"; {statistics.geometric_mean(ratios):.2f} of eager's time (geometric mean)" if ratios else ""
        found = ", ".join(f"{count} {outcome}" for outcome, count in counted.most_common())
        lines.append(f"- {head}: {found} of {len(records)}{mean}; commit {facts['commit']}, {facts['date'][:10]}.")
    lines += ["", f"| model | package | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    by_name = [{record["model"]: record for record in facts["records"]} for facts in tours]
    packages = {record["model"]: record["package"] for records in by_name for record in records.values()}
    for name, package in packages.items():
        cells = [_in_short(records.get(name)) for records in by_name]
        lines.append(f"| `{name}` | {package} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _in_short(record: dict[str, Any] | None) -> str:
    if record is None:
        return "not visited"
    if "ratio" not in record:
        return str(record["outcome"])
    return f"{record['ratio']:.2f}" if record["outcome"] == "right" else f"{record['outcome']}, {record['ratio']:.2f}"
