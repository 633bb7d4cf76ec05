"""Names that are only mentioned: what they are for `isinstance`, annotations and imports, and what is said where they are used."""

from __future__ import annotations

import enum
import importlib
import importlib.util
import os
import pathlib
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import flambeau as torch
from flambeau._compat import absent as _absent
from flambeau._compat.absent_names import NAMES
from flambeau._compat.absent_reasons import ABSENT

PACKAGE = pathlib.Path(torch.__file__).resolve().parent


@pytest.mark.parametrize("module", sorted(NAMES))
def test_every_word_of_the_table_is_what_it_says(module):
    home = importlib.import_module(f"flambeau.{module}".rstrip("."))
    for word in NAMES[module].split():
        name, base, members, elsewhere = _absent._WORD.fullmatch(word).groups()
        value = getattr(home, name)
        assert getattr(home, name) is value
        if elsewhere is not None:
            assert value is _absent._reach(elsewhere)
        elif members is not None:
            assert issubclass(value, enum.Enum) and len(value) == members.count(",") + 1
            assert pickle.loads(pickle.dumps(next(iter(value)))) is next(iter(value))
        elif base is None:
            with pytest.raises(NotImplementedError, match=f"{name} is not here: "):
                value()
        elif issubclass(value, BaseException):
            assert base
            with pytest.raises(value, match="why"):
                raise value("why")
        else:
            assert not isinstance(torch.ones(1), value) and "None" not in value.__doc__.splitlines()[0]
            derived = type("Mine", (value,), {})
            for made in (value, derived):
                with pytest.raises((NotImplementedError, TypeError)) as caught:
                    made()
                assert f"{name} is not here: " in str(caught.value)


