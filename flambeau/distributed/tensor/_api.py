"""Tensors over the processes of a mesh, as `torch.distributed.tensor`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._tensor import Tensor
from ...autograd import Function
from ...autograd.grad_mode import is_grad_enabled, no_grad
from ...core.base import display
from ...core.base.dtypes import Size, get_default_dtype
from ...core.make.create import empty as new_empty
from ...core.make.create import full as new_full
from ...nn import Module, Parameter
from .. import _collectives as calls
from .._objects import all_gather_object
from ..device_mesh import DeviceMesh, _mesh_resources
from . import _dispatch
from ._dtensor_spec import DTensorSpec, TensorMeta, dense_strides, normalized
from ._redistribute import redistributed
from ._utils import compute_global_tensor_info
from .placement_types import Partial, Placement, Replicate


def _for_gradients(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """How a gradient lies: as the tensor; whole, where that is still to be reduced."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)


class _FromLocal(Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor, spec: DTensorSpec, grad_placements: Any) -> DTensor:  # type: ignore[override]
        ctx.wanted = _for_gradients(spec.placements) if grad_placements is None else grad_placements
        return _dispatch.make(local.detach(), spec)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        return grad.redistribute(placements=ctx.wanted).to_local(), None, None


class _ToLocal(Function):
    @staticmethod
    def forward(ctx: Any, tensor: DTensor, grad_placements: Any) -> Tensor:  # type: ignore[override]
        ctx.spec, ctx.placements = tensor._spec, grad_placements
        local = tensor._local_tensor
        return local.view_as(local)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # type: ignore[override]
        spec = ctx.spec
        placements = _for_gradients(spec.placements) if ctx.placements is None else ctx.placements
        stride = dense_strides(spec.shape, spec.stride)
        return DTensor.from_local(grad, spec.mesh, placements, shape=spec.shape, stride=stride), None


class _Redistribute(Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, tensor: DTensor, placements: tuple[Placement, ...], dtypes: tuple[Any, Any]
    ) -> DTensor:
        ctx.before, ctx.dtypes = tensor._spec, (dtypes[1], tensor.dtype)
        local, spec = tensor._local_tensor.to(dtypes[0]), tensor._spec
        spec = DTensorSpec(spec.mesh, spec.placements, TensorMeta(spec.shape, spec.stride, dtypes[0]))
        target = spec.placed(placements)
        local_result = redistributed(local, spec, target)
        return _dispatch.make(
            local_result.detach() if local_result is tensor._local_tensor else local_result, target
        )

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # type: ignore[override]
        wanted = tuple(
            now if isinstance(before, Partial) and isinstance(now, Partial) else after
            for before, now, after in zip(
                ctx.before.placements, grad.placements, _for_gradients(ctx.before.placements)
            )
        )
        return _Redistribute.apply(grad, wanted, ctx.dtypes).to(ctx.dtypes[1]), None, None


