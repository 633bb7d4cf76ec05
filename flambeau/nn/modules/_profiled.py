"""Calls of modules as entries for the profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.base.profiling import begin_span, end_span
from ._hooks import register_module_forward_hook, register_module_forward_pre_hook
from .module import Module


def record_modules() -> Callable[[], None]:
    """Note every call of a module as `nn.Module: Linear_0`, until what this returns is called."""
    numbers: dict[int, int] = {}  # of a module, among those of its class
    counts: dict[str, int] = {}
    open_calls: dict[int, list[int]] = {}
    alive: list[Module] = []  # so that no number of another module is met again

    def enter(module: Module, args: Any) -> None:
        number = numbers.get(id(module))
        kind = type(module).__name__
        if number is None:
            number = numbers[id(module)] = counts.get(kind, 0)
            counts[kind] = number + 1
            alive.append(module)
        open_calls.setdefault(id(module), []).append(begin_span(f"nn.Module: {kind}_{number}", True))

    def leave(module: Module, args: Any, output: Any) -> None:
        calls = open_calls.get(id(module))
        if calls:
            end_span(calls.pop())

    handles = (
        register_module_forward_pre_hook(enter),
        register_module_forward_hook(leave, always_call=True),
    )

    def stop() -> None:
        for handle in handles:
            handle.remove()

    return stop
