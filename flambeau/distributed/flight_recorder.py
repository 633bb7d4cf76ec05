"""Read what several processes have written of their last calls, and say where they first disagree.

    python -m flambeau.distributed.flight_recorder PREFIX

reads the files PREFIX0, PREFIX1, … that TORCH_FR_DUMP_TEMP_FILE names, prints the first collective that not all of them have called in
the same way, and ends with code 1; with 0 where there is none.  The files have PyTorch's layout, so its `torchfrtrace` reads them, too.
"""

from __future__ import annotations

import glob
import io
import json
import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from .._compat.absent import refusing

__all__ = ["first_disagreement", "main", "read"]


class _RestrictedUnpickler(pickle.Unpickler):
    """Reads numbers, texts and containers; whatever would run something is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"a dump holds numbers and texts, not {module}.{name}")


def read(prefix: str) -> dict[int, dict[str, Any]]:
    """The dumps whose files' names begin with `prefix` and go on with a rank, by rank.

    Raises:
        FileNotFoundError: there is no such file
        ValueError: a file is no dump
        pickle.UnpicklingError: a file holds more than numbers and texts

    >>> import os, tempfile
    >>> from flambeau.distributed import distributed_c10d, flight_recorder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(os.path.join(folder, "trace_0"), "wb") as file:
    ...         _ = file.write(distributed_c10d._dump_fr_trace())
    ...     dumps = flight_recorder.read(os.path.join(folder, "trace_"))
    >>> list(dumps), dumps[0]["version"]
    ([0], '2.10')
    """
    result = {}
    for path in glob.glob(glob.escape(prefix) + "*"):
        rank = path[len(prefix) :]
        if not rank.isdecimal():
            continue
        with open(path, "rb") as file:
            data = file.read()
        dump = json.loads(data) if data[:1] == b"{" else _RestrictedUnpickler(io.BytesIO(data)).load()
        if not isinstance(dump, dict) or not {"entries", "pg_config"} <= dump.keys():
            raise ValueError(f"{path}: no dump of a flight recorder")
        result[int(rank)] = dump
    if not result:
        raise FileNotFoundError(f"no file {prefix}0, {prefix}1, ...")
    return dict(sorted(result.items()))


def first_disagreement(dumps: Mapping[int, Mapping[str, Any]]) -> str | None:
    """The first collective that ranks of a group have not all called in the same way, a line a rank; None where there is none.

    Calls are compared by name, shapes and dtypes of what must agree on every rank, and whether they were called at all; calls that the
    rings do not reach back to are left out.

    Raises nothing.

    >>> from flambeau.distributed.flight_recorder import first_disagreement
    >>> call = dict(profiling_name="gloo:barrier", collective_seq_id=1, process_group=("0", ""), is_p2p=False)
    >>> call.update(input_sizes=[], input_dtypes=[])
    >>> group = {"0": {"name": "0", "desc": "", "ranks": "[0, 1]"}}
    >>> dumps = {0: {"pg_config": group, "entries": [call]}, 1: {"pg_config": group, "entries": []}}
    >>> print(first_disagreement(dumps))
    collective 1 of group 0 ():
      rank 0: barrier at an unknown line
      rank 1: has not called it; its last is none
    """
    places: dict[tuple[str, str], list[int]] = {}
    for dump in dumps.values():
        for config in dump["pg_config"].values():
            places.setdefault((config["name"], config["desc"]), json.loads(config["ranks"]))
    firsts = [_of_group(group, ranks, dumps) for group, ranks in places.items()]
    result = [first for first in firsts if first is not None]
    return min(result)[1] if result else None


def _of_group(
    group: tuple[str, str], ranks: Sequence[int], dumps: Mapping[int, Mapping[str, Any]]
) -> tuple[int, str] | None:
    """When a group first disagrees, by the clock of who came first, and how."""
    calls: dict[int, dict[int, Mapping[str, Any]]] = {}
    for rank in ranks:
        if rank in dumps:
            own = [
                e for e in dumps[rank]["entries"] if tuple(e["process_group"]) == group and not e["is_p2p"]
            ]
            calls[rank] = {e["collective_seq_id"]: e for e in own}
    oldest = [min(own) for own in calls.values() if own]
    if not oldest:
        return None
    for number in range(max(oldest), max(max(own) for own in calls.values() if own) + 1):
        there = {rank: own.get(number) for rank, own in calls.items()}
        kinds = {None if call is None else _kind(call) for call in there.values()}
        if len(kinds) > 1:
            lines = [f"collective {number} of group {group[0]} ({group[1]}):"]
            for rank in ranks:
                lines.append(f"  rank {rank}: {_said(there, calls, rank)}")
            return min(call.get("time_created_ns", 0) for call in there.values() if call), "\n".join(lines)
    return None


_UNEVEN = (
    "all_gather",
    "gather",
    "scatter",
    "all_to_all",
    "reduce_scatter",
)  # whose sizes may differ between ranks


def _kind(call: Mapping[str, Any]) -> tuple[Any, ...]:
    name = call["profiling_name"].partition(":")[2]
    sizes = () if name.startswith(_UNEVEN) else json.dumps(call["input_sizes"])
    return name, sizes, tuple(call["input_dtypes"]) if sizes else ()


def _said(
    there: Mapping[int, Mapping[str, Any] | None],
    calls: Mapping[int, Mapping[int, Mapping[str, Any]]],
    rank: int,
) -> str:
    if rank not in calls:
        return "no dump"
    if (call := there[rank]) is not None:
        return _text(call)
    last = calls[rank][max(calls[rank])] if calls[rank] else None
    return f"has not called it; its last is {'none' if last is None else _text(last)}"


def _text(call: Mapping[str, Any]) -> str:
    words = [call["profiling_name"].partition(":")[2]]
    words += [f"{size} {dtype}" for size, dtype in zip(call["input_sizes"], call["input_dtypes"])]
    frame = next(iter(call.get("frames") or ()), None)
    place = "an unknown line" if frame is None else f"{os.path.basename(frame['filename'])}:{frame['line']}"
    return f"{' '.join(words)} at {place}"


def main(args: Sequence[str] | None = None) -> int:
    """Print the first disagreement between the dumps of a prefix; 1 where there is one, else 0.

    Raises:
        SystemExit: there is not one prefix

    >>> from flambeau.distributed.flight_recorder import main
    >>> main([])
    Traceback (most recent call last):
    SystemExit: usage: python -m flambeau.distributed.flight_recorder PREFIX
    """
    paths = sys.argv[1:] if args is None else list(args)
    if len(paths) != 1:
        raise SystemExit("usage: python -m flambeau.distributed.flight_recorder PREFIX")
    said = first_disagreement(read(paths[0]))
    print("the ranks agree" if said is None else said)
    return 0 if said is None else 1


__getattr__ = refusing("distributed.flight_recorder")

if __name__ == "__main__":
    sys.exit(main())