class DTensor(Tensor):
    """A tensor over the processes of a mesh: of each this one has a piece (`Shard`), the whole (`Replicate`) or a summand (`Partial`).

    Operations on it run on all processes of the mesh, each on its pieces, with collectives where they must; results lie as the
    operation leaves them.  Shape and strides are those of the whole.  Made by `distribute_tensor` and `DTensor.from_local`.

    Shape:
        local_tensor: any; the whole is larger along each dimension that is cut

    Raises:
        NotImplementedError: an operation on it has no sharding rule
        RuntimeError: an operation has plain tensors beside it, or would move what it writes

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import DTensor, Shard, init_device_mesh
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = DTensor.from_local(flambeau.ones(2, 3), init_device_mesh("cpu", (2,)), [Shard(0)])
    >>> x.shape, x.to_local().shape, (x + 1).placements, x.sum().placements
    (flambeau.Size([4, 3]), flambeau.Size([2, 3]), (Shard(dim=0),), (Partial(sum),))
    >>> dist.destroy_process_group()
    """

    _local_tensor: Tensor
    _spec: DTensorSpec
    _joins_rows = False  # `linear` is a product with stacks of rows: joined dimensions could not stay cut

    @staticmethod
    def __new__(
        cls: type, local_tensor: Tensor, spec: DTensorSpec, *, requires_grad: bool = False
    ) -> DTensor:
        return _dispatch.make(local_tensor, spec, requires_grad)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        return _dispatch.dispatch(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"DTensor(local_tensor={self._local_tensor}, device_mesh={self.device_mesh}, placements={self.placements})"

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """The tensor of which every process of the mesh gives its piece.  Gradients pass.

        local_tensor: this process's piece; it is not copied.
        device_mesh: by default the one that is on (`with mesh:`).
        placements: for each dimension of the mesh; by default the piece is the whole.
        run_check: compare shapes and dtypes of all processes, and send the first one's values to the others where it is whole.
        shape, stride: of the whole, both or none; to be given where pieces are not of one size.
        grad_placements: how the gradient is to lie when it leaves; by default as the tensor, `Replicate` for `Partial`.

        Raises:
            RuntimeError: the piece is a DTensor; one of `shape` and `stride` is given; `run_check` finds differences
            TypeError, ValueError, IndexError: placements are no placements, not as many as the mesh has dimensions, mix reductions,
                or name a dimension that there is not
        """
        if isinstance(local_tensor, DTensor):
            raise RuntimeError(
                f"the local_tensor argument only accepts {display.public('Tensor')} but got {DTensor} value."
            )
        mesh = device_mesh or _mesh_resources.get_current_mesh()
        normalized_placements = normalized(placements, mesh, local_tensor.dim(), "from_local")
        if (shape is None) != (stride is None):
            raise RuntimeError(
                f"Found shape:{shape}, stride:{stride}. Please pass both shape and stride at the same time."
            )
        if local_tensor.device.type != mesh.device_type and not local_tensor.is_meta:
            local_tensor = local_tensor.to(mesh.device_type)
        if shape is None or stride is None:
            sizes, steps = compute_global_tensor_info(local_tensor, mesh, normalized_placements)
            meta = TensorMeta(tuple(sizes), tuple(steps), local_tensor.dtype)
        else:
            meta = TensorMeta(tuple(shape), tuple(stride), local_tensor.dtype)
        spec = DTensorSpec(mesh, normalized_placements, meta)
        if mesh.get_coordinate() is None:
            local_tensor = local_tensor.new_empty(0).requires_grad_(local_tensor.requires_grad)
        elif run_check:
            local_tensor = _checked(local_tensor, spec, shape is None)
        grads = (
            None if grad_placements is None else normalized(grad_placements, mesh, spec.ndim, "from_local")
        )
        return _FromLocal.apply(local_tensor, spec, grads)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This process's piece, not copied.  Gradients pass.

        grad_placements: how the gradient of the piece lies; by default as the tensor, `Replicate` for `Partial`.
        """
        if not is_grad_enabled():
            return self._local_tensor
        grads = (
            None
            if grad_placements is None
            else normalized(grad_placements, self.device_mesh, self.dim(), "to_local")
        )
        return _ToLocal.apply(self, grads)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> DTensor:
        """The same tensor, placed otherwise, by the collectives that this takes.  Every process of the mesh calls it.  Gradients pass.

        `Shard` → `Replicate` is an all_gather, `Shard` → `Shard` an all_to_all, `Partial` → `Replicate` an all_reduce, `Partial` →
        `Shard` a reduce_scatter; `Replicate` → `Shard` costs nothing.

        async_op: accepted; the result is complete in either case.
        forward_dtype, backward_dtype: what is sent is of that dtype, there and back; the result is of `forward_dtype`.

        Raises:
            RuntimeError: there are no placements; one is a `Partial` that the tensor is not
            NotImplementedError: it is another mesh
        """
        mesh = self.device_mesh
        if device_mesh is not None and device_mesh != mesh:
            raise NotImplementedError(
                f"redistribute(): from {mesh} to {device_mesh}: only to other placements on the same mesh"
            )
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        normalized_placements = normalized(placements, mesh, self.dim(), "redistribute")
        for now, wanted in zip(self.placements, normalized_placements):
            if isinstance(wanted, Partial) and now != wanted:
                raise RuntimeError(
                    f"Can not redistribute from {now} to {wanted}, redistributing to Partial is for internal use only!"
                )
        there = forward_dtype or self.dtype
        return _Redistribute.apply(self, normalized_placements, (there, backward_dtype or self.dtype))

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole tensor, on every process of the mesh.  Every one calls it.  Gradients pass.

        grad_placements: how the gradient of the result lies; by default every process has the same, `Replicate`.
        """
        full = self.redistribute(placements=[Replicate()] * self.device_mesh.ndim)
        return full.to_local(grad_placements=grad_placements)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh whose processes have it."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How it lies along each dimension of the mesh."""
        return self._spec.placements

    # What a wrapper is taken apart into ------------------------------------------------------------------------------------------------
    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(
        inner: dict[str, Any], context: Any, outer_size: Any, outer_stride: Any
    ) -> DTensor:
        spec, requires_grad = context
        meta = TensorMeta(tuple(outer_size), tuple(outer_stride), spec.tensor_meta.dtype)
        return _dispatch.make(
            inner["_local_tensor"], DTensorSpec(spec.mesh, spec.placements, meta), requires_grad=requires_grad
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        state = {name: value for name, value in vars(self).items() if name not in ("_local_tensor", "_spec")}
        return _rebuild, (self._local_tensor, self._spec, self.requires_grad, state)

    def __create_chunk_list__(self) -> list[Any]:
        """What `distributed.checkpoint` writes of it: the chunk that this process has."""
        from ..checkpoint.metadata import ChunkStorageMetadata

        cuts = [self._spec.cut(dim) for dim in range(self.dim())]
        return [ChunkStorageMetadata(Size([b for _, b in cuts]), Size([s for s, _ in cuts]))]


def _rebuild(local: Tensor, spec: DTensorSpec, requires_grad: bool, state: dict[str, Any]) -> DTensor:
    made = _dispatch.make(local, spec, requires_grad)
    vars(made).update(state)
    return made


def _checked(local: Tensor, spec: DTensorSpec, same_shapes: bool) -> Tensor:
    """The piece, of which the first process's is taken where it is whole; RuntimeError where processes have other shapes or dtypes."""
    facts = (tuple(local.shape) if same_shapes else local.dim(), str(local.dtype))
    for k, placement in enumerate(spec.placements):
        group = spec.mesh.get_group(k)
        gathered: list[Any] = [None] * group.size()
        all_gather_object(gathered, facts, group)
        if any(each != facts for each in gathered):
            raise RuntimeError(f"from_local(): processes have other pieces: shapes and dtypes are {gathered}")
        if placement.is_replicate():
            local = local.clone().contiguous() if not local.is_contiguous() else local
            with no_grad():
                calls.broadcast(local, src=group._ranks[0], group=group)
    return local


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """The tensor over the processes of a mesh, of which each gives the whole.  Every one calls it.

    tensor: a leaf, the same on all processes; an `nn.Parameter` stays one.
    device_mesh: by default the one that is on (`with mesh:`).
    placements: for each dimension of the mesh; by default `Replicate`.
    src_data_rank: whose values count, as a rank along each dimension of the mesh; None: each process's own, without communication.

    Raises:
        RuntimeError: the tensor is no leaf
        TypeError, ValueError, IndexError: as `DTensor.from_local`; a placement is `Partial`

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> dist.init_process_group("fake", rank=1, world_size=2)
    >>> distribute_tensor(flambeau.arange(5), init_device_mesh("cpu", (2,)), [Shard(0)]).to_local()
    tensor([3, 4])
    >>> dist.destroy_process_group()
    """
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    if isinstance(tensor, DTensor):
        normalized_placements = normalized(placements, mesh, tensor.dim(), "distribute_tensor")
        if tensor.device_mesh != mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}."
            )
        if tensor.placements != normalized_placements:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements {normalized_placements}. "
                "Call redistribute."
            )
        return tensor
    if not tensor.is_leaf:
        raise RuntimeError(
            "`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!"
        )
    normalized_placements = normalized(placements, mesh, tensor.dim(), "distribute_tensor")
    if any(isinstance(placement, Partial) for placement in normalized_placements):
        raise ValueError(
            f"distribute_tensor(): a tensor lies whole or in shards, got {normalized_placements}"
        )
    local = tensor.detach()
    if local.device.type != mesh.device_type and not local.is_meta:
        local = local.to(mesh.device_type)
    meta = TensorMeta(tuple(local.shape), dense_strides(local.shape, local.stride()), local.dtype)
    spec = DTensorSpec(mesh, normalized_placements, meta)
    if mesh.get_coordinate() is None:
        local = local.new_empty(0)
    else:
        local = _scattered(local, spec, src_data_rank)
    made = _dispatch.make(local, spec)
    if isinstance(tensor, Parameter):
        return Parameter(made, requires_grad=tensor.requires_grad)  # type: ignore[return-value]
    return made.requires_grad_(tensor.requires_grad)


