"""The agent of a process: its connections to the other workers, its calls, and those that it runs for others."""

from __future__ import annotations

import functools
import itertools
import pickle
import socket
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...core.base import display
from ...futures import Future
from . import _graphs, _references
from ._connection import Connection, Message, connect, greeted
from ._packing import Packer, Parcel
from ._references import Owned, References, RRef
from ._threads import Pool, Timer
from .constants import UNSET_RPC_TIMEOUT
from .functions import coming
from .options import TensorPipeRpcBackendOptions

# Kinds of messages; QUIET is a call that a shutdown does not count.
CALL, QUIET, REPLY, ERROR, FORKED, DROPPED, GOODBYE = range(7)
_BETWEEN = 0.05  # seconds between attempts to accept
_NO_REPLY = 0  # the number of messages without a reply


class WorkerInfo(NamedTuple):
    """A worker: its name, and its rank as `id`.

    >>> from flambeau.distributed import rpc
    >>> rpc.WorkerInfo("ps", 0)
    WorkerInfo(id=0, name=ps)
    """

    name: str
    id: int

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, name={self.name})"


WorkerInfo.__module__ = display.public("distributed.rpc")


class RemoteException(NamedTuple):
    """An error of another worker: its text with the traceback there, and its class."""

    msg: str
    exception_type: type[BaseException]


class _Result(Future):
    """A future of this agent.  While a thread of the pool waits for it, another one may run calls; a thread that waits for a
    reply opens that itself.
    """

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self._pool = pool
        self._waiters = 0
        self._reply: Callable[[], None] | None = None  # what opens a reply that has arrived

    def wait(self) -> Any:
        if not self._finished:
            with self._pool.waiting():
                self._wait()
        try:
            return self.value()
        finally:
            del self  # as Future.wait

    def _wait(self) -> None:
        while not self._finished:
            with self._changed:
                self._waiters += 1
                try:
                    self._changed.wait_for(lambda: self._finished or self._reply)
                except BaseException:  # interrupted
                    if self._reply is not None:
                        self._pool.submit(self._reply, first=True)
                        self._reply = None
                    raise
                finally:
                    self._waiters -= 1
                opened, self._reply = self._reply, None
            if opened is not None:
                opened()

    def replied(self, opened: Callable[[], None]) -> None:
        """A reply has arrived, which `opened` opens, in a thread that may wait."""
        with self._changed:
            if self._waiters:
                self._reply = opened
                self._changed.notify()
                return
        self._pool.submit(opened, first=True)

    def _following(self) -> Future:
        return _Result(self._pool)


class _Pending(NamedTuple):
    """A call that has no reply yet."""

    future: _Result
    to: int
    context: Any
    counted: bool


class _Expiry:
    """The end of a call's time."""

    def __init__(self, agent: Agent, number: int, seconds: float) -> None:
        self.agent, self.number, self.seconds = agent, number, seconds

    def __call__(self) -> None:
        pending = self.agent.take(self.number)
        if pending is not None:
            name, milliseconds = self.agent.infos[pending.to].name, self.seconds * 1000
            text = f"RPC to {name} ran for more than set timeout ({milliseconds:.0f} ms)"
            self.agent.fail(pending, f"{text} and will now be marked with an error")


class _Loop:
    """The connection of a worker to itself; buffers are copied, as on any way."""

    def __init__(self, agent: Agent) -> None:
        self.peer, self._agent = agent.rank, agent

    def send(self, message: Message) -> None:
        copied = message._replace(buffers=[buffer.clone() for buffer in message.buffers])
        self._agent.arrived(self, copied)


