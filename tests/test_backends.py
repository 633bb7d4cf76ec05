"""`flambeau.backends` answers truly, keeps what programs set, and refuses what cannot be; streams and events of the host."""

from __future__ import annotations

import sys
import types
import warnings

import pytest

import flambeau
from flambeau import backends
from flambeau.operations.linalg import paths

PRECISE = (
    "",
    "cuda.matmul",
    "cudnn",
    "cudnn.conv",
    "cudnn.rnn",
    "mkldnn",
    "mkldnn.conv",
    "mkldnn.matmul",
    "mkldnn.rnn",
)
ATTENTION = ("flash", "math", "mem_efficient", "cudnn")


def place(path):
    found = backends
    for part in path.split(".") if path else ():
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("path", PRECISE)
def test_precision(path):
    holder = place(path)
    assert holder.fp32_precision == "none"
    try:
        for word in ("ieee", "tf32", "bf16", "none"):
            holder.fp32_precision = word
            assert holder.fp32_precision == word
            others = [place(p).fp32_precision for p in PRECISE if p != path]
            assert set(others) == {"none"}
        for wrong in ("fp8", None, 3, ""):
            with pytest.raises(RuntimeError, match="Unknown precision"):
                holder.fp32_precision = wrong
    finally:
        holder.fp32_precision = "none"


def test_switches_are_frozen(monkeypatch):
    """After `disable_global_flags` assignments raise, but within the context that libraries take from PyTorch's module."""
    monkeypatch.setattr(backends.cudnn, "deterministic", False)
    monkeypatch.setattr(backends._switched, "_frozen", False)
    assert not backends.flags_frozen()
    backends.disable_global_flags()
    assert backends.flags_frozen()
    for path, switch in (
        ("cudnn", "deterministic"),
        ("cudnn", "fp32_precision"),
        ("mkldnn", "fp32_precision"),
    ):
        before = getattr(place(path), switch)
        with pytest.raises(RuntimeError, match=f"{path}.{switch} after disable_global_flags"):
            setattr(place(path), switch, True)
        assert getattr(place(path), switch) is before
    with backends.cudnn.flags(deterministic=True):
        assert backends.cudnn.deterministic
    with getattr(backends, "__allow_nonbracketed_mutation")():
        backends.cudnn.deterministic = True
    assert backends.cudnn.deterministic and backends.flags_frozen()
    monkeypatch.undo()
    assert not backends.cudnn.deterministic and not backends.flags_frozen()


@pytest.mark.parametrize("name", ["cusparselt", "kleidiai", "nnpack", "mkldnn", "mps", "openmp", "cudnn"])
def test_what_is_not_here(name):
    assert getattr(backends, name).is_available() is False


@pytest.fixture
def installed(monkeypatch):
    """opt_einsum as a stand-in that notes what it is asked, and contracts from the right."""
    asked = []

    def contract_path(equation, *shapes, optimize="auto", **options):
        assert options == {"shapes": True}
        asked.append((equation, tuple(map(tuple, shapes)), optimize))
        return [(n - 2, n - 1) for n in range(len(shapes), 1, -1)], None

    monkeypatch.setitem(sys.modules, "opt_einsum", types.SimpleNamespace(contract_path=contract_path))
    monkeypatch.setattr(
        backends.opt_einsum, "is_available", lambda: True
    )  # loads the module, which takes it from `paths`
    monkeypatch.setattr(paths, "is_available", lambda: True)
    paths._contract_path.cache_clear()
    yield asked
    paths._contract_path.cache_clear()
    paths.Switches.enabled = paths.Switches.strategy = None


def test_einsum_contracts_in_the_order_of_the_package(installed):
    a, b, c, d = (flambeau.randn(*s) for s in ((2, 3), (3, 4), (4, 5), (5, 2)))
    wanted = (a @ b @ c @ d).diagonal()
    equation = "ij,jk,kl,li->i"
    assert flambeau.allclose(flambeau.einsum(equation, a, b, c, d), wanted, atol=1e-5)
    assert installed == [(equation, ((2, 3), (3, 4), (4, 5), (5, 2)), "auto")]
    with backends.opt_einsum.flags(strategy="greedy"):
        flambeau.einsum(equation, a, b, c, d)
    assert installed[-1][2] == "greedy" and backends.opt_einsum.strategy == "auto"
    with backends.opt_einsum.flags(enabled=False):
        assert flambeau.allclose(flambeau.einsum(equation, a, b, c, d), wanted, atol=1e-5)
    flambeau.einsum("ij,jk->ik", a, b)
    assert len(installed) == 2 and backends.opt_einsum.enabled