def _scattered(local: Tensor, spec: DTensorSpec, source: int | None) -> Tensor:
    """This process's piece of what the source has whole."""
    if source is not None and not local.is_meta:
        local = local.clone().contiguous()
        for k in range(spec.mesh.ndim):
            group = spec.mesh.get_group(k)
            calls.broadcast(local, group=group, group_src=source)
    return _piece(local, spec).contiguous().clone()


def _piece(full: Tensor, spec: DTensorSpec) -> Tensor:
    """This process's piece of the whole, a view."""
    for dim in spec.orders:
        size, begin = spec.cut(dim)
        full = full.narrow(dim, begin, size)
    return full


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """Make parameters and buffers of a module distributed tensors, in place; and its inputs and outputs, by functions.

    device_mesh: by default the one that is on (`with mesh:`).
    partition_fn: `fn(name, submodule, mesh)` for each submodule; what it leaves plain becomes replicated.
    input_fn, output_fn: `fn(module, inputs, mesh)` and `fn(module, outputs, mesh)` around each call.

    Returns:
        The module.

    Raises:
        RuntimeError: it is distributed already

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import distribute_module, init_device_mesh
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> distribute_module(flambeau.nn.Linear(2, 3), init_device_mesh("cpu", (2,))).weight.placements
    (Replicate(),)
    >>> dist.destroy_process_group()
    """
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been called on this module!"
        )
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    for name, each in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, each, mesh)
        _replicate(each, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outputs: output_fn(m, outputs, mesh))
    module._distribute_module_applied = True
    return module


