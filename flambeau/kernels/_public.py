"""The names of `flambeau.kernels`."""

from __future__ import annotations

from ..operations.declare.pointwise import ALL, COMPLEX, FLOATING, INTEGRAL, NUMERIC  # noqa: F401
from ._check import check  # noqa: F401
from ._indexed import indexed, scatter  # noqa: F401
from ._pointwise import pointwise  # noqa: F401
from ._rows import reduction, row  # noqa: F401
from ._scans import scan  # noqa: F401
from ._vocabulary import WORDS, vocabulary  # noqa: F401

for _word in WORDS:
    globals()[_word.name] = _word.function
    _word.function.__module__, _word.function.__qualname__ = (
        __name__,
        _word.name,
    )  # where pickle and help find it

__all__ = ["ALL", "COMPLEX", "FLOATING", "INTEGRAL", "NUMERIC"]
__all__ += ["check", "indexed", "pointwise", "reduction", "row", "scan", "scatter", "vocabulary"]
__all__ += [word.name for word in WORDS]
