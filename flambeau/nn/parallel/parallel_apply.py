"""Several modules at once, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ..._compat.absent import refusing
from ...amp._state import Carried
from ...autograd.grad_mode import set_grad_enabled
from ...core.tape import is_grad_enabled
from ..modules.module import Module

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """What each module makes of its own input, computed at the same time.

    Args:
        inputs: for each module a tuple of arguments, or one argument that is no tuple.
        kwargs_tup: for each module its keyword arguments.
        devices: for each module where it lies, to be named in errors.

    Raises:
        ValueError: unequally many modules, inputs, keyword arguments or devices.
        Exception: what the first of the modules that failed raised, with a note that names it.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.parallel.parallel_apply([nn.Identity(), nn.ReLU()], [flambeau.ones(1), -flambeau.ones(1)])
    [tensor([1.]), tensor([0.])]
    """
    kwargs_tup = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    devices = [None] * len(modules) if devices is None else devices
    if not len(modules) == len(inputs) == len(kwargs_tup) == len(devices):
        raise ValueError(
            f"parallel_apply: got {len(modules)} modules, {len(inputs)} inputs, {len(kwargs_tup)} keyword arguments and "
            f"{len(devices)} devices"
        )
    recording, autocast = is_grad_enabled(), Carried()
    results: list[Any] = [None] * len(modules)
    errors: list[BaseException | None] = [None] * len(modules)

    def work(i: int) -> None:
        arguments = inputs[i] if isinstance(inputs[i], (tuple, list)) else (inputs[i],)
        try:
            with set_grad_enabled(recording), autocast.again():
                results[i] = modules[i](*arguments, **kwargs_tup[i])
        except BaseException as error:
            where = "" if devices[i] is None else f" on device {devices[i]}"
            error.add_note(f"Caught {type(error).__name__} in replica {i}{where}.")
            errors[i] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, len(modules))]
    for thread in threads:
        thread.start()
    if modules:
        work(0)  # this thread would only wait
    for thread in threads:
        thread.join()
    for error in errors:
        if error is not None:
            raise error
    return results


__getattr__ = refusing("nn.parallel.parallel_apply")