def _replicate(module: Module, mesh: DeviceMesh) -> None:
    """What is still plain in a module, whole on every process."""
    replicated = [Replicate()] * mesh.ndim
    for name, parameter in list(module._parameters.items()):
        if parameter is not None and not isinstance(parameter, DTensor):
            module.register_parameter(name, distribute_tensor(parameter, mesh, replicated))  # type: ignore[arg-type]
    for name, buffer in list(module._buffers.items()):
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[name] = distribute_tensor(buffer, mesh, replicated)


# Factories ---------------------------------------------------------------------------------------------------------------------------
def _new(
    call: str,
    fill: Callable[[Tensor, DTensorSpec], None],
    size: tuple[Any, ...],
    dtype: Any,
    requires_grad: bool,
    device_mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None,
) -> DTensor:
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    shape = _size(size)
    normalized_placements = normalized(placements, mesh, len(shape), call)
    if any(isinstance(placement, Partial) for placement in normalized_placements):
        raise ValueError(f"{call}(): a new tensor lies whole or in shards, got {normalized_placements}")
    dtype = get_default_dtype() if dtype is None else dtype
    meta = TensorMeta(shape, dense_strides(shape, range(len(shape), 0, -1)), dtype)
    spec = DTensorSpec(mesh, normalized_placements, meta)
    local = new_empty(spec.local_shape, dtype=dtype, device=mesh.device_type)
    fill(local, spec)
    return _dispatch.make(local, spec, requires_grad)


