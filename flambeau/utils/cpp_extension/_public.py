"""`load`, `load_inline` and `bind`: functions in C and C++ as operations."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ...core.base import display
from . import _build
from ._calls import Library, rule_of
from ._sources import (
    C_SUFFIXES,
    CPP_SUFFIXES,
    Prototype,
    calls,
    is_python_module,
    prototypes,
    refuse_libtorch,
)

# Where toolkits are that extensions are built with: none is used, so programs that ask take the path without.
CUDA_HOME = ROCM_HOME = SYCL_HOME = None
_FOR_DEVICES = (
    "no compiler of {} sources is used: a kernel in Python "
    f"(`{display.public('kernels')}`) runs on every device, and C runs on the CPU"
)


def _texts(texts: str | Sequence[str] | None, what: str) -> list[str]:
    result = [] if texts is None else [texts] if isinstance(texts, str) else list(texts)
    for text in result:
        if not isinstance(text, str):
            raise TypeError(
                f"load_inline(): {what} must be text, or a list of texts, got {type(text).__name__}"
            )
    return result


def _many(values: Any) -> tuple[str, ...]:
    return () if values is None else (values,) if isinstance(values, str) else tuple(map(str, values))


def _check_name(who: str, name: str) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"{who}(): name must be a Python identifier, got {name!r}")


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str] | None = None,
    cuda_sources: Any = None,
    sycl_sources: Any = None,
    functions: str | Iterable[str] | Mapping[str, Any] | None = None,
    extra_cflags: Iterable[str] | None = None,
    extra_cuda_cflags: Any = None,
    extra_sycl_cflags: Any = None,
    extra_ldflags: Iterable[str] | None = None,
    extra_include_paths: str | Iterable[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    *,
    c_sources: str | Sequence[str] | None = None,
) -> ModuleType:
    """A module whose functions are operations written in C or C++, compiled when they are new.

    A function takes `const DLTensor *` operands, `DLTensor *` results that are allocated for it, and numbers, and returns NULL or
    a message; `flambeau/extension.h` is one page and says it all.  It runs on the CPU, without Python's lock.  The compiler is the
    user's (CC, CXX); what it made is kept on disk and found again under the digest of sources, headers, flags and compiler.

    Args:
        name: of the module, an identifier.
        cpp_sources, c_sources: texts.
        functions: names (all that the sources declare, by default), or a dictionary from names to a docstring or to a
            dictionary of: `results`, a function of the call's arguments that returns the shape of the result, or a pair of a shape
            and a dtype, or a list of such for several results (by default, each is like the first operand); `dtypes` of the
            operands (float32), for all or by operand's name; `contiguous`, False where the function goes by strides;
            `defaults` of numbers; `doc`.
        extra_cflags, extra_ldflags, extra_include_paths: for the compiler.
        build_directory: in place of `get_default_build_root()`.
        verbose: whether commands are printed.

    Returns:
        the module.  `module.f.derivative` declares the gradients of f, as a function of `grad` (or `grads`), operands, `out` (or
        `outs`) and numbers, by name, that returns a tensor or None for each operand.

    Raises:
        RuntimeError: no compiler, or what it says of the sources, with file and line; at a call, the function's message.
        TypeError: a function takes what no call can give; at a call, a wrong argument or dtype.
        NotImplementedError: sources for LibTorch, CUDA or SYCL; at a call, tensors of other devices.

    >>> import flambeau
    >>> from flambeau.utils.cpp_extension import load_inline
    >>> source = '''
    ... #include <flambeau/extension.h>
    ... FLAMBEAU_FUNCTION third_power(const DLTensor *x, DLTensor *out) {
    ...     const float *from = FLAMBEAU_DATA(float, x);
    ...     float *to = FLAMBEAU_DATA(float, out);
    ...     for (int64_t i = 0, n = flambeau_count(x); i < n; i++)
    ...         to[i] = from[i] * from[i] * from[i];
    ...     return NULL;
    ... }'''
    >>> powers = load_inline("powers", c_sources=source)
    >>> @powers.third_power.derivative
    ... def _(grad, x):
    ...     return 3 * x * x * grad
    >>> x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    >>> powers.third_power(x)
    tensor([1., 8.], grad_fn=<ThirdPowerBackward0>)
    >>> powers.third_power(x).sum().backward(); x.grad
    tensor([ 3., 12.])
    """
    _check_name("load_inline", name)
    for kind, requested in (
        ("CUDA", cuda_sources or with_cuda or extra_cuda_cflags),
        ("SYCL", sycl_sources or extra_sycl_cflags),
    ):
        if requested:
            raise NotImplementedError(f"load_inline(): {name}: {_FOR_DEVICES.format(kind)}")
    in_cpp, in_c = _texts(cpp_sources, "cpp_sources"), _texts(c_sources, "c_sources")
    if not in_cpp and not in_c:
        raise ValueError(f"load_inline(): {name}: no sources given")
    with tempfile.TemporaryDirectory(prefix="flambeau-build-") as scratch:
        sources = []
        for suffix, texts in ((".c", in_c), (".cpp", in_cpp)):
            for k, text in enumerate(texts):
                file = f"{name}{k or ''}{suffix}"
                Path(scratch, file).write_text(text)
                sources.append(file)
        recipe = _build.Recipe(
            name,
            tuple(sources),
            _many(extra_cflags),
            _many(extra_ldflags),
            _many(extra_include_paths),
            verbose,
        )
        return _module(recipe, scratch, [*in_c, *in_cpp], functions, build_directory, f"{name} (inline)")


def load(
    name: str,
    sources: str | Sequence[str],
    extra_cflags: Iterable[str] | None = None,
    extra_cuda_cflags: Any = None,
    extra_sycl_cflags: Any = None,
    extra_ldflags: Iterable[str] | None = None,
    extra_include_paths: str | Iterable[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    *,
    functions: str | Iterable[str] | Mapping[str, Any] | None = None,
) -> ModuleType:
    """A module whose functions are operations written in files of C or C++; see `load_inline`.

    Sources that are a whole Python module by themselves (`PyInit_name`, `PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)`) are compiled
    and imported as that.

    Raises:
        RuntimeError: the compiler refuses the sources, with its message

    >>> import pathlib, tempfile, flambeau
    >>> from flambeau.utils.cpp_extension import load
    >>> folder = tempfile.mkdtemp()
    >>> file = pathlib.Path(folder, "rows.cpp")
    >>> _ = file.write_text('''
    ... #include <flambeau/extension.h>
    ... #include <numeric>
    ... FLAMBEAU_FUNCTION row_sums(const DLTensor *x, DLTensor *out) {
    ...     const double *from = FLAMBEAU_DATA(const double, x);
    ...     for (int64_t i = 0; i < x->shape[0]; i++)
    ...         FLAMBEAU_DATA(double, out)[i] = std::accumulate(from + i * x->shape[1], from + (i + 1) * x->shape[1], 0.0);
    ...     return NULL;
    ... }''')
    >>> rows = load("rows", [str(file)], functions={"row_sums": {"results": lambda x: x.shape[:1], "dtypes": "float64"}})
    >>> rows.row_sums(flambeau.ones(2, 3, dtype=flambeau.float64))
    tensor([3., 3.], dtype=flambeau.float64)
    """
    _check_name("load", name)
    if with_cuda or extra_cuda_cflags or extra_sycl_cflags:
        raise NotImplementedError(f"load(): {name}: {_FOR_DEVICES.format('CUDA and SYCL')}")
    files = [os.path.abspath(s) for s in _many(sources)]
    texts = _read(f"load(): {name}", files)
    with tempfile.TemporaryDirectory(prefix="flambeau-build-") as scratch:
        recipe = _build.Recipe(
            name, tuple(files), _many(extra_cflags), _many(extra_ldflags), _many(extra_include_paths), verbose
        )
        return _module(recipe, scratch, texts, functions, build_directory, ", ".join(files))


def _read(who: str, files: Sequence[str]) -> list[str]:
    """The texts of source files."""
    if not files:
        raise ValueError(f"{who}: no sources given")
    for file in files:
        suffix = Path(file).suffix
        if suffix in (".cu", ".cuh", ".sycl"):
            raise NotImplementedError(
                f"{who}: {file}: {_FOR_DEVICES.format('SYCL' if suffix == '.sycl' else 'CUDA')}"
            )
        if suffix not in (*C_SUFFIXES, *CPP_SUFFIXES):
            raise ValueError(f"{who}: {file}: sources end in {', '.join((*C_SUFFIXES, *CPP_SUFFIXES))}")
    return [Path(file).read_text(errors="replace") for file in files]


def _module(
    recipe: _build.Recipe, scratch: str, texts: list[str], functions: Any, directory: str | None, shown: str
) -> ModuleType:
    """The module of a recipe's functions, or the module that its sources are."""
    refuse_libtorch(recipe.name, texts)
    declared = prototypes(recipe.name, texts)
    if not declared and is_python_module(texts):
        return _imported(recipe, scratch, directory)
    rules = _rules(recipe.name, functions, [p.name for p in declared])
    text, listed = calls(declared, any(map(_build._is_cpp, recipe.sources)))
    file = "flambeau_calls" + (".cpp" if listed != declared else ".c")
    Path(scratch, file).write_text(text)
    recipe = recipe._replace(sources=(*recipe.sources, file))
    with _build.library(recipe, scratch, directory) as path:
        opened = Library(path, shown, listed)
    return _filled(recipe.name, opened, rules)


