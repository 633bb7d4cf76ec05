"""The process that keeps shared memory under names, for the sharing strategy 'file_system'.

Run as `python _keeper.py FD`, FD being a listening Unix socket.  It holds one descriptor of each memory, and counts who uses it: a
client that ends, however, is a connection that closes.  When the last client has gone, so does it, and all memory with it, a minute
later where a message is still underway to somebody who has not connected yet; nothing ever has a name in the file system.

A message is a letter and a number.  `k` and a descriptor: keep this; the number it has from now on is answered (0: no room).
`l`: a message that refers to it is on its way; answered by 1, or 0 where nothing has this number.  `o`: that message has arrived,
and the client uses it from now on; answered by the descriptor, or 0.  `r`: it has arrived at one who uses it already.  `f`: the
descriptor, once more.  `d`: the client does not use it any more.
"""

import array
import os
import resource
import selectors
import socket
import struct
import sys

MESSAGE = struct.Struct("=cQ")
ANSWER = struct.Struct("=Q")
PATIENCE = 60  # seconds without a client


class Kept:
    """A descriptor, by how many it is used, and how many messages refer to it."""

    def __init__(self, fd):
        self.fd, self.used, self.underway = fd, 0, 0


class Keeper:
    def __init__(self):
        self.kept = {}
        self.last = 0
        self.clients = {}  # what each uses, how often

    def leave(self, number, times=1):
        entry = self.kept.get(number)
        if entry is None:
            return
        entry.used -= times
        if entry.used <= 0 and entry.underway <= 0:
            os.close(entry.fd)
            del self.kept[number]

    def use(self, client, number):
        uses = self.clients[client]
        uses[number] = uses.get(number, 0) + 1
        self.kept[number].used += 1

    def keep(self, client, fds):
        if len(fds) != 1:
            return 0
        self.last += 1
        self.kept[self.last] = Kept(fds.pop())
        self.use(client, self.last)
        return self.last

    def answer(self, client, letter, number, fds):
        entry = self.kept.get(number)
        if letter == b"k":
            client.send(ANSWER.pack(self.keep(client, fds)))
        elif letter == b"l":
            if entry is not None:
                entry.underway += 1
            client.send(ANSWER.pack(entry is not None))
        elif letter in (b"o", b"f"):
            if entry is None:
                client.send(ANSWER.pack(0))
                return
            beside = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [entry.fd]))
            client.sendmsg([ANSWER.pack(number)], [beside])
            if letter == b"o":
                entry.underway -= 1
                self.use(client, number)
        elif letter == b"r" and entry is not None:
            entry.underway -= 1
            self.leave(number, 0)
        elif letter == b"d" and self.clients[client].get(number):
            self.clients[client][number] -= 1
            self.leave(number)

    def hear(self, client):
        """One message; False where the client has gone."""
        fds = array.array("i")
        try:
            data, beside, _, _ = client.recvmsg(MESSAGE.size, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
            for _, kind, raw in beside:
                if kind == socket.SCM_RIGHTS:
                    fds.frombytes(raw)
            if len(data) == MESSAGE.size:
                self.answer(client, *MESSAGE.unpack(data), fds)
                return True
            return False
        except OSError:
            return False
        finally:
            for fd in fds:
                os.close(fd)

    def gone(self, client):
        for number, times in self.clients.pop(client).items():
            self.leave(number, times)
        client.close()


def main(listening):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    keeper, selector = Keeper(), selectors.DefaultSelector()
    selector.register(listening, selectors.EVENT_READ)
    while True:
        heard = selector.select(None if keeper.clients else PATIENCE)
        for key, _ in heard:
            if key.fileobj is listening:
                client, _ = listening.accept()
                credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
                if struct.unpack("3i", credentials)[1] != os.getuid():
                    client.close()
                    continue
                keeper.clients[client] = {}
                selector.register(client, selectors.EVENT_READ)
            elif not keeper.hear(key.fileobj):
                selector.unregister(key.fileobj)
                keeper.gone(key.fileobj)
        if not keeper.clients and not (heard and keeper.kept):
            return


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
