"""References to values of other processes, `RRef`, and when such values die.

The owner of a value knows its users by the numbers of their references (`forks`), and lets the value go with the last of them.  Who sends
a reference on makes a number for the receiver and reports it to the owner, and keeps its own reference until the owner has heard: so at
every moment the owner knows somebody who holds the value.  A number that is given back before it was reported is remembered until then.
"""

from __future__ import annotations

import functools
import itertools
import queue
import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ...core.base import display
from ...futures import Future
from . import _packing
from ._backward import backward
from ._current import current, is_set
from .constants import UNSET_RPC_TIMEOUT
from .functions import Later, coming

if TYPE_CHECKING:
    from ._agent import Agent, WorkerInfo

T = TypeVar("T")
NEWS = struct.Struct("<5Q")  # a value's id, a reference's id, the rank of who has that


class Id(NamedTuple):
    """A number that no other value or reference has."""

    created_on: int
    local_id: int

    def __str__(self) -> str:
        return f"GloballyUniqueId(created_on={self.created_on}, local_id={self.local_id})"


class Owned:
    """A value of this process that others may refer to.

    Others may speak of it before its creator's message is here; until then it is not `announced`, and stays whoever refers to it.
    """

    def __init__(self, value_id: Id, future: Future, announced: bool = True) -> None:
        self.id, self.future, self.announced = value_id, future, announced
        self.forks: dict[Id, int] = {}  # references, and the ranks of who has them


