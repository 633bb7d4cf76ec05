"""What sources in C and C++ declare, and the file of calls that is compiled beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...core.base import display

C_SUFFIXES, CPP_SUFFIXES = (".c",), (".cpp", ".cc", ".cxx", ".C", ".c++")
# What an argument is in C, and its letter in a library's list of functions: an operand, a result, or a number.
KINDS = {
    "const DLTensor *": "o",
    "DLTensor *": "r",
    "double": "d",
    "float": "f",
    "int64_t": "l",
    "int32_t": "i",
    "int": "i",
    "bool": "b",
}
LIST = "flambeau_functions_of_this_library"

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_FUNCTION = re.compile(r"\bFLAMBEAU_FUNCTION\s+(\w+)\s*\(([^()]*)\)\s*[{;]")
_ARGUMENT = re.compile(r"^(?P<type>.*?[\s*])(?P<name>[A-Za-z_]\w*)$", re.DOTALL)
_LIBTORCH = re.compile(
    r"#\s*include\s*[<\"](?:torch/|ATen/|c10/)[^>\"]*[>\"]|\btorch::\w+|\bat::\w+|\bc10::\w+|\bTORCH_LIBRARY\w*|\bTORCH_CHECK\b"
)
_PYTHON_MODULE = re.compile(r"\bPyInit_\w+|\bPyMODINIT_FUNC\b|\bPYBIND11_MODULE\b|\bNB_MODULE\b")


class Prototype(NamedTuple):
    """A function in C: its name, the symbol that is called, and its arguments as (kind, name)."""

    name: str
    symbol: str
    arguments: tuple[tuple[str, str], ...]

    def signature(self) -> str:
        """As a line of a library's list."""
        return f"{self.name} {self.symbol} {','.join(k + n for k, n in self.arguments)}"


def refuse_libtorch(who: str, texts: Iterable[str]) -> None:
    """NotImplementedError where a source is written for PyTorch's own library of C++."""
    for text in texts:
        result = _LIBTORCH.search(_COMMENT.sub(_blanked, text))
        if result is not None:
            raise NotImplementedError(
                f"{who}: the source is written for LibTorch ({result[0]!r}), PyTorch's library of C++, which is not part of this one.  "
                "Write the function over `const DLTensor *` with <flambeau/extension.h>, whose first page says how, or in "
                f"Python with `{display.public('kernels')}`; docs/extending.md has both"
            )


def _blanked(match: re.Match[str]) -> str:
    """Comments and texts blanked, but for the names of included files."""
    return match[0] if match[0].startswith('"') and "/" in match[0] else " "


def is_python_module(texts: Iterable[str]) -> bool:
    """Whether a source is a whole module of Python by itself."""
    return any(_PYTHON_MODULE.search(_COMMENT.sub(" ", text)) for text in texts)


def prototypes(who: str, texts: Iterable[str]) -> list[Prototype]:
    """The functions that sources declare with FLAMBEAU_FUNCTION; TypeError for arguments that no call can give."""
    result = {}
    for text in texts:
        for name, inside in _FUNCTION.findall(_COMMENT.sub(" ", text)):
            result[name] = Prototype(name, name, tuple(_argument(who, name, a) for a in inside.split(",")))
    for p in result.values():
        if not any(kind == "r" for kind, _ in p.arguments) or not any(kind == "o" for kind, _ in p.arguments):
            raise TypeError(
                f"{who}: {p.name} must take at least one operand (const DLTensor *) and one result (DLTensor *)"
            )
    return list(result.values())


def _argument(who: str, function: str, text: str) -> tuple[str, str]:
    match = _ARGUMENT.match(text.strip())
    words = " ".join(match["type"].replace("*", " * ").split()) if match else text.strip()
    kind = KINDS.get(words.replace("DLTensor const", "const DLTensor").replace("struct ", ""))
    if match is None or kind is None:
        raise TypeError(
            f"{who}: the argument '{' '.join(text.split())}' of {function} must be one of "
            f"{', '.join(KINDS)}, and have a name"
        )
    return kind, match["name"]


def calls(
    functions: Sequence[Prototype], cpp: bool, module: str | None = None
) -> tuple[str, list[Prototype]]:
    """A source that lists the functions in the library, and in C++ catches what they throw; and the functions as listed.

    `module`: the name of a Python module that the library is made to be, without anything in it.
    """
    lines = ["#include <flambeau/extension.h>"]
    listed = list(functions)
    if cpp:
        lines += ["#include <exception>", "#include <cstdio>"]
        listed = [p._replace(symbol=f"flambeau_call_{p.name}") for p in functions]
        for p in listed:
            spelled = {kind: words for words, kind in reversed(KINDS.items())}
            typed = ", ".join(f"{spelled[kind]} {name}" for kind, name in p.arguments)
            arguments = ", ".join(name for _, name in p.arguments)
            lines += [
                f"FLAMBEAU_FUNCTION {p.name}({typed});",
                f"FLAMBEAU_FUNCTION {p.symbol}({typed}) {{",
                "    static thread_local char message[1024];",
                f"    try {{ return {p.name}({arguments}); }}",
                '    catch (const std::exception &e) { std::snprintf(message, sizeof message, "%s", e.what()); }',
                '    catch (...) { std::snprintf(message, sizeof message, "an exception that is no std::exception"); }',
                "    return message;",
                "}",
            ]
    text = "\\n".join(p.signature() for p in listed)
    lines.append(f'FLAMBEAU_FUNCTION {LIST}(void) {{ return "{text}"; }}')
    if module is not None:
        lines += [
            "#define PY_SSIZE_T_CLEAN",
            "#include <Python.h>",
            f'static struct PyModuleDef flambeau_module = {{PyModuleDef_HEAD_INIT, "{module}", 0, -1, 0, 0, 0, 0, 0}};',
            f"PyMODINIT_FUNC PyInit_{module}(void) {{ return PyModule_Create(&flambeau_module); }}",
        ]
    return "\n".join(lines) + "\n", listed


def read_list(text: str) -> list[Prototype]:
    """The functions that a library lists."""
    result = []
    for line in text.splitlines():
        name, symbol, arguments = line.split(" ")
        result.append(Prototype(name, symbol, tuple((a[0], a[1:]) for a in arguments.split(","))))
    return result
