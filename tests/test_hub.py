"""`hub`: folders with a hubconf.py, and files behind file URLs."""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from urllib.error import URLError

import pytest

import flambeau
from flambeau import hub, nn

CONF = '''
dependencies = ["json"]
from helper_of_hub import SIZE

def layer(out, bias=True):
    """A layer of 3 inputs."""
    import flambeau
    return flambeau.nn.Linear(SIZE, out, bias=bias)

def _inner():
    return None

number = 5
'''


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "repository"
    made.mkdir()
    (made / "hubconf.py").write_text(CONF)
    (made / "helper_of_hub.py").write_text("SIZE = 3\n")
    yield made
    sys.modules.pop("helper_of_hub", None)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_hub_dir", str(tmp_path / "cache"))


def test_local_folders(folder):
    before = list(sys.path)
    assert hub.list(folder, source="local") == ["layer"]
    assert hub.help(folder, "layer", source="local") == "A layer of 3 inputs."
    made = hub.load(str(folder), "layer", 2, bias=False, source="local")
    assert type(made) is nn.Linear and made.in_features == 3 and made.bias is None
    assert sys.path == before


def test_what_is_not_there_is_named(folder, tmp_path):
    with pytest.raises(RuntimeError, match="Cannot find callable other in hubconf"):
        hub.load(folder, "other", source="local")
    with pytest.raises(RuntimeError, match="Cannot find callable number"):
        hub.load(folder, "number", source="local")
    with pytest.raises(ValueError, match="should be a string"):
        hub.load(folder, 5, source="local")
    with pytest.raises(ValueError, match='Unknown source: "ftp"'):
        hub.load(folder, "layer", source="ftp")
    with pytest.raises(FileNotFoundError, match="hubconf.py"):
        hub.list(tmp_path / "nowhere", source="local")
    with pytest.raises(NotImplementedError, match="source='github' is not supported: clone 'a/b'"):
        hub.load("a/b", "layer")
    (folder / "hubconf.py").write_text("dependencies = ['no_such_module_here']\ndef f(): return 1\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_module_here"):
        hub.load(folder, "f", source="local")


def test_where_downloads_are_kept(monkeypatch, tmp_path):
    hub.set_dir(tmp_path / "here")
    assert hub.get_dir() == str(tmp_path / "here")
    monkeypatch.setattr(hub, "_hub_dir", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    assert hub.get_dir() == str(tmp_path / "home" / "hub")
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert hub.get_dir() == str(tmp_path / "xdg" / "torch" / "hub")


def test_weights_from_a_file_url(tmp_path, capsys):
    path = tmp_path / "weights.pt"
    flambeau.save({"w": flambeau.ones(2)}, path)
    for _ in range(2):
        assert hub.load_state_dict_from_url(path.as_uri(), progress=False)["w"].tolist() == [1, 1]
        path.write_bytes(b"changed since")  # the second time it is taken from the folder
    kept = tmp_path / "cache" / "checkpoints" / "weights.pt"
    assert capsys.readouterr().out == f'Downloading: "{path.as_uri()}" to {kept}\n' and os.listdir(
        kept.parent
    ) == ["weights.pt"]
    from flambeau.utils.model_zoo import load_url

    assert load_url is hub.load_state_dict_from_url


def test_whole_modules_only_where_it_is_said(tmp_path):
    path = tmp_path / "model.pt"
    flambeau.save(nn.Linear(1, 1), path)
    with pytest.raises(pickle.UnpicklingError, match="not an allowed global"):
        hub.load_state_dict_from_url(path.as_uri(), progress=False)
    assert type(hub.load_state_dict_from_url(path.as_uri(), weights_only=False)) is nn.Linear


def test_hashes_are_compared(tmp_path, capsys):
    path = tmp_path / "w.pt"
    flambeau.save([1], path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    named = tmp_path / f"w-{digest[:8]}.pt"
    named.write_bytes(path.read_bytes())
    assert hub.load_state_dict_from_url(named.as_uri(), check_hash=True) == [1]
    wrong = tmp_path / "w-00000000.pt"
    wrong.write_bytes(path.read_bytes())
    with pytest.raises(RuntimeError, match='invalid hash value \\(expected "00000000", got "'):
        hub.load_state_dict_from_url(wrong.as_uri(), check_hash=True)
    assert os.listdir(tmp_path / "cache" / "checkpoints") == [named.name]
    hub.download_url_to_file(path.as_uri(), str(tmp_path / "out.pt"), digest[:6], progress=True)
    assert (tmp_path / "out.pt").read_bytes() == path.read_bytes()
    assert "100%" in capsys.readouterr().err
    with pytest.raises(URLError):
        hub.download_url_to_file((tmp_path / "none.pt").as_uri(), str(tmp_path / "none2.pt"))
    assert not (tmp_path / "none2.pt").exists()
    with pytest.raises(ValueError, match="names no file"):
        hub.load_state_dict_from_url("file:///")


def test_progress_without_tqdm(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    (tmp_path / "data").write_bytes(bytes(3 << 19))
    for shown in (True, False):
        hub.download_url_to_file((tmp_path / "data").as_uri(), str(tmp_path / "out"), progress=shown)
        assert capsys.readouterr().err == ("100% 1.5M/1.5M B [0 s]\n" if shown else "")
