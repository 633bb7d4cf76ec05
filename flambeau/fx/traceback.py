"""What new nodes get of where they come from: `meta` of the node that is being run, and annotations."""

from __future__ import annotations

import contextlib
import functools
import traceback as _python
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from .._compat.absent import refusing
from .node import Node

__all__ = [
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "get_current_replay_node",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_current_replay_node",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]

P = ParamSpec("P")
R = TypeVar("R")

current_meta: dict[str, Any] = {}
current_replay_node: Node | None = None
should_preserve_node_meta = False


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Within it, nodes that an `Interpreter` leads to have the `meta` of the node that it runs.

    Raises nothing.

    >>> from flambeau.fx.traceback import has_preserved_node_meta, preserve_node_meta
    >>> with preserve_node_meta():
    ...     has_preserved_node_meta()
    True
    """
    global should_preserve_node_meta, current_meta
    former, meta = should_preserve_node_meta, current_meta.copy()
    should_preserve_node_meta = enable
    try:
        yield
    finally:
        should_preserve_node_meta, current_meta = former, meta


def has_preserved_node_meta() -> bool:
    """Whether `preserve_node_meta` is on.

    >>> from flambeau.fx.traceback import has_preserved_node_meta
    >>> has_preserved_node_meta()
    False
    """
    return should_preserve_node_meta


@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Within it, new nodes have these entries in `meta["custom"]`; inner entries win over outer ones.

    Raises nothing.

    >>> import flambeau as torch
    >>> from flambeau.fx.traceback import annotate
    >>> def f(x):
    ...     with annotate({"stage": 1}):
    ...         return x + 1
    >>> [n.meta.get("custom") for n in torch.fx.symbolic_trace(f).graph.nodes]
    [None, {'stage': 1}, None]
    """
    former = current_meta.get("custom")
    current_meta["custom"] = {**(former or {}), **annotation_dict}
    try:
        yield
    finally:
        if former is None:
            current_meta.pop("custom", None)
        else:
            current_meta["custom"] = former


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: nodes that calls of the function make are annotated.

    Raises nothing.

    >>> from flambeau.fx.traceback import annotate_fn
    >>> @annotate_fn({"stage": 2})
    ... def f(x):
    ...     return x
    >>> f(3)
    3
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return call

    return decorate


def set_stack_trace(stack: list[str]) -> None:
    """Set the trace that new nodes get while `preserve_node_meta` is on.

    Raises nothing.

    >>> from flambeau.fx import traceback
    >>> with traceback.preserve_node_meta():
    ...     traceback.set_stack_trace(["line 1"])
    ...     traceback.format_stack()
    ['line 1']
    """
    if should_preserve_node_meta and stack:
        current_meta["stack_trace"] = "".join(stack)


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Note the number of the node on the tape whose backward is running.

    Raises nothing.

    >>> from flambeau.fx.traceback import reset_grad_fn_seq_nr, set_grad_fn_seq_nr
    >>> set_grad_fn_seq_nr(3); reset_grad_fn_seq_nr()
    """
    if should_preserve_node_meta:
        former = current_meta.get("grad_fn_seq_nr", [])
        current_meta["grad_fn_seq_nr"] = [*former, seq_nr]
        current_meta["in_grad_fn"] = current_meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """Take back the last `set_grad_fn_seq_nr`.

    >>> from flambeau.fx.traceback import reset_grad_fn_seq_nr
    >>> reset_grad_fn_seq_nr()
    """
    if should_preserve_node_meta and current_meta.get("in_grad_fn"):
        current_meta["in_grad_fn"] -= 1
        current_meta["grad_fn_seq_nr"] = current_meta["grad_fn_seq_nr"][:-1]
        if not current_meta["in_grad_fn"]:
            del current_meta["in_grad_fn"], current_meta["grad_fn_seq_nr"]


def format_stack() -> list[str]:
    """The trace that new nodes get: what was set, or the stack of Python's calls.

    >>> from flambeau.fx.traceback import format_stack
    >>> len(format_stack()) > 0
    True
    """
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    return _python.format_list(_python.extract_stack()[:-1])


@contextlib.contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """Within it, new nodes have a copy of a node's `meta`, while `preserve_node_meta` is on.

    Raises nothing.

    >>> import flambeau as torch
    >>> from flambeau.fx.traceback import get_current_meta, preserve_node_meta, set_current_meta
    >>> x = torch.fx.Graph().placeholder("x")
    >>> x.meta["k"] = 1
    >>> with preserve_node_meta(), set_current_meta(x):
    ...     get_current_meta()["k"]
    1
    """
    global current_meta
    if not (should_preserve_node_meta and node.meta):
        yield
        return
    former = current_meta
    current_meta = {**node.meta, "from_node": [*node.meta.get("from_node", ()), (node.name, pass_name)]}
    try:
        yield
    finally:
        current_meta = former


def get_current_meta() -> dict[str, Any]:
    """What new nodes are given.

    >>> from flambeau.fx.traceback import get_current_meta
    >>> get_current_meta()
    {}
    """
    return current_meta


@contextlib.contextmanager
def set_current_replay_node(node: Node | None) -> Iterator[None]:
    """Within it, `get_current_replay_node` is this node.

    Raises nothing.

    >>> from flambeau.fx.traceback import set_current_replay_node
    >>> with set_current_replay_node(None):
    ...     pass
    """
    global current_replay_node
    former, current_replay_node = current_replay_node, node
    try:
        yield
    finally:
        current_replay_node = former


def get_current_replay_node() -> Node | None:
    """The node that is being run, where `set_current_replay_node` said so.

    >>> from flambeau.fx.traceback import get_current_replay_node
    >>> get_current_replay_node() is None
    True
    """
    return current_replay_node


__getattr__ = refusing("fx.traceback")
