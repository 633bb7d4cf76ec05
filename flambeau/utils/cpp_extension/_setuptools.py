"""Extensions built by setuptools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext

from ._build import _is_cpp
from ._public import _FOR_DEVICES, _read, include_paths
from ._sources import calls, prototypes, refuse_libtorch


def CppExtension(name: str, sources: list[str], *args: Any, **kwargs: Any) -> Extension:  # noqa: N802
    """A `setuptools.Extension` of sources in C or C++ that declare functions with FLAMBEAU_FUNCTION; build it with `BuildExtension`.

    The result is a Python module with nothing in it, which `bind` takes.

    Raises:
        TypeError: `sources` are not given

    >>> from flambeau.utils.cpp_extension import CppExtension, include_paths
    >>> CppExtension("mine._C", ["mine/blur.c"]).include_dirs == include_paths()
    True
    """
    kwargs["include_dirs"] = [*kwargs.get("include_dirs", ()), *include_paths()]
    return Extension(name, list(sources), *args, **kwargs)


def CUDAExtension(name: str, sources: list[str], *args: Any, **kwargs: Any) -> Extension:  # noqa: N802
    """NotImplementedError: no compiler of CUDA sources is used.

    >>> from flambeau.utils.cpp_extension import CUDAExtension
    >>> CUDAExtension("mine", ["mine.cu"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    NotImplementedError: CUDAExtension(): mine: no compiler of CUDA sources is used: ...
    """
    raise NotImplementedError(f"CUDAExtension(): {name}: {_FOR_DEVICES.format('CUDA')}")


def SyclExtension(name: str, sources: list[str], *args: Any, **kwargs: Any) -> Extension:  # noqa: N802
    """NotImplementedError: no compiler of SYCL sources is used.

    >>> from flambeau.utils.cpp_extension import SyclExtension
    >>> SyclExtension("mine", ["mine.sycl"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    NotImplementedError: SyclExtension(): mine: no compiler of SYCL sources is used: ...
    """
    raise NotImplementedError(f"SyclExtension(): {name}: {_FOR_DEVICES.format('SYCL')}")


class BuildExtension(build_ext):
    """setuptools' `build_ext` for `CppExtension`: it adds the file of calls to those that declare functions.

    Raises:
        TypeError: the distribution is not given

    >>> from flambeau.utils.cpp_extension import BuildExtension
    >>> from setuptools import Distribution
    >>> BuildExtension(Distribution()).get_command_name()
    'build_ext'
    """

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """The same command; PyTorch's options (`use_ninja`, `no_python_abi_suffix`) choose nothing here."""
        return cls

    def get_command_name(self) -> str:
        return "build_ext"

    def build_extension(self, ext: Extension) -> None:
        texts = _read(ext.name, ext.sources)
        refuse_libtorch(ext.name, texts)
        declared = prototypes(ext.name, texts)
        if declared:
            text, listed = calls(declared, any(map(_is_cpp, ext.sources)), ext.name.rpartition(".")[2])
            folder = Path(self.build_temp)
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"{ext.name.replace('.', '_')}_calls{'.cpp' if listed != declared else '.c'}"
            file.write_text(text)
            ext.sources = [*ext.sources, str(file)]
        super().build_extension(ext)
