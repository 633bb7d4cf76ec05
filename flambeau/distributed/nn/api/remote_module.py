"""`RemoteModule`: a module that lives in another process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from ....core.base import display
from ....futures import Future
from ....nn import Module
from ... import rpc
from ...remote_device import _remote_device
from ...rpc import _packing

__all__ = ["RemoteModule"]

_STATE = ("on", "device", "is_device_map_set", "is_scriptable", "module_rref")


def _create_module(module_cls: Any, args: tuple, kwargs: dict, device: str) -> Module:
    module = module_cls(*args, **kwargs)
    if not isinstance(module, Module):
        raise ValueError(
            "Expect `module_cls(*args, **kwargs)` returns an instance of <class nn.Module>, "
            f"but it returns an instance of {type(module)}."
        )
    return module.to(device)


def _param_rrefs(module_rref: rpc.RRef, recurse: bool) -> list[rpc.RRef]:
    return [rpc.RRef(param) for param in module_rref.local_value().parameters(recurse)]


def _forward(module_rref: rpc.RRef, args: tuple, kwargs: dict) -> Any:
    return module_rref.local_value()(*args, **kwargs)


def _mode(module_rref: rpc.RRef, training: bool) -> None:
    module_rref.local_value().train(training)


class RemoteModule(Module):
    """A module of another process: `forward` runs there, and `forward_async` returns a Future of what it returns.

    Gradients pass within a `distributed.autograd.context`.  A RemoteModule travels in calls as a reference.  What else modules
    do is refused, but for `train` and `eval`.

    remote_device: where it lives: "worker1/cpu", "worker1", "rank:1/cpu". module_cls: its class, or a function that returns a
    module. args, kwargs: what that takes.

    Shape:
        inputs, outputs: those of the module

    Raises:
        RuntimeError: this process is no worker of a world (`rpc.init_rpc`)
        ValueError: no such form of `remote_device`, or it names no worker

    >>> from flambeau import nn
    >>> from flambeau.distributed.nn.api.remote_module import RemoteModule
    >>> RemoteModule("worker1/cpu", nn.Linear, args=(2, 3))
    Traceback (most recent call last):
        ...
    RuntimeError: RPC has not been initialized. Call flambeau.distributed.rpc.init_rpc first.
    """

    on: str | int
    device: str
    is_device_map_set: bool
    is_scriptable: bool
    module_rref: rpc.RRef

    def __init__(
        self,
        remote_device: str,
        module_cls: Any,
        args: Sequence[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        _module_interface_cls: Any = None,
    ) -> None:
        super().__init__()
        self._place(remote_device, _module_interface_cls)
        created = module_cls, tuple(args or ()), dict(kwargs or {}), self.device
        self.module_rref = rpc.remote(self.on, _create_module, created)

    def _place(self, remote_device: str, interface: Any) -> None:
        if interface is not None:
            raise NotImplementedError("RemoteModule(): interfaces of TorchScript are not here")
        agent = rpc._get_current_rpc_agent()
        where = _remote_device(remote_device)
        on = where.rank() if where.worker_name() is None else where.worker_name()
        if on is None:
            raise ValueError(f"RemoteModule(): remote_device {remote_device!r} names no worker")
        self.on, self.device = agent.find(on).name, str(where.device())
        self.is_device_map_set = self.is_scriptable = False

    @staticmethod
    def init_from_module_rref(
        remote_device: str, module_rref: rpc.RRef, _module_interface_cls: Any = None
    ) -> RemoteModule:
        """Another RemoteModule for a module that is there already."""
        made = RemoteModule.__new__(RemoteModule)
        Module.__init__(made)
        made._place(remote_device, _module_interface_cls)
        made.module_rref = module_rref
        return made

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module makes of these arguments, in its process."""
        return rpc.rpc_sync(self.on, _forward, (self.module_rref, args, kwargs))

    def forward_async(self, *args: Any, **kwargs: Any) -> Future:
        """A Future of that."""
        return rpc.rpc_async(self.on, _forward, (self.module_rref, args, kwargs))

    def remote_parameters(self, recurse: bool = True) -> list[rpc.RRef]:
        """RRefs of its parameters, as `distributed.optim.DistributedOptimizer` takes them; without `recurse` of its own alone."""
        return rpc.rpc_sync(self.on, _param_rrefs, (self.module_rref, recurse))

    def get_module_rref(self) -> rpc.RRef:
        """A RRef of the module."""
        return self.module_rref

    def train(self, mode: bool = True) -> RemoteModule:
        """Set the module's mode, in its process."""
        rpc.rpc_sync(self.on, _mode, (self.module_rref, bool(mode)))
        self.training = bool(mode)
        return self

    def eval(self) -> RemoteModule:
        """`train(False)`."""
        return self.train(False)

    def parameters(self, recurse: bool = True) -> NoReturn:  # type: ignore[override]
        raise ValueError(
            "Method ``parameters`` not supported for RemoteModule. Please use ``remote_parameters`` instead."
        )

    def __repr__(self) -> str:
        return f"RemoteModule({self.on}/{self.device})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError(
            "Cannot pickle RemoteModule in python pickler. RemoteModule can only be pickled when using RPC"
        )


def _refused(name: str) -> Any:
    def refuse(self: RemoteModule, *args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError(f"Method ``{name}`` not supported for RemoteModule")

    refuse.__name__, refuse.__qualname__ = name, f"RemoteModule.{name}"
    refuse.__doc__ = "Refused: it would do something to this process's side alone."
    return refuse


for _name in (
    "add_module apply bfloat16 buffers children cpu cuda double extra_repr float half ipu load_state_dict modules named_buffers "
    "named_children named_modules named_parameters register_backward_hook register_buffer register_forward_hook "
    "register_forward_pre_hook register_parameter requires_grad_ share_memory state_dict to type xpu zero_grad"
).split():
    setattr(RemoteModule, _name, _refused(_name))


def _reduce(packer: _packing.Packer, module: RemoteModule) -> tuple:
    return _received, tuple(getattr(module, name) for name in _STATE)


def _received(*state: Any) -> RemoteModule:
    made = RemoteModule.__new__(RemoteModule)
    Module.__init__(made)
    for name, value in zip(_STATE, state):
        setattr(made, name, value)
    return made


_packing.REDUCERS[RemoteModule] = _reduce
RemoteModule.__module__ = display.public("distributed.nn.api.remote_module")