def test_einsum_without_the_package(monkeypatch):
    monkeypatch.setattr(backends.opt_einsum, "is_available", lambda: False)
    monkeypatch.setattr(paths, "is_available", lambda: False)
    assert backends.opt_einsum.get_opt_einsum() is None
    assert backends.opt_einsum.enabled is False and backends.opt_einsum.strategy is None
    x = flambeau.ones(2, 2)
    assert flambeau.einsum("ij,jk,kl->il", x, x, x).tolist() == [[4.0, 4.0], [4.0, 4.0]]
    backends.opt_einsum.enabled, backends.opt_einsum.strategy = False, None
    for setting, value in (("enabled", True), ("strategy", "greedy")):
        with pytest.raises(ValueError, match="opt_einsum is not available"):
            setattr(backends.opt_einsum, setting, value)
    monkeypatch.undo()
    paths.Switches.enabled = None


def test_quantised_engines():
    before = backends.quantized.engine
    assert before in backends.quantized.supported_engines
    backends.quantized.engine = "qnnpack"
    assert backends.quantized.engine == "qnnpack"
    backends.quantized.engine = before
    with pytest.raises(RuntimeError, match="mlas is not a valid value"):
        backends.quantized.engine = "mlas"


@pytest.mark.parametrize(
    "module", [backends.mkldnn, backends.nnpack, backends.miopen], ids=lambda m: m.__name__
)
def test_flags_come_back_after_an_error(module):
    before = module.set_flags(*([True] if module is not backends.mkldnn else []))
    module.set_flags(*before)
    with pytest.raises(KeyError), module.flags():
        raise KeyError
    assert module.set_flags(*before) == before


@pytest.mark.parametrize("name", ATTENTION)
def test_switches_of_attention(name):
    from flambeau.nn.attention import SDPBackend, _cur_sdpa_kernel_backends, sdpa_kernel

    asked, switch = (
        getattr(backends.cuda, f"{name}_sdp_enabled"),
        getattr(backends.cuda, f"enable_{name}_sdp"),
    )
    assert asked()
    switch(False)
    try:
        assert not asked() and len(_cur_sdpa_kernel_backends()) == 4
        assert all(getattr(backends.cuda, f"{other}_sdp_enabled")() for other in ATTENTION if other != name)
    finally:
        switch(True)
    assert asked()
    with sdpa_kernel(SDPBackend.OVERRIDEABLE):
        assert not asked()
    with warnings.catch_warnings(), pytest.raises(KeyError):
        warnings.simplefilter("ignore")
        with backends.cuda.sdp_kernel(**{f"enable_{name}": False}):
            assert not asked()
            raise KeyError
    assert asked()
    with pytest.warns(FutureWarning, match="sdpa_kernel"), backends.cuda.sdp_kernel():
        pass


def test_whether_attention_in_blocks_serves_a_call_is_what_the_call_does():
    from flambeau.nn.attention import SDPBackend, sdpa_kernel

    attend = flambeau.nn.functional.scaled_dot_product_attention
    q, flat, wide = flambeau.ones(1, 1, 2, 4), flambeau.ones(2, 4), flambeau.ones(1, 3, 2, 4)
    calls = [(q, q, q, None, 0.0, True, False), (q, q, q, None, 0.5, False, False), (flat, flat, flat, None, 0.0, False, False),
             (wide, q, q, None, 0.0, False, False), (wide, q, q, None, 0.0, False, True),
             (q, q, q, flambeau.ones(2, 2), 0.0, False, False), (q, q, q, flambeau.ones(3, 2), 0.0, False, False)]  # fmt: skip
    answers = []
    for call in calls:
        params = backends.cuda.SDPAParams(*call)
        able = backends.cuda.can_use_flash_attention(params)
        answers.append(able)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            if able:
                attend(*call[:6], enable_gqa=call[6])
            else:
                with pytest.raises(RuntimeError):
                    attend(*call[:6], enable_gqa=call[6])
        if not able:
            with pytest.warns(UserWarning, match="FLASH_ATTENTION cannot be used"):
                backends.cuda.can_use_flash_attention(params, debug=True)
        assert not backends.cuda.can_use_efficient_attention(params)
        assert not backends.cuda.can_use_cudnn_attention(params)
        with sdpa_kernel(SDPBackend.MATH):
            assert not backends.cuda.can_use_flash_attention(params)
    assert answers == [True, True, False, False, True, True, False]
    with pytest.warns(UserWarning, match="CUDNN_ATTENTION"):
        backends.cuda.can_use_cudnn_attention(params, debug=True)


def test_permissions_of_products():
    matmul = backends.cuda.matmul
    with pytest.raises(AttributeError, match="Unknown attribute allow_fp8"):
        matmul.allow_fp8 = True
    matmul.allow_tf32 = True
    assert matmul.allow_tf32
    matmul.allow_tf32 = False


# --- the host's stream ---
def test_the_stream_of_the_host():
    cpu = flambeau.cpu
    assert cpu.is_initialized() and cpu.device_count() == 1
    stream = flambeau.Stream("cpu", priority=-1)
    assert isinstance(stream, cpu.Stream) and isinstance(stream, flambeau.Stream)
    assert stream == cpu.current_stream() == cpu.current_stream("cpu") and hash(stream) == hash(cpu.Stream())
    assert stream.device == flambeau.device("cpu") and stream.query()
    stream.synchronize()
    stream.wait_stream(cpu.Stream())
    for context in (cpu.stream(stream), cpu.stream(None), cpu.StreamContext(stream), stream):
        with context:
            assert (flambeau.ones(2) + 1).tolist() == [2.0, 2.0]
    event = stream.record_event()
    assert isinstance(event, cpu.Event) and event.query() and event.device == flambeau.device("cpu")
    stream.wait_event(event)
    event.wait()
    event.synchronize()
    assert stream.record_event(event) is event