def _filled(name: str, library: Library, rules: Mapping[str, Any]) -> ModuleType:
    made = ModuleType(name, f"Functions of {library.shown}.")
    made.__file__ = library.shown
    for function, rule in rules.items():
        setattr(made, function, library.operation(function, rule_of(f"{name}: {function}", rule), name))
    return made


def _rules(name: str, functions: Any, result: Sequence[str]) -> dict[str, Any]:
    """What was said of each function that is wanted."""
    if not result:
        raise ValueError(
            f"{name}: the sources declare no function with FLAMBEAU_FUNCTION; <flambeau/extension.h> says how one looks"
        )
    if functions is None:
        return dict.fromkeys(result)
    wanted = functions if isinstance(functions, Mapping) else dict.fromkeys(_many(functions))
    for function in wanted:
        if function not in result:
            raise ValueError(
                f"{name}: the sources declare no function {function}; they declare {', '.join(result)}"
            )
    return dict(wanted)


def _imported(recipe: _build.Recipe, scratch: str, directory: str | None) -> ModuleType:
    """Sources that are a module of Python by themselves."""
    import sysconfig

    include = (*recipe.include, sysconfig.get_paths()["include"])
    recipe = recipe._replace(
        include=include, cflags=(f"-DTORCH_EXTENSION_NAME={recipe.name}", *recipe.cflags)
    )
    with _build.library(recipe, scratch, directory) as path:
        loader = importlib.machinery.ExtensionFileLoader(recipe.name, path)
        spec = importlib.util.spec_from_loader(recipe.name, loader)
        assert spec is not None
        made = importlib.util.module_from_spec(spec)
        loader.exec_module(made)
    return made