def test_no_module_takes_the_place_of_a_function():
    """`ao.quantization.quantize` is a function, and a module that imports are made from."""
    program = """
        import importlib, sys, flambeau
        from flambeau._compat import absent
        met = []
        for name in sorted(absent._modules()):
            package, _, last = f"flambeau.{name}".rpartition(".")
            before = vars(importlib.import_module(package)).get(last)
            module = importlib.import_module(f"flambeau.{name}")
            met += [name] * (before is not None)
            assert getattr(sys.modules[package], last) is (before or module), name
        print("ao.quantization.quantize" in met)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "True\n", done.stderr


def test_absent_names_have_reasons():
    assert all(reason and words.split() for groups in ABSENT.values() for reason, words in groups.items())
    names = [
        (module, word)
        for module, words in NAMES.items()
        for word in words.split()
        if "=" not in word.partition("[")[0]
    ]
    assert len(names) > 100
    assert not [n for n in names if not _absent.why(f"{n[0]}.{_absent._WORD.match(n[1])[1]}")]


@pytest.mark.parametrize(
    "statement, error, said",
    [
        (
            "import flambeau.contrib",
            ModuleNotFoundError,
            "No module named 'flambeau.contrib': PyTorch's experiments",
        ),
        ("from flambeau import contrib", ImportError, "flambeau.contrib is not here: PyTorch's experiments"),
        (
            "from flambeau import cudnn_convolution",
            ImportError,
            "flambeau.cudnn_convolution is not here: kernels of one vendor's",
        ),
        (
            "from flambeau.jit import onednn_fusion_enabled",
            ImportError,
            "flambeau.jit.onednn_fusion_enabled is not here: programs are compiled from functions and modules",
        ),
        (
            "from flambeau.utils import hipify",
            ImportError,
            "flambeau.utils.hipify is not here: it rewrites CUDA",
        ),
        (
            "import flambeau.fx.passes.tools_common",
            ModuleNotFoundError,
            "flambeau.fx.passes.tools_common'.*compilers of PyTorch's own",
        ),
        (
            "import flambeau; flambeau.fx.experimental.nowhere",
            AttributeError,
            "flambeau.fx.experimental.nowhere is not here: ",
        ),
        (
            "import flambeau; flambeau.compiler.substitute_in_graph",
            AttributeError,
            "compiler.substitute_in_graph is not here: functions are captured whole",
        ),
        ("import flambeau; flambeau.compiler.nowhere", AttributeError, "has no attribute 'nowhere'$"),
        ("from flambeau import nowhere", ImportError, "cannot import name 'nowhere'"),
        ("import flambeau.nowhere", ModuleNotFoundError, "No module named 'flambeau.nowhere'$"),
    ],
)
def test_absent_modules_and_names_say_why(statement, error, said):
    with pytest.raises(error, match=said):
        exec(statement, {})


def test_who_only_asks_gets_an_answer():
    assert importlib.util.find_spec("flambeau.contrib") is None
    assert not hasattr(torch, "cudnn_convolution") and not hasattr(torch.jit, "set_fusion_strategy")
    assert getattr(torch.jit, "set_fusion_strategy", None) is None


def test_the_flat_namespaces_have_no_hook():
    """Python looks names up more slowly in modules that have one."""
    assert "__getattr__" not in vars(torch) and "__getattr__" not in vars(torch.nn.functional)


def test_under_the_drop_in_all_says_torch():
    program = (
        "import torch, torch.distributed._shard.sharded_tensor as f\n"
        "print(f.__name__, f.ShardedTensor)\n"
        "import sys; assert sys.modules[f.__name__] is sys.modules['flambeau' + f.__name__.removeprefix('torch')]\n"
        "f.made = f.ShardedTensor\n"
        "for line in ('f.made()', 'import torch.contrib', 'from torch import contrib', 'from torch.jit import onednn_fusion_enabled'):\n"
        "    try: exec(line)\n"
        "    except Exception as error: print(error)\n"
        "import functorch; print(functorch.vmap is torch.vmap, torch.TensorType, torch.qint8)\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(PACKAGE / "_compat" / "_shim"), str(PACKAGE.parent)]),
    }
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "flambeau" not in done.stdout
    first, made, imported, taken, frozen, last = done.stdout.splitlines()
    place = "torch.distributed._shard.sharded_tensor"
    assert first.startswith(f"{place} <class '{place}")
    assert made.startswith(f"{place}.ShardedTensor is not here: ")
    assert imported.startswith("No module named 'torch.contrib': ") and "torch.contrib is not here" in taken
    assert (
        "torch.jit.onednn_fusion_enabled is not here" in frozen
        and last == "True <class 'torch.TensorType'> torch.qint8"
    )


WITHOUT = [
    name
    for name, d in vars(torch).items()
    if isinstance(d, torch.dtype) and name in torch.core.base.dtypes.without_tensors
]


@pytest.mark.parametrize("name", WITHOUT)
def test_dtypes_that_no_tensor_has(name):
    d = getattr(torch, name)
    assert repr(d) == f"flambeau.{name}" and pickle.loads(pickle.dumps(d)) is d and {d: 1}[d] == 1
    assert d != torch.uint8 and not d.is_floating_point and not d.is_complex and d.itemsize in (1, 2, 4)
    x = torch.ones(2, 2)
    for call in (
        lambda: torch.zeros(2, dtype=d),
        lambda: torch.tensor([1], dtype=d),
        lambda: x.to(d),
        lambda: x.to("cpu", d),
        lambda: x.type(d),
        lambda: x.view(d),
        lambda: x.sum(dtype=d),
        lambda: x.cumsum(0, dtype=d),
        lambda: x.softmax(0, dtype=d),
        lambda: torch.zeros_like(x, dtype=d),
        lambda: x.new_zeros(2, dtype=d),
        lambda: torch.arange(3, dtype=d),
        lambda: torch.empty(2, dtype=d, device="meta"),
        lambda: torch.frombuffer(bytearray(8), dtype=d),
        lambda: torch.as_tensor(np.ones(2), dtype=d),
        lambda: torch.promote_types(d, torch.float32),
        lambda: torch.set_autocast_dtype("cpu", d),
        lambda: torch.nn.Linear(2, 2, dtype=d),
        lambda: torch.sparse_coo_tensor([[0]], [1.0], (2,), dtype=d),
        lambda: torch.vander(x[0]).mean(dtype=d),
    ):
        with pytest.raises((NotImplementedError, RuntimeError, TypeError)):
            call()
    with pytest.raises(NotImplementedError, match=rf"to\(\): tensors of flambeau.{name} are not here: "):
        x.to(d)
    with pytest.raises(TypeError):
        torch.set_default_dtype(d)
    assert torch.promote_types(d, d) is d
    assert len(WITHOUT) == 24


def test_values_that_are_only_compared():
    assert (
        torch.per_tensor_affine is torch.qscheme.per_tensor_affine
        and repr(torch.per_tensor_affine) == "flambeau.per_tensor_affine"
    )
    assert pickle.loads(pickle.dumps(torch.per_channel_symmetric)) is torch.per_channel_symmetric
    op = torch.distributed.ReduceOp
    assert (
        op(op.SUM) == op.SUM
        and op(op.SUM) != op.MAX
        and str(op.AVG) == "RedOpType.AVG"
        and op.RedOpType.SUM is op.SUM
    )
    with pytest.raises(TypeError, match="op must be a reduction"):
        op(0)
    assert torch.serialization.MAP_LOCATION.__args__
