"""Programs for several processes as users write them, under the drop-in: on several processes they print what they print on one.

`tools/distributed_programs.py` compares the same programs with PyTorch.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from worlds import world

import flambeau

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?!\w)")


def run(rank, size, names, port, folder):
    """What each program prints in this process."""
    flambeau.as_torch()
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(size),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    results = {}
    for name, *arguments in names:
        sys.argv = [name, *arguments, *(["--folder", folder] if name == "snapshot_trainer" else [])]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")
        results[name] = printed.getvalue()
    return results


def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as result:
        return result.getsockname()[1]


def alike(here, there, name):
    """The same lines, with numbers that agree in their printed digits but for one in the last."""
    ours, theirs = here.splitlines(), there.splitlines()
    assert [NUMBER.sub("#", line) for line in ours] == [NUMBER.sub("#", line) for line in theirs], name
    for mine, one in zip(ours, theirs):
        for a, b in zip(NUMBER.findall(mine), NUMBER.findall(one)):
            digits = len(b.partition(".")[2])
            assert float(a) == pytest.approx(float(b), rel=2e-4, abs=2.0 * 10.0**-digits if digits else 0), (
                name,
                mine,
                one,
            )


SHARDED = [["fully_shard"], ["checkpoints"], ["tensor_parallel"], ["pipeline"]]
SAME = [
    ["snapshot_trainer"],
    ["char_gpt_ddp"],
    ["zero_optimizer"],
    ["fsdp_images"],
    ["fsdp_transformer"],
    *SHARDED,
]


def test_several_processes_print_what_one_prints(tmp_path):
    results = {}
    for size, names in ((1, SAME), (2, SAME), (4, SHARDED)):
        folder = tmp_path / str(size)
        folder.mkdir()
        # a pipeline of one stage and tensors cut into one piece are the whole model
        results[size] = world(size, run, names, free_port(), str(folder), form=False, seconds=100)
    for size, names in ((2, SAME), (4, SHARDED)):
        for (name,) in names:
            one = results[1][0][name]
            ours = results[size][0][name]
            if name == "snapshot_trainer":  # each process has a share of the batch: as many batches
                assert ours.count("loss") == 4
            assert len(NUMBER.findall(one)) > 3 and not any(
                results[size][rank][name] for rank in range(1, size)
            )
            alike(ours, one, name)


def test_messages_and_collectives(tmp_path):
    """Their results are known: sums of ranks, maxima, the order of a ring."""
    [said, *others] = world(4, run, [["primitives"], ["uneven_inputs"]], free_port(), "", form=False)
    lines = said["primitives"].splitlines()
    assert not any(other["primitives"] for other in others)
    assert lines[:4] == [f"rank {rank}: passed on {value}" for rank, value in enumerate((8.0, 2.0, 4.0, 8.0))]
    assert lines[4] == "rank 0: received [3.0, 3.0, 3.0] [10.0, 10.0, 10.0]"
    assert "[6.0, 10.0, 14.0, 18.0] 3.0" in lines[8] and "reduced [10.0, 10.0]" in lines
    assert sum("ring agrees True" in line for line in lines) == 4
    weights = next(line for line in said["uneven_inputs"].splitlines() if line.startswith("weights")).split()[
        1:
    ]
    assert len(set(weights)) == 1 and len(weights) == 4 and 0 < float(weights[0]) < 0.5


def launched(*command, folder):
    """A program of this interpreter in which `import torch` means flambeau: output of a run that has to end well."""
    shim = folder / "shim" / "torch"
    shim.mkdir(parents=True, exist_ok=True)
    (shim / "__init__.py").write_text("import flambeau\n\nflambeau.as_torch()\n")
    path = os.pathsep.join([str(shim.parent), str(Path(flambeau.__file__).parent.parent)])
    environment = os.environ | {"PYTHONPATH": path, "MASTER_PORT": str(free_port())}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=100, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_processes_of_the_program_and_of_the_launcher(tmp_path):
    one, two = (launched(str(PROGRAMS / "ddp_spawn.py"), str(n), folder=tmp_path) for n in (1, 2))
    assert one.count("loss") == 8
    alike(two, one, "ddp_spawn")
    stores = launched(str(PROGRAMS / "stores.py"), "3", folder=tmp_path)
    assert stores == "['process 0', 'process 1', 'process 2'] 6 [0, 1, 4] value 6.0\ndeleted True False\n"
    restarted = launched(
        *["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"],
        *[str(PROGRAMS / "snapshot_trainer.py"), "--folder", str(tmp_path), "--die-at", "2"],
        folder=tmp_path,
    )
    lines = restarted.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith("epoch")] == [
        ["epoch", str(k)] for k in range(4)
    ]
    assert "resuming at epoch 2" in lines


def test_the_tool_finds_differences():
    path = HERE.parent.parent / "tools" / "distributed_programs.py"
    spec = importlib.util.spec_from_file_location("distributed_programs", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.difference("step 1 loss 0.5001\n", "step 1 loss 0.5001\n") == (0.0, 2)
    assert tool.difference("loss 0.5001", "loss 0.5002")[0] == pytest.approx(2e-4, rel=1e-3)
    for ours, theirs, said in (
        ("loss 0.5001", "loss 0.5013", "printed"),
        ("epoch 1", "epoch 2", "printed"),
        ("files ['a']", "files ['b']", "printed"),
        ("a\nb", "a", "printed 2 lines, PyTorch 1"),
    ):
        assert said in tool.difference(ours, theirs)
    assert tool.PAGE.read_text() == tool.page()
    for file in tool.programs().values():
        about, commands = tool.described(file)
        assert about and all(f" {file.name}" in command for command in commands), file
