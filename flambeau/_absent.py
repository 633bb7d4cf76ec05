"""What is not here, said by name: the rooms of PyTorch that are missing or only answer questions, and why.

A room that programs look into before they work is a module with true answers ("is it available", "is a graph being traced") and
nothing else; every other name of it is an AttributeError that says why. `docs/coverage.md` is written from the same table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .core.base import display

NO_GROUP = "Default process group has not been initialized, please make sure to call init_process_group."
PAGE = "docs/coverage.md lists what is here"

# Rooms, and why they are absent; `distributed`, `export`, `fx`, `jit`, `onnx`, `ao` and `_dynamo` answer questions.
ROOMS = {
    "ao": "there is no quantised dtype",
    "quantization": "there is no quantised dtype",
    "contrib": "PyTorch's experiments are not carried over",
    "nn.intrinsic": "there is no quantised dtype",
    "nn.qat": "there is no quantised dtype",
    "nn.quantizable": "there is no quantised dtype",
    "nn.quantized.dynamic": "there is no quantised dtype",
    "nn.quantized.modules": "there is no quantised dtype",
    "nn.quantized.functional": "there is no quantised dtype",
    "nn.quantized._reference": "there is no quantised dtype",
    "nn.cpp": "it holds modules written in C++ with LibTorch, which is not here",
    "utils.data.datapipes": "PyTorch deprecated it",
    "utils.hipify": "it rewrites CUDA sources, and no CUDA sources are compiled here",
    "utils.jit": "there are no graphs yet",
    "utils.bundled_inputs": "it serves TorchScript",
    "utils.mobile_optimizer": "it serves TorchScript",
    "utils.model_dump": "it serves TorchScript",
    "utils.mkldnn": "there is no layout of oneDNN",
    "utils.backend_registration": "devices outside of the library are not open yet",
    "utils.throughput_benchmark": "it serves TorchScript",
    "cuda.tunable": "products are the vendor's libraries'",
    "cuda.CUDAGraph": "work is not captured to be repeated yet",
    "cuda.graph": "work is not captured to be repeated yet",
    "classes": "classes of C++ need LibTorch, which is not here",
    "cuda.gds": "files are not read by the GPU",
    "multiprocessing.reductions": "tensors travel by `multiprocessing/_channels.py`, not by PyTorch's reductions",
    "distributed": "there are no process groups yet",
    "export": "graphs are not kept yet",
    "fx": "there are no graphs yet",
    "jit": "there are no graphs yet",
    "nativert": "it runs exported graphs, and graphs are not kept yet",
    "onnx": "there are no graphs yet",
    "package": "it runs code when an archive is loaded; `save` keeps state, Python's own tools keep code",
    "_C": "it is PyTorch's compiled module, of which only what programs take from it has a place here",
    "_dynamo": "there is no compiler of graphs yet",
    "_inductor": "there is no compiler of graphs yet",
    "_export": "graphs are not kept yet",
    "_functorch": "`func` has what is public of it",
    "_subclasses": "there are no fake tensors; device 'meta' knows shapes and dtypes",
    "_prims": "operations are declared otherwise here",
}


def why(module: str) -> str | None:
    """The reason for which a module such as "fx.passes" is absent; None for one that no room of the table holds."""
    parts = module.split(".")
    for count in range(len(parts), 0, -1):
        if (reason := ROOMS.get(".".join(parts[:count]))) is not None:
            return reason
    return None


def message(name: str, called: str | None = None) -> str:
    """What is said of an absent name such as "jit.trace"; `called` is another name for what needs it.

    >>> from flambeau._absent import message
    >>> message("jit.freeze")
    'flambeau.jit.freeze is not here: there are no graphs yet (docs/coverage.md lists what is here)'
    """
    return f"{called or display.public(name)} is not here: {why(name)} ({PAGE})"


def refusing(room: str) -> Callable[[str], Any]:
    """`__getattr__` of a room: an AttributeError with the reason."""

    def absent(name: str) -> Any:
        if name.startswith("__"):  # what Python asks of any module
            raise AttributeError(f"module {display.public(room)!r} has no attribute {name!r}")
        raise AttributeError(message(f"{room}.{name}"))

    return absent


def unmakeable(name: str, bases: tuple[type, ...] = ()) -> type:
    """A class such as "fx.GraphModule", which nothing is an instance of: for `isinstance`, annotations and as a base.

    To make one is a NotImplementedError with the reason.
    """

    def refuse(self: Any, *args: Any, **options: Any) -> None:
        raise NotImplementedError(message(name))

    module, _, short = name.rpartition(".")
    document = f"""For `isinstance`, annotations and as a base class; to make one is a NotImplementedError: {why(name)}.

    >>> import {display.NAME}
    >>> isinstance(1, {display.public(name)})
    False
    """
    return type(short, bases, {"__init__": refuse, "__module__": display.public(module), "__doc__": document})
