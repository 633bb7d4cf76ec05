"""How a module is parallelized: where its parameters lie, and its inputs and outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from ...._tensor import Tensor
from ....core.base import display
from ....nn import Embedding, Linear, Module
from ...device_mesh import DeviceMesh
from .._api import DTensor, distribute_module, distribute_tensor
from ..placement_types import Placement, Replicate, Shard

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]


class ParallelStyle(ABC):
    """How a module or submodule is parallelized: `_apply(module, device_mesh)` does it, and returns the module.

    Raises nothing.

    >>> from flambeau.distributed.tensor.parallel import ColwiseParallel, ParallelStyle
    >>> isinstance(ColwiseParallel(), ParallelStyle)
    True
    """

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module: ...


def _placed(x: Tensor, mesh: DeviceMesh, layout: Placement, wanted: Placement) -> DTensor:
    """A tensor, plain ones taken as `layout` says, redistributed as wanted."""
    result = x if isinstance(x, DTensor) else DTensor.from_local(x, mesh, (layout,), run_check=False)
    wanted = Shard(wanted.dim % result.dim()) if isinstance(wanted, Shard) else wanted
    return result if result.placements == (wanted,) else result.redistribute(placements=(wanted,))


def _left(x: DTensor, wanted: Placement, local: bool) -> Tensor:
    """An output as it is wanted, and as a plain tensor."""
    result = _placed(x, x.device_mesh, wanted, wanted)
    return result.to_local() if local else result


class _OfLayer(ParallelStyle):
    """What the two styles of layers share: a placement for each parameter, one for the input, and one for the output."""

    _weights: Mapping[type[Module], Mapping[str, Placement]]
    _first: Placement
    _last: Placement

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = (input_layouts or self._first,)
        self.output_layouts = (output_layouts or self._last,)
        self.use_local_output = use_local_output

    def _desired(self, module: Module) -> Placement:
        """How a module's input has to lie."""
        return Replicate()

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        kind = next((kind for kind in self._weights if isinstance(module, kind)), None)
        if kind is None:
            raise NotImplementedError(
                f"{type(self).__name__} currently only support nn.Linear and nn.Embedding! Got {type(module).__name__}"
            )
        placements, desired = self._weights[kind], self._desired(module)

        def partition(name: str, each: Module, mesh: DeviceMesh) -> None:
            for key, parameter in list(each._parameters.items()):
                if parameter is not None and key in placements:
                    made = distribute_tensor(
                        parameter, mesh, [placements[key]], src_data_rank=self.src_data_rank
                    )
                    each.register_parameter(key, made)  # type: ignore[arg-type]

        def enter(_: Module, inputs: tuple, mesh: DeviceMesh) -> tuple:
            return (_placed(inputs[0], mesh, self.input_layouts[0], desired), *inputs[1:])

        def leave(_: Module, output: DTensor, mesh: DeviceMesh) -> Tensor:
            return _left(output, self.output_layouts[0], self.use_local_output)

        return distribute_module(module, device_mesh, partition, enter, leave)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, output_layouts={self.output_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class ColwiseParallel(_OfLayer):
    """A Linear's outputs, or an Embedding's columns, cut over the processes.

    input_layouts: how a plain input lies; `Replicate()` by default.
    output_layouts: how the output is to lie; `Shard(-1)`, as it comes, by default.
    use_local_output: whether the output is the piece, a plain tensor.

    Raises nothing.

    >>> from flambeau.distributed.tensor.parallel import ColwiseParallel
    >>> ColwiseParallel(use_local_output=False)
    ColwiseParallel(input_layouts=(Replicate(),), output_layouts=(Shard(dim=-1),), use_local_output=False)
    """

    _weights = {Linear: {"weight": Shard(0), "bias": Shard(0)}, Embedding: {"weight": Shard(1)}}
    _first, _last = Replicate(), Shard(-1)


class RowwiseParallel(_OfLayer):
    """A Linear's inputs, or an Embedding's rows, cut over the processes; outputs are added up.

    input_layouts: how a plain input lies; `Shard(-1)` by default.
    output_layouts: how the output is to lie; `Replicate()` by default, `Shard(1)` for sequence parallelism.
    use_local_output: whether the output is the piece, a plain tensor.

    Raises nothing.

    >>> from flambeau.distributed.tensor.parallel import RowwiseParallel
    >>> RowwiseParallel()
    RowwiseParallel(input_layouts=(Shard(dim=-1),), output_layouts=(Replicate(),), use_local_output=True)
    """

    _weights = {Linear: {"weight": Shard(1), "bias": Replicate()}, Embedding: {"weight": Shard(0)}}
    _first, _last = Shard(-1), Replicate()

    def _desired(self, module: Module) -> Placement:
        return Replicate() if isinstance(module, Embedding) else Shard(-1)


class SequenceParallel(ParallelStyle):
    """A module that works on each position of a sequence (LayerNorm, RMSNorm, Dropout): inputs cut along the sequence, parameters whole.

    sequence_dim: the dimension of positions.
    use_local_output: whether the output is the piece, a plain tensor.

    Raises nothing.

    >>> from flambeau.distributed.tensor.parallel import SequenceParallel
    >>> SequenceParallel().sequence_sharding
    (Shard(dim=1),)
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        cut = self.sequence_sharding[0]

        def partition(name: str, each: Module, mesh: DeviceMesh) -> None:
            for key, parameter in list(each._parameters.items()):
                if parameter is not None:
                    made = distribute_tensor(parameter, mesh, [Replicate()], src_data_rank=self.src_data_rank)
                    each.register_parameter(key, made)  # type: ignore[arg-type]

        def enter(_: Module, inputs: tuple, mesh: DeviceMesh) -> tuple:
            if not isinstance(inputs[0], Tensor):
                raise ValueError(
                    f"expecting input of {module} to be a tensor or DTensor, but got {type(inputs[0]).__name__}"
                )
            return (_placed(inputs[0], mesh, cut, cut), *inputs[1:])

        def leave(_: Module, output: DTensor, mesh: DeviceMesh) -> Tensor:
            return output.to_local() if self.use_local_output else output

        return distribute_module(module, device_mesh, partition, enter, leave)

    def __repr__(self) -> str:
        return f"SequenceParallel(sequence_dim={self.sequence_sharding[0].dim}, use_local_output={self.use_local_output})"


Layouts = Placement | Sequence[Placement | None] | None


def _listed(layouts: Layouts) -> tuple[Placement | None, ...]:
    return (layouts,) if layouts is None or isinstance(layouts, Placement) else tuple(layouts)


def _converted(
    x: Any, mesh: DeviceMesh, layout: Placement | None, wanted: Placement | None, local: bool
) -> Any:
    """One input or output; what has no layout, as it is."""
    if layout is None:
        return x
    if not isinstance(x, Tensor):
        raise ValueError(f"expecting a tensor where a layout is given, but got {type(x).__name__}")
    result = _placed(x, mesh, layout, wanted or layout)
    return result.to_local() if local else result


class PrepareModuleInput(ParallelStyle):
    """Make a module's inputs distributed tensors, and redistribute them.

    input_layouts: how plain inputs lie, one or one each; None for what stays as it is.
    desired_input_layouts: how they have to lie, as many.
    input_kwarg_layouts, desired_input_kwarg_layouts: the same, by the names of keyword arguments.
    use_local_output: whether the module is given pieces, plain tensors.

    Raises:
        ValueError: there are not as many desired layouts as layouts

    >>> from flambeau.distributed.tensor import Replicate, Shard
    >>> from flambeau.distributed.tensor.parallel import PrepareModuleInput
    >>> PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate()).input_layouts
    (Shard(dim=0),)
    """

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = None if input_layouts is None else _listed(input_layouts)
        self.desired_input_layouts = None if desired_input_layouts is None else _listed(desired_input_layouts)
        self.use_local_output = use_local_output
        self.input_kwarg_layouts = dict(input_kwarg_layouts or {})
        self.desired_input_kwarg_layouts = dict(desired_input_kwarg_layouts or {})
        self.with_kwargs = input_kwarg_layouts is not None
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise ValueError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise ValueError("input_layouts and desired_input_layouts should have same length!")
        if set(self.input_kwarg_layouts) != set(self.desired_input_kwarg_layouts):
            raise ValueError(
                "input_kwarg_layouts and desired_input_kwarg_layouts should have the same names!"
            )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def enter(_: Module, inputs: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
            return self._inputs(inputs, device_mesh), self._named(kwargs, device_mesh)

        module.register_forward_pre_hook(enter, with_kwargs=True)
        return module

    def _inputs(self, inputs: tuple, mesh: DeviceMesh) -> tuple:
        if self.input_layouts is None:
            return inputs
        assert self.desired_input_layouts is not None
        if len(inputs) != len(self.input_layouts):
            raise ValueError(
                f"module inputs and input_layouts should have same length! Got {len(inputs)} and {len(self.input_layouts)}"
            )
        each = zip(inputs, self.input_layouts, self.desired_input_layouts)
        return tuple(_converted(x, mesh, layout, wanted, self.use_local_output) for x, layout, wanted in each)

    def _named(self, kwargs: dict[str, Any], mesh: DeviceMesh) -> dict[str, Any]:
        result = dict(kwargs)
        for name, layout in self.input_kwarg_layouts.items():
            if name in result:
                wanted = self.desired_input_kwarg_layouts[name]
                result[name] = _converted(result[name], mesh, layout, wanted, self.use_local_output)
        return result

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, desired_input_layouts={self.desired_input_layouts}, "
            f"input_kwarg_layouts={self.input_kwarg_layouts}, "
            f"desired_input_kwarg_layouts={self.desired_input_kwarg_layouts}, use_local_output={self.use_local_output})"
        )


class PrepareModuleOutput(ParallelStyle):
    """Make a module's outputs distributed tensors, and redistribute them.

    output_layouts: how plain outputs lie, one or one each; None for what stays as it is.
    desired_output_layouts: how they are to lie, as many.
    use_local_output: whether outputs are pieces, plain tensors.

    Raises:
        ValueError: there are not as many desired layouts as layouts

    >>> from flambeau.distributed.tensor import Replicate, Shard
    >>> from flambeau.distributed.tensor.parallel import PrepareModuleOutput
    >>> PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=Replicate()).use_local_output
    True
    """

    def __init__(
        self, *, output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True
    ) -> None:
        self.output_layouts, self.desired_output_layouts = (
            _listed(output_layouts),
            _listed(desired_output_layouts),
        )
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise ValueError("output_layouts and desired_output_layouts should have same length!")

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_hook(lambda _, inputs, outputs: self._outputs(outputs, device_mesh))
        return module

    def _outputs(self, outputs: Any, mesh: DeviceMesh) -> Any:
        several = isinstance(outputs, tuple)
        result = outputs if several else (outputs,)
        if len(result) != len(self.output_layouts):
            raise ValueError(
                f"module outputs and output_layouts should have same length! Got {len(result)} and {len(self.output_layouts)}"
            )
        each = zip(result, self.output_layouts, self.desired_output_layouts)
        made = tuple(_converted(x, mesh, layout, wanted, self.use_local_output) for x, layout, wanted in each)
        return made if several else made[0]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(output_layouts={self.output_layouts}, "
            f"desired_output_layouts={self.desired_output_layouts}, use_local_output={self.use_local_output})"
        )


class PrepareModuleInputOutput(ParallelStyle):
    """`PrepareModuleInput` and `PrepareModuleOutput` of one module, whose arguments it has.

    use_local_input: whether the module is given pieces, plain tensors.
    use_local_output: whether outputs are pieces, plain tensors.

    Raises nothing.

    >>> from flambeau.distributed.tensor import Replicate, Shard
    >>> from flambeau.distributed.tensor.parallel import PrepareModuleInputOutput
    >>> style = PrepareModuleInputOutput(
    ...     input_layouts=Shard(0), desired_input_layouts=Replicate(), output_layouts=Replicate(), desired_output_layouts=Shard(0)
    ... )
    >>> style.prepare_module_input.desired_input_layouts
    (Replicate(),)
    """

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.prepare_module_input}, {self.prepare_module_output})"


for _name in __all__:
    globals()[_name].__module__ = display.public("distributed.tensor.parallel")
