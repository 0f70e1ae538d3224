# SPDX-License-Identifier: Apache-2.0
"""Makes the summaries of bench/results, one a machine and commit, from what the benchmark and the scripts beside this one wrote.

    python -m bench.summarize RAW.json ... -o bench/results      # adds to the summary of each file's machine and commit
    python -m bench.summarize --docs                             # writes the table in docs/performance/results.md
    python -m bench.summarize --docs --check                     # exit status 1 when that table is not what the summaries say

A summary has one measurement a script (`cases` for `straightline bench`), each with its date, versions and options. A row of
`cases` is a case and a number of threads: least, median, quartiles and number of samples of every contender, in microseconds.
Rows of other measurements are those that the script wrote; lists of samples become median, p10, p90 and count. A row that is
measured again replaces the older one.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

_ROOT = Path(__file__).resolve().parents[1]
_RESULTS = _ROOT / "bench" / "results"
_PAGE = _ROOT / "docs" / "performance" / "results.md"
_BEGIN, _END = "<!-- begin: python -m bench.summarize --docs -->", "<!-- end -->"

SCHEMA = 2
_DIGITS = 4  # significant ones that a summary keeps
_SAMPLES = 4  # a longer list of numbers is one of samples
#: What a record says of the program, for the contender's entry: the record's name of it and the summary's.
_FIGURES = {
    "min_us": "least_us", "median_us": "median_us", "sync_us": "sync_us", "enqueue_us": "enqueue_us", "stream_us": "stream_us",
    "kernels_us": "kernels_us", "launches": "launches", "compile_s": "compile_s", "compile_own_s": "compile_own_s",
    "compile_cached_s": "compile_cached_s", "allocations": "allocations", "error": "error",
}  # fmt: skip
#: Facts of a whole file, which are not measurements.
_FACTS = ("date", "versions", "options", "warnings", "seed")


def rounded(value: float) -> float | int:
    """A number with the digits that a summary keeps; integers stay."""
    if isinstance(value, bool) or isinstance(value, int):
        return value
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def spread(samples: list[float]) -> dict[str, float | int]:
    """Median, 10th and 90th percentile and number of samples."""
    ordered = sorted(samples)
    deciles = statistics.quantiles(ordered, n=10, method="inclusive")
    figures = {"median": statistics.median(ordered), "p10": deciles[0], "p90": deciles[-1]}
    return {name: rounded(value) for name, value in figures.items()} | {"count": len(ordered)}


def compact(value: Any) -> Any:
    """A record with short numbers, and spreads in place of long lists of numbers."""
    if isinstance(value, dict):
        return {key: compact(inner) for key, inner in value.items()}
    if isinstance(value, list):
        numbers = all(isinstance(inner, int | float) and not isinstance(inner, bool) for inner in value)
        return spread(value) if numbers and len(value) > _SAMPLES else [compact(inner) for inner in value]
    return rounded(value) if isinstance(value, float) else value


def case_rows(raw: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a file of `straightline bench`: one a case and number of threads."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for record in raw["records"]:
        key = (record["case"], record["threads"])
        row = rows.setdefault(
            key, {"case": key[0], "group": record["group"], "threads": key[1], "contenders": {}, "bars": []}
        )
        row["contenders"][record["contender"]] = _contender(record)
        if record.get("limit_us"):
            row["limit_us"] = rounded(record["limit_us"])
    for bar in raw.get("bars", []):
        threads = bar["threads"] if isinstance(bar["threads"], int) else 0
        for (case, number), row in rows.items():
            if case == bar["case"] and threads in (0, number) and bar["met"] is not None:
                row["bars"].append(
                    {
                        "row": bar["row"],
                        "metric": bar.get("metric", ""),
                        "against": bar["against_row"],
                        "taken": rounded(bar["taken_us"]),
                        "allowed": rounded(bar["allowed_us"]),
                        "met": bar["met"],
                    }
                )
    return list(rows.values())


def _contender(record: dict[str, Any]) -> dict[str, Any]:
    if record["min_us"] is None:
        return {"status": record["status"], "reason": record["reason"][:200]}
    entry = {name: rounded(record[key]) for key, name in _FIGURES.items() if record.get(key) is not None}
    quartiles = record.get("quartiles_us")
    if quartiles:
        entry["p25_us"], entry["p75_us"] = (rounded(value) for value in quartiles)
    return entry | {"count": record["samples"], **({"peer": True} if record["kind"] == "peer" else {})}


def machine_of(raw: dict[str, Any]) -> dict[str, Any]:
    """The machine of a file, as a dictionary, without what changes from run to run."""
    machine = raw["machine"]
    if isinstance(machine, str):
        machine = {"gpu": machine.partition(",")[0]}
    return {key: value for key, value in machine.items() if key not in ("load", "torch")}


def slug(machine: dict[str, Any]) -> str:
    """The name of a kind of machine: its device's, else its processor's."""
    words = re.sub(r"\([^)]*\)", "", machine.get("gpu") or machine["cpu"]).lower()
    return "_".join(word for word in re.findall(r"[a-z0-9]+", words) if word not in ("nvidia", "processor", "cpu"))


def measurement_of(raw: dict[str, Any], name: str) -> dict[str, Any]:
    """What a summary holds of a raw file."""
    facts = {key: raw[key] for key in _FACTS if raw.get(key)}
    if "records" not in raw:
        raise SystemExit(f"{name}: it has no records")
    if raw.get("schema") == 1:
        return facts | {"rows": case_rows(raw)}
    more = {
        key: compact(value)
        for key, value in raw.items()
        if key not in (*_FACTS, "machine", "commit", "records", "measurement")
    }
    return facts | more | {"rows": [compact(record) for record in raw["records"]]}


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["case"], row["threads"]


def merge(summary: dict[str, Any], name: str, measurement: dict[str, Any]) -> None:
    """Adds a measurement; of `cases`, rows that were there and are not measured again stay."""
    old = summary["measurements"].get(name)
    if name == "cases" and old:
        new = {_key(row) for row in measurement["rows"]}
        measurement["rows"] = [row for row in old["rows"] if _key(row) not in new] + measurement["rows"]
        for fact in ("warnings",):
            both = [*old.get(fact, []), *measurement.get(fact, [])]
            measurement.update({fact: list(dict.fromkeys(both))} if both else {})
    summary["measurements"][name] = measurement


def text_of(summary: dict[str, Any]) -> str:
    """A summary as JSON with one row a line."""
    measurements = []
    for name, measurement in summary["measurements"].items():
        facts = [f"   {json.dumps(key)}: {json.dumps(value)}" for key, value in measurement.items() if key != "rows"]
        rows = ",\n".join(f"    {json.dumps(row)}" for row in measurement["rows"])
        facts.append(f'   "rows": [\n{rows}\n   ]')
        measurements.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(facts) + "\n  }")
    head = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in summary.items() if key != "measurements"]
    head.append(' "measurements": {\n' + ",\n".join(measurements) + "\n }")
    return "{\n" + ",\n".join(head) + "\n}\n"


def add(raw: dict[str, Any], name: str, commit: str, folder: Path) -> Path:
    """Adds a raw file's content to the summary of its machine and commit, and gives that file."""
    if not re.fullmatch(r"[0-9a-f]{7,40}", commit):
        raise SystemExit(f"{name}: the commit is '{commit}'; give --commit")
    machine = machine_of(raw)
    path = folder / f"{slug(machine)}_{commit[:7]}.json"
    summary = {"schema": SCHEMA, "machine": machine, "commit": commit[:7], "measurements": {}}
    if path.exists():
        summary = json.loads(path.read_text())
        summary["machine"] |= machine
    merge(summary, name, measurement_of(raw, name))
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text_of(summary))
    return path


