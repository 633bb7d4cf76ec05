"""What a client is: a library, its own tests (suites), and small programs of ours (cases) whose numbers are compared with PyTorch's.

A file of `libraries/` makes one `Client`:

    client = Client("einops")                                  # the distribution; more follow where the program needs them
    client.suite("its tests", "--pyargs", "einops.tests")      # arguments of pytest

    @client.case
    def rearranged():                                          # numbers, texts, arrays, tensors, lists, dictionaries of them
        return einops.rearrange(torch.arange(6.0), "(a b) -> b a", a=2)

    client.cause(r"test_onnx", "there is no ONNX export yet")  # what is known to fail, by a pattern of `suite::id` or of a case's name

Cases run with the same numbers in both libraries: `fill` gives a module weights, `draws` replaces the library's random functions.
"""

import contextlib
import gc
import importlib.metadata
import json
import math
import re
import sys
import time
import traceback
import zlib

import numpy as np

SAMPLES = 48  # of an array with more elements, so many are kept, evenly spaced; a client may ask for fewer


class Client:
    def __init__(self, *distributions, samples=SAMPLES):
        self.distributions = distributions
        self.samples = samples
        self.suites = {}
        self.cases = {}
        self.causes, self.causes_compiled = [], []

    def suite(self, name, *arguments, processes=0):
        """Tests that the library ships: `arguments` are pytest's; `processes` workers of pytest-xdist run them."""
        self.suites[name] = [*arguments, "-n", str(processes)] if processes else [*arguments]

    def case(self, function=None, *, tolerance=1e-4, name=None):
        """A program of ours: what it returns is compared with what it returned on PyTorch.

        Differences are measured against the greatest magnitude in an array, or 1e-3 where all are smaller.
        """
        if function is None:
            return lambda function: self.case(function, tolerance=tolerance, name=name)
        self.cases[name or function.__name__] = (function, tolerance)
        return function

    def cause(self, pattern, words, *, compiled=False):
        """Why checks fail here whose `suite::test`, or whose case's name, matches; `compiled`: where models are compiled."""
        (self.causes_compiled if compiled else self.causes).append((pattern, words))


def doctests(client, package, *, tolerance=1e-3, seconds=60):
    """Each docstring of a package becomes a case: its examples run with the same draws, and what they print is compared."""
    import doctest
    import importlib
    import pkgutil

    root = importlib.import_module(package)
    finder = doctest.DocTestFinder(exclude_empty=True)
    for each in [root, *pkgutil.walk_packages(root.__path__, package + ".")]:
        try:
            module = importlib.import_module(getattr(each, "name", package))
        except ImportError:  # of what is not installed
            continue
        for test in finder.find(module):
            if test.examples and test.name not in client.cases:
                client.case(tolerance=tolerance, name=test.name)(printed(test, seconds))


def printed(test, seconds):
    def run():
        import contextlib
        import doctest
        import io
        import signal

        def over(*_):
            raise TimeoutError(f"over {seconds} s")

        outputs = []
        names = dict(test.globs)
        handler = signal.signal(signal.SIGALRM, over)
        signal.alarm(seconds)
        try:
            with draws(1):
                for example in test.examples:
                    if not example.options.get(doctest.SKIP):
                        out = io.StringIO()
                        with contextlib.redirect_stdout(out):
                            exec(compile(example.source, f"<{test.name}>", "single"), names)
                        outputs.append(out.getvalue())
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, handler)
        text = re.sub(r"0x[0-9a-f]+", "0x", re.sub(r"\s+", " ", " ".join(outputs)))
        number = r"(?<![\w.])-?\d+\.?\d*(?:e[-+]?\d+)?(?!\w)"
        return {"text": re.sub(number, "#", text), "numbers": [float(n) for n in re.findall(number, text)]}

    return run


# What a child process does ---------------------------------------------------------------------------------------------------


def run_cases(client, chosen):
    answers = {}
    for name, (function, _) in client.cases.items():
        if not re.search(chosen, name):
            continue
        start = time.perf_counter()
        try:
            answer = {"value": digest(function(), client.samples)}
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            answer = {"error": shortly(error)}
        answers[name] = answer
        gc.collect()  # models hold themselves where they are compiled
        print(f"  {name}: {answer.get('error', 'ran')} ({time.perf_counter() - start:.1f} s)", flush=True)
    return answers


def run_suite(arguments):
    """Outcome by test: "passed", "skipped", or "failed: why"."""
    import pytest

    recorder = Recorder()
    status = pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", *arguments], plugins=[recorder])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        recorder.outcomes["collection"] = f"failed: pytest ended with {status!r}"
    return recorder.outcomes


class Recorder:
    """A plug-in of pytest that notes what became of each test."""

    def __init__(self):
        self.outcomes = {}

    def pytest_collectreport(self, report):
        if report.failed:
            self.outcomes[report.nodeid] = "failed: " + last_line(report)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.outcomes[report.nodeid] = "failed: " + last_line(report)
        elif report.skipped:
            self.outcomes[report.nodeid] = "skipped"
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, "passed")


