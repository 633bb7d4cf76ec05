"""Where people find the parts of `nn` and `autograd`, and that few programs' parts are imported only when asked for."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys

import pytest

import flambeau
from flambeau import nn

# Names by module as real programs write them.
PATHS = """
    nn: Container CrossMapLRN2d DataParallel LazyLinear NLLLoss2d SyncBatchNorm UninitializedParameter UninitializedBuffer
    nn.parameter: Parameter Buffer UninitializedParameter UninitializedBuffer UninitializedTensorMixin is_lazy
    nn.common_types: _size_1_t _size_2_t _size_3_t _size_any_t _size_2_opt_t _ratio_2_t _ratio_any_t _maybe_indices_t
    nn.grad: conv1d_input conv1d_weight conv2d_input conv2d_weight conv3d_input conv3d_weight
    nn.init: kaiming_normal xavier_uniform _calculate_fan_in_and_fan_out
    nn.modules: Module Linear LazyConv2d SyncBatchNorm LinearCrossEntropyLoss LinearCrossEntropyOptions
    nn.modules.activation: ReLU MultiheadAttention NonDynamicallyQuantizableLinear
    nn.modules.batchnorm: BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm2d SyncBatchNorm _BatchNorm _NormBase _LazyNormBase
    nn.modules.channelshuffle: ChannelShuffle
    nn.modules.container: Container Sequential ModuleList ModuleDict ParameterList ParameterDict
    nn.modules.conv: Conv2d ConvTranspose3d LazyConv1d LazyConvTranspose2d _ConvNd _ConvTransposeNd _LazyConvXdMixin _pair _single
        _triple _reverse_repeat_tuple
    nn.modules.dropout: Dropout _DropoutNd
    nn.modules.instancenorm: InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm3d _InstanceNorm
    nn.modules.lazy: LazyModuleMixin
    nn.modules.linear: Identity Linear Bilinear LazyLinear NonDynamicallyQuantizableLinear
    nn.modules.linear_cross_entropy_options: LinearCrossEntropyOptions
    nn.modules.loss: _Loss _WeightedLoss CrossEntropyLoss NLLLoss2d LinearCrossEntropyLoss LinearCrossEntropyOptions
    nn.modules.module: Module register_module_forward_hook register_module_backward_hook _IncompatibleKeys
        register_module_module_registration_hook _addindent
    nn.modules.normalization: LayerNorm GroupNorm LocalResponseNorm RMSNorm CrossMapLRN2d
    nn.modules.padding: ZeroPad2d _ConstantPadNd _ReflectionPadNd _ReplicationPadNd _CircularPadNd
    nn.modules.pooling: MaxPool2d _MaxPoolNd _AvgPoolNd _AdaptiveAvgPoolNd _AdaptiveMaxPoolNd _LPPoolNd _MaxUnpoolNd
    nn.modules.utils: _ntuple _single _pair _triple _quadruple _reverse_repeat_tuple _list_with_default
        consume_prefix_in_state_dict_if_present
    nn.parallel: DataParallel data_parallel scatter gather replicate parallel_apply
    nn.parallel.data_parallel: DataParallel data_parallel
    nn.parallel.parallel_apply: parallel_apply
    nn.parallel.replicate: replicate
    nn.parallel.scatter_gather: scatter gather scatter_kwargs
    autograd: Variable Function
    autograd.variable: Variable
    autograd.function: Function FunctionCtx InplaceFunction once_differentiable
"""
NAMES = {}
for line in PATHS.replace("\n        ", " ").strip().splitlines():
    home, _, names = line.strip().partition(": ")
    NAMES[home] = names.split()


@pytest.mark.parametrize("home", NAMES)
def test_names_are_where_people_import_them_from(home):
    module = importlib.import_module(f"flambeau.{home}")
    for name in NAMES[home]:
        found = getattr(module, name)
        assert name in dir(module)
        if isinstance(found, type) and found.__module__.startswith("flambeau"):
            assert pickle.loads(pickle.dumps(found)) is found


@pytest.mark.parametrize(
    "module", [flambeau.nn, flambeau.nn.modules, flambeau.autograd], ids=lambda m: m.__name__
)
def test_all_that_is_promised_is_there(module):
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, name) and name in dir(module) for name in module.__all__)
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'Nothing'"):
        module.Nothing  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        exec(f"from {module.__name__} import Nothing")


def in_a_new_process(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


LATE = """nn.grad nn.parallel nn.common_types nn.modules.lazy nn.modules.batchnorm nn.modules.instancenorm nn.modules.utils
    nn.modules.linear_cross_entropy nn.modules.linear_cross_entropy_options nn.modules.channelshuffle autograd.variable""".split()


def test_few_programs_parts_are_imported_when_asked_for():
    found = in_a_new_process(
        "import sys, flambeau\n"
        f"late = {LATE}\n"
        "print(*[n for n in late if 'flambeau.' + n in sys.modules])\n"
        "assert type(flambeau.nn.LazyLinear).__name__ == 'type'\n"  # by attribute alone
        "flambeau.nn.modules.batchnorm._BatchNorm, flambeau.nn.grad.conv1d_input, flambeau.autograd.variable.Variable\n"
        "print('|', *[n for n in late if 'flambeau.' + n in sys.modules])\n"
    )
    assert found == ["|", "nn.grad", "nn.modules.lazy", "nn.modules.batchnorm", "autograd.variable"]


def test_everything_of_a_star():
    names = set()
    for home in ("flambeau.nn", "flambeau.nn.modules", "flambeau.autograd"):
        space = {}
        exec(f"from {home} import *", space)
        names |= set(space)
    assert {"LazyConv3d", "DataParallel", "SyncBatchNorm", "Variable", "Linear"} <= names


def test_prefixes_are_taken_off():
    from flambeau.nn.modules.utils import consume_prefix_in_state_dict_if_present

    wrapped = nn.DataParallel(nn.Sequential(nn.Linear(2, 2)))
    state = wrapped.state_dict()
    consume_prefix_in_state_dict_if_present(state, "module.")
    plain = wrapped.module.state_dict()
    assert list(state) == list(plain) == ["0.weight", "0.bias"]
    assert set(state._metadata) == set(plain._metadata) == {"", "0"}
    wrapped.module.load_state_dict(state)
    consume_prefix_in_state_dict_if_present(state, "module.")  # there is none: nothing happens
    assert list(state) == list(plain)


def test_small_helpers():
    from flambeau.nn.modules.utils import _list_with_default, _pair, _reverse_repeat_tuple, _triple

    assert _pair(3) == (3, 3) and _pair([1, 2]) == (1, 2) and _triple("a b c".split()) == ("a", "b", "c")
    assert _pair.__name__ == "_pair" and _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    assert _list_with_default((None, 5), (1, 2, 3)) == [2, 5] and _list_with_default(4, (1,)) == 4
    with pytest.raises(ValueError, match="Input dimension should be at least 3"):
        _list_with_default((None, 5), (1, 2))
