"""The result of a collective that is still on its way: a tensor that waits when it is first read."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from .._tensor import Tensor
from ..utils._pytree import tree_map_only
from ._work import Work


class AsyncCollectiveTensor(Tensor):
    """A tensor that a collective is writing to; shape and dtype are known, and the first operation that reads elements waits.

    Views of it do not wait; indexing does.  Functional collectives make it; `wait()` gives the plain tensor.

    Raises:
        DistBackendError: where it waits, what the collective fails with

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed._functional_collectives as funcol
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> total = funcol.all_reduce(flambeau.ones(2), "sum", dist.group.WORLD)
    >>> type(total).__name__, total + 1
    ('AsyncCollectiveTensor', tensor([2., 2.]))
    >>> dist.destroy_process_group()
    """

    elem: Tensor
    completed: bool
    _work: Work | None

    @staticmethod
    def __new__(cls, elem: Tensor, work: Work | None = None) -> AsyncCollectiveTensor:
        made = Tensor._make_wrapper_subclass(
            cls,
            elem.size(),
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            layout=elem.layout,
            device=elem.device,
            requires_grad=False,
        )
        made.elem, made._work, made.completed = elem, work, work is None
        return made

    def trigger_wait(self) -> Tensor:
        """The plain tensor, after the collective is done."""
        if self._work is not None:
            self._work.wait()
        self.completed, self._work = True, None
        return self.elem

    def wait(self) -> Tensor:
        """The same."""
        return self.trigger_wait()

    def tolist(self) -> Any:
        """Its elements, when they are there."""
        return self.trigger_wait().tolist()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        """The same as an array."""
        return self.trigger_wait().numpy(*args, **kwargs)

    def data_ptr(self) -> int:
        """Where its elements will be; the collective may still write there."""
        return self.elem.data_ptr()

    def __repr__(self, *args: Any, **kwargs: Any) -> str:
        return f"AsyncCollectiveTensor({self.trigger_wait()!r})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.trigger_wait().__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deepcopy(self.trigger_wait(), memo)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        source = args[0] if args else None
        if isinstance(source, cls) and source._work is not None and _is_view(func):
            inner = func(source.elem, *args[1:], **(kwargs or {}))
            work = source._work
            return tree_map_only(Tensor, lambda view: cls(view, work), inner)
        waited = tree_map_only(cls, cls.trigger_wait, (tuple(args), kwargs or {}))
        return func(*waited[0], **waited[1])


def _is_view(func: Any) -> bool:
    """Whether an operation's result shares the memory of its first argument, which it does not write to."""
    arguments = func._schema.arguments
    alias = arguments[0].alias_info if arguments else None
    return alias is not None and not alias.is_write
