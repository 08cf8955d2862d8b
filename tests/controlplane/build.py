"""Builds the Go programs of the tests: the real control plane and the oracle, helm, a registry, Prometheus' parser.

A program is built once for each content of its Go module (tests/controlplane/go, tests/manifests/go), version of Go and
set of flags: a digest of them names its folder in the user's cache (never in the repository), and it is put there
whole. The folders that were used last are kept. One build runs at a time, by a file lock. While pytest runs, one
process builds what the collected tests need (`builder`); `build` then waits for it and builds nothing itself.

    python -m tests.controlplane.build                # build everything now
    python -m tests.controlplane.build oracle-1.38    # that program, here of a release to come

A cold build of the control plane compiles about 2,500 packages: five minutes and more on two cores.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).parent / "go"
_MANIFESTS: Final = Path(__file__).parents[1] / "manifests" / "go"
VERSIONS: Final = {"1.36": "v1.36.3", "1.37": "v1.37.2"}
"""The releases of Kubernetes, oldest first, as go/kubernetes-MINOR.mod asks for. A third is a row and its mod file."""
MINOR: Final = "1.37"  # where nobody names one
KUBERNETES_VERSION: Final = VERSIONS[MINOR]
BETAS: Final = {"1.38": "v1.38.0-beta.0"}
"""Releases to come, of which the oracle alone can be built. That takes ten minutes, so tests ask it only where BETA is
set: what it answered is recorded."""
BETA: Final = "DRA_SCHEDULER_TEST_BETA"
RUN: Final = "DRA_SCHEDULER_TEST_BUILDS"
"""The variable that names the folder of a pytest run, where `builder` writes what became of each program."""
REGISTRY_UNREACHABLE: Final = 3  # exit code of `main`: the only reason for which tests may be left out
SETS_KEPT: Final = 8  # at most 170 MB each: two of each module and release
# name: (its module, its package)
_PACKAGES: Final = {
    "oracle": (SOURCE, "./oracle"),
    "controlplane": (SOURCE, "./controlplane"),
    "promql": (_MANIFESTS, "./promql"),
    "helm": (_MANIFESTS, "helm.sh/helm/v4/cmd/helm"),
    "crane": (_MANIFESTS, "github.com/google/go-containerregistry/cmd/crane"),
}
OF_KUBERNETES: Final = ("oracle", "controlplane")
_OF_BETAS: Final = tuple(f"oracle-{minor}" for minor in BETAS)
PROGRAMS: Final = (
    *(f"{name}-{minor}" for name in OF_KUBERNETES for minor in VERSIONS),
    *(_OF_BETAS if os.environ.get(BETA) else ()),
    *(name for name in _PACKAGES if name not in OF_KUBERNETES),
)
"""All that tests need. The programs of a release are named with its minor, oracle-1.36; "oracle" is that of MINOR."""

# No revision: it would be linked anew for every commit of ours. -s -w: no symbols, which halves the time to link and
# the size on disk.
_FLAGS: Final = ("-buildvcs=false", "-ldflags", "-s -w")

# What go says when it could not reach the module registry, as opposed to being refused a version or a
# checksum, or failing to compile: those are ours to repair and must not be skipped over.
_REGISTRY_SILENT: Final = re.compile(
    r"dial tcp|no such host|i/o timeout|connection refused|connection reset|TLS handshake timeout|proxyconnect"
    r"|network is unreachable|server misbehaving|50[0234] |Client\.Timeout exceeded|unexpected EOF"
)


class RegistryUnreachableError(Exception):
    """The Go module registry did not answer, so the programs cannot be built here."""


class BuildError(Exception):
    """The build failed for a reason that is ours."""


def cache_folder() -> Path:
    """Where the binaries go; DRA_SCHEDULER_TEST_CACHE overrides the user's cache folder."""
    named = os.environ.get("DRA_SCHEDULER_TEST_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dra-scheduler-tests"


@functools.cache
def build(program: str) -> Path:
    """The path of `program`, one of PROGRAMS, OF_KUBERNETES or a beta's, built from the sources as they are now.

    Raises:
        RegistryUnreachableError: modules are missing and the registry does not answer.
        BuildError: anything else, including no Go toolchain; the text has Go's last lines.
    """
    if program in OF_KUBERNETES:
        program = f"{program}-{MINOR}"
    known = dict.fromkeys((*OF_KUBERNETES, *PROGRAMS, *_OF_BETAS))
    if program not in known:
        raise ValueError(f"program {program!r}: want one of {', '.join(known)}")
    match outcome(program):
        case {"unreachable": text}:
            raise RegistryUnreachableError(text)
        case {"failed": text}:
            raise BuildError(text)
    name, _, minor = program.partition("-")
    source, package = _PACKAGES[name]
    go, flags = _go(), _flags(minor)
    target = target_of(program)
    target.parent.mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.utime(target.parent)
        if target.exists():
            return target
        unfinished = target.with_suffix(".unfinished")
        done = subprocess.run(
            ["nice", "-n", "10", go, "build", *flags, "-o", str(unfinished), package],
            cwd=source,
            env=_environment(source, minor),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            _remove_older_sets()
            return unfinished.rename(target)
    tail = "\n".join(done.stderr.strip().splitlines()[-15:])
    if _REGISTRY_SILENT.search(done.stderr):
        raise RegistryUnreachableError(f"the Go module registry did not answer while building {program}:\n{tail}")
    raise BuildError(f"go build {package} failed in {source}:\n{tail}")


def target_of(program: str) -> Path:
    """Where one of PROGRAMS is when it has been built from the sources as they are now.

    Raises:
        BuildError: there is no Go toolchain.
    """
    name, _, minor = program.partition("-")
    source, _ = _PACKAGES[name]
    return cache_folder() / _digest(_go(), source, _flags(minor), minor) / program


def outcome(program: str, *, waits: bool = True) -> dict[str, str] | None:
    """What became of a program that `builder` builds in this run: {}, {"failed": TEXT} or {"unreachable": TEXT}.

    The builder holds a lock on the program's file until it has written that. None: the builder builds no such program,
    or has not ended with it and nobody `waits`.
    """
    path = Path(os.environ.get(RUN, os.devnull), program)
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | (0 if waits else fcntl.LOCK_NB))
            text = file.read()
    except OSError:  # no such file, or locked
        return None
    return json.loads(text) if text else {"failed": f"the process that builds {program} ended before it was done"}


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            "the Go toolchain (go 1.26 or newer) is not on PATH; install it, or run the tests that need none: "
            "bash tests/run"
        )
    return go


