"""`save` over files: their owner and mode, links, what a kill leaves behind, and the way to the disk."""

from __future__ import annotations

import io
import os
import signal
import stat
import subprocess
import sys

import pytest

import flambeau


@pytest.fixture(params=["unnamed", "named"])
def files(request, monkeypatch):
    """With files that have no name before they are complete, and without, as on NFS."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE")
    return request.param


@pytest.fixture
def path(tmp_path):
    flambeau.save([1], tmp_path / "a.fl")
    return tmp_path / "a.fl"


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize("wanted", [0o600, 0o640, 0o444, 0o666])
def test_the_mode_is_kept(files, path, wanted):
    path.chmod(wanted)
    flambeau.save([2], path)
    assert mode(path) == wanted and flambeau.load(path) == [2]
    assert os.listdir(path.parent) == ["a.fl"]


def test_a_new_file_has_the_mode_of_new_files(files, tmp_path):
    before = os.umask(0o027)
    try:
        flambeau.save([1], tmp_path / "a.fl")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a.fl") == 0o640


def test_rights_of_special_kinds_are_not_kept(files, path):
    path.chmod(0o6755)
    flambeau.save([2], path)
    assert mode(path) == 0o755


def test_owner_and_group_are_kept(files, path, monkeypatch):
    """Only root can give files away: where we are not root, what is asked of the system is looked at."""
    asked = []
    if os.geteuid() == 0:
        os.chown(path, 4321, 4322)
    else:
        real, old = os.stat, os.stat(path)
        fake = os.stat_result((*old[:4], 4321, 4322, *old[6:]))
        monkeypatch.setattr(os, "stat", lambda at, **more: fake if at == "a.fl" else real(at, **more))
        monkeypatch.setattr(os, "fchown", lambda handle, *who: asked.append(who))
    flambeau.save([2], path)
    if asked:
        assert asked == [(-1, 4322), (4321, -1)]
    else:
        assert (path.stat().st_uid, path.stat().st_gid) == (4321, 4322)
    assert flambeau.load(path) == [2]


def test_a_group_that_cannot_be_kept_gives_no_rights_to_another(files, path, monkeypatch):
    def refuse(handle, user, group):
        raise PermissionError

    path.chmod(0o664)
    real, old = os.stat, os.stat(path)
    fake = os.stat_result((*old[:5], old.st_gid + 1, *old[6:]))
    monkeypatch.setattr(os, "stat", lambda at, **more: fake if at == "a.fl" else real(at, **more))
    monkeypatch.setattr(os, "fchown", refuse)
    flambeau.save([2], path)
    monkeypatch.undo()
    assert mode(path) == 0o604


def test_links_are_followed(files, path, tmp_path):
    (tmp_path / "other").mkdir()
    link = tmp_path / "other" / "link.fl"
    link.symlink_to(os.path.join("..", "a.fl"))
    flambeau.save([3], link)
    assert link.is_symlink() and flambeau.load(path) == [3]
    assert os.listdir(tmp_path / "other") == ["link.fl"]


def test_a_failure_at_any_call_leaves_the_old_file(files, path, monkeypatch):
    for name in ("fchmod", "fsync", "replace"):
        with monkeypatch.context() as patch:

            def fail(*args, **more):
                raise OSError("no more")

            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="no more"):
                flambeau.save([2], path, fsync=True)
        assert os.listdir(path.parent) == ["a.fl"] and flambeau.load(path) == [1]


KILLED = """
import os, signal, sys
import flambeau
from flambeau._files import replacing
setattr(*{place}, lambda *args, **more: os.kill(os.getpid(), signal.SIGKILL))
flambeau.save(flambeau.ones(100_000), sys.argv[1])
"""


@pytest.mark.parametrize("place", ['(replacing, "_take_after")', '(replacing, "_give_name")'])
def test_a_kill_leaves_the_old_file_alone(path, place):
    """With all data written, and nothing named yet."""
    program = KILLED.format(place=place)
    done = subprocess.run([sys.executable, "-c", program, str(path)], timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert os.listdir(path.parent) == ["a.fl"] and flambeau.load(path) == [1]


SAVES = """
import sys
import flambeau
x = flambeau.arange(300_000)
print("ready", flush=True)
while True:
    flambeau.save(x, sys.argv[1])
"""


def test_a_kill_at_any_time_leaves_a_whole_file(path):
    for _ in range(4):
        saver = subprocess.Popen([sys.executable, "-c", SAVES, str(path)], stdout=subprocess.PIPE, text=True)
        assert saver.stdout.readline() == "ready\n"
        while flambeau.load(path) == [1]:
            assert saver.poll() is None
        saver.kill()
        saver.communicate(timeout=60)
        assert flambeau.load(path).shape == (300_000,)


def test_fsync_reaches_the_file_and_its_folder(files, path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_ino), real(handle)))
    flambeau.save([2], path)
    assert synced == []
    flambeau.save([2], path, fsync=True)
    assert synced == [path.stat().st_ino, path.parent.stat().st_ino]
    with open(path, "wb") as file:
        flambeau.save([3], file, fsync=True)
    assert synced[2:] == [path.stat().st_ino] and flambeau.load(path) == [3]
    with pytest.raises(ValueError, match="fsync=True needs a path, or a file with a descriptor"):
        flambeau.save([2], io.BytesIO(), fsync=True)


def test_mapped_files_survive_a_save(path):
    flambeau.save(flambeau.ones(50_000), path)
    mapped = flambeau.load(path, mmap=True)
    flambeau.save([2], path)
    assert mapped.sum().item() == 50_000