class Agent:
    """What a worker is made of."""

    def __init__(
        self,
        me: WorkerInfo,
        workers: Sequence[tuple[WorkerInfo, tuple[str, int]]],
        options: TensorPipeRpcBackendOptions,
        secret: bytes,
        listening: socket.socket,
    ) -> None:
        self.me, self.rank, self.options, self.timeout = me, me.id, options, options.rpc_timeout
        self.infos = [info for info, _ in workers]
        self._addresses = [address for _, address in workers]
        self._by_name = {info.name: info for info in self.infos}
        self._secret, self._listening = secret, listening
        self.closed = False
        self.timer = Timer()
        self.pool = Pool(options.num_worker_threads, self.timer)
        self.references = References(self)
        self.contexts = _graphs.Contexts(self.rank)
        self.changed = threading.Condition()  # guards what follows
        self._pending: dict[int, _Pending] = {}
        self._running = 0  # calls of others that have arrived and have no reply yet, without quiet ones
        self._serving = 0  # with them
        self.sent = self.served = 0
        self.dead: dict[int, str] = {}
        self.on_death: list[Callable[[int, str], None]] = []
        self._numbers = itertools.count(1)
        self._loop = _Loop(self)
        self._outgoing: dict[int, Connection] = {}
        self._connections: set[Connection] = set()
        self._connecting = [threading.Lock() for _ in workers]
        self._acceptor = threading.Thread(target=self._accept, daemon=True, name="rpc acceptor")

    # who is there
    def accept(self) -> None:
        """Let others in: from now on they may call this process, which must know by then that it is a worker.  Those who come earlier
        wait in the listening socket.
        """
        self._acceptor.start()

    def find(self, to: str | int | WorkerInfo) -> WorkerInfo:
        """A worker by its name, rank or info.  RuntimeError where there is none."""
        if isinstance(to, WorkerInfo):
            to = to.id
        if isinstance(to, int) and not isinstance(to, bool):
            if 0 <= to < len(self.infos):
                return self.infos[to]
            raise RuntimeError(f"name:{self.me.name},rank:{self.rank} could not find destination id {to}")
        if isinstance(to, str):
            if to in self._by_name:
                return self._by_name[to]
            raise RuntimeError(f"name:{self.me.name},rank:{self.rank} could not find destination name {to}")
        raise ValueError(f"Cannot get WorkerInfo from name {to}")

    get_worker_info = find

    def get_worker_infos(self) -> list[WorkerInfo]:
        return list(self.infos)

    # connections
    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listening.accept()
            except OSError:
                if self.closed:
                    return
                time.sleep(_BETWEEN)  # no more descriptors, for now
                continue
            threading.Thread(target=self._greet, args=(link,), daemon=True, name="rpc greeting").start()

    def _greet(self, link: socket.socket) -> None:
        try:
            peer = greeted(link, self.rank, self._secret)
            if not 0 <= peer < len(self.infos):
                raise ValueError(f"no worker has rank {peer}")
        except (OSError, ValueError):  # gone, or none of us
            link.close()
            return
        self._keep(Connection(link, peer, self.arrived, self._lost))

    def _keep(self, connection: Connection) -> None:
        with self.changed:
            if self.closed:
                connection.drop()
                return
            self._connections.add(connection)
            connection.start()  # before `close` may wait for its thread

    def _connection(self, to: int, seconds: float) -> Any:
        """The connection over which this process calls a worker.  RuntimeError where that is gone."""
        if to == self.rank:
            return self._loop
        with self._connecting[to]:
            if to in self.dead:
                raise RuntimeError(self._of_dead(to))
            connection = self._outgoing.get(to)
            if connection is None:
                try:
                    link = connect(self._addresses[to], to, self.rank, self._secret, seconds or None)
                except (OSError, ValueError) as error:
                    raise RuntimeError(
                        f"RPC to {self.infos[to].name} failed: it cannot be reached: {error}"
                    ) from None
                connection = self._outgoing[to] = Connection(link, to, self.arrived, self._lost)
                self._keep(connection)
            return connection

    def _of_dead(self, rank: int) -> str:
        return f"RPC to {self.infos[rank].name} failed: {self.dead[rank]}"

    def _lost(self, connection: Connection) -> None:
        """A connection has ended: by a good-bye, or since its worker died."""
        with self.changed:
            self._connections.discard(connection)
        called = self._outgoing.get(connection.peer) is connection
        if called:
            del self._outgoing[connection.peer]
        if self.closed:
            return
        name = self.infos[connection.peer].name
        if (
            connection.said_goodbye and not called
        ):  # answers to this process may still arrive over the other connection
            self.references.died(connection.peer)
        elif connection.said_goodbye:
            self._bury(connection.peer, f"worker {name} has shut down")
        else:
            self._bury(connection.peer, f"worker {name} died, or sent nonsense: {connection._broken}")

    def _bury(self, rank: int, why: str) -> None:
        """A worker is gone: what waits for it fails, and what it held is free."""
        with self.changed:
            if rank in self.dead:
                return
            self.dead[rank] = why
            gone = [number for number, pending in self._pending.items() if pending.to == rank]
            watching = list(self.on_death)
        for number in gone:
            pending = self.take(number)
            if pending is not None:
                self.fail(pending, self._of_dead(rank))
        self.references.died(rank)
        self.contexts.release_of(rank)
        for function in watching:
            function(rank, why)

    # calls of this process
    def future(self) -> _Result:
        return _Result(self.pool)

    def wait(self, future: Future) -> Any:
        """What a future of any kind comes to."""
        with self.pool.waiting():
            return future.wait()

    def call(
        self,
        to: int,
        function: Callable[..., Any],
        args: tuple = (),
        kwargs: dict | None = None,
        timeout: float = UNSET_RPC_TIMEOUT,
        context: Any = None,
        counted: bool = True,
        value: tuple[_references.Id, _references.Id] | None = None,
    ) -> Future:
        """Run a function in worker `to`; a future of what it returns.

        Errors of packing are raised here.  context: of autograd, by default this thread's. counted: whether a shutdown waits for
        it. value: the ids of the value that the result is to be, and of this process's reference to it.
        """
        self._check_open()
        seconds = self.timeout if timeout == UNSET_RPC_TIMEOUT else timeout
        if context is None:
            context = _graphs.here.context
        packer = Packer(to)
        try:
            data = packer.pack(
                (function, args, kwargs or {}), lambda tensors: self.contexts.sent(context, tensors, to)
            )
            connection = self._connection(to, seconds)
            number, future = next(self._numbers), self.future()
            with self.changed:
                self._pending[number] = _Pending(future, to, context, counted)
                self.sent += counted
            try:
                if value is not None:
                    news = _references.NEWS.pack(*value[0], *value[1], self.rank)
                    connection.send(Message(FORKED, _NO_REPLY, news, ()))
                connection.send(Message(CALL if counted else QUIET, number, data, packer.buffers))
            except ConnectionError as error:
                if self.take(number) is not None:
                    raise RuntimeError(f"RPC to {self.infos[to].name} failed: {error}") from None
        except BaseException:
            for fork in packer.forks:
                self.references.release(*fork)
            raise
        if seconds:
            self.timer.at(time.monotonic() + seconds, _Expiry(self, number, seconds))
        if to in self.dead and (pending := self.take(number)) is not None:
            self.fail(pending, self._of_dead(to))  # it died meanwhile
        return future

    def remote(
        self,
        to: int,
        function: Callable[..., Any],
        args: tuple = (),
        kwargs: dict | None = None,
        timeout: float = UNSET_RPC_TIMEOUT,
    ) -> RRef:
        """Run a function in worker `to`, which keeps what it returns; a reference to that."""
        value, fork = self.references.new_id(), self.references.new_id()
        if to != self.rank:
            done = self.call(
                to,
                _references.created,
                (value, function, args, kwargs or {}),
                None,
                timeout,
                value=(value, fork),
            )
            return _references.user_reference(self, value, fork, to, done)
        owned = Owned(value, self.future())
        self.references.added(owned, fork, to)
        made = _references.owner_reference(self, owned)
        try:
            made._confirmed = self.call(
                to, _references.created, (value, function, args, kwargs or {}), None, timeout
            )
        except BaseException:
            self.references.release(value, fork, to)
            raise
        made._confirmed.add_done_callback(lambda done: self.references.release(value, fork, to))
        return made

    def report(self, owner: int, news: bytes, callback: Callable[[Future], None]) -> None:
        """Tell an owner of a reference that another worker gets; `callback` is called when it has heard, or is gone."""
        number, future = next(self._numbers), self.future()
        future.add_done_callback(callback)
        with self.changed:
            self._pending[number] = _Pending(future, owner, None, False)
        try:
            self._connection(owner, self.timeout).send(Message(FORKED, number, news, ()))
        except (ConnectionError, RuntimeError) as error:
            if (pending := self.take(number)) is not None:
                self.fail(pending, str(error))

    def tell_dropped(self, owner: int, news: bytes) -> None:
        """Tell an owner that a reference is not used any more."""
        if self.closed or owner in self.dead:
            return
        try:
            self._connection(owner, self.timeout).send(Message(DROPPED, _NO_REPLY, news, ()))
        except (ConnectionError, RuntimeError):
            return  # it is gone, and the value with it

    def take(self, number: int) -> _Pending | None:
        """A pending call, which is the caller's to finish."""
        with self.changed:
            pending = self._pending.pop(number, None)
            if pending is not None:
                self.changed.notify_all()
        if pending is not None:
            self.timer.forget(self._is_needed, len(self._pending))
        return pending

    def _is_needed(self, function: Callable[[], None]) -> bool:
        return not isinstance(function, _Expiry) or function.number in self._pending

    def fail(self, pending: _Pending, text: str) -> None:
        """Set an error, in a thread in which callbacks may wait."""
        self.pool.submit(pending.future.set_exception, RuntimeError(text), first=True)

    # what arrives; the threads that read must not wait
    def arrived(self, connection: Any, message: Message) -> None:
        match message.kind:
            case kind if kind in (CALL, QUIET):
                with self.changed:
                    self._running += kind == CALL
                    self._serving += 1
                self.pool.submit(self._serve, connection, message)
            case kind if kind in (REPLY, ERROR):
                pending = self.take(message.number)
                if pending is not None:
                    pending.future.replied(functools.partial(self._finish, pending, message))
                elif message.data:  # too late
                    self.pool.submit(self._discard, message)
            case kind if kind == FORKED:
                self.references.reported(message.data)
                if message.number != _NO_REPLY:
                    self._reply(connection, Message(REPLY, message.number, b"", ()))
            case kind if kind == DROPPED:
                value_id, fork, _ = _references._news(message.data)
                self.references.delete_fork(value_id, fork)
            case kind if kind == GOODBYE:
                connection.said_goodbye = True
            case kind:
                raise ValueError(f"it sent a message of kind {kind}")

    def _reply(self, connection: Any, message: Message) -> None:
        try:
            connection.send(message)
        except ConnectionError:
            return  # the caller is gone

    def _finish(self, pending: _Pending, message: Message) -> None:
        """The reply to a call."""
        if not message.data:
            pending.future.set_result(None)
            return
        try:
            result = self._opened(Parcel(message.data, message.buffers), pending.to, pending.context)
        except Exception as error:
            pending.future.set_exception(error)
            return
        if message.kind == ERROR:
            pending.future.set_exception(_remade(result))
        else:
            pending.future.set_result(result)

    def _opened(self, parcel: Parcel, peer: int, context: Any) -> Any:
        """The object in a parcel; of one that cannot be opened the references are given back."""
        before, _references.adopting.forks = _references.adopting.forks, set()
        try:
            return parcel.open(
                lambda tensors: self.contexts.received(context, parcel.table.graph, tensors, peer)
            )
        except BaseException:
            self._give_back(parcel, _references.adopting.forks)
            raise
        finally:
            _references.adopting.forks = before

    def _give_back(self, parcel: Parcel, adopted: set) -> None:
        for value_id, fork, owner in parcel.table.forks:
            if fork not in adopted:
                _references._adopted(value_id, fork, owner)  # and let it go

    def _discard(self, message: Message) -> None:
        """A reply that nobody waits for any more."""
        self._give_back(Parcel(message.data, message.buffers), set())

    # calls of others
    def _serve(self, connection: Any, message: Message) -> None:
        context, counted = None, message.kind == CALL
        try:
            parcel = Parcel(message.data, message.buffers)
            if parcel.table.graph is not None:
                context = self.contexts.joined(parcel.table.graph[0], connection.peer)
            function, args, kwargs = self._opened(parcel, connection.peer, context)
            del parcel
            with _graphs.within(context):
                result = function(*args, **kwargs)
            del args, kwargs
            later = coming(function, result)
            if later is not None:
                later.add_done_callback(
                    lambda done: self._answer_later(connection, message.number, done, context, counted)
                )
                return
        except BaseException as error:
            self._answer(connection, message.number, self._described(error), context, counted, ERROR)
            return
        self._answer(connection, message.number, result, context, counted)

    def _answer_later(self, connection: Any, number: int, done: Future, context: Any, counted: bool) -> None:
        if done._error is None:
            self._answer(connection, number, done._value, context, counted)
        else:
            self._answer(connection, number, self._described(done._error), context, counted, ERROR)

    def _answer(
        self, connection: Any, number: int, result: Any, context: Any, counted: bool, kind: int = REPLY
    ) -> None:
        packer = Packer(connection.peer)
        try:
            data = packer.pack(result, lambda tensors: self.contexts.sent(context, tensors, connection.peer))
        except BaseException as error:
            for fork in packer.forks:
                self.references.release(*fork)
            kind, packer = ERROR, Packer(connection.peer)
            data = packer.pack(self._described(error), lambda tensors: None)
        self._reply(connection, Message(kind, number, data, packer.buffers))
        with self.changed:
            self._running -= counted
            self._serving -= 1
            self.served += counted
            self.changed.notify_all()

    def _described(self, error: BaseException) -> RemoteException:
        text = "".join(traceback.format_exception(error))
        kind: type[BaseException] = type(error) if isinstance(error, Exception) else RuntimeError
        try:
            pickle.dumps(kind)
        except Exception:
            kind = RuntimeError
        return RemoteException(f"On {self.me}:\n{error!r}\n{text}", kind)

    # the end
    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("RPC has been shut down")

    def wait_idle(self, until: float | None) -> None:
        """Wait until this process has no call underway and runs none.  RuntimeError at that moment."""

        def idle() -> bool:
            return not self._running and not any(pending.counted for pending in self._pending.values())

        with self.changed:
            left = None if until is None else max(until - time.monotonic(), 0.0)
            if not self.changed.wait_for(idle, left):
                raise RuntimeError(f"shutdown(): calls of {self.me.name} are still underway")

    def close(self, graceful: bool) -> None:
        """End the threads and connections of this process."""
        patience = 5.0 if graceful else 0.2
        with self.changed:
            if graceful:  # others wait for the answers that said that all may part
                self.changed.wait_for(lambda: not self._serving, patience)
            if self.closed:
                return
            self.closed = True
            connections = list(self._connections)
            pending = list(self._pending.values())
            self._pending.clear()
        try:
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        except OSError:
            pass
        self._listening.close()
        for connection in connections:
            self._reply(connection, Message(GOODBYE, _NO_REPLY, b"", ()))
        for connection in connections:
            connection.leave(patience)
        for connection in connections:
            connection.end(patience)
        for each in pending:
            if not each.future.done():
                each.future.set_exception(RuntimeError("RPC has been shut down"))
        self.contexts.release_all()
        self.references.close()
        self.pool.close()
        self.timer.close()
        for thread in (*self.pool.threads, self.timer.thread, self.references.thread, self._acceptor):
            if thread is not threading.current_thread():
                thread.join(patience)

    def abandon(self) -> None:
        """In a forked child: let go of what is the parent's."""
        self.closed = True
        self._listening.close()
        for connection in list(self._connections):
            connection.drop()

    def get_debug_info(self) -> dict[str, str]:
        """Counts of what is held and underway, as texts."""
        with self.changed:
            counts = {
                "num_pending_futures": len(self._pending),
                "num_owner_rrefs": len(self.references.owned),
                "num_user_rrefs": self.references.held,
                "num_forks": sum(len(owned.forks) for owned in self.references.owned.values()),
                "num_autograd_contexts": len(self.contexts),
                "agent.server_active_calls": self._running,
                "agent.client_active_calls": len(self._pending),
                "agent.thread_pool_size": len(self.pool.threads),
                "agent.num_idle_threads": self.pool.idle,
            }
        return {name: str(count) for name, count in counts.items()}


def _remade(error: RemoteException) -> BaseException:
    """The error of another worker, as it is raised here."""
    try:
        return error.exception_type(error.msg)
    except Exception as refusal:
        return RuntimeError(
            f"Failed to create original exception type. Error msg was {refusal} Original exception on remote side was "
            f"{error.msg}"
        )
