"""Meshes: processes in a grid, with a group for each line along each dimension, as `torch.distributed.device_mesh`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._compat.absent import refusing
from .._tensor import Tensor
from ..core.base import display
from ..core.base.dtypes import by_name
from ..core.make.create import tensor
from . import _groups
from ._group_making import init_process_group, new_group
from ._groups import GroupMember, default_group, get_rank, get_world_size, is_initialized
from ._process_group import ProcessGroup

__all__ = ["DeviceMesh", "init_device_mesh"]


class _Grid:
    """The ranks of a whole mesh, row by row."""

    def __init__(self, ranks: tuple[int, ...], shape: tuple[int, ...]) -> None:
        self.ranks, self.shape = ranks, shape
        strides, step = [], 1
        for size in reversed(shape):
            strides.append(step)
            step *= size
        self.strides = tuple(reversed(strides))

    def coordinate(self, rank: int) -> tuple[int, ...] | None:
        """Where a rank stands; None for one that does not."""
        if rank not in self.ranks:
            return None
        place = self.ranks.index(rank)
        return tuple(place // step % size for step, size in zip(self.strides, self.shape))

    def offsets(self, axes: Sequence[int]) -> list[int]:
        """The places of a line along some dimensions, the last of which runs fastest, from its first."""
        result = [0]
        for axis in axes:
            result = [at + k * self.strides[axis] for at in result for k in range(self.shape[axis])]
        return result

    def lines(self, axes: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """The ranks of every line along some dimensions."""
        along = self.offsets(axes)
        for start in self.offsets([axis for axis in range(len(self.shape)) if axis not in axes]):
            yield tuple(self.ranks[start + step] for step in along)


class DeviceMesh:
    """Processes in a grid of any number of dimensions.  Every process makes it, with the same arguments, in the same order.

    device_type: "cpu" or the type of an accelerator, without an index.
    mesh: the ranks, as a tensor of integers or nested lists; each comes once.
    mesh_dim_names: a name for each dimension, by which it can be sliced: `mesh["tp"]`, `mesh["dp", "tp"]`.
    backend_override: for each dimension a pair of a backend and its options, None for what the group of all has.

    Along each dimension the processes of a line are a group: `get_group`.

    Raises:
        ValueError: a rank comes twice, or names or backends are not one for each dimension
        RuntimeError: there are more ranks than processes

    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.device_mesh import DeviceMesh
    >>> dist.init_process_group("fake", rank=5, world_size=6)
    >>> mesh = DeviceMesh("cpu", [[0, 1, 2], [3, 4, 5]], mesh_dim_names=("dp", "tp"))
    >>> mesh
    DeviceMesh((dp=2, tp=3), 'cpu', stride=(3, 1))
    >>> mesh.get_coordinate(), mesh["tp"].mesh.tolist(), mesh["dp"].get_local_rank()
    ((1, 2), [3, 4, 5], 1)
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Sequence[tuple[str | None, Any]] | None = None,
        _init_backend: bool = True,
    ) -> None:
        if mesh is None:
            raise TypeError("The mesh argument is required except for PRIVATE USAGE ONLY!")
        grid = mesh if isinstance(mesh, Tensor) else tensor(mesh, dtype=by_name["int32"], device="cpu")
        shape, ranks = tuple(grid.shape), tuple(grid.reshape(-1).tolist())
        if len(set(ranks)) != len(ranks):
            raise ValueError(f"DeviceMesh: a rank comes twice in {grid.tolist()}")
        if not ranks:
            raise ValueError("DeviceMesh: there is no rank in it")
        names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if names is not None and len(names) != len(shape):
            raise ValueError(f"DeviceMesh: {len(names)} names {names} for {len(shape)} dimensions")
        if backend_override is not None and len(backend_override) != len(shape):
            raise ValueError(
                "backend_override should have the same length as the number of mesh dimensions, "
                f"but got {len(backend_override)} and {len(shape)}."
            )
        self._place(device_type, _Grid(ranks, shape), tuple((k,) for k in range(len(shape))), names, None)
        if _init_backend:
            self._make_groups(backend_override or ((None, None),) * len(shape))

    def _place(
        self,
        device_type: str,
        grid: _Grid,
        axes: tuple[tuple[int, ...], ...],
        names: tuple[str, ...] | None,
        root: DeviceMesh | None,
    ) -> None:
        """axes: for each dimension, of which dimensions of the grid it is made."""
        self._device_type, self._grid, self._axes, self._names = device_type, grid, axes, names
        self._root_mesh = root
        self._sharding_plans: dict[Any, Any] = {}  # of repeated calls on distributed tensors
        self._group_list: list[Any] | None = None
        self._flatten_mapping: dict[str, DeviceMesh] = {}
        here = get_rank() if is_initialized() else grid.ranks[0]
        at = grid.coordinate(here)
        self._coordinate_on_dim: tuple[int, ...] | None = None
        along = [grid.offsets(each) for each in axes]
        self._shape = tuple(map(len, along))
        start = 0
        if at is not None:
            used = [axis for each in axes for axis in each]
            start = sum(at[k] * step for k, step in enumerate(grid.strides) if k not in used)
            inside = [sum(at[k] * grid.strides[k] for k in each) for each in axes]
            self._coordinate_on_dim = tuple(line.index(step) for line, step in zip(along, inside))
        places = [start]
        for line in along:
            places = [place + step for place in places for step in line]
        self._ranks = tuple(grid.ranks[place] for place in places)

    def _make_groups(self, backends: Sequence[tuple[str | None, Any]]) -> None:
        """A group for every line of each dimension."""
        if not is_initialized():
            init_process_group()
        size = get_world_size()
        if len(self._grid.ranks) > size:
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {size}, but found {len(self._grid.ranks)} ranks!"
            )
        if max(self._grid.ranks) >= size or min(self._grid.ranks) < 0:
            raise RuntimeError(f"DeviceMesh: ranks are 0 to {size - 1}, but the mesh has {self._grid.ranks}")
        self._group_list = []
        for axes, (backend, options) in zip(self._axes, backends):
            if options is not None:
                raise NotImplementedError("DeviceMesh: groups have no options here (backend_override)")
            mine = None
            for line in self._grid.lines(axes):
                if line == default_group()._ranks and backend is None:
                    mine = default_group()
                    continue
                made = new_group(line, backend=backend, group_desc=self._described(axes), sort_ranks=False)
                mine = mine if made is GroupMember.NON_GROUP_MEMBER else made
            self._group_list.append(mine)

    def _described(self, axes: tuple[int, ...]) -> str:
        named = self._names is not None and axes in self._axes
        return "mesh_" + (
            self._names[self._axes.index(axes)]  # type: ignore[index]
            if named
            else "dim_" + "_".join(map(str, axes))
        )

    def _part(self, axes: tuple[tuple[int, ...], ...], names: tuple[str, ...] | None) -> DeviceMesh:
        """Some dimensions of the whole mesh, as a mesh."""
        result = DeviceMesh.__new__(DeviceMesh)
        result._place(self._device_type, self._grid, axes, names, self._get_root_mesh())
        return result

    # What it is ------------------------------------------------------------------------------------------------------------------
    @property
    def device_type(self) -> str:
        """Where its tensors are: "cpu", "cuda" …"""
        return self._device_type

    @property
    def mesh(self) -> Tensor:
        """The ranks, int32, on the CPU: of a slice, those of this process's."""
        return tensor(self._ranks, dtype=by_name["int32"], device="cpu").reshape(self._shape)

    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        """The names of the dimensions; None where they have none."""
        return self._names

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self._shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many processes there are along each dimension."""
        return self._shape

    def size(self, mesh_dim: int | None = None) -> int:
        """How many processes there are along a dimension, or in all."""
        return len(self._ranks) if mesh_dim is None else self._shape[mesh_dim]

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Where this process stands; None where it is not in the mesh."""
        return self._coordinate_on_dim

    def _is_current_rank_part_of_mesh(self) -> bool:
        return self._coordinate_on_dim is not None

    def get_rank(self) -> int:
        """This process's rank in the group of all."""
        return get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's place along a dimension.

        Raises:
            RuntimeError: the dimension is not given and there are several, or the process is not in the mesh
            KeyError: there is no dimension of that name
        """
        dim = self._dim(mesh_dim, "get_local_rank")
        if self._coordinate_on_dim is None:
            raise RuntimeError(f"get_local_rank(): rank {get_rank()} is not in {self}")
        return self._coordinate_on_dim[dim]

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of this process's line along a dimension.

        Raises:
            RuntimeError: the dimension is not given and there are several; the mesh has no groups; or this process is in none of them
            KeyError: there is no dimension of that name
        """
        if isinstance(mesh_dim, str) and (flat := self._get_root_mesh()._flatten_mapping.get(mesh_dim)):
            return flat.get_group(0)
        return self._group(self._dim(mesh_dim, "get_group"))

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups of this process's lines along each dimension."""
        return [self._group(dim) for dim in range(self.ndim)]

    @property
    def _dim_group_names(self) -> list[str]:
        """The names of the groups; none where this process is not in the mesh."""
        return [] if self._coordinate_on_dim is None else [each.group_name for each in self.get_all_groups()]

    def _group(self, dim: int) -> ProcessGroup:
        dim %= self.ndim
        if self._coordinate_on_dim is None:
            raise RuntimeError(f"get_group(): rank {get_rank()} is not in {self}")
        if self._group_list is None:
            self._group_list = [None] * self.ndim
        result = self._group_list[dim]
        if result is None or _groups.groups.all.get(result.group_name) is not result:
            result = self._group_list[dim] = self._look_up(dim)
        return result

    def _look_up(self, dim: int) -> ProcessGroup:
        """A slice's group is the whole mesh's; that of a mesh from a file is one of these ranks that exists."""
        root, axes = self._root_mesh, self._axes[dim]
        if root is not None and axes in root._axes and root._group_list is not None:
            return root._group(root._axes.index(axes))
        if root is not None:
            for flat in root._flatten_mapping.values():
                if flat is not self and flat._axes == (axes,):
                    return flat._group(0)
        if not is_initialized():
            raise RuntimeError("DeviceMesh process groups not initialized!")
        at = get_rank()
        line = next(each for each in self._grid.lines(axes) if at in each)
        for group in _groups.groups.all.values():
            if group._ranks == line:
                return group
        raise RuntimeError(
            f"DeviceMesh process groups not initialized! There is no group of ranks {list(line)}, along dimension {dim} of {self}: "
            "make the mesh with init_device_mesh before"
        )

    def _dim(self, dim: int | str | None, call: str) -> int:
        if dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"{call}(): the DeviceMesh has {self.ndim} dimensions: "
                    "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1."
                )
            return 0
        if isinstance(dim, str):
            return self._get_mesh_dim_by_name(dim)
        if not -self.ndim <= dim < self.ndim:
            raise IndexError(f"{call}(): there is no dimension {dim} in {self}")
        return dim % self.ndim

    def _get_mesh_dim_by_name(self, name: str) -> int:
        if not self._names:
            raise KeyError("No `mesh_dim_names` found.")
        if name not in self._names:
            raise KeyError(
                f"Mesh dimension '{name}' does not exist. Available mesh dimensions are: mesh_dim_names={self._names}"
            )
        return self._names.index(name)

    # Slices ----------------------------------------------------------------------------------------------------------------------
    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of some dimensions in which this process stands.

        Raises:
            RuntimeError: the dimensions have no names
            KeyError: there is no dimension of a name, or they come in another order than in the mesh
        """
        if not self._names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self._names:
            return self
        flat = self._flatten_mapping if self._root_mesh is None else {}
        valid = [*self._names, *flat]
        if not all(name in valid for name in names):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {valid}.")
        if len(names) == 1 and names[0] in flat:
            return flat[names[0]]
        axes = tuple(
            self._axes[self._names.index(n)] if n in self._names else flat[n]._axes[0] for n in names
        )
        used = [axis for each in axes for axis in each]
        if len(set(used)) != len(used):
            raise RuntimeError(f"Slicing overlapping dim_names {names} is not allowed.")
        if used != sorted(used):
            raise KeyError(
                f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order."
            )
        return self._part(axes, names)

    def _get_root_mesh(self) -> DeviceMesh:
        return self if self._root_mesh is None else self._root_mesh

    def _get_root_mesh_dim(self) -> int | None:
        """Which dimension of the whole mesh a slice of one dimension is."""
        if not self._names:
            return None
        if len(self._names) != 1:
            raise ValueError("The submesh can only be a 1D mesh.")
        return self._get_root_mesh()._get_mesh_dim_by_name(self._names[0])

    def _get_all_submeshes(self, mesh_dim_name: str) -> list[DeviceMesh]:
        """A mesh of one dimension for every line of that dimension."""
        axes = self._axes[self._get_mesh_dim_by_name(mesh_dim_name)]
        return [
            DeviceMesh(self._device_type, list(line), mesh_dim_names=(mesh_dim_name,), _init_backend=False)
            for line in self._grid.lines(axes)
        ]

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> DeviceMesh:
        """The same processes along one dimension, of that name ("dp_cp" by default).  Every process calls it: it makes groups.

        Raises:
            RuntimeError: the dimensions have no names
            ValueError: a dimension has that name
        """
        if not self._names:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        name = mesh_dim_name or "_".join(self._names)
        if self._names == (name,):
            return self
        root = self._get_root_mesh()
        if root._names is not None and name in root._names:
            raise ValueError(f"{name} already exists for submesh of the {root}. Please specify another name.")
        axes = (tuple(axis for each in self._axes for axis in each),)
        before = root._flatten_mapping.get(name)
        if before is None:
            before = self._part(axes, (name,))
            backend = backend_override if isinstance(backend_override, tuple) else (backend_override, None)
            before._make_groups((backend,))
            root._flatten_mapping[name] = before
        elif before._axes != axes:
            raise ValueError(
                f"Flatten mesh with mesh_dim_name {name} has been created before, Please specify another valid mesh_dim_name."
            )
        return before

    @staticmethod
    def from_group(
        group: Any, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None
    ) -> DeviceMesh:
        """The mesh of a group, or of a list of groups, one for each dimension of `mesh`; no group is made.

        Raises:
            ValueError: `mesh` has other ranks than the group, or another number of dimensions than there are groups;
                it or the names are not given for a list

        >>> import flambeau.distributed as dist
        >>> from flambeau.distributed.device_mesh import DeviceMesh
        >>> dist.init_process_group("fake", rank=0, world_size=4)
        >>> DeviceMesh.from_group(dist.new_group([0, 2]), "cpu").mesh
        tensor([0, 2], dtype=flambeau.int32)
        >>> dist.destroy_process_group()
        """
        if isinstance(group, ProcessGroup):
            ranks = list(group._ranks)
            if mesh is not None and (mesh.tolist() if isinstance(mesh, Tensor) else list(mesh)) != ranks:
                raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {ranks}")
            groups, mesh = [group], ranks
        else:
            groups = list(group)
            if not groups:
                raise ValueError("Expects at least one ProcessGroup to be passed")
            if mesh is None:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            if mesh_dim_names is None:
                raise ValueError("Must pass mesh_dim_names if passing multiple ProcessGroups")
        result = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        if result.ndim != len(groups):
            raise ValueError(
                "Expects mesh with ndim equal to number of ProcessGroups but got "
                f"mesh {result.mesh.tolist()} and {len(groups)} ProcessGroups"
            )
        result._group_list = groups
        return result

    # Python ----------------------------------------------------------------------------------------------------------------------
    def __enter__(self) -> DeviceMesh:
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _mesh_resources.mesh_stack.pop()

    def __repr__(self) -> str:
        sizes = self._shape if self._names is None else tuple(map("{}={}".format, self._names, self._shape))
        shown = str(self._shape) if self._names is None else f"({', '.join(map(str, sizes))})"
        strides = tuple(self._grid.strides[axes[-1]] for axes in self._axes)
        detail = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "") == "DETAIL"
        ranks = f", Mesh: {self.mesh.tolist()}" if detail else ""
        return f"DeviceMesh({shown}, '{self._device_type}', stride={strides}{ranks})"

    def _key(self) -> tuple[Any, ...]:
        return self._device_type, self._ranks, self._shape, self._names

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __copy__(self) -> DeviceMesh:
        return self

    def __deepcopy__(self, memo: dict) -> DeviceMesh:
        return self  # nothing of it changes, and its groups are those of the process

    def __reduce__(self) -> Any:
        root = self._get_root_mesh()
        state = (root._device_type, root._grid.ranks, root._grid.shape, root._names)
        return _rebuild, (*state, self._axes, self._names)


def _rebuild(
    device_type: str,
    ranks: tuple[int, ...],
    shape: tuple[int, ...],
    root_names: tuple[str, ...] | None,
    axes: tuple[tuple[int, ...], ...],
    names: tuple[str, ...] | None,
) -> DeviceMesh:
    """A mesh from a file, or from another process: as this process stands in it."""
    root = DeviceMesh.__new__(DeviceMesh)
    root._place(device_type, _Grid(ranks, shape), tuple((k,) for k in range(len(shape))), root_names, None)
    return root if (axes, names) == (root._axes, root_names) else root._part(axes, names)


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Mapping[int | str, Any] | None = None,
) -> DeviceMesh:
    """A mesh of the first processes, in the order of their ranks.  Every process calls it; without a group of all, it makes one.

    device_type: "cpu" or the type of an accelerator, without an index.
    mesh_shape: how many processes there are along each dimension.
    mesh_dim_names: a name for each dimension.
    backend_override: the backend of some dimensions, by their number or name.

    Raises:
        RuntimeError: there are fewer processes; a name comes twice, or names are not as many as sizes; the type has an index

    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.device_mesh import init_device_mesh
    >>> dist.init_process_group("fake", rank=0, world_size=4)
    >>> mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    >>> mesh.mesh.tolist(), dist.get_process_group_ranks(mesh.get_group("dp"))
    ([[0, 1], [2, 3]], [0, 2])
    >>> dist.destroy_process_group()
    """
    shape = tuple(mesh_shape)
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                "Each mesh_dim_name must be unique. "
                f"Found repeated mesh_dim_name in mesh_dim_names {tuple(mesh_dim_names)}"
            )
        if len(shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):{len(shape)}."
            )
    if not device_type or not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. "
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'."
        )
    if any(size < 1 for size in shape):
        raise ValueError(f"init_device_mesh(): sizes of mesh_shape are at least 1, got {shape}")
    backends = [_backend(backend_override, k, mesh_dim_names) for k in range(len(shape))]
    count = 1
    for size in shape:
        count *= size
    if not is_initialized():
        init_process_group()
    if count > get_world_size():
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {get_world_size()}, but found {count} ranks!"
        )
    ranks = tensor(range(count), dtype=by_name["int32"], device="cpu").reshape(shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, backend_override=backends)


def _backend(
    overrides: Mapping[int | str, Any] | None, dim: int, names: Sequence[str] | None
) -> tuple[str | None, Any]:
    """What is said of a dimension's backend, by number or name."""
    keys: list[int | str] = [dim] if names is None else [dim, names[dim]]
    result = [overrides[key] for key in keys if overrides is not None and key in overrides]
    if len(result) > 1:
        raise RuntimeError(f"Found redundant dim index {dim} and name {keys[1]} in backend_override")
    if not result:
        return None, None
    return result[0] if isinstance(result[0], tuple) else (result[0], None)


class _MeshEnv(threading.local):
    """The meshes that are on in this thread (`with mesh:`)."""

    def __init__(self) -> None:
        self.mesh_stack: list[DeviceMesh] = []

    def get_current_mesh(self) -> DeviceMesh:
        """The innermost; RuntimeError where none is on."""
        if not self.mesh_stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.mesh_stack[-1]

    def get_root_mesh(self, device_mesh: DeviceMesh) -> DeviceMesh:
        """The mesh of which it is a slice, or itself."""
        return device_mesh._get_root_mesh()


_mesh_resources = _MeshEnv()
DeviceMesh.__module__ = init_device_mesh.__module__ = display.public("distributed.device_mesh")
__getattr__ = refusing("distributed.device_mesh")
