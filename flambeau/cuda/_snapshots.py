"""What the allocator of NVIDIA devices holds and has done, in the form that PyTorch's viewer of snapshots reads."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Sequence
from typing import Any

from ..core.base import device as _devices
from ..devices import cuda_memory as _memory
from ..devices import holders
from ..devices.holders import History, frames, segments

ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom", "snapshot")

_requested = {"recorded": False}  # whether the program wants a history


def memory_snapshot(
    mempool_id: tuple[int, int] | None = None, include_traces: bool = True
) -> list[dict[str, Any]]:
    """The memory that was taken from the driver, on all devices in use: one segment, of one block, for each piece.

    Of one pool only where `mempool_id` (`MemPool.id`) is given.  Traces are part of `_snapshot()` alone, so that `include_traces` changes
    nothing.

    Raises:
        TypeError: the identity is no sequence

    >>> import flambeau
    >>> all(segment["total_size"] > 0 for segment in flambeau.cuda.memory_snapshot())
    True
    """
    result = [s for on in _devices.open_devices("cuda") for s in segments(on)]
    return [s for s in result if mempool_id is None or s["segment_pool_id"] == tuple(mempool_id)]


def _record_memory_history(enabled: Any = "all", *args: Any, **options: Any) -> None:
    """Record where memory is allocated from now on, on all devices ("all", or "state" for what is held alone), or stop (None).

    `context` says of which actions the stack is kept: None, "state", "alloc" or "all"; `max_entries` how many actions; `skip_actions` which
    of them are left out; `clear_history` forgets those before.  Stacks are Python's, whatever `stacks` says: no C++ runs below them.  The
    bool of PyTorch before 2.1 stands for "all" with stacks of allocations, and its other arguments are taken.

    Raises:
        RuntimeError: an argument has another value
        TypeError: there is no such argument

    >>> import flambeau
    >>> flambeau.cuda.memory._record_memory_history(max_entries=100)
    >>> flambeau.cuda.memory._record_memory_history(None)
    """
    if isinstance(enabled, bool):
        return _legacy(enabled, *args, **options)
    return _record(enabled, *args, **options)


def _record(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Any = None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: Sequence[str] | None = None,
) -> None:
    for name, value, allowed in (
        ("enabled", enabled, (None, "state", "all")),
        ("context", context, (None, "state", "alloc", "all")),
        ("stacks", stacks, ("python", "all")),
        *(("skip_actions", action, ACTIONS) for action in skip_actions or ()),
    ):
        if value not in allowed:
            raise RuntimeError(
                f"_record_memory_history(): expected {name} to be one of {allowed}, got {value!r}"
            )

    def history(on: Any) -> History:
        assert enabled is not None
        made = History(enabled, context, max_entries, skip_actions or ())
        before = on.recorded
        if before is not None and not clear_history:
            made.actions.extend(before.actions)
            made.held.update(before.held)
        return made

    _requested["recorded"] = enabled is not None
    if enabled is None:
        return record_nothing()
    _memory.set_history(lambda on: History(enabled, context, max_entries, skip_actions or ()))
    for on in _devices.open_devices("cuda"):
        on.record_history(history(on))


def record_nothing() -> None:
    """Record no more than a watcher of blocks is told."""
    _memory.set_history(lambda on: holders.unrecorded())
    for on in _devices.open_devices("cuda"):
        on.record_history(holders.unrecorded())


def apply_watcher(observer: Any) -> None:
    """Tell an object of each block that is handed out, taken back or given to the driver from now on, on all devices; None: nobody."""
    holders.watcher = observer
    if not _requested["recorded"]:
        record_nothing()


def _legacy(
    enabled: bool,
    record_context: bool = True,
    trace_alloc_max_entries: int = 1,
    trace_alloc_record_context: bool = False,
    device: Any = None,
    record_context_cpp: bool = False,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
) -> None:
    context = "alloc" if trace_alloc_record_context else "state" if record_context else None
    _record("all" if enabled else None, context, "python", trace_alloc_max_entries, device, clear_history)


_record_memory_history.__signature__ = inspect.signature(_record)  # type: ignore[attr-defined]


def _snapshot(device: Any = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """The segments of all devices in use, and what was recorded of each device: "segments", "device_traces", one list for each device,
    and the allocator's settings.

    Raises:
        NotImplementedError: `augment_with_fx_traces` is set

    >>> import flambeau
    >>> sorted(flambeau.cuda.memory._snapshot())
    ['allocator_settings', 'device_traces', 'external_annotations', 'segments']
    """
    if augment_with_fx_traces:
        raise NotImplementedError(
            "_snapshot(): augment_with_fx_traces is not supported: stacks are those of the program itself"
        )
    traces: list[list[dict[str, Any]]] = [[] for _ in range(_devices.device_count("cuda"))]
    for on in _devices.open_devices("cuda"):
        if on.recorded is not None:
            on.recorded.mark()
            traces[on.index] = on.recorded.trace()
    settings = {
        "PYTORCH_ALLOC_CONF": "",
        "PYTORCH_CUDA_ALLOC_CONF": "",
        "max_split_size": -1,
        "garbage_collection_threshold": 0.0,
        "expandable_segments": False,
        "pinned_num_register_threads": 1,
        "release_lock_on_malloc": False,
        "pinned_use_host_register": False,
        "roundup_power2_divisions": {},
    }
    return {
        "segments": memory_snapshot(),
        "device_traces": traces,
        "allocator_settings": settings,
        "external_annotations": [],
    }


def _dump_snapshot(filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Write `_snapshot()` to a file, for PyTorch's viewer (pytorch.org/memory_viz).

    Raises:
        OSError: the file cannot be written

    >>> import flambeau, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "snapshot.pickle")
    >>> flambeau.cuda.memory._dump_snapshot(path)
    >>> os.path.getsize(path) > 0
    True
    """
    content = pickle.dumps(_snapshot(augment_with_fx_traces=augment_with_fx_traces))
    with open(filename, "wb") as file:
        file.write(content)


def _allocation_traceback(data_ptr: int) -> list[dict[str, Any]] | None:
    """Where the block that begins there was allocated, the innermost line first; None for other addresses, and where nothing was recorded.

    >>> import flambeau
    >>> flambeau.cuda.memory._allocation_traceback(1) is None
    True
    """
    for on in _devices.open_devices("cuda"):
        if on.recorded is not None and data_ptr in on.recorded.held:
            return frames(on.recorded.held[data_ptr][1]) or None
    return None
