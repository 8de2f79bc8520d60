"""Measure what dsh-time costs beside what a user would pick instead.

    pip install -r benchmarks/requirements.txt
    python benchmarks/run.py            # under 30 minutes
    python benchmarks/run.py --quick    # under 3 minutes, once the peers are installed

Every cell runs in a process of its own; peers in environments of their own, which are made in the system's folder for
temporary files and kept there. Writes results.json, report.md and plots below --out. Compare within one run only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from processes import FULL, QUICK, TINY, Processes
from report import Answer, bars_table

QUESTIONS = ("turns", "startup", "log", "hooks", "clock", "sessions", "server")


def machine() -> dict[str, str]:
    """Describe this machine, as far as a comparison needs it."""
    rows = dict(row.split("\t: ") for row in Path("/proc/cpuinfo").read_text().splitlines() if "\t: " in row)
    return {
        "processor": rows.get("model name", platform.machine()),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load at the start": f"{os.getloadavg()[0]:.1f}",
    }


def main() -> None:
    """Measure, write, and print where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, under 3 minutes")
    parser.add_argument("--tiny", action="store_true", help="as little as possible, to see that everything runs")
    parser.add_argument("--no-peers", action="store_true", help="leave the peers out: nothing is installed")
    parser.add_argument("--only", action="append", choices=QUESTIONS, help="one question, may be repeated")
    parser.add_argument("--server", metavar="URL", help="also measure cached tokens on an OpenAI-compatible server")
    parser.add_argument("--model", default="default", help="the model's name on that server")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="default: %(default)s")
    parser.add_argument("--no-plots", action="store_true", help="only results.json and report.md")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    plan = TINY if options.tiny else QUICK if options.quick else FULL
    results: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory(prefix="dsh-time-bench-", dir=options.out) as work:
        processes = Processes(plan, Path(work).absolute(), not options.no_peers, options.server, options.model)
        for name in options.only or QUESTIONS:
            if (found := import_module(f"questions.{name}").measure(processes)) is not None:
                results[name] = found
    (options.out / "results.json").write_text(json.dumps(_rounded(results)) + "\n", "utf-8")
    report(results, options.out, with_plots=not options.no_plots)


def _rounded(value: Any) -> Any:
    """Leave five significant digits of each number, which is more than any measurement has."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def report(results: dict[str, Any], out: Path, *, with_plots: bool) -> None:
    """Write report.md and the plots."""
    found: list[Answer] = []
    for name in QUESTIONS:
        if name in results:
            found += import_module(f"questions.{name}").answers(results[name])
    if with_plots:
        from plots import draw

        for answer in found:
            if answer.plot is not None:
                draw(answer.plot, answer.title, out / answer.key)
    bars = [bar for answer in found for bar in answer.bars]
    described = ", ".join(f"{name} {value}" for name, value in results["machine"].items())
    parts = ["# Measured", f"Machine: {described}.", "Medians, in brackets the quartiles.", str(bars_table(bars))]
    for answer in found:
        parts += [f"## {answer.title}", *map(str, answer.tables)]
        if with_plots and answer.plot is not None:
            parts.append(f"![{answer.title}]({answer.key}.svg)")
    (out / "report.md").write_text("\n\n".join(part.rstrip() for part in parts) + "\n", "utf-8")
    print(bars_table(bars))


if __name__ == "__main__":
    main()