def test_events_of_the_host_measure_time():
    first, second = flambeau.Event("cpu", enable_timing=True), flambeau.cpu.Event(True)
    with pytest.raises(ValueError, match="must be recorded"):
        first.elapsed_time(second)
    first.record()
    flambeau.ones(1000).sort()
    second.record(flambeau.cpu.current_stream())
    assert 0 < first.elapsed_time(second) < 60_000 and second.elapsed_time(first) < 0
    with pytest.raises(ValueError, match="enable_timing=True"):
        first.elapsed_time(flambeau.cpu.Event())
    with pytest.raises(NotImplementedError, match="other processes"):
        flambeau.Event("cpu", interprocess=True)


@pytest.mark.parametrize("kind", ["Stream", "Event"])
def test_devices_without_streams(kind):
    for type in ("meta", "mps", "vulkan"):
        with pytest.raises(RuntimeError, match=rf"{kind}\(\): {type} has no {kind.lower()}s here"):
            getattr(flambeau, kind)(type)
    with pytest.raises(RuntimeError, match="nowhere"):
        getattr(flambeau, kind)("nowhere")


def test_events_of_opencl():
    if flambeau.opencl.is_available():
        event = flambeau.Event("opencl")
        event.record()
        event.synchronize()
        assert event.query()


# --- other switches ---
def test_warnings_that_are_said_once():
    from flambeau.core.base.once import warn_once

    assert not flambeau.is_warn_always_enabled()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            warn_once("said in a test, once", stacklevel=1)
        assert [str(w.message) for w in said] == ["said in a test, once"] and said[0].filename == __file__
        flambeau.set_warn_always(True)
        try:
            for _ in range(2):
                warn_once("said in a test, once")
                flambeau.ones(2).storage()
        finally:
            flambeau.set_warn_always(False)
        texts = [str(w.message) for w in said[1:]]
        assert texts.count("said in a test, once") == 2
        assert sum("TypedStorage is deprecated" in text for text in texts) == 2
        warn_once("said in a test, once")
        assert len(said) == 5
    with pytest.raises(RuntimeError, match="expects a bool"):
        flambeau.set_warn_always(1)


def test_anomaly_mode_is_asked_for():
    assert not flambeau.is_anomaly_enabled()
    try:
        flambeau.set_anomaly_enabled(True)
        assert flambeau.is_anomaly_enabled() and flambeau.is_anomaly_check_nan_enabled()
        x = flambeau.tensor(-1.0, requires_grad=True)
        with pytest.raises(RuntimeError, match="nan"), pytest.warns(UserWarning):
            x.sqrt().backward()
        flambeau.set_anomaly_enabled(True, False)
        assert flambeau.is_anomaly_enabled() and not flambeau.is_anomaly_check_nan_enabled()
    finally:
        flambeau.set_anomaly_enabled(False)
    for wrong in ((1,), (True, None)):
        with pytest.raises(TypeError, match="must be bool"):
            flambeau.set_anomaly_enabled(*wrong)


def test_threads_of_backward_are_a_permission():
    from flambeau.autograd.grad_mode import is_multithreading_enabled

    assert is_multithreading_enabled()
    with pytest.raises(KeyError), flambeau.autograd.set_multithreading_enabled(False) as nothing:
        assert nothing is None and not is_multithreading_enabled()
        raise KeyError
    assert is_multithreading_enabled()
    mode = flambeau.autograd.set_multithreading_enabled(False)
    assert not is_multithreading_enabled() and not mode.clone().mode
    flambeau.autograd.set_multithreading_enabled(True)
    assert is_multithreading_enabled()


def test_names_of_types():
    typename = flambeau.typename
    assert typename(flambeau.ones(2)) == flambeau.ones(2).type()
    assert typename(flambeau.nn.Linear) == "flambeau.nn.modules.linear.Linear"
    assert [typename(x) for x in (3, int, len)] == ["int", "int", "len"]
    assert typename(flambeau.exp) == "flambeau.exp"


def test_what_is_here():
    from flambeau.core.lib.products import blas

    assert flambeau.has_mkl == (blas.provider()[0] == "mkl")
    assert (flambeau.has_lapack, flambeau.has_spectral, flambeau.has_openmp) == (True, True, False)
    flambeau.init_num_threads()
    told = flambeau.cpu.get_capabilities()
    assert told["num_logical_cores"] >= 1 and told["architecture"] and told["cpu_name"]
    wide = backends.cpu.get_cpu_capability()
    assert told.get("avx512_f", False) == (wide == "AVX512") and ("avx2" in told) == (
        wide in ("AVX2", "AVX512")
    )
