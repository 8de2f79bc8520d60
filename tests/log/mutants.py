"""Change one line of the log at a time and see whether the tests notice: `python -m tests.log.mutants [NAME ...]`.

Works on a copy in a temporary directory. Prints a row per mutant and exits with 1 when one survives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
#: From quick to slow: most mutants are caught within a second.
TESTS = [
    *("test_format", "test_scanner", "test_writer", "test_repair", "test_lock", "test_directory", "test_side"),
    *("test_copy", "test_tail", "test_fixtures", "test_faults", "test_power_loss", "test_bytes"),
]


def run(copy: Path, tests: list[str]) -> tuple[str, float]:
    """Run tests on the copy. Returns the first that failed (empty: none) and how many seconds that took."""
    started = time.monotonic()
    options = ["-q", "-x", "--no-header", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    path = os.pathsep.join([str(copy), str(copy / "hookspecs")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *options, *tests]
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "it hangs", time.monotonic() - started
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode not in (0, 1, 2):
        raise SystemExit(done.stdout + done.stderr)
    name = failed[0].split("::")[-1].split(" - ")[0] if failed else ""
    return name or ("" if done.returncode == 0 else "it cannot be imported"), time.monotonic() - started


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Try the mutants that are named, or all."""
    mutants: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "mutants.toml").read_text("utf-8"))
    fixtures: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "fixtures" / "index.toml").read_text("utf-8"))
    survivors = []
    with tempfile.TemporaryDirectory(prefix="dsh-time-mutants-") as folder:
        copy = Path(folder)
        for name in ("dsh_time", "hookspecs", "tests", "docs"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("conftest.py", "pyproject.toml"):
            shutil.copy(ROOT / name, copy / name)
        everything = [f"tests/log/{test}.py" for test in TESTS]
        if failed := run(copy, [*everything, "tests/test_crash_points.py"])[0]:
            raise SystemExit(f"without any mutant: {failed}")
        for name in sys.argv[1:] or mutants:
            mutant = mutants[name]
            path = copy / "dsh_time" / mutant["file"]
            original = text = path.read_text("utf-8")
            for old, new in [(mutant["old"], mutant["new"]), *mutant.get("also", ())]:
                if text.count(old) != 1:
                    raise SystemExit(f"{name}: its line stands {text.count(old)} times in {mutant['file']}")
                text = text.replace(old, new)
            path.write_text(text, "utf-8")
            near = f"tests/log/test_{path.stem}.py"  # most are caught there, and it is quick
            attempts = [mutant["tests"]] if "tests" in mutant else [[near], everything]
            caught, seconds = "", 0.0
            for tests in attempts:
                if not caught and all((copy / test).exists() for test in tests):
                    caught, more = run(copy, tests)
                    seconds += more
            _say(f"{'caught' if caught else 'ALIVE':6}  {seconds:5.1f} s  {name}: {caught}")
            survivors += [] if caught else [name]
            for fixture in [key for key, known in fixtures.items() if known["mutant"] == name]:
                test = f"tests/log/test_fixtures.py::test_these_bytes_are_what_they_are_known_to_be[{fixture}]"
                if not run(copy, [test])[0]:
                    _say(f"ALIVE           {name}: fixture {fixture} does not notice")
                    survivors.append(f"{name} ({fixture})")
            path.write_text(original, "utf-8")
        unknown = {known["mutant"] for known in fixtures.values()} - set(mutants)
    _say(f"{len(sys.argv[1:] or mutants)} mutants, {len(survivors)} alive; fixtures of no mutant: {sorted(unknown)}")
    return bool(survivors or unknown)


if __name__ == "__main__":
    raise SystemExit(main())