def last_line(report):
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return crash.message.strip().splitlines()[0][:200]
    lines = [line for line in str(report.longrepr).splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no message"


def shortly(error):
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    return re.sub(r" \(/[^()]*\)", "", text)[:200]  # not where it lies on this machine


def versions(distributions):
    return " ".join(f"{name} {importlib.metadata.version(name)}" for name in distributions)


# Numbers that can be kept and compared ---------------------------------------------------------------------------------------


def digest(value, samples=SAMPLES):
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float, complex, np.generic, np.ndarray)) or hasattr(value, "detach"):
        return digest_array(value, samples)
    if isinstance(value, dict):
        return {str(key): digest(item, samples) for key, item in value.items()}
    value = list(value)
    if len(value) > 1 and all(type(item) in (int, float) for item in value):
        return digest_array(value, samples)
    return [digest(item, samples) for item in value]


def digest_array(value, samples=SAMPLES):
    if hasattr(value, "detach"):
        dtype = str(value.dtype).rpartition(".")[2]
        value = value.detach().cpu()
        array = (value.float() if dtype in ("bfloat16", "float16") else value).numpy()
    else:
        array = np.asarray(value)
        dtype = str(array.dtype)
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    flat = np.asarray(array.reshape(-1), np.float64)
    subset = flat if flat.size <= samples else flat[np.linspace(0, flat.size - 1, samples).astype(int)]
    return {
        "dtype": dtype,
        "shape": list(array.shape),
        "norm": rounded(np.linalg.norm(flat)),
        "values": [rounded(x) for x in subset],
    }


def rounded(x):
    x = float(x)
    return float(f"{x:.9g}") if math.isfinite(x) else repr(x)


def difference(here, there):
    """The greatest difference between two digests; a text where they are not of one form."""
    if isinstance(there, dict) and set(there) == {"dtype", "shape", "norm", "values"}:
        if not isinstance(here, dict) or "values" not in here:
            return f"got {here!r}, PyTorch an array"
        for key in ("dtype", "shape"):
            if here[key] != there[key]:
                return f"{key} {here[key]}, PyTorch's is {there[key]}"
        return max(apart(here["values"], there["values"]), apart([here["norm"]], [there["norm"]]))
    if isinstance(there, dict):
        if not isinstance(here, dict) or list(here) != list(there):
            return f"got keys {list(here)!r}, PyTorch {list(there)!r}"
        return greatest(difference(here[key], there[key]) for key in there)
    if isinstance(there, list):
        if not isinstance(here, list) or len(here) != len(there):
            return f"got {len(here)} values, PyTorch {len(there)}"
        return greatest(difference(a, b) for a, b in zip(here, there))
    return 0.0 if here == there else f"got {here!r}, PyTorch {there!r}"


def greatest(differences):
    differences = list(differences)
    texts = [d for d in differences if isinstance(d, str)]
    return texts[0] if texts else max(differences, default=0.0)


def apart(here, there):
    here, there = np.array(here, dtype=np.float64), np.array(there, dtype=np.float64)
    finite = np.isfinite(there)
    if (
        not np.array_equal(here[~finite], there[~finite], equal_nan=True)
        or not np.isfinite(here[finite]).all()
    ):
        return math.inf
    here, there = here[finite], there[finite]
    return float(np.abs(here - there).max(initial=0) / max(np.abs(there).max(initial=0), 1e-3))


# The same numbers in both libraries ------------------------------------------------------------------------------------------


def fill(module, seed=0):
    """Weights and running statistics of a module from NumPy, by name: the same in both libraries, of usual magnitudes."""
    import torch

    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if not tensor.is_floating_point():
                continue
            stream = np.random.default_rng([seed, zlib.crc32(name.encode())])
            if tensor.ndim > 1:
                numbers = stream.standard_normal(tuple(tensor.shape)) / math.sqrt(tensor[0].numel())
            elif name.endswith(("weight", "running_var")):
                numbers = 1 + 0.1 * stream.random(tuple(tensor.shape))
            else:
                numbers = 0.1 * stream.standard_normal(tuple(tensor.shape))
            tensor.copy_(torch.from_numpy(np.asarray(numbers, np.float32)))
    return module


def normal(*shape, seed=0):
    import torch

    return torch.from_numpy(np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32))


def integers(high, *shape, seed=0):
    import torch

    return torch.from_numpy(np.random.default_rng([seed, high, *shape]).integers(0, high, shape))


