"""Runs the tests of what differs from main (on main: from the last commit), without Go and without slow ones.

    python -m tests.near [-n] [PYTEST'S OPTIONS]        # -n: say which files, and run nothing

Near a module are the test files that import it, and those that import what imports it; a changed test file itself; of
any other file the tests of the folder of that name, of a page those of the pages.

Not here: tests that reach a module by three imports and more. CI runs them.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ("scheduler", "allocator", "cel", "tests", "benchmarks", "manifests")
STEPS: Final = 2
_IMPORT: Final = re.compile(r"^ *(?:import ([\w.]+)|from ([\w.]+) import (\([^)]*\)|[^\n]*))", re.MULTILINE)
OTHERS: Final = "not controlplane and not oracle and not slow"


def changed_files() -> list[str]:
    """Paths, from the root, of what differs from where this branch left main, and of what git does not know yet."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    return sorted({*_git("diff", "--name-only", base[0]), *_git("ls-files", "--others", "--exclude-standard")})


def near(changed: Iterable[str]) -> list[str]:
    """The test files near these files, as paths from the root."""
    found = set()
    for file in changed:
        reached = {file}
        for _ in range(STEPS):
            reached |= {importer for one in reached for importer in _importers().get(_module(one), ())}
        found |= {one for one in reached if Path(one).match("tests/**/test_*.py") or Path(one).match("tests/test_*.py")}
        if not file.endswith(".py"):
            found |= _beside(file)
    return sorted(one for one in found if (ROOT / one).exists())


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@functools.cache
def _importers() -> dict[str, set[str]]:
    """By module, the files that import it. A file's text is enough: to parse all of them takes ten seconds."""
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for path in (path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")):
        for module in _imported(path.read_text(encoding="utf-8")):
            importers[module].add(str(path.relative_to(ROOT)))
    return importers


def _imported(text: str) -> Iterator[str]:
    """Modules, and names in packages, which may be modules."""
    for plain, package, names in _IMPORT.findall(text):
        yield plain or package
        if package:
            yield from (f"{package}.{name}" for name in re.findall(r"\w+", names))


def _beside(file: str) -> set[str]:
    """Test files of the folder that is named like the one in which a file is that nobody imports."""
    names = Path(file).parts[:-1]
    folders = [ROOT / "tests" / name for name in names if (ROOT / "tests" / name).is_dir()]
    pages = ROOT / "tests"
    tests = folders[0].rglob("test_*.py") if folders else pages.glob("test_*.py") if file.endswith(".md") else ()
    return {str(path.relative_to(ROOT)) for path in tests}


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def main() -> int:
    options = sys.argv[1:]
    files = near(changed_files())
    if not files or options[:1] == ["-n"]:
        print("\n".join(files) or "no test is near what differs from main")
        return 0
    print(f"{len(files)} test files are near what differs from main", flush=True)
    workers = "2" if len(files) > 3 else "0"
    command = ["pytest", "-n", workers, "--dist", "loadfile", "-q", "-m", OTHERS, *options, *files]
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False)
    return 0 if done.returncode == 5 else done.returncode  # 5: all of them need Go, or are slow


if __name__ == "__main__":
    sys.exit(main())