def bind(
    library: str | os.PathLike | ModuleType,
    functions: str | Iterable[str] | Mapping[str, Any] | None = None,
    *,
    sources: str | None = None,
    name: str | None = None,
) -> ModuleType:
    """The operations of a library that was built before, by setuptools, meson or a compiler at hand.

    Args:
        library: its path, or the module that `CppExtension` made of it.
        functions: as in `load_inline`.
        sources: the text of its sources, where it does not list its functions; those of C++ then must not throw.
        name: of the module that is returned; by default the library's.  Given as `__name__`, operations that are put into the
            calling module can be pickled.

    Raises:
        RuntimeError: it cannot be opened, or neither lists its functions nor has those that the sources declare.

    >>> from flambeau.utils.cpp_extension import bind
    >>> bind("/nowhere/blur.so")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    RuntimeError: /nowhere/blur.so: the library cannot be opened: ...
    """
    path = library.__file__ if isinstance(library, ModuleType) else os.fspath(library)
    if not isinstance(path, str):
        raise TypeError(f"bind(): a library's path or module expected, got {library!r}")
    listed: list[Prototype] | None = None if sources is None else prototypes("bind()", [sources])
    opened = Library(path, path, listed)
    name = name or Path(path).name.partition(".")[0]
    return _filled(name, opened, _rules(name, functions, list(opened.functions)))


