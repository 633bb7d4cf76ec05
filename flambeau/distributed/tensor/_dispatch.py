"""How an operation on distributed tensors runs: its rule's choices, the cheapest of them, operands brought there, pieces computed.

It stands beneath the tape: operations come as the leaves that they are made of, those of backward passes, too, so that gradients lie as
the same rules say.  Shapes, dtypes and errors are those of the operation on whole tensors without data, before anything is sent.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

from ..._tensor import Tensor
from ...core.base.tensor import TensorBase
from ...core.call.operation import behind
from ...core.call.wrapping import make as make_wrapper
from ...core.make.create import empty_strided
from ..device_mesh import DeviceMesh
from . import _plans, _rules, _rules_layers, _rules_products  # noqa: F401  the last two enter rules
from ._call import Call, Choice, leaves, mapped, tensors_in
from ._dtensor_spec import DTensorSpec, TensorMeta
from ._redistribute import redistributed
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard

_NEVER = math.inf
_class: Any = None  # DTensor, which stands above this module
_allowed = False  # whether plain tensors are taken for replicated ones


def set_class(cls: type) -> None:
    """Say which class distributed tensors are of."""
    global _class
    _class = cls


def make(local: Tensor, spec: DTensorSpec, requires_grad: bool = False) -> Any:
    """A distributed tensor of a piece, which has no history."""
    made = make_wrapper(_class, spec.shape, spec.stride, 0, local.dtype, local.device, None)
    made._local_tensor, made._spec = local, spec
    return made.requires_grad_(True) if requires_grad else made


@contextlib.contextmanager
def implicit_replication() -> Iterator[None]:
    """While it is on, plain tensors among the operands of operations on distributed ones are taken to be the same on all processes.

    Raises nothing.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Shard, init_device_mesh, ones
    >>> from flambeau.distributed.tensor.experimental import implicit_replication
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = ones(4, device_mesh=init_device_mesh("cpu", (2,)), placements=[Shard(0)])
    >>> with implicit_replication():
    ...     (x + flambeau.arange(4.0)).to_local()
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    global _allowed
    before, _allowed = _allowed, True
    try:
        yield
    finally:
        _allowed = before


