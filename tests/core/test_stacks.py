"""The stack of a thread, which the compiler needs enough of, is asked for once."""

from __future__ import annotations

import threading

from flambeau.core.base import stacks


def test_the_system_is_asked_once_in_each_thread(monkeypatch):
    asked = []
    ask = stacks._system_size
    monkeypatch.setattr(stacks, "_system_size", lambda: asked.append(threading.get_ident()) or ask())
    monkeypatch.setattr(stacks, "_thread", threading.local())
    sizes = [stacks.deep(stacks._size) for _ in range(5)]
    others = []
    thread = threading.Thread(target=lambda: others.extend(stacks._size() for _ in range(5)))
    thread.start()
    thread.join()
    assert len(asked) == 2 and len(set(asked)) == 2
    assert len(set(sizes)) == 1 == len(set(others)) and min(sizes + others) > 0
