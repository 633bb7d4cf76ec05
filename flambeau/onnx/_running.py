"""A program that is run to be written down: what of it is refused, and the lines that its calls stand on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._higher_order_ops._watch import Watcher, watched
from ..autograd.grad_mode import no_grad
from ..core.base.tensor import TensorBase
from ..graph.lines import Lines
from ..graph.record import Recording
from ..nn.attention import SDPBackend, sdpa_kernel
from ..overrides import TorchFunctionMode
from .errors import OnnxExporterError

_HERE = str(Path(__file__).parent.parent)


class _Looks(TorchFunctionMode):
    """Refuses what looks at values, where the program itself does: the graph would keep what these numbers gave."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        if any(isinstance(x, TensorBase) for x in args) and _looks(func):
            line, name = _line(), func.__name__
            if line is not None:
                raise OnnxExporterError(
                    f"onnx.export(): the program looks at a value of a tensor ({name}) at {line[0]}:{line[1]}; a graph computes the same "
                    "for all values. Choose by where() or cond(), or leave that part out of the exported module"
                )
        return func(*args, **(kwargs or {}))


def _looks(func: Any) -> bool:
    """Whether a call gives what depends on elements and is no tensor; `vmap` refuses such, too."""
    entry = getattr(getattr(func, "op", func), "entry", None)
    return entry is not None and entry.batching == "itemless"


def _line() -> tuple[str, int] | None:
    """The line that calls, where it is none of the library."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.endswith(("overrides.py", "_running.py")):
        frame = frame.f_back
    name = frame.f_code.co_filename
    return None if name.startswith(_HERE) else (name, frame.f_lineno)


def recorded(call: Callable[[], Any], watcher: Watcher) -> tuple[Any, Recording, list[tuple[str, int]]]:
    """What a call gives, its leaves, and their lines; branches and loops are handed to `watcher`."""
    # Attention by all scores is the same graph for any length; tiles are chosen by sizes.
    with no_grad(), sdpa_kernel(SDPBackend.MATH), _Looks(), watched(watcher):
        with Recording() as recording, Lines(recording) as lines:
            result = call()
    return result, recording, lines.of_calls()
