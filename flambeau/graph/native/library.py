"""From a call to the files of a library: its plan without places, where everything lies, one function a step."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...codegen import target
from ...codegen.irtext import Function
from ...codegen.irtext import Value as Word
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ..lower import planned_steps
from ..memory import Arena
from ..options import DEFAULT
from ..program import Value
from .capturing import Taken, taken, where
from .errors import Ungenerated
from .frame import ALIGN, Described, write_descriptions, write_load, write_run
from .header import header_of
from .linking import Library, driver, link, replace
from .parts import Parts, at, invoke
from .steps import Step, is_of_shapes, operands_of, step_of
from .weights import Weight, file_of

WHO = "export_library()"


def exported(
    function: Callable[..., Any], args: tuple[Any, ...], path: str | os.PathLike[str], kwargs: dict[str, Any]
) -> Library:
    """What `export_library` does."""
    if not callable(function):
        raise TypeError(f"{WHO}: expected something that can be called, got {type(function).__name__}")
    if not isinstance(args, tuple):
        raise TypeError(f"{WHO}: argument 'args' must be a tuple, not {type(args).__name__}")
    to = Path(path)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", to.stem) or not to.parent.is_dir() or to.is_dir():
        raise ValueError(
            f"{WHO}: the file must have a name that is one in C, in a folder that is there; got {os.fspath(path)!r}"
        )
    driver(WHO)
    made = Export(to.stem, taken(WHO, function, args, kwargs))
    return made.written(to if to.suffix else to.with_suffix(".so"))


class Export:
    """A library as it is made: of what was taken of a call, under a name."""

    def __init__(self, name: str, result: Taken) -> None:
        self.name, self.found, self.program = name, result, result.program
        self.tensors: dict[Value, TensorBase] = dict(result.weights)
        plan = planned_steps(self.program, DEFAULT)
        self.tensors |= {v.root: v.tensor for v in self.program.constants() if v.tensor is not None}
        self.steps: list[tuple[Step, list[Value]]] = []
        for number, (step, values) in enumerate(plan.steps):
            if is_of_shapes(step):
                continue
            try:
                made = step_of(number, step, values, plan.kernels, self.elements)
            except Ungenerated as error:
                calls = plan.report.steps[number].calls
                named = ", ".join(f"{c.name}(){where(c, result.lines)}" for c in calls)
                raise NotImplementedError(f"{WHO}: {named} has no generated kernel: {error}") from None
            self.steps.append((made, operands_of(step, values)))
        self.results = self.program.results()
        roots = [v.root for v in self.results]
        if any(
            r.call is None or v.at or v.span != r.span or not (v.contiguous or 0 in v.shape)
            for v, r in zip(self.results, roots)
        ):
            raise RuntimeError(f"{WHO}: a result has no memory of its own")
        self._place()
        self._keep()

    def elements(self, value: Value) -> np.ndarray | None:
        """The elements of a value that is known now; None for one that is computed, or given at each call."""
        tensor = self.tensors.get(value.root)
        if tensor is None or value.dtype != tensor.dtype:
            return None
        own: Any = tensor.detach()
        return own.as_strided(value.shape, value.place.stride, value.place.offset).contiguous().numpy()

    def _place(self) -> None:
        """Where values that are computed lie in the workspace, steps' own room behind them."""
        arena = Arena[Value]()
        returned = {v.root for v in self.results}
        for index, (_, values) in enumerate(self.steps):
            for v in values:
                if v.root.call is not None and v.root not in returned:
                    arena.touch(v.root, v.root.span * v.root.dtype.itemsize, index)
        self.spots = arena.solve()
        self.behind = -(-arena.size // ALIGN) * ALIGN
        self.workspace = self.behind + max((step.workspace for step, _ in self.steps), default=0)

    def _keep(self) -> None:
        """The tensors of the file: those that steps read as they are, and right operands as panels."""
        kept: dict[str, Weight] = {}
        self.kept: dict[Value, str] = {}
        for number, (step, values) in enumerate(self.steps):
            for k, v in enumerate(values):
                if k == 2 and step.known is not None:
                    kept[f"panels{number}"] = Weight(v.dtype.name, step.known.array)
                elif v.root in self.tensors and v.root not in self.kept:
                    name = self.kept[v.root] = f"tensor{len(self.kept)}"
                    kept[name] = _whole(v.root, self.tensors[v.root])
        self.file = file_of(kept) if kept else None

    def written(self, to: Path) -> Library:
        """The files."""
        inputs = [_described(t.dtype, tuple(t.shape)) for t in self.found.given]
        outputs = [_described(v.dtype, v.shape) for v in self.results]
        parts, name = Parts(), self.name
        exported = [f"{name}_run", f"{name}_message"]
        weights = to.with_suffix(".safetensors") if self.file is not None else None
        write_run(
            parts,
            name,
            inputs,
            outputs,
            self.workspace,
            self.file is not None,
            lambda *given: self.body(parts, *given),
        )
        if self.file is not None:
            write_load(parts, name, self.file.header, len(self.file.header) + len(self.file.data))
            exported += [f"{name}_load", f"{name}_unload"]
        write_descriptions(parts, name, inputs, outputs)
        link(WHO, parts.object_code(exported), to)
        if weights is not None and self.file is not None:
            replace(weights, self.file.header + self.file.data)
        header = to.with_suffix(".h")
        content = "" if weights is None else weights.name
        processor = " ".join((target.processor()[0], parts.triple))
        text = header_of(name, inputs, outputs, self.workspace, content, processor)
        replace(header, text.encode())
        return Library(to, header, weights, self.workspace)

    def body(
        self,
        parts: Parts,
        f: Function,
        inputs: list[Word],
        outputs: list[Word],
        workspace: Word,
        weights: Word,
        fault: Word,
    ) -> None:
        """One call for each step, with the addresses of what it touches."""
        bases = {v.root: address for v, address in zip(self.results, outputs)}
        bases |= {v: address for v, address in zip(self.found.arguments, inputs) if v is not None}
        for number, (step, values) in enumerate(self.steps):
            own, given = parts.function(
                f"step{number}", [*(f"p{k}" for k in range(len(values))), "memory", "fault"]
            )
            step.emit(parts, own, given[:-2], *given[-2:])
            own.do("ret void")
            places = []
            for k, v in enumerate(values):
                if k == 2 and step.known is not None and self.file is not None:
                    places.append(at(f, weights, self.file.places[f"panels{number}"]))
                elif v.root in self.kept and self.file is not None:
                    places.append(at(f, weights, self.file.places[self.kept[v.root]] + v.at))
                elif v.root in bases:
                    places.append(at(f, bases[v.root], v.at))
                else:
                    places.append(at(f, workspace, self.spots[v.root].at + v.at))
            memory = at(f, workspace, self.behind) if step.workspace else workspace
            invoke(f, f"step{number}", *places, memory, fault)


def _whole(root: Value, tensor: TensorBase) -> Weight:
    """The memory of a root from its first to its last element."""
    own: Any = tensor.detach()
    flat = own.as_strided((root.span,), (1,), root.place.offset)
    if root.dtype.name == "bfloat16":
        flat = flat.view(by_name["int16"])
    return Weight(root.dtype.name, flat.contiguous().numpy())


def _described(dtype: Any, shape: tuple[int, ...]) -> Described:
    return Described(dtype.name, shape, dtype.itemsize)