def dispatch(op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result of an operation, an operand of which is distributed."""
    op = behind(op)
    key = _plans.key_of(op, args, kwargs, _rules_layers.loss_is_parallel)
    if key is not None:
        plan = key.mesh._sharding_plans.get(key.value)
        if plan is not None:
            return _planned(plan, op, args, kwargs, key)
    name = op.__name__
    if name.endswith("derivative"):
        raise NotImplementedError("formulas run as the operations that they call")
    rule = _rules.rule_of(op)
    if rule is None:
        raise NotImplementedError(_no_rule(name, args, kwargs))
    parameters = _rules.parameters_of(op, rule)
    bound = parameters.bind(list(args), kwargs)
    order = [n for n in (*parameters.names, parameters.rest, *parameters.named) if n in bound]
    bound = {name: bound[name] for name in (*order, *bound)}
    out = bound.pop("out") if tensors_in(bound.get("out")) else None
    mesh = _mesh_of(name, args, kwargs)
    bound = mapped(lambda x: _distributed(name, x, mesh), bound)
    if hasattr(rule, "full_call"):
        return rule.full_call(op, parameters, bound, out)
    run = _Run(op, parameters, rule, bound, out, mesh)
    result = run.result()
    if key is not None and run.plan is not None:
        _plans.keep(key, run.plan)
    return result


def _planned(plan: _plans.Plan, op: Any, args: tuple, kwargs: dict[str, Any], key: _plans.Key) -> Any:
    """The result of a call like one before: pieces brought there, computed and wrapped."""
    operands = key.operands
    if not plan.direct:
        bound = plan.bound(args, kwargs)
        operands = [x for _, x in leaves(bound)]
    locals_ = [
        x._local_tensor if target is None else redistributed(x._local_tensor, x._spec, x._spec.placed(target))
        for x, target in zip(operands, plan.targets)
    ]
    specs = [DTensorSpec(key.mesh, placements, meta) for placements, meta, _ in plan.results]
    stream = iter(locals_)
    if plan.direct:
        computed = op(*[mapped(lambda _: next(stream), x) for x in args], **kwargs)
    else:
        computed = plan.compute(mapped(lambda _: next(stream), bound), operands, specs)
    if plan.writes:
        return operands[0]
    if type(computed) is Tensor and len(specs) == 1 and isinstance(plan.outline, TensorBase):
        return _wrap(op, computed, specs[0], plan.results[0][2], operands)
    made = iter(zip(tensors_in(computed), specs, plan.results))

    def wrap(_: Any) -> Any:
        local, spec, (_, _, shape) = next(made)
        return _wrap(op, local, spec, shape, operands)

    return mapped(wrap, plan.outline)


def _wrap(op: Any, local: Tensor, spec: DTensorSpec, shape: tuple[int, ...], operands: Sequence[Any]) -> Any:
    """A piece of a result as a distributed tensor; the operand itself where that is returned."""
    for x in operands:
        if local is x._local_tensor:
            return x
    if local.shape != shape:
        raise AssertionError(
            f"{op.__name__}(): a piece of shape {tuple(local.shape)} where {shape} is due, of {spec}"
        )
    if local.dtype != spec.tensor_meta.dtype:
        meta = TensorMeta(spec.shape, spec.stride, local.dtype)
        spec = DTensorSpec(spec.mesh, spec.placements, meta)
    return make(local, spec)


def _mesh_of(name: str, args: tuple, kwargs: dict[str, Any]) -> DeviceMesh:
    """The one mesh of all operands; RuntimeError where there are several."""
    result: list[DeviceMesh] = []

    def note(x: Any) -> Any:
        if isinstance(x, TensorBase) and hasattr(x, "_spec") and x._spec.mesh not in result:
            result.append(x._spec.mesh)
        return x

    mapped(note, args)
    mapped(note, tuple(kwargs.values()))
    if len(result) > 1:
        raise RuntimeError(
            f"{name}(): Could not run, as operands are on different device meshes: {', '.join(map(str, result))}; "
            "redistribute cannot move tensors between meshes"
        )
    return result[0]


def _distributed(name: str, x: Any, mesh: DeviceMesh) -> Any:
    """A plain tensor as one that all processes have; RuntimeError unless it has one element, or that is allowed."""
    if hasattr(x, "_spec"):
        return x
    if x.numel() != 1 and not _allowed:
        raise RuntimeError(
            f"{name}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling distributed "
            f"operators! A plain tensor of shape {tuple(x.shape)} is among the operands: DTensor.from_local or distribute_tensor makes it "
            "one, and under `implicit_replication()` it is taken to be the same on all processes."
        )
    meta = TensorMeta(tuple(x.shape), tuple(x.stride()), x.dtype)
    return make(x.detach(), DTensorSpec(mesh, (Replicate(),) * mesh.ndim, meta))


def _no_rule(name: str, args: tuple, kwargs: dict[str, Any]) -> str:
    result: list[str] = []

    def note(x: Any) -> Any:
        if hasattr(x, "_spec"):
            result.append(f"{tuple(x.shape)} {x._spec.placements}")
        return x

    mapped(note, args)
    mapped(note, tuple(kwargs.values()))
    return (
        f"{name}(): the operation has no sharding rule, so it does not run on distributed tensors; got {', '.join(result)}. What works: "
        "`full_tensor()` or `to_local()`, the operation on that, and `DTensor.from_local`; `experimental.local_map` does these"
    )


class _Run:
    """One call."""

    def __init__(
        self, op: Any, parameters: Any, rule: Any, bound: dict[str, Any], out: Any, mesh: DeviceMesh
    ) -> None:
        self.op, self.parameters, self.rule, self.bound, self.out, self.mesh = (
            op,
            parameters,
            rule,
            bound,
            out,
            mesh,
        )
        self.call = Call(op, parameters, mapped(_without_data, bound))
        self.operands = [x for _, x in leaves(bound)]
        self.choices: list[Choice] = []  # for the dimensions of the mesh that were looked at
        self.written = [self.operands[0]] if op.writes else tensors_in(out)
        self.plan: _plans.Plan | None = None

    def result(self) -> Any:
        """What the operation returns."""
        call = self.call
        full_result = _rules.full_results(call, self.rule)
        call.results = tensors_in(full_result)
        self._check_written()
        choices = self.choices
        for k in range(self.mesh.ndim):
            choices.append(self._choice(k))
        call.pieces = lambda operand, dim: 1  # a plan outlives this run, whose tensors must not
        metas = [TensorMeta(tuple(t.shape), tuple(t.stride()), t.dtype) for t in call.results]
        specs = [
            DTensorSpec(self.mesh, tuple(each.results[n] for each in choices), meta)
            for n, meta in enumerate(metas)
        ]
        strided = self._strided()
        if strided is not None:
            specs = [spec.placed(strided) for spec in specs]
        if self.mesh.get_coordinate() is None:
            made = [self.operands[0]._local_tensor.new_empty(0, dtype=t.dtype) for t in call.results]
            return self._wrapped(full_result, made, specs)
        locals_: list[Any] = []
        inputs: list[DTensorSpec] = []
        for n, x in enumerate(self.operands):
            target = (
                x._spec if strided is not None else x._spec.placed([each.operands[n] for each in choices])
            )
            inputs.append(target)
            locals_.append(redistributed(x._local_tensor, x._spec, target))
        stream = iter(locals_)
        local = mapped(lambda _: next(stream), self.bound)
        call.inputs = inputs
        if call.adjust is not None:
            local = call.adjust(local, specs)
        if self.out is not None:
            local["out"] = mapped(lambda x: x._local_tensor, self.out)
        computed = (
            self.parameters.call(self.op, local) if call.compute is None else call.compute(local, specs)
        )
        call.inputs = []
        self.plan = _plans.Plan(call, full_result, [x._spec for x in self.operands], inputs, specs)
        return self._wrapped(full_result, tensors_in(computed), specs)

    # Which choice ----------------------------------------------------------------------------------------------------------------
    def _choice(self, k: int) -> Choice:
        """The cheapest choice for a dimension of the mesh; the first of several."""
        self.call.pieces = lambda operand, dim: self._pieces(operand, dim, k)
        current = [x._spec.placements[k] for x in self.operands]
        best, least = None, _NEVER
        for choice in self.rule(self.call):
            if not self._keeps(choice, k) or not self._follows(choice, current):
                continue
            cost = 0.0
            for now, wanted, x in zip(current, choice.operands, self.operands):
                cost += _cost(now, wanted, x, self.mesh.size(k), bool(self.written))
            if cost < least:
                best, least = choice, cost
        if best is None:
            raise self._refusal(k)
        return best

    def _pieces(self, operand: int, dim: int, k: int) -> int:
        """In how many pieces an operand's dimension is cut if this dimension of the mesh cuts it, too."""
        chosen = [each.operands[operand] for each in self.choices]
        placements = [*chosen, *self.operands[operand]._spec.placements[len(chosen) :]]
        others = [j for j, p in enumerate(placements) if j != k and p == Shard(dim)]
        return math.prod(self.mesh.size(j) for j in (*others, k))

    def _follows(self, choice: Choice, current: Sequence[Placement]) -> bool:
        """Whether an operand is cut as the others will be, where any has to be cut otherwise than it is; or what is written is.

        So nothing is cut along a dimension along which nothing was: what lies whole, or must be gathered, is whole in the result.
        """
        pairs = [pair for pair in zip(current, choice.operands) if isinstance(pair[1], Shard)]
        if all(now == wanted for now, wanted in pairs):
            return True
        return bool(self.written) or any(now == wanted for now, wanted in pairs)

    def _keeps(self, choice: Choice, k: int) -> bool:
        """Whether what is written stays where it is."""
        if not self.written or self._strided() is not None:
            return True
        if self.op.writes and choice.operands[0] != self.operands[0]._spec.placements[k]:
            return False
        return all(wanted == x._spec.placements[k] for wanted, x in zip(choice.results, self.written))

    def _strided(self) -> tuple[Placement, ...] | None:
        """The placements of all operands, where these are the same and no plain shards, and the operation is element by element."""
        first = self.operands[0]._spec
        if not any(isinstance(p, _StridedShard) for p in first.placements):
            return None
        with_dims = [x for x in self.operands if x.dim()]
        alike = all(x._spec.placements == first.placements and x.shape == first.shape for x in with_dims)
        alike = alike and all(tuple(made.shape) == first.shape for made in self.call.results)
        return first.placements if alike and _rules.is_elementwise(self.rule) else None

    def _refusal(self, k: int) -> Exception:
        name = self.op.__name__
        lie = ", ".join(f"{tuple(x.shape)} {x._spec.placements}" for x in self.operands)
        if self.written:
            return RuntimeError(
                f"{name}(): in-place operations that require placement change are not supported: what is written lies as "
                f"{self.written[0]._spec.placements}, the operands as {lie}. Redistribute what is written before, or write to a new tensor"
            )
        return NotImplementedError(f"{name}(): no placement of the results is known for operands {lie}")

    def _check_written(self) -> None:
        """RuntimeError where a tensor that is written has another shape than the result."""
        for made, x in zip(self.call.results, self.written):
            if tuple(made.shape) != tuple(x.shape):
                raise RuntimeError(
                    f"{self.op.__name__}(): a distributed tensor keeps its shape: the result is {tuple(made.shape)}, "
                    f"what is written {tuple(x.shape)}"
                )

    # Results -----------------------------------------------------------------------------------------------------------------------
    def _wrapped(self, result: Any, computed: Sequence[Any], specs: Sequence[DTensorSpec]) -> Any:
        """The results as distributed tensors; what was written, itself."""
        if self.op.writes:
            return self.operands[0]
        if self.out is not None:
            return self.out
        stream = iter(zip(computed, specs))

        def wrap(_: Any) -> Any:
            local, spec = next(stream)
            return _wrap(self.op, local, spec, spec.local_shape, self.operands)

        return mapped(wrap, result)


def _cost(now: Placement, wanted: Placement, x: Any, n: int, into: bool) -> float:
    """What it costs to bring an operand from one placement to another: about the bytes that a process gets, and a little for each step.

    From shards to other shards costs as much as to gather them, so that a result rather lies as an operand does.

    into: whether something is written, to which shards may be added that is still to be added up: a gradient of several uses.
    """
    if now == wanted:
        return 0.0
    size = float(x.numel() * x.element_size()) / n + 64
    if isinstance(now, Replicate):
        return 1.0 if isinstance(wanted, Shard) else 2.0
    if isinstance(wanted, (Partial, _StridedShard)):
        return size if into and wanted == Partial() and isinstance(now, Shard) else _NEVER
    if isinstance(now, Partial):
        return size * (n - 1) * (1 if isinstance(wanted, Shard) else 2) + 3
    return size * (n - 1) + (4 if isinstance(wanted, Shard) else 3)


def _without_data(x: Any) -> Tensor:
    return empty_strided(tuple(x.shape), x.stride(), dtype=x.dtype, device="meta")