class _Line(NamedTuple):
    """A row of the table of the page: the newest result of a case on a kind of machine."""

    date: str
    commit: str
    row: dict[str, Any]


def _newest(paths: Iterable[Path]) -> dict[str, dict[tuple[Any, ...], _Line]]:
    """The newest row of each case and number of threads in which Straightline and a peer have times, by kind of machine."""
    found: dict[str, dict[tuple[Any, ...], _Line]] = {}
    for path in sorted(paths):
        summary = json.loads(path.read_text())
        cases = summary["measurements"].get("cases", {"rows": [], "date": ""})
        for row in cases["rows"]:
            if row["group"] != "default" or "median_us" not in row["contenders"].get("straightline", {}):
                continue
            if not any(entry.get("peer") for entry in row["contenders"].values()):
                continue
            of_machine = found.setdefault(slug(summary["machine"]), {})
            line = _Line(cases["date"], summary["commit"], row)
            if _key(row) not in of_machine or of_machine[_key(row)].date < line.date:
                of_machine[_key(row)] = line
    return found


def _us(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def tables(paths: Iterable[Path]) -> str:
    """The newest results, a table a kind of machine."""
    parts = []
    for machine, lines in sorted(_newest(paths).items()):
        on_device = any("sync_us" in line.row["contenders"]["straightline"] for line in lines.values())
        figure = "sync_us" if on_device else "least_us"
        parts.append(f"## {machine}\n")
        ours_titles = ["Straightline us", *(["enqueue us"] if on_device else [])]
        titles = [
            "case",
            "threads",
            *ours_titles,
            "best peer us",
            "best peer",
            "x peer",
            "eager us",
            "bars",
            "measured",
        ]
        parts += ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
        for (case, threads), line in sorted(lines.items()):
            contenders = line.row["contenders"]
            ours = contenders["straightline"]
            peers = {name: e[figure] for name, e in contenders.items() if e.get("peer") and figure in e}
            peer = min(peers, key=lambda name: peers[name])
            missed = [bar for bar in line.row["bars"] if not bar["met"]]
            bars = f"{len(missed)} missed" if missed else "met" if line.row["bars"] else ""
            cells = [
                f"`{case}`",
                str(threads),
                _us(ours[figure]),
                *([_us(ours.get("enqueue_us"))] if on_device else []),
            ]
            cells += [_us(peers[peer]), peer, f"{ours[figure] / peers[peer]:.2f}", _us(peers.get("eager")), bars]
            parts.append("| " + " | ".join([*cells, f"{line.commit}, {line.date[:10]}"]) + " |")
        parts.append("")
    return "\n".join(parts).strip()


def page(old: str, paths: Iterable[Path]) -> str:
    """The page with its table made anew."""
    before, begin, rest = old.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{_PAGE.name}: it lacks '{_BEGIN}' or '{_END}'")
    return f"{before}{_BEGIN}\n\n{tables(paths)}\n\n{_END}{after}"


def _name_of(path: Path, raw: dict[str, Any]) -> str:
    return "cases" if raw.get("schema") == 1 else raw.get("measurement") or path.stem


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", nargs="*", type=Path, help="files of --json")
    parser.add_argument("-o", "--out", type=Path, default=_RESULTS, help="the folder of summaries")
    parser.add_argument("--commit", help="where the file does not say it")
    parser.add_argument("--name", help="the measurement, where the file does not say it")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/performance/results.md")
    parser.add_argument("--check", action="store_true", help="with --docs: write nothing, compare")
    options = parser.parse_args()
    if not options.raw and not options.docs:
        parser.error("neither a raw file nor --docs was given")
    for path in options.raw:
        raw = json.loads(path.read_text())
        commit = options.commit or raw.get("commit", "unknown")
        print(add(raw, options.name or _name_of(path, raw), commit, options.out))
    if not options.docs:
        return 0
    old = _PAGE.read_text()
    new = page(old, options.out.glob("*.json"))
    if options.check:
        if old != new:
            print(f"{_PAGE.relative_to(_ROOT)} is not what bench/results says: python -m bench.summarize --docs")
        return int(old != new)
    _PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
