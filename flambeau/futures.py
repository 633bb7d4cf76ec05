"""Results that are not there yet: `Future`, as PyTorch's asynchronous functions return them."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value, or an error, that some thread sets once and any thread may wait for.

    `devices` are those on which tensors of the value live; what `set_result` is given must be ready there.

    Raises:
        RuntimeError: a value or an error is set twice, or a value of another device than `devices`

    >>> import flambeau
    >>> future = flambeau.futures.Future()
    >>> twice = future.then(lambda done: done.value() * 2)
    >>> future.set_result(flambeau.tensor([1.0, 2.0]))
    >>> twice.wait()
    tensor([2., 4.])
    """

    def __init__(self, *, devices: list[Any] | None = None) -> None:
        self.devices = list(devices or ())
        self._changed = threading.Condition()
        self._finished = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], None]] = []

    def done(self) -> bool:
        """Whether there is a value or an error.

        >>> Future().done()
        False
        """
        return self._finished

    def wait(self) -> T:
        """The value, as soon as it is there; raises the error if that was set instead.

        >>> future = Future()
        >>> future.set_result(3)
        >>> future.wait()
        3
        """
        self._wait()
        try:
            return self.value()
        finally:
            del self  # see value()

    def _wait(self) -> None:
        with self._changed:
            self._changed.wait_for(self.done)

    def value(self) -> T:
        """The value of a future that is done; RuntimeError of one that is not, or the error that was set.

        >>> future = Future()
        >>> future.set_exception(ValueError("lost"))
        >>> future.value()
        Traceback (most recent call last):
            ...
        ValueError: lost
        """
        if not self._finished:
            raise RuntimeError("Future.value(): the future is not done; wait() waits for it")
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # which has the error, whose traceback has this frame
        return self._value

    def set_result(self, result: T) -> None:
        """Set the value, wake those who wait, and run the callbacks in this thread; RuntimeError the second time.

        >>> future = Future()
        >>> future.set_result("here")
        >>> future.done()
        True
        """
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set an error, which `wait` and `value` raise.

        >>> future = Future()
        >>> future.set_exception(ValueError("lost"))
        >>> future.done()
        True
        """
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._finished:
                raise RuntimeError("Future can only be marked completed once")
            self._value, self._error, self._finished = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            _run(callback, self)

    def _following(self) -> Future:
        """A new future of the same kind."""
        return Future(devices=self.devices)

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call `callback(self)` when the future is done, at once if it is; its errors are printed and go no further.

        >>> future = Future()
        >>> future.add_done_callback(lambda done: print(done.value()))
        >>> future.set_result(5)
        5
        """
        with self._changed:
            if not self._finished:
                self._callbacks.append(callback)
                return
        _run(callback, self)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what `callback(self)` returns, or raises, when this one is done.

        >>> future = Future()
        >>> after = future.then(lambda done: done.value() + 1)
        >>> future.set_result(1)
        >>> after.value()
        2
        """
        following: Future[S] = self._following()

        def continued(done: Future[T]) -> None:
            try:
                result = callback(done)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(result)

        self.add_done_callback(continued)
        return following


def _run(callback: Callable[[Future], None], future: Future) -> None:
    try:
        callback(future)
    except Exception:
        import traceback  # not at the start of every program

        warnings.warn(
            f"a callback of a Future raised:\n{traceback.format_exc()}", RuntimeWarning, stacklevel=4
        )


def collect_all(futures: list[Future]) -> Future[list[Future]]:
    """A future of the list itself, done when all of them are.

    Raises:
        TypeError: a member is no Future

    >>> one, two = Future(), Future()
    >>> both = collect_all([one, two])
    >>> one.set_result(1)
    >>> both.done()
    False
    >>> two.set_result(2)
    >>> [future.value() for future in both.wait()]
    [1, 2]
    """
    for future in futures:
        if not isinstance(future, Future):
            raise TypeError(f"collect_all(): Futures expected, got {type(future).__name__}")
    whole: Future[list[Future]] = Future()
    waiting = len(futures)
    lock = threading.Lock()

    def one_more(_: Future) -> None:
        nonlocal waiting
        with lock:
            waiting -= 1
            last = waiting == 0
        if last:
            whole.set_result(futures)

    if not futures:
        whole.set_result(futures)
    for future in futures:
        future.add_done_callback(one_more)
    return whole


def wait_all(futures: list[Future]) -> list[Any]:
    """The values of all of them, as soon as they are there; the first error in the list is raised when all are done.

    Raises:
        TypeError: a member is no Future

    >>> one = Future()
    >>> one.set_result(1)
    >>> wait_all([one, one])
    [1, 1]
    """
    return [future.wait() for future in collect_all(futures).wait()]
