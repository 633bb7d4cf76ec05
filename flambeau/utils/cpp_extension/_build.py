"""From sources to a library on disk: the compiler, and a folder of libraries under the digest of what they were made from.

The folder is trusted as that of kernels is (`codegen/cache.py`): it, and each library, must belong to the user or to root and be
writable by nobody else.  A library's name holds the digest of its bytes, which are compared before it is opened; it is
made beside and renamed, under a lock that ends with the process, so that one that is killed leaves nothing that counts.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ...codegen import cache
from ._sources import CPP_SUFFIXES

INCLUDE = str(Path(__file__).resolve().parents[2] / "include")
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC if hasattr(os, "O_NOFOLLOW") else os.O_RDONLY


class Recipe(NamedTuple):
    """What a library is made from: files and their flags; inline sources are files of a scratch folder."""

    name: str
    sources: tuple[str, ...]
    cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    include: tuple[str, ...]
    verbose: bool = False


# --- compilers ------------------------------
def compiler(cpp: bool) -> list[str]:
    """The user's compiler as a command: CC or CXX, else the first of the usual names.  RuntimeError where there is none."""
    variable, names = ("CXX", ("c++", "g++", "clang++")) if cpp else ("CC", ("cc", "gcc", "clang"))
    command_line = shlex.split(os.environ.get(variable, ""))
    for command in [command_line] if command_line else [[n] for n in names]:
        path = shutil.which(command[0])
        if path is not None:
            return [path, *command[1:]]
    tried = f"{variable}={os.environ[variable]}" if command_line else ", ".join(names)
    raise RuntimeError(
        f"no {'C++' if cpp else 'C'} compiler was found (tried {tried}): install one (`apt install g++`, `dnf install gcc-c++`, "
        f"`xcode-select --install`, or `conda install cxx-compiler`), or set {variable} to its path"
    )


def _run(command: Sequence[str], folder: str, what: str, verbose: bool = False) -> str:
    """What a command prints; RuntimeError with its messages where it fails."""
    if verbose:
        print(shlex.join(command), file=sys.stderr)
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise RuntimeError(f"{what}: {command[0]} cannot be run: {error}") from None
    if done.returncode:
        message = (
            done.stderr or done.stdout
        ).strip() or f"it ended with status {done.returncode} and no message"
        raise RuntimeError(f"{what}: the compiler says\n{message}\n(the command was {shlex.join(command)})")
    if verbose and done.stderr:
        print(done.stderr, file=sys.stderr)
    return done.stdout


def _is_cpp(source: str) -> bool:
    return Path(source).suffix in CPP_SUFFIXES


def _flags(recipe: Recipe, source: str) -> list[str]:
    include = [f"-I{p}" for p in (*recipe.include, INCLUDE)]
    return ["-O3", "-fPIC", *(["-std=c++17"] if _is_cpp(source) else []), *recipe.cflags, *include]


def key_of(recipe: Recipe, folder: str) -> str:
    """The digest of what decides the library's code: sources with all that they include, compilers, flags."""
    digest = hashlib.sha256(
        repr((recipe[2:5], sys.platform, os.uname().machine if hasattr(os, "uname") else "")).encode()
    )
    for cpp in sorted({_is_cpp(s) for s in recipe.sources}):
        command = compiler(cpp)
        digest.update(_run([*command, "--version"], folder, recipe.name).encode() + repr(command).encode())
    for source in recipe.sources:
        command = [*compiler(_is_cpp(source)), *_flags(recipe, source), "-E", "-P", source]
        digest.update(_run(command, folder, f"{recipe.name}: {source}").encode() + b"\0")
    return digest.hexdigest()[:32]


def compiled(recipe: Recipe, folder: str) -> bytes:
    """The library that the compilers make, in the scratch folder."""
    objects = []
    for k, source in enumerate(recipe.sources):
        objects.append(f"part{k}.o")
        command = [*compiler(_is_cpp(source)), *_flags(recipe, source), "-c", source, "-o", objects[-1]]
        _run(command, folder, f"{recipe.name}: {source}", recipe.verbose)
    linker = compiler(any(map(_is_cpp, recipe.sources)))
    bare = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    _run(
        [*linker, "-shared", *objects, "-o", "made.so", *recipe.ldflags, *bare],
        folder,
        recipe.name,
        recipe.verbose,
    )
    return Path(folder, "made.so").read_bytes()