@contextlib.contextmanager
def draws(seed=0, in_place=False):
    """Within it, the functions of `torch` that draw numbers draw them from NumPy, the same in both libraries.

    With `in_place` so do `uniform_`, `normal_`, `exponential_` and `bernoulli_` of tensors, and Python's `random` is seeded.
    """
    import random

    import torch

    stream = np.random.default_rng(seed)

    def made(numbers, dtype=None, device=None, requires_grad=False, **_):
        tensor = torch.from_numpy(np.ascontiguousarray(numbers)).to(dtype or torch.get_default_dtype())
        return tensor.to(device or "cpu").requires_grad_(requires_grad)

    def sizes(size):
        return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size

    def rand(*size, generator=None, **options):
        return made(stream.random(sizes(size)), **options)

    def randn(*size, generator=None, **options):
        return made(stream.standard_normal(sizes(size)), **options)

    def randint(low, high=None, size=None, generator=None, dtype=None, **options):
        if size is None:
            low, high, size = (0, low, high) if not isinstance(high, int) else (low, high, size)
        elif high is None:
            low, high = 0, low
        return made(stream.integers(low, high, tuple(size)), dtype=dtype or torch.int64, **options)

    def randperm(n, generator=None, dtype=None, **options):
        return made(stream.permutation(n), dtype=dtype or torch.int64, **options)

    def like(make):
        return lambda x, dtype=None, **options: make(*x.shape, dtype=dtype or x.dtype, device=x.device)

    def gaussian(mean=0.0, std=1.0, size=None, generator=None, **options):
        shape = (
            tuple(size) if size is not None else tuple((torch.as_tensor(mean) + torch.as_tensor(std)).shape)
        )
        return mean + std * made(stream.standard_normal(shape))

    def bernoulli(p, generator=None):
        return made(stream.random(tuple(p.shape)) < p.detach().cpu().numpy(), dtype=p.dtype)

    def multinomial(weights, num_samples, replacement=False, generator=None):
        rows = weights.detach().double().cpu().numpy().reshape(-1, weights.shape[-1])
        drawn = [stream.choice(len(r), num_samples, replacement, r / r.sum()) for r in rows]
        return made(np.array(drawn).reshape(*weights.shape[:-1], num_samples), dtype=torch.int64)

    def categories(self, sample_shape=()):
        shape = self._extended_shape(torch.Size(sample_shape))
        rows = self.probs.reshape(-1, self.probs.shape[-1])
        drawn = torch.stack([multinomial(row, math.prod(sample_shape), True) for row in rows], -1)
        return drawn.reshape(shape)

    def poisson(self, sample_shape=()):
        shape = self._extended_shape(torch.Size(sample_shape))
        return made(stream.poisson(self.rate.detach().numpy(), shape), dtype=self.rate.dtype)

    def written(draw):
        def method(self, *arguments, generator=None, **options):
            numbers = draw(tuple(self.shape), *arguments, **options)
            with torch.no_grad():
                return self.copy_(torch.from_numpy(np.asarray(numbers, np.float64)))

        return method

    methods = (
        {
            "uniform_": written(
                lambda shape, low=0.0, high=1.0, **named: stream.uniform(
                    named.get("from", low), named.get("to", high), shape
                )
            ),
            "normal_": written(lambda shape, mean=0.0, std=1.0: mean + std * stream.standard_normal(shape)),
            "exponential_": written(lambda shape, lambd=1.0: stream.exponential(1 / lambd, shape)),
            "bernoulli_": written(lambda shape, p=0.5: stream.random(shape) < np.asarray(p)),
        }
        if in_place
        else {}
    )
    ours = {
        "rand": rand,
        "randn": randn,
        "randint": randint,
        "randperm": randperm,
        "rand_like": like(rand),
        "randn_like": like(randn),
        "normal": gaussian,
        "bernoulli": bernoulli,
        "multinomial": multinomial,
    }
    theirs = {name: getattr(torch, name) for name in ours}
    their_methods = {name: getattr(torch.Tensor, name) for name in methods}
    sampling = {torch.distributions.Categorical: categories, torch.distributions.Poisson: poisson}
    their_sampling = {kind: kind.sample for kind in sampling}
    global_state = np.random.get_state()
    np.random.seed(seed)
    python_state = random.getstate()
    if in_place:
        random.seed(seed)
    try:
        for name, method in methods.items():
            setattr(torch.Tensor, name, method)
        for name, function in ours.items():
            setattr(torch, name, function)
        for kind, sample in sampling.items():
            kind.sample = sample
        yield stream
    finally:
        for name, function in theirs.items():
            setattr(torch, name, function)
        for name, method in their_methods.items():
            setattr(torch.Tensor, name, method)
        for kind, sample in their_sampling.items():
            kind.sample = sample
        random.setstate(python_state)
        np.random.set_state(global_state)


def child(path, out, chosen, compiled=False):
    """Runs one client in this process and writes what came out."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("client_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    import torch

    answer = {
        "torch": "flambeau" if "flambeau" in sys.modules else "PyTorch " + torch.__version__.partition("+")[0]
    }
    spec.loader.exec_module(module)
    client = module.client
    answer["version"] = versions(client.distributions)
    answer["causes"] = [*client.causes, *(client.causes_compiled if compiled else ())]
    answer["tolerances"] = {name: tolerance for name, (_, tolerance) in client.cases.items()}
    answer["suites"] = {}
    if compiled:
        from compiled import install

        calls = install()
        answer["cases"] = run_cases(client, chosen)
        answer["calls"] = calls.digest()
    else:
        answer["cases"] = run_cases(client, chosen)
        answer["suites"] = {
            name: run_suite(a) for name, a in client.suites.items() if re.search(chosen, name)
        }
    out.write_text(json.dumps(answer))