def _environment(source: Path, minor: str) -> dict[str, str]:
    """Ours, with the Go that a release's mod file names, which Go fetches as a module where it is not here.

    Go reads that line of go.mod alone, not of the file that -modfile names.
    """
    mod = (source / f"kubernetes-{minor}.mod").read_text(encoding="utf-8") if minor else ""
    named = re.search(r"^toolchain (\S+)$", mod, re.MULTILINE)
    return {**os.environ, "GOTOOLCHAIN": named[1]} if named else {**os.environ}


def download(module: str) -> Path:
    """The folder of a released Go module ("PATH@VERSION") in Go's module cache: for the files in it, not to build it.

    Raises: as `build`.
    """
    done = subprocess.run(
        [_go(), "mod", "download", "-json", module], cwd=_MANIFESTS, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return Path(json.loads(done.stdout)["Dir"])
    if "requires go" in done.stdout:  # unpacked all the same
        name, _, version = module.partition("@")
        return Path(json.loads(done.stdout)["Zip"]).parents[len(name.split("/")) + 3] / f"{name}@{version}"
    if _REGISTRY_SILENT.search(done.stdout + done.stderr):
        raise RegistryUnreachableError(f"the Go module registry did not answer for {module}")
    raise BuildError(f"go mod download {module}: {done.stdout}{done.stderr}")


def built_or_skip(program: str) -> Path:
    """`build`, for fixtures: skips, loudly, where the module registry does not answer or nobody asks for a beta."""
    if program in _OF_BETAS and program not in PROGRAMS:
        pytest.skip(f"LEFT OUT, {program} takes ten minutes to build: {BETA}=1 asks for it; its answers are recorded")
    try:
        return build(program)
    except RegistryUnreachableError as error:
        pytest.skip(f"LEFT OUT, the Go module registry does not answer: {error}")


def _remove_older_sets() -> None:
    """Keep the folders that were used last: this one and another checkout's."""
    folders = [path for path in cache_folder().iterdir() if re.fullmatch(r"[0-9a-f]{16}", path.name)]
    for old in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)[SETS_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def _flags(minor: str) -> tuple[str, ...]:
    """Go's flags for a program of that release of Kubernetes; "" for a program of none."""
    if not minor:
        return _FLAGS
    *before, linker = _FLAGS
    # Without its version the server says v0.0.0-master, and clients that look at versions are misled.
    linker += f" -X k8s.io/component-base/version.gitVersion={(VERSIONS | BETAS)[minor]}"
    return (f"-modfile=kubernetes-{minor}.mod", "-tags", f"kubernetes_{minor.replace('.', '_')}", *before, linker)


def _digest(go: str, source: Path, flags: tuple[str, ...], minor: str) -> str:
    version = subprocess.run(
        [go, "version"], cwd=source, env=_environment(source, minor), capture_output=True, check=False
    ).stdout
    digest = hashlib.sha256(version + "\0".join(flags).encode())
    locks = (f"kubernetes-{minor}.mod", f"kubernetes-{minor}.sum") if minor else ("go.mod", "go.sum")
    for path in sorted(source.rglob("*")):
        if path.suffix == ".go" or path.name in locks:
            digest.update(path.relative_to(source).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def main() -> int:
    for program in sys.argv[1:] or PROGRAMS:
        begin = time.monotonic()
        try:
            path = build(program)
        except RegistryUnreachableError as error:
            print(f"{program}: {error}", file=sys.stderr)
            return REGISTRY_UNREACHABLE
        except BuildError as error:
            print(f"{program}: {error}", file=sys.stderr)
            return 1
        print(f"{program}: built in {time.monotonic() - begin:.1f} s, {path.stat().st_size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