# --- what builds ask ------------------------------
def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """Folders of headers: the one that `flambeau/extension.h` is in.

    Raises:
        NotImplementedError: `device_type` is not "cpu"

    >>> from flambeau.utils.cpp_extension import include_paths
    >>> import os
    >>> [os.path.exists(os.path.join(p, "flambeau", "extension.h")) for p in include_paths()]
    [True]
    """
    _check_device("include_paths", device_type)
    return [_build.INCLUDE]


def library_paths(
    device_type: str = "cpu", torch_include_dirs: bool = True, cross_target_platform: str | None = None
) -> list[str]:
    """Folders of libraries to link with: none, for there is nothing to link with.

    Raises:
        NotImplementedError: `device_type` is not "cpu"

    >>> from flambeau.utils.cpp_extension import library_paths
    >>> library_paths()
    []
    """
    _check_device("library_paths", device_type)
    return []


def _check_device(who: str, device_type: Any) -> None:
    if device_type not in ("cpu", False):
        raise NotImplementedError(f"{who}(): {_FOR_DEVICES.format(str(device_type).upper())}")


def get_default_build_root() -> str:
    """The folder that libraries are kept in: TORCH_EXTENSIONS_DIR, else `extensions` beside the compiled kernels.

    >>> from flambeau.utils.cpp_extension import get_default_build_root
    >>> isinstance(get_default_build_root(), str)
    True
    """
    return str(_build.build_root())


def get_cxx_compiler() -> str:
    """The C++ compiler's path: CXX, else the first of c++, g++, clang++; RuntimeError where there is none.

    >>> from flambeau.utils.cpp_extension import get_cxx_compiler
    >>> isinstance(get_cxx_compiler(), str)
    True
    """
    return _build.compiler(True)[0]


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Whether there is such a compiler; all serve, for nothing of C++ is shared with it.

    Raises:
        TypeError: the argument is no text

    >>> from flambeau.utils.cpp_extension import check_compiler_ok_for_platform
    >>> check_compiler_ok_for_platform("no-such-compiler")
    False
    """
    return shutil.which(compiler) is not None


def check_compiler_is_gcc(compiler: str) -> bool:
    """Whether a compiler is GCC (clang says it is not).

    Raises:
        TypeError: the argument is no text

    >>> from flambeau.utils.cpp_extension import check_compiler_is_gcc
    >>> check_compiler_is_gcc("no-such-compiler")
    False
    """
    if shutil.which(compiler) is None:
        return False
    command = [compiler, "-dM", "-E", "-x", "c", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return "__GNUC__" in done.stdout and "__clang__" not in done.stdout


def get_compiler_abi_compatibility_and_version(compiler: str) -> tuple[bool, tuple[int, ...]]:
    """Whether a compiler can be used, which every one can that there is, and its version.

    Raises:
        TypeError: the argument is no text

    >>> from flambeau.utils.cpp_extension import get_compiler_abi_compatibility_and_version
    >>> get_compiler_abi_compatibility_and_version("no-such-compiler")
    (False, (0, 0, 0))
    """
    if shutil.which(compiler) is None:
        return False, (0, 0, 0)
    command = [compiler, "-dumpfullversion", "-dumpversion"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    parts = [int(p) for p in done.stdout.strip().split(".") if p.isdigit()]
    return True, tuple((parts + [0, 0, 0])[:3])


def is_ninja_available() -> bool:
    """Whether ninja is installed; nothing here needs it.

    >>> from flambeau.utils.cpp_extension import is_ninja_available
    >>> isinstance(is_ninja_available(), bool)
    True
    """
    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """RuntimeError where ninja is not installed.

    >>> from flambeau.utils.cpp_extension import is_ninja_available, verify_ninja_availability
    >>> if is_ninja_available():
    ...     verify_ninja_availability()
    """
    if not is_ninja_available():
        raise RuntimeError("Ninja is not installed: `pip install ninja`.  Nothing here needs it.")