def empty(
    *size: Any,
    dtype: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A distributed tensor whose elements are not set; see `zeros`.

    Shape:
        size: that of the whole

    Raises:
        TypeError, ValueError, IndexError: as `DTensor.from_local`; a placement is `Partial`

    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Shard, empty, init_device_mesh
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> empty(4, device_mesh=init_device_mesh("cpu", (2,)), placements=[Shard(0)]).to_local().shape
    flambeau.Size([2])
    >>> dist.destroy_process_group()
    """
    return _new("empty", lambda local, spec: None, size, dtype, requires_grad, device_mesh, placements)


def zeros(
    *size: Any,
    dtype: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A distributed tensor of zeros.  Each process makes its own piece.

    size: the shape of the whole, as numbers or a sequence.
    placements: for each dimension of the mesh; by default `Replicate`.

    Raises:
        TypeError, ValueError, IndexError: as `DTensor.from_local`; a placement is `Partial`

    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Shard, init_device_mesh, zeros
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> zeros(4, 2, device_mesh=init_device_mesh("cpu", (2,)), placements=[Shard(0)]).to_local().shape
    flambeau.Size([2, 2])
    >>> dist.destroy_process_group()
    """
    dtype = get_default_dtype() if dtype is None else dtype
    return full(
        _size(size),
        0,
        dtype=dtype,
        requires_grad=requires_grad,
        device_mesh=device_mesh,
        placements=placements,
    )


def ones(
    *size: Any,
    dtype: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A distributed tensor of ones; see `zeros`.

    Shape:
        size: that of the whole

    Raises:
        TypeError, ValueError, IndexError: as `DTensor.from_local`; a placement is `Partial`

    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Shard, ones, init_device_mesh
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> ones(4, device_mesh=init_device_mesh("cpu", (2,)), placements=[Shard(0)]).to_local()
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    dtype = get_default_dtype() if dtype is None else dtype
    return full(
        _size(size),
        1,
        dtype=dtype,
        requires_grad=requires_grad,
        device_mesh=device_mesh,
        placements=placements,
    )


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A distributed tensor of a number; see `zeros`.

    fill_value: decides the dtype where none is given, as in `flambeau.full`.

    Shape:
        size: that of the whole

    Raises:
        TypeError, ValueError, IndexError: as `DTensor.from_local`; a placement is `Partial`

    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Shard, full, init_device_mesh
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> full((4,), 3, device_mesh=init_device_mesh("cpu", (2,)), placements=[Shard(0)]).to_local()
    tensor([3, 3])
    >>> dist.destroy_process_group()
    """
    if dtype is None:
        dtype = new_full((), fill_value, device="cpu").dtype

    def fill(local: Tensor, spec: DTensorSpec) -> None:
        local.fill_(fill_value)

    return _new("full", fill, (_size((size,)),), dtype, requires_grad, device_mesh, placements)


def rand(
    *size: Any,
    requires_grad: bool = False,
    dtype: Any = None,
    layout: Any = None,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A distributed tensor of numbers uniform in [0, 1), those that one process would draw; see `zeros`.

    Every process draws the whole and takes its piece, so all must have the same seed (`manual_seed`).

    Shape:
        size: that of the whole

    Raises:
        TypeError, ValueError, IndexError: as `DTensor.from_local`; a placement is `Partial`

    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Shard, rand, init_device_mesh
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> rand(4, device_mesh=init_device_mesh("cpu", (2,)), placements=[Shard(0)]).to_local().shape
    flambeau.Size([2])
    >>> dist.destroy_process_group()
    """
    return _new("rand", _drawn("uniform_"), size, dtype, requires_grad, device_mesh, placements)


def randn(
    *size: Any,
    requires_grad: bool = False,
    dtype: Any = None,
    layout: Any = None,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    """A distributed tensor of standard normalized_placements numbers, those that one process would draw; see `zeros` and `rand`.

    Shape:
        size: that of the whole

    Raises:
        TypeError, ValueError, IndexError: as `DTensor.from_local`; a placement is `Partial`

    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Shard, randn, init_device_mesh
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> randn(4, device_mesh=init_device_mesh("cpu", (2,)), placements=[Shard(0)]).to_local().shape
    flambeau.Size([2])
    >>> dist.destroy_process_group()
    """
    return _new("randn", _drawn("normal_"), size, dtype, requires_grad, device_mesh, placements)


def _size(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and isinstance(size[0], Sequence) else tuple(size)


def _drawn(name: str) -> Callable[[Tensor, DTensorSpec], None]:
    def fill(local: Tensor, spec: DTensorSpec) -> None:
        full = new_empty(spec.shape, dtype=local.dtype, device=local.device)
        getattr(full, name)()
        if spec.mesh.get_coordinate() is not None:
            local.copy_(_piece(full, spec))

    return fill


_dispatch.set_class(DTensor)
for _thing in (DTensor, distribute_tensor, distribute_module, empty, full, ones, rand, randn, zeros):
    _thing.__module__ = display.public("distributed.tensor")
