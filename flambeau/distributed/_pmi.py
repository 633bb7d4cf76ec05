"""The server that makes processes, started by anything, one world of MPICH.

MPICH asks its process manager (PMI version 1) for its rank, its size and the addresses of the others: a text protocol, a line each
way, over TCP, while it starts.  `Server` is that manager.  What arrives is compared with known words and kept as text.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence

from ._stores import _family

_VALUES = 1 << 24  # bytes that processes may put down


class Server:
    """Listens at `host` alone, in threads that do not keep the process; `address` is where.

    hosts: for each rank, a text that processes of one machine have in common.
    """

    def __init__(self, host: str, hosts: Sequence[str]) -> None:
        self.size = len(hosts)
        self._listening = socket.create_server((host, 0), family=_family(host))
        place, port = self._listening.getsockname()[:2]
        self.address = f"{place}:{port}"
        self._name = f"kvs_{os.getpid()}_{port}"  # MPICH tells worlds apart by it
        self._values = {"PMI_process_mapping": mapping(hosts)}
        self._changed = threading.Condition()
        self._arrived = self._generation = 0
        threading.Thread(target=self._accept, daemon=True, name="process manager").start()

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:  # closed
                return
            threading.Thread(
                target=self._serve, args=(connection,), daemon=True, name="process manager"
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("r", newline="\n", encoding="latin-1") as file:
            try:
                for line in iter(lambda: file.readline(1 << 16), ""):
                    fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
                    answers = self._answer(fields)
                    connection.sendall("".join(f"cmd={answer}\n" for answer in answers).encode("latin-1"))
                    if not answers or answers[0].startswith("finalize"):
                        return
            except (OSError, ValueError, KeyError):  # gone, or not one of us
                return

    # The process manager -----------------------------------------------------------------------------------------------------
    def _answer(self, fields: dict[str, str]) -> list[str]:
        """What is said to a command; nothing to one that ends the connection."""
        match fields.get("cmd"):
            case "initack":
                rank = int(fields["pmiid"])
                return ["initack rc=0", f"set size={self.size}", f"set rank={rank}", "set debug=0"]
            case "init":
                return ["response_to_init pmi_version=1 pmi_subversion=1 rc=0"]
            case "get_maxes":
                return ["maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"]
            case "get_appnum":
                return ["appnum rc=0 appnum=0"]
            case "get_my_kvsname":
                return [f"my_kvsname rc=0 kvsname={self._name}"]
            case "get_universe_size":
                return [f"universe_size rc=0 size={self.size}"]
            case "put":
                return self._put("put", {fields["key"]: fields["value"]})
            case "mput":
                return self._put(
                    "mput", {k: v for k, v in fields.items() if k not in ("cmd", "kvsname", "thrid")}
                )
            case "get":
                value = self._values.get(fields["key"])
                return [
                    "get_result rc=-1 msg=key_not_found"
                    if value is None
                    else f"get_result rc=0 value={value}"
                ]
            case "barrier_in":
                self._meet()
                return ["barrier_out rc=0"]
            case "finalize":
                return ["finalize_ack rc=0"]
            case _:  # "abort" among others
                return []

    def _put(self, command: str, values: dict[str, str]) -> list[str]:
        with self._changed:
            if sum(map(len, self._values)) + sum(map(len, self._values.values())) > _VALUES:
                return [f"{command}_result rc=-1"]
            self._values.update(values)
        return [f"{command}_result rc=0"]

    def _meet(self) -> None:
        with self._changed:
            generation = self._generation
            self._arrived += 1
            if self._arrived == self.size:
                self._arrived, self._generation = 0, generation + 1
                self._changed.notify_all()
            else:
                self._changed.wait_for(lambda: self._generation > generation)


def mapping(hosts: Sequence[str]) -> str:
    """Which ranks share a machine, as MPICH reads it: runs of (machine, how many machines, ranks of each).

    >>> mapping(["a", "a", "b", "a"])
    '(vector,(0,1,2),(1,1,1),(0,1,1))'
    """
    numbers: dict[str, int] = {}
    runs: list[list[int]] = []
    for host in hosts:
        number = numbers.setdefault(host, len(numbers))
        if runs and runs[-1][0] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return "(vector," + ",".join(f"({number},1,{count})" for number, count in runs) + ")"