class References:
    """The values and references of this process."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.lock = threading.Lock()
        self.owned: dict[Id, Owned] = {}  # those that others refer to
        self.early: set[Id] = set()  # references that were given back before they were reported
        self.held = 0  # references of this process to others' values
        self._ids = itertools.count()
        self._released: queue.SimpleQueue = queue.SimpleQueue()  # which `__del__` may use at any moment
        self.thread = threading.Thread(target=self._give_back, daemon=True, name="rpc references")
        self.thread.start()

    def new_id(self) -> Id:
        return Id(self.agent.rank, next(self._ids))

    def find(self, value_id: Id) -> Owned:
        """A value of this process; one that is not here yet when its creator's message is still underway.

        Raises:
            RuntimeError: this process has made it, and has let it go
        """
        with self.lock:
            owned = self.owned.get(value_id)
            if owned is None:
                if value_id.created_on == self.agent.rank:
                    raise RuntimeError(f"the value of RRef {value_id} has been deleted")
                owned = self.owned[value_id] = Owned(value_id, self.agent.future(), announced=False)
            return owned

    def added(self, owned: Owned, fork: Id, rank: int) -> None:
        """Rank has a reference to a value of this process."""
        with self.lock:
            if fork in self.early:
                self.early.discard(fork)
            else:
                owned.forks[fork] = rank
                self.owned[owned.id] = owned
            self._let_go(owned)

    def reported(self, data: bytes) -> None:
        """The same, as others report it."""
        value_id, fork, rank = _news(data)
        with self.lock:
            owned = self.owned.get(value_id)
            if owned is None:
                owned = self.owned[value_id] = Owned(value_id, self.agent.future(), announced=False)
            owned.announced |= value_id.created_on == fork.created_on == rank  # its creator's own
        self.added(owned, fork, rank)

    def delete_fork(self, value_id: Id, fork: Id) -> None:
        """Nobody has this reference any more."""
        with self.lock:
            owned = self.owned.get(value_id)
            if owned is None or fork not in owned.forks:
                self.early.add(fork)
                return
            del owned.forks[fork]
            self._let_go(owned)

    def _let_go(self, owned: Owned) -> None:
        """With the lock held: a value that nobody refers to dies, in a thread in which its `__del__` may wait."""
        if owned.announced and not owned.forks and self.owned.get(owned.id) is owned:
            self.agent.pool.submit(list.clear, [self.owned.pop(owned.id)])

    def died(self, rank: int) -> None:
        """A worker is gone, and its references with it."""
        with self.lock:
            for owned in list(self.owned.values()):
                if rank in owned.forks.values() or owned.id.created_on == rank:
                    owned.forks = {fork: user for fork, user in owned.forks.items() if user != rank}
                    owned.announced |= owned.id.created_on == rank  # nothing more comes
                    self._let_go(owned)
            self.early = {fork for fork in self.early if fork.created_on != rank}

    # references of this process
    def fork(self, rref: RRef, to: int) -> tuple[Id, Id, int]:
        """A reference for worker `to`, which the owner hears of."""
        fork = self.new_id()
        if rref._owned is not None:
            self.added(rref._owned, fork, to)
        else:
            data = NEWS.pack(*rref._id, *fork, to)
            self.agent.report(rref._owner, data, functools.partial(_held, rref))
        return rref._id, fork, rref._owner

    def release(self, value_id: Id, fork: Id, owner: int, held: bool = False) -> None:
        """Give a reference back, which was `held` in this process; any thread may, in any moment."""
        self._released.put((value_id, fork, owner, held))

    def _give_back(self) -> None:
        while (item := self._released.get()) is not None:
            value_id, fork, owner, held = item
            with self.lock:
                self.held -= held
            if owner == self.agent.rank:
                self.delete_fork(value_id, fork)
            else:
                self.agent.tell_dropped(owner, NEWS.pack(*value_id, *fork, self.agent.rank))

    def close(self) -> None:
        self._released.put(None)
        with self.lock:
            gone = list(self.owned.values())
            self.owned.clear()
        gone.clear()


def _held(rref: RRef, done: Future) -> None:
    """Nothing is left to do when the owner knows of a fork: until then this held the reference that was forked."""


def _news(data: bytes) -> tuple[Id, Id, int]:
    numbers = NEWS.unpack(data)
    return Id(*numbers[:2]), Id(*numbers[2:4]), numbers[4]


class RRef(Generic[T]):
    """A reference to a value that lives in one process, its owner.

    `RRef(value)` refers to a value of this process, what `remote` returns to one of another process.  References travel in calls
    and their results, and the value lives as long as some process has one.

    Raises:
        RuntimeError: this process is no worker of a world (`init_rpc`)

    >>> from flambeau.distributed import rpc
    >>> rpc.RRef(3)
    Traceback (most recent call last):
        ...
    RuntimeError: RPC has not been initialized. Call flambeau.distributed.rpc.init_rpc first.
    """

    _agent: Agent
    _id: Id
    _owner: int
    _fork: Id | None = None  # of a reference to another process's value
    _owned: Owned | None = None
    _confirmed: Future | None = None  # what a `remote` of this process came to

    def __init__(self, value: T, type_hint: Any = None) -> None:
        agent = current()
        future = agent.future()
        future.set_result(value)
        _own(self, agent, Owned(agent.references.new_id(), future))

    def is_owner(self) -> bool:
        """Whether the value lives in this process."""
        return self._owned is not None

    def owner(self) -> WorkerInfo:
        """The worker in which the value lives."""
        return self._agent.infos[self._owner]

    def owner_name(self) -> str:
        """Its name."""
        return self.owner().name

    def confirmed_by_owner(self) -> bool:
        """Whether the owner knows of this reference and has its value."""
        if self._confirmed is not None:
            return self._confirmed.done() and self._confirmed._error is None
        return True

    def local_value(self) -> T:
        """The value, in its owner; waits until it is there, and raises what its making raised.

        Raises:
            RuntimeError: this process is not the owner
        """
        self._check("local_value")
        if self._owned is None:
            raise RuntimeError(
                f"For {self}, can't call localValue() on user {self._agent.me}. Call it on owner {self.owner()}"
            )
        return self._owned.future.wait()

    def to_here(self, timeout: float = UNSET_RPC_TIMEOUT) -> T:
        """The value, copied to this process; in its owner, the value itself.  Waits until it is there, `timeout` seconds at most.

        Raises:
            RuntimeError: it did not come in time, or its owner is gone
        """
        self._check("to_here")
        if self._owned is not None:
            return self._owned.future.wait()
        if self._confirmed is not None and self._confirmed.done():
            self._confirmed.wait()
        return self._agent.call(self._owner, _fetched, (self._id,), timeout=timeout).wait()

    def rpc_sync(self, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        """A stand-in for the value: its methods run in the owner, and return what they return."""
        return _Proxy(self, timeout, lambda *args, **options: self._agent.call(*args, **options).wait())

    def rpc_async(self, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        """A stand-in for the value: its methods run in the owner, and return a Future."""
        return _Proxy(self, timeout, self._agent.call)

    def remote(self, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        """A stand-in for the value: its methods run in the owner, and return a RRef of what they return."""
        return _Proxy(self, timeout, self._agent.remote)

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """Run a backward pass from the value, a tensor of one element.

        With the id of a context the owner runs `distributed.autograd.backward`; without one the pass is this process's own, and adds to
        `.grad`.

        Raises:
            RuntimeError: no context is given, and the value is another process's; the value is no such tensor
        """
        self._check("backward")
        if dist_autograd_ctx_id == -1:
            if self._owned is None:
                raise RuntimeError("User RRefs require 'dist_autograd_ctx_id' to be specified")
            _root(self.local_value()).backward(retain_graph=retain_graph)
            return
        self._agent.call(self._owner, _backward_of, (self, dist_autograd_ctx_id, retain_graph)).wait()

    def _check(self, what: str) -> None:
        if self._agent.closed:
            if is_set() or self._owned is None:
                raise RuntimeError(f"{self} has been deleted. Cannot call {what}() on it after deletion.")
            current()

    def _get_future(self) -> Future:
        return self._owned.future if self._owned is not None else self._confirmed  # type: ignore[return-value]

    def __repr__(self) -> str:
        if self._owned is not None:
            return f"OwnerRRef({self._id})"
        return f"UserRRef(RRefId = {self._id}, ForkId = {self._fork})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("Can not pickle rref in python pickler, rref can only be pickled when using RPC")

    def __del__(self) -> None:
        if self._fork is not None and not self._agent.closed:
            self._agent.references.release(self._id, self._fork, self._owner, True)


def _own(rref: RRef, agent: Agent, owned: Owned) -> RRef:
    """Let a reference of this process stand for a value of this process."""
    rref._agent, rref._id, rref._owner, rref._owned = agent, owned.id, agent.rank, owned
    return rref


def owner_reference(agent: Agent, owned: Owned) -> RRef:
    return _own(object.__new__(RRef), agent, owned)


def user_reference(agent: Agent, value_id: Id, fork: Id, owner: int, confirmed: Future | None = None) -> RRef:
    made: RRef = object.__new__(RRef)
    made._agent, made._id, made._owner, made._confirmed = agent, value_id, owner, confirmed
    with agent.references.lock:
        agent.references.held += 1
    made._fork = fork
    return made


def _reduce(packer: _packing.Packer, rref: RRef) -> tuple:
    rref._check("send")
    if rref._confirmed is not None and rref._confirmed.done():
        rref._confirmed.wait()  # raises what its making raised
    fork = rref._agent.references.fork(rref, packer.to)
    packer.forks.append(fork)
    return _adopted, fork


_packing.REDUCERS[RRef] = _reduce


class _Adopting(threading.local):
    forks: set | None = None  # references of the object that is unpickled now, which somebody has


adopting = _Adopting()


def _adopted(value_id: Id, fork: Id, owner: int) -> RRef:
    """A reference that has arrived."""
    agent = current()
    if owner != agent.rank:
        made = user_reference(agent, value_id, fork, owner)
    else:
        made = owner_reference(agent, agent.references.find(value_id))
        agent.references.release(value_id, fork, owner)
    if adopting.forks is not None:
        adopting.forks.add(fork)
    return made


# what the owner runs -----------------------------------------------------------------------------------------------------------
def created(value_id: Id, function: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
    """In the owner: run a function, and keep its result as the value with this id."""
    agent = current()
    with agent.references.lock:
        owned = agent.references.owned.get(value_id)
    try:
        result = function(*args, **kwargs)
        later = coming(function, result)
    except BaseException as error:
        if owned is not None:
            owned.future.set_exception(error)
        raise
    if later is not None:
        return Later(later.then(lambda done: _settle(owned, done)))
    if owned is not None:
        owned.future.set_result(result)
    return None


def _settle(owned: Owned | None, done: Future) -> None:
    if owned is None:
        return
    if done._error is None:
        owned.future.set_result(done._value)
    else:
        owned.future.set_exception(done._error)
        raise done._error


def _fetched(value_id: Id) -> Later:
    return Later(current().references.find(value_id).future)


def _invoked(rref: RRef, name: str, args: tuple, kwargs: dict) -> Any:
    method = getattr(rref.local_value(), name)
    result = method(*args, **kwargs)
    return Later(result) if hasattr(method, "_wrapped_async_rpc_function") else result


def _root(value: Any) -> Any:
    if not hasattr(value, "backward"):
        raise RuntimeError(f"RRef.backward(): the value must be a tensor, not {type(value).__name__}")
    return value


def _backward_of(rref: RRef, context_id: int, retain_graph: bool) -> None:
    backward(context_id, [_root(rref.local_value())], retain_graph)


class _Proxy:
    """What `RRef.rpc_sync`, `rpc_async` and `remote` return: its attributes are methods of the value."""

    def __init__(self, rref: RRef, timeout: float, way: Callable[..., Any]) -> None:
        self.rref, self.rpc_timeout, self._way = rref, timeout, way

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def invoke(*args: Any, **kwargs: Any) -> Any:
            self.rref._check(name)
            return self._way(
                self.rref._owner, _invoked, (self.rref, name, args, kwargs), timeout=self.rpc_timeout
            )

        return invoke


RRef.__module__ = display.public("distributed.rpc")
