"""The dotted names of compiled classes."""

from __future__ import annotations

from cpython.object cimport PyTypeObject

cdef list KEPT = []  # the text of each name: a compiled class points into it for as long as the process lives


def name_type(kind: type, name: str) -> None:
    """Let a compiled class say `name`, such as "flambeau.dtype", for its module and itself.

    >>> from flambeau.core.base.dtypes import dtype
    >>> dtype.__module__, dtype.__name__
    ('flambeau', 'dtype')
    """
    if kind.__flags__ & (1 << 9):  # made by a class statement: it has attributes for both
        raise TypeError(f"{kind} is no compiled class")
    text = name.encode()
    KEPT.append(text)
    (<PyTypeObject*>kind).tp_name = text
