"""Exported programs: a module's call as a graph of ATen's operations, with its state and its signature, for all sizes that may vary.

>>> import flambeau as torch
>>> from flambeau.export import Dim, export
>>> program = export(torch.nn.Linear(2, 1), (torch.ones(3, 2),), dynamic_shapes=({0: Dim("batch")},))
>>> program.module()(torch.ones(5, 2)).shape
flambeau.Size([5, 1])
"""

from __future__ import annotations

from .._compat.absent import refusing as _refusing
from ._decompose import default_decompositions
from ._export import export
from ._registering import register_dataclass
from ._saving import load, save
from .dynamic_shapes import Dim, ShapesCollection, dims
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .graph_signature import ExportBackwardSignature, ExportGraphSignature
from .unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

__all__ = [
    "Dim",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "ExportedProgram",
    "FlatArgsAdapter",
    "ModuleCallEntry",
    "ModuleCallSignature",
    "ShapesCollection",
    "UnflattenedModule",
    "default_decompositions",
    "dims",
    "export",
    "load",
    "register_dataclass",
    "save",
    "unflatten",
]
__getattr__ = _refusing("export")
