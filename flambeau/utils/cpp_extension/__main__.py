"""`python -m flambeau.utils.cpp_extension SOURCES`: the file of calls, for builds that are not setuptools'."""

from __future__ import annotations

import sys

from ._build import _is_cpp
from ._public import _read
from ._sources import calls, prototypes, refuse_libtorch


def main(files: list[str]) -> None:
    """Print the file that lists the functions of sources and, in C++, catches what they throw."""
    if not files or "-h" in files or "--help" in files:
        print("usage: python -m flambeau.utils.cpp_extension SOURCES > calls.c (calls.cpp, where one is C++)")
        raise SystemExit(not files)
    texts = _read("cpp_extension", files)
    refuse_libtorch("cpp_extension", texts)
    print(calls(prototypes("cpp_extension", texts), any(map(_is_cpp, files)))[0], end="")


if __name__ == "__main__":
    main(sys.argv[1:])
