"""Models and weights from elsewhere: folders with a `hubconf.py`, and files behind URLs.

A folder's `hubconf.py` is Python that runs: use folders of people you trust.  Repositories on GitHub are not fetched: clone one, and
give its folder with `source="local"`.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from .core.base import display

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 1 << 20
_hub_dir: str | None = None


def get_dir() -> str:
    """The folder that downloads are kept in: what `set_dir` said, else `$TORCH_HOME/hub`, else `$XDG_CACHE_HOME/torch/hub`,
    else `~/.cache/torch/hub`.

    >>> import os
    >>> from unittest import mock
    >>> import flambeau
    >>> with mock.patch.dict(os.environ, TORCH_HOME="/data/torch"):
    ...     flambeau.hub.get_dir()
    '/data/torch/hub'
    """
    return os.path.join(_get_torch_home(), "hub") if _hub_dir is None else _hub_dir


def _get_torch_home() -> str:
    """The folder above: `$TORCH_HOME`, else `torch` in `$XDG_CACHE_HOME`, else `~/.cache/torch`."""
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike) -> None:
    """Keep downloads in the folder `d`; a `~` in front is the home folder.

    Raises:
        TypeError: the argument is no path

    >>> import flambeau
    >>> before = flambeau.hub.get_dir()
    >>> flambeau.hub.set_dir("/data/weights")
    >>> flambeau.hub.get_dir()
    '/data/weights'
    >>> flambeau.hub.set_dir(before)
    """
    global _hub_dir
    _hub_dir = os.path.expanduser(os.fspath(d))


def __getattr__(name: str) -> Any:
    """Names of other packages that programs import from here: `tqdm`, where it is installed, and `urlparse`."""
    if name == "tqdm":
        try:
            from tqdm import tqdm
        except ImportError:
            raise AttributeError(f"module {__name__!r} has {name!r} where tqdm is installed") from None
        return tqdm
    if name == "urlparse":
        from urllib.parse import urlparse

        return urlparse
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# The names `list`, `help` and `load` are PyTorch's; what they hide of Python's is used under `builtins`.


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str = "check",
    verbose: bool = True,
    *,
    source: str = "github",
) -> builtins.list[str]:
    """The names of what a folder's `hubconf.py` offers.

    Args:
        github: the folder, with `source="local"`.
        force_reload, skip_validation, trust_repo, verbose: of repositories on GitHub, which are not fetched.

    Raises:
        NotImplementedError: `source="github"`, the default.
        FileNotFoundError: the folder has no `hubconf.py`.

    >>> import os, tempfile
    >>> import flambeau
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...     _ = file.write("def double(x):\\n    'Twice x.'\\n    return 2 * x\\n")
    >>> flambeau.hub.list(folder, source="local"), flambeau.hub.help(folder, "double", source="local")
    (['double'], 'Twice x.')
    >>> flambeau.hub.load(folder, "double", 4, source="local")
    8
    """
    with _opened(github, source) as module:
        return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str = "check",
    *,
    source: str = "github",
) -> str | None:
    """The docstring of one of the names that `list` gives.  Arguments and errors are those of `list` and `load`.

    Raises:
        ValueError: `source` is neither "github" nor "local"

    >>> import os, tempfile
    >>> import flambeau
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...         _ = file.write("def double(x):\\n    'Twice x.'\\n    return 2 * x\\n")
    ...     flambeau.hub.help(folder, "double", source="local")
    'Twice x.'
    """
    with _opened(github, source) as module:
        return _entry(module, model).__doc__


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: bool | str = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What `model(*args, **kwargs)` of a folder's `hubconf.py` returns.

    Args:
        repo_or_dir: the folder, with `source="local"`.
        model: one of the names that `list` gives.
        trust_repo, force_reload, verbose, skip_validation: of repositories on GitHub, which are not fetched.

    Raises:
        NotImplementedError: `source="github"`, the default.
        ValueError: another `source`, or a model that is no str.
        RuntimeError: there is no such name, or a module named in `dependencies` is not installed.
        FileNotFoundError: the folder has no `hubconf.py`.

    >>> import os, tempfile
    >>> import flambeau
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "hubconf.py"), "w") as file:
    ...         _ = file.write("from flambeau.nn import Linear\\n")
    ...     flambeau.hub.load(folder, "Linear", 3, 2, bias=False, source="local")
    Linear(in_features=3, out_features=2, bias=False)
    """
    with _opened(repo_or_dir, source) as module:
        return _entry(module, model)(*args, **kwargs)


