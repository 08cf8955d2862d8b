"""The image's file tree, in an empty folder: an interpreter, the shared libraries it needs, and the installed program.

    python manifests/image/root.py FOLDER        # with uv in this interpreter's packages

manifests/Dockerfile runs this and takes the folder as the image, so there is no shell and no package manager in it, nor
anything else that the program does not need. Without a container tool the same folder can be run (`run.py`).

The interpreter is the one that runs this. Packages are those of requirements.txt, each by its hash, never built here;
the program's own wheel is built with the tools of tools.txt. Standard library alone: it runs before anything is
installed.
"""

from __future__ import annotations

import argparse
import compileall
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
PROJECT: Final = HERE.parents[1]
PYTHON: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
USER_ID: Final = 65532

# Of the standard library: what only developers, terminals and databases need.
_LEFT_OUT: Final = (
    *("__pycache__", "config-*", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages", "sqlite3", "test"),
    *("tests", "tkinter", "turtledemo", "_ctypes_test*", "_curses*", "_dbm*", "_gdbm*", "_sqlite3*", "_test*"),
    *("_tkinter*", "_xxtest*", "nis.*", "ossaudiodev*", "readline*", "xx*"),
)
_LIBRARY: Final = re.compile(r"^\t(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)
_AUTHORITIES: Final = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


class RootError(Exception):
    """The tree cannot be made; the text says why."""


def build_root(root: Path, wheel: Path | None = None) -> None:
    """Make the tree in `root`, an empty folder or none yet. `wheel`: the program's; None: built from this checkout.

    Raises:
        RootError: the folder is not empty, or uv failed; its own words.
    """
    if root.exists() and any(root.iterdir()):
        raise RootError(f"{root} is not empty")
    # The image's user is nobody's owner, whatever this one's habits are.
    mask = os.umask(0o022)
    try:
        _build(root, wheel)
        root.chmod(0o755)
    finally:
        os.umask(mask)


def _build(root: Path, wheel: Path | None) -> None:
    packages = root / "usr/local/lib" / PYTHON / "site-packages"
    _copy_interpreter(root)
    with tempfile.TemporaryDirectory() as folder:
        own = wheel or build_wheel(Path(folder))
        install = ("pip", "install", "--quiet", "--python", sys.executable, "--target", str(packages), "--no-deps")
        # Copied: hard links would share their owner and mode with uv's cache.
        _uv(
            *install,
            "--link-mode=copy",
            "--require-hashes",
            "--only-binary=:all:",
            "-r",
            str(HERE / "requirements.txt"),
        )
        _uv(*install, "--link-mode=copy", "--offline", str(own))
    (packages / ".lock").unlink(missing_ok=True)  # uv's own, which everybody may write
    next(packages.glob("dra_scheduler-*.dist-info/direct_url.json")).unlink()  # the path of a wheel that is gone
    _move_commands(packages / "bin", root / "usr/local/bin")
    _copy_libraries(root)
    _write_etc(root)
    # With a read-only root it would cost 1.5 s at every start.
    compiled = compileall.compile_dir(root / "usr/local/lib", stripdir=str(root), prependdir="/", quiet=2, workers=1)
    if not compiled:
        raise RootError(f"{root / 'usr/local/lib'}: modules that do not compile")


def build_wheel(folder: Path) -> Path:
    """The program's wheel, in `folder`; built with tools of known hashes."""
    constraints = ("--build-constraints", str(HERE / "tools.txt"), "--require-hashes")
    _uv("build", "--quiet", "--wheel", "--python", sys.executable, *constraints, "--out-dir", str(folder), str(PROJECT))
    (wheel,) = folder.glob("*.whl")
    return wheel


def _uv(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "uv", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RootError(f"uv {arguments[0]}: {done.stderr.strip()}")


def _copy_interpreter(root: Path) -> None:
    programs = root / "usr/local/bin"
    programs.mkdir(parents=True)
    executable = Path(sys.base_prefix) / "bin" / PYTHON
    shutil.copy(executable, programs / PYTHON)
    for name in ("python3", "python"):
        (programs / name).symlink_to(PYTHON)
    library = root / "usr/local/lib" / PYTHON
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    (library / "VERSION").write_text(platform.python_version())  # for the bill of materials


def _move_commands(made: Path, programs: Path) -> None:
    """The program's own two, for the interpreter in the tree; none of its packages' commands."""
    for name in ("dra-scheduler", "kubectl-dra"):
        _, _, rest = (made / name).read_text(encoding="utf-8").partition("\n")
        command = programs / name
        command.write_text(f"#!/usr/local/bin/python3\n{rest}", encoding="utf-8")
        command.chmod(0o755)
    shutil.rmtree(made)


def _copy_libraries(root: Path) -> None:
    """The C library and what else is linked to, into /usr/lib: every loader looks there, by one of three names."""
    libraries = root / "usr/lib"
    libraries.mkdir(parents=True)
    for name in ("lib", "lib64"):
        (root / name).symlink_to("usr/lib")
    (root / "usr/lib64").symlink_to("lib")
    linked = [str(root / "usr/local/bin" / PYTHON), *map(str, sorted((root / "usr/local/lib").rglob("*.so*")))]
    said = subprocess.run(["ldd", *linked], capture_output=True, text=True, check=False).stdout
    missing = sorted(set(re.findall(r"^\t(\S+) => not found", said, re.MULTILINE)))
    if missing:
        raise RootError(f"shared libraries that are not here: {', '.join(missing)}")
    found = {Path(path) for path in _LIBRARY.findall(said)}
    # Loaded by name when a thread is cancelled.
    found |= {path.parent / "libgcc_s.so.1" for path in found if (path.parent / "libgcc_s.so.1").exists()}
    for path in sorted(found):
        if not path.is_relative_to(root):
            shutil.copy(path, libraries / path.name)


def _write_etc(root: Path) -> None:
    # Where the Deployment mounts its configuration, and what container runtimes mount.
    for name in ("dev", "etc/dra-scheduler", "etc/ssl/certs", "proc", "sys"):
        (root / name).mkdir(parents=True)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    users = f"root:x:0:0:root:/:/sbin/nologin\ndra-scheduler:x:{USER_ID}:{USER_ID}::/:/sbin/nologin\n"
    (root / "etc/passwd").write_text(users)
    (root / "etc/group").write_text(f"root:x:0:\ndra-scheduler:x:{USER_ID}:\n")
    authorities = [path for path in _AUTHORITIES if Path(path).exists()]
    if authorities:
        shutil.copy(authorities[0], root / "etc/ssl/certs/ca-certificates.crt")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the image's file tree.")
    parser.add_argument("root", type=Path)
    parser.add_argument("--wheel", type=Path, help="the program's wheel; default: built from this checkout")
    given = parser.parse_args()
    try:
        build_root(given.root, given.wheel)
    except RootError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
