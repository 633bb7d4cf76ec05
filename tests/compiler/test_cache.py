"""The disk cache: damaged, unwritable and concurrent use never cost more than a compilation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from flambeau.compiler import cache

PROGRAM = """
import flambeau
from flambeau.compiler import build
x = flambeau.tensor([1.0, 2.0])
print((x * 3 + x.exp()).tolist(), build.statistics["compiled"], build.statistics["loaded"])
"""


def run(folder, **more):
    env = dict(os.environ, FLAMBEAU_CACHE_DIR=str(folder), **more)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=env, timeout=120
    )
    assert done.returncode == 0, done.stderr
    values, compiled, loaded = done.stdout.rsplit(" ", 2)
    return values, int(compiled), int(loaded)


def test_cold_then_warm(tmp_path):
    cold = run(tmp_path)
    warm = run(tmp_path)
    assert cold[1] > 0 and cold[2] == 0
    assert warm[1] == 0 and warm[2] == cold[1] and warm[0] == cold[0]


@pytest.mark.parametrize("damage", ["empty", "half", "flip", "text", "other magic"])
def test_damaged_entries_are_compiled_anew(tmp_path, damage):
    cold = run(tmp_path)
    for path in tmp_path.glob("*.k"):
        raw = bytearray(path.read_bytes())
        if damage == "flip":
            raw[len(raw) // 2] ^= 1
        elif damage == "other magic":
            raw[0] ^= 1
        path.write_bytes(
            {"empty": b"", "half": bytes(raw[: len(raw) // 2]), "text": b"not a kernel"}.get(
                damage, bytes(raw)
            )
        )
    again = run(tmp_path)
    assert again == cold
    assert run(tmp_path)[1] == 0  # and repaired


def test_an_unwritable_place_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder is wanted")
    found = run(blocked / "cache")
    assert found[1] > 0


def test_several_processes_at_once(tmp_path):
    env = dict(os.environ, FLAMBEAU_CACHE_DIR=str(tmp_path))
    started = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    values = {p.communicate(timeout=120)[0].rsplit(" ", 2)[0] for p in started}
    assert len(values) == 1 and not list(tmp_path.glob("*.tmp"))
    assert run(tmp_path)[1] == 0


FULL_DISK = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))  # no file may grow to the size of an entry
"""


def test_a_full_disk_is_no_error_and_leaves_nothing(tmp_path):
    env = dict(os.environ, FLAMBEAU_CACHE_DIR=str(tmp_path))
    program = [sys.executable, "-c", FULL_DISK + PROGRAM]
    done = subprocess.run(program, capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-2]) > 0 and not list(tmp_path.iterdir())


KILLED = """
import os, signal, tempfile
from flambeau.compiler import cache
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
cache.write("half", bytes(5000))
"""


def test_a_writer_that_is_killed_leaves_no_entry(tmp_path, monkeypatch):
    env = dict(os.environ, FLAMBEAU_CACHE_DIR=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", KILLED], env=env, timeout=120)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.suffix == ".tmp" and run(tmp_path)[1] > 0
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    os.utime(left, (0, 0))
    cache.trim()
    assert not left.exists() and cache.cache_stats()["entries"] > 0


def test_the_limit_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    monkeypatch.setenv("FLAMBEAU_CACHE_LIMIT", "3000")
    assert cache.cache_stats()["limit"] == 3000
    sizes = []
    for k in range(10 * cache.EVERY):
        cache.write(f"e{k}", bytes(1000))
        sizes.append(cache.cache_stats()["entries"] if k % 50 == 0 else 0)
    assert max(sizes) < 9 * cache.EVERY
    monkeypatch.setenv("FLAMBEAU_CACHE_LIMIT", "3 GB")
    with pytest.raises(ValueError, match="FLAMBEAU_CACHE_LIMIT: a number of bytes expected, got '3 GB'"):
        cache.limit()
    monkeypatch.delenv("FLAMBEAU_CACHE_LIMIT")
    cache.clear_cache()
    assert cache.cache_stats()["entries"] == 0 and cache.read("e3") is None


def test_what_is_read_counts_as_used(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    for k in range(3):
        cache.write(f"e{k}", bytes(1000))
        os.utime(tmp_path / f"e{k}.k", (k, k))
    assert cache.read("e0") == bytes(1000)
    cache.trim(1500)
    assert [p.name for p in tmp_path.glob("*.k")] == ["e0.k"]


def test_trim_deletes_the_oldest(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    for k in range(5):
        assert cache.write(f"e{k}", bytes(1000))
        os.utime(tmp_path / f"e{k}.k", (k, k))
    cache.trim(2500)
    assert sorted(p.name for p in tmp_path.glob("*.k")) == ["e3.k", "e4.k"]
    assert cache.read("e4") == bytes(1000) and cache.read("e0") is None