@contextmanager
def _opened(folder: str, source: str) -> Iterator[ModuleType]:
    """The module of a folder's `hubconf.py`, with the folder first among those that are searched for imports."""
    from importlib.util import module_from_spec, spec_from_file_location

    if source.lower() not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source.lower() == "github":
        raise NotImplementedError(
            f"{display.NAME}.hub: source='github' is not supported: clone {folder!r} and give its folder with source='local'"
        )
    folder = os.fspath(folder)
    path = os.path.join(folder, "hubconf.py")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{display.NAME}.hub: there is no {path!r}")
    spec = spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None  # of a file that ends in .py
    module = module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(folder)


def _entry(module: ModuleType, model: str) -> Any:
    from importlib.util import find_spec

    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    missing = [name for name in getattr(module, "dependencies", ()) if find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    entry = getattr(module, model, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return entry


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Write what lies at a URL (`file:`, `https:`, …) to the file `dst`, which is there when it is complete.

    Args:
        hash_prefix: how the SHA-256 of the content must begin, in hexadecimal digits.
        progress: whether to show on stderr how far it is: tqdm's bar where that is installed, else a line.

    Raises:
        RuntimeError: the content has another hash.
        urllib.error.URLError: it cannot be fetched.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import flambeau
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     there, here = Path(folder, "there.txt"), Path(folder, "here.txt")
    ...     _ = there.write_text("content")
    ...     flambeau.hub.download_url_to_file(there.as_uri(), str(here), progress=False)
    ...     here.read_text()
    'content'
    """
    from hashlib import sha256
    from urllib.request import Request, urlopen

    from ._files.replacing import replacing
    from .utils._progress import progress as _progress

    dst = os.path.expanduser(dst)
    digest = sha256()
    with urlopen(Request(url, headers={"User-Agent": f"{display.NAME}.hub"})) as answer:
        length = answer.headers.get("Content-Length")
        total = int(length) if length else None
        with (
            _progress(total=total, unit="B", unit_scale=True, unit_divisor=1024, disable=not progress) as bar,
            replacing(dst, False) as file,
        ):
            while block := answer.read(READ_DATA_CHUNK):
                file.write(block)
                digest.update(block)
                bar.update(len(block))
            result = digest.hexdigest()
            if hash_prefix is not None and not result.startswith(hash_prefix):
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{result}")')


def load_state_dict_from_url(
    url: str,
    model_dir: str | os.PathLike | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> dict[str, Any]:
    """The object in the file at a URL, which is fetched once and kept.

    Args:
        model_dir: the folder it is kept in; `get_dir()/checkpoints` by default.
        map_location: as of `flambeau.load`.
        progress: as of `download_url_to_file`.
        check_hash: whether the file's name ends in the beginning of its SHA-256, `name-<digits>.pt`, which is then compared.
        file_name: its name there; by default that in the URL.
        weights_only: as of `flambeau.load`.  PyTorch's default is False here.

    Raises:
        RuntimeError: the hash is another one.
        urllib.error.URLError: it cannot be fetched.
        ValueError: the URL names no file, and `file_name` is not given.

    Where the file is kept already, nothing is fetched:

    >>> import os, tempfile
    >>> import flambeau
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     flambeau.save({"weight": flambeau.ones(2)}, os.path.join(folder, "small.pt"))
    ...     flambeau.hub.load_state_dict_from_url("https://example.org/small.pt", model_dir=folder)
    {'weight': tensor([1., 1.])}
    """
    from urllib.parse import urlparse
    from urllib.request import url2pathname

    from ._files import load as load_file

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else os.fspath(model_dir)
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(url2pathname(urlparse(url).path)) if file_name is None else file_name
    if not name:
        raise ValueError(f"load_state_dict_from_url(): {url!r} names no file: give file_name")
    cached_file = os.path.join(folder, name)
    if not os.path.exists(cached_file):
        sys.stdout.write(f'Downloading: "{url}" to {cached_file}\n')
        result = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, cached_file, result.group(1) if result else None, progress=progress)
    return load_file(cached_file, map_location=map_location, weights_only=weights_only)
