"""A pool of processes whose arguments and results travel as shared memory."""

from __future__ import annotations

import multiprocessing.pool
from collections.abc import Callable, Iterable
from typing import Any

from .._compat.absent import refusing
from ._contexts import get_context

__all__ = ["Pool"]


class Pool(multiprocessing.pool.Pool):
    """`multiprocessing.Pool` for tensors.  ValueError for fewer than one process.

    >>> import operator
    >>> import flambeau
    >>> from flambeau import multiprocessing as mp
    >>> with mp.Pool(2) as pool:
    ...     pool.map(operator.neg, [flambeau.ones(2), flambeau.full((2,), 3.0)])
    [tensor([-1., -1.]), tensor([-3., -3.])]
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
    ) -> None:
        method = None if context is None else context.get_start_method()
        super().__init__(processes, initializer, initargs, maxtasksperchild, context=get_context(method))


__getattr__ = refusing("multiprocessing.pool")
