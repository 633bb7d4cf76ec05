"""The disk cache: damaged, unwritable and concurrent use never cost more than a compilation."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys

import pytest

from flambeau.codegen import cache

PROGRAM = """
import flambeau
from flambeau.codegen import build
x = flambeau.tensor([1.0, 2.0])
print((x * 3 + x.exp()).tolist(), build.statistics["compiled"], build.statistics["loaded"])
"""


# Runs programs in processes of their own, which are forked from one that has imported the library: that is most of what they cost.
SERVER = """
import json, os, signal, sys, traceback
from flambeau.codegen import build, target
target.llvm()
for line in sys.stdin:
    program, environment, folder = json.loads(line)
    pipes = [os.pipe(), os.pipe()]
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        for number, (_, end) in enumerate(pipes, 1):
            os.dup2(end, number)
        os.environ.update(environment)
        os.chdir(folder)
        try:
            exec(program, {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    written = []
    for start, end in pipes:
        os.close(end)
        with open(start) as text:  # less than a pipe holds
            written.append(text.read())
    print(json.dumps([code, *written]), flush=True)
"""


@pytest.fixture(scope="module")
def server():
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()


def forked(server, folder, program):
    """A program that the server has run, with its kernels in `folder`."""
    job = [program, {"FLAMBEAU_CACHE_DIR": str(folder)}, os.getcwd()]
    server.stdin.write(json.dumps(job) + "\n")
    server.stdin.flush()
    return subprocess.CompletedProcess(program, *json.loads(server.stdout.readline()))


def fresh(folder, program):
    """A program that a new interpreter has run, with its kernels in `folder`."""
    env = dict(os.environ, FLAMBEAU_CACHE_DIR=str(folder))
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=120
    )


def outcome(done, warned=None):
    """The values, the kernels compiled, those loaded; `warned` is what the only warning says."""
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("RuntimeWarning") == (warned is not None), done.stderr
    assert warned is None or warned in done.stderr
    values, compiled, loaded = done.stdout.rsplit(" ", 2)
    return values, int(compiled), int(loaded)


@pytest.fixture
def run(server):
    """Runs the program after what it is given to do `before`."""
    return lambda folder, before="", warned=None: outcome(forked(server, folder, before + PROGRAM), warned)


def test_cold_then_warm(tmp_path, run):
    cold = outcome(fresh(tmp_path, PROGRAM))
    warm = outcome(fresh(tmp_path, PROGRAM))
    assert cold[1] > 0 and cold[2] == 0
    assert warm[1] == 0 and warm[2] == cold[1] and warm[0] == cold[0]
    assert run(tmp_path) == warm


@pytest.mark.parametrize("damage", ["empty", "half", "flip", "text", "other magic"])
def test_damaged_entries_are_compiled_anew(tmp_path, damage, run):
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


def test_an_unwritable_place_is_no_error(tmp_path, run):
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder is wanted")
    found = run(blocked / "cache", warned="File exists")
    assert found[1] > 0


def test_several_processes_at_once(tmp_path, run):
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
    done = fresh(tmp_path, FULL_DISK + PROGRAM)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-2]) > 0 and not list(tmp_path.iterdir())


KILLED = """
import os, signal, tempfile
from flambeau.codegen import cache
os.replace = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
cache.write("half", bytes(5000))
"""


def test_a_writer_that_is_killed_leaves_no_entry(tmp_path, monkeypatch, run):
    done = fresh(tmp_path, KILLED)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.suffix == ".tmp" and run(tmp_path)[1] > 0
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    os.utime(left, (0, 0))
    cache.trim()
    assert not left.exists() and cache.cache_stats()["entries"] > 0


def test_the_folder_stays_near_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    monkeypatch.setattr(cache, "LIMIT_BYTES", 3000)
    assert cache.cache_stats()["limit"] == 3000
    sizes = []
    for k in range(10 * cache.EVERY):
        cache.write(f"e{k}", bytes(1000))
        sizes.append(cache.cache_stats()["entries"] if k % 50 == 0 else 0)
    assert max(sizes) < 9 * cache.EVERY
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


# --- trust ------------------------------
def kernels(folder):
    return sorted(folder.glob("*.k"))


def test_the_folder_is_made_for_its_owner_alone(tmp_path, run):
    run(tmp_path / "deep" / "cache")
    assert stat.S_IMODE((tmp_path / "deep" / "cache").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in kernels(tmp_path / "deep" / "cache")} == {0o600}


@pytest.mark.parametrize("mode", [0o1777, 0o770])
def test_no_code_comes_from_a_folder_that_others_can_write(tmp_path, mode, run):
    cold = run(tmp_path)
    tmp_path.chmod(mode)
    before = kernels(tmp_path)
    found = run(tmp_path, warned=f"others may write there (its mode is {mode:04o})")
    assert found == cold and kernels(tmp_path) == before


def test_no_code_comes_from_a_file_that_others_can_write(tmp_path, run):
    cold = run(tmp_path)
    for k, path in enumerate(kernels(tmp_path)):
        path.chmod(0o620 if k % 2 else 0o602)
    assert run(tmp_path) == cold
    assert run(tmp_path)[1] == 0  # and replaced


def test_what_belongs_to_others_is_not_believed(tmp_path):
    (tmp_path / "entry").touch(mode=0o600)
    status = (tmp_path / "entry").stat()

    def doubt(owner, mode, user):
        return cache.reason_to_distrust(os.stat_result((mode, 1, 1, 1, owner, 0, *status[6:])), user)

    assert doubt(1000, 0o100600, 1000) is None and doubt(0, 0o100644, 1000) is None
    assert "the user with number 1001, not to 1000 or root" in doubt(1001, 0o100600, 1000)
    assert "1000, not to 0" in doubt(1000, 0o100600, 0)
    assert "mode is 0660" in doubt(1000, 0o100660, 1000) and "mode is 0602" in doubt(0, 0o100602, 1000)


def test_a_folder_of_another_user_is_not_believed(tmp_path, run):
    run(tmp_path)
    pretend = "import os; os.geteuid = lambda: 4321\n"
    owner = tmp_path.stat().st_uid
    if owner:
        assert run(tmp_path, pretend, f"it belongs to the user with number {owner}")[1] > 0
    else:  # root's is everyone's
        os.chown(tmp_path, 4322, -1)
        assert run(tmp_path, pretend, "it belongs to the user with number 4322")[1] > 0


@pytest.mark.parametrize(
    "kind", ["fifo", "folder", "link", "dangling link", "huge", "of another kernel", "padded"]
)
def test_what_is_no_entry_costs_a_compilation(tmp_path, kind, run):
    cold = run(tmp_path / "cache")
    shutil.copytree(tmp_path / "cache", tmp_path / "good")
    entries = kernels(tmp_path / "cache")
    for k, path in enumerate(entries):
        path.unlink()
        good = tmp_path / "good" / path.name
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "link":
            path.symlink_to(good)
        elif kind == "dangling link":
            path.symlink_to(tmp_path / "nowhere")
        elif kind == "of another kernel":
            shutil.copy(tmp_path / "good" / entries[k - 1].name, path)
        else:
            shutil.copy(good, path)
            os.truncate(path, 1 << 40 if kind == "huge" else good.stat().st_size + 1)
    if kind == "folder":  # which nothing can take the place of
        assert run(tmp_path / "cache", warned="Is a directory") == cold
    else:
        assert run(tmp_path / "cache") == cold
        assert run(tmp_path / "cache")[1] == 0  # and repaired


def test_a_full_disk_is_warned_of_once(tmp_path, run):
    assert run(tmp_path, FULL_DISK, "File too large")[1] > 1


def test_no_home_is_warned_of_once(tmp_path, run):
    homeless = """
import os, pathlib
os.environ.pop("FLAMBEAU_CACHE_DIR"); os.environ.pop("XDG_CACHE_HOME", None)
def home():
    raise RuntimeError("Could not determine home directory.")
pathlib.Path.home = home
"""
    assert run(tmp_path, homeless, "Could not determine home directory")[1] > 1


def test_a_relative_folder_stays_where_it_was(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    moves = "import os, flambeau; flambeau.ones(2).log1p(); os.chdir('/')\n"
    assert run("kept", moves)[1] > 1
    assert len(kernels(tmp_path / "kept")) > 1