# --- the folder ------------------------------
def build_root() -> Path:
    """Where libraries are kept: TORCH_EXTENSIONS_DIR, else extensions/ beside the kernels."""
    folder = os.environ.get("TORCH_EXTENSIONS_DIR")
    return Path(folder).expanduser().absolute() if folder else cache.folder() / "extensions"


def _get_build_directory(name: str, verbose: bool = False) -> str:
    """The folder that `load` keeps libraries in, of every name: they are found by what they were made from."""
    place = build_root()
    if verbose:
        print(f"Using {place} as PyTorch extensions root...", file=sys.stderr)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(place)


@contextmanager
def trusted(place: Path) -> Iterator[tuple[int, str]]:
    """A descriptor of the folder, made where it is not there, and a path to it that cannot be given to another.

    Where it cannot be trusted or written, a private one that lasts as long as the process takes its place, with a warning.
    """
    problem = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        at = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        problem = str(error)
    else:
        problem = cache.reason_to_distrust(os.fstat(at), os.geteuid())
        if problem is None and not os.access(place, os.W_OK):
            problem = "it cannot be written"
        if problem is not None:
            os.close(at)
    if problem is not None:
        warnings.warn(
            f"extensions are compiled anew in each process, since {place} is not to be used: {problem}; set TORCH_EXTENSIONS_DIR to "
            "a folder of your own with mode 0700",
            RuntimeWarning,
            stacklevel=5,
        )
        place = Path(_private())
        at = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield at, f"/proc/self/fd/{at}" if os.path.isdir(f"/proc/self/fd/{at}") else str(place)
    finally:
        os.close(at)


_private_folder: list[str] = []


def _private() -> str:
    if not _private_folder:
        _private_folder.append(tempfile.mkdtemp(prefix="flambeau-extensions-"))
        atexit.register(shutil.rmtree, _private_folder[0], ignore_errors=True)
    return _private_folder[0]


@contextmanager
def _locked(at: int, name: str) -> Iterator[None]:
    """One process at a time; the system gives a killed one's lock back."""
    import fcntl

    handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=at)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _intact(at: int, prefix: str) -> str | None:
    """The name of a library made from that key whose bytes are what its name says, and that nobody else can have written."""
    for name in os.listdir(at):
        if not name.startswith(prefix) or not name.endswith(".so"):
            continue
        try:
            handle = os.open(name, _OPEN, dir_fd=at)
        except OSError:
            continue
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            is_trusted = (
                stat.S_ISREG(status.st_mode) and cache.reason_to_distrust(status, os.geteuid()) is None
            )
            if is_trusted and name == f"{prefix}{hashlib.sha256(file.read()).hexdigest()[:32]}.so":
                return name
        with suppress(OSError):  # damaged: made anew
            os.unlink(name, dir_fd=at)
    return None


@contextmanager
def library(recipe: Recipe, scratch: str, directory: str | None = None) -> Iterator[str]:
    """The path of the recipe's library while the block runs, compiled where it is not there yet."""
    key = key_of(recipe, scratch)
    prefix = f"{re.sub('[^A-Za-z0-9_]', '_', recipe.name)}-{key}-"
    with trusted(build_root() if directory is None else Path(directory).expanduser().absolute()) as (
        at,
        path,
    ):
        name = _intact(at, prefix)
        if name is None:
            with _locked(at, f"{key}.lock"):
                name = _intact(at, prefix)
                if name is None:
                    name = _written(at, prefix, compiled(recipe, scratch))
        yield f"{path}/{name}"


def _written(at: int, prefix: str, code: bytes) -> str:
    """Store a library; its name."""
    name, temporary = f"{prefix}{hashlib.sha256(code).hexdigest()[:32]}.so", f"{os.urandom(8).hex()}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700, dir_fd=at)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(code)
        os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=at)
        raise
    return name
