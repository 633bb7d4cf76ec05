"""A run that is interrupted, wherever that is, and resumed ends with the same bits as one that is not."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.optim.lr_scheduler import CosineAnnealingLR, ReduceLROnPlateau
from flambeau.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from flambeau.utils.trainer import Accuracy, EarlyStopping, LossMonitor, Plugin, Trainer

EPOCHS, SAMPLES, BATCH = 3, 11, 3


class Noisy(Dataset):
    """Samples that draw from every global generator when they are loaded; each is loaded as rarely as can be."""

    loaded = 0

    def __len__(self):
        return SAMPLES

    def __getitem__(self, i):
        type(self).loaded += 1
        noise = torch.randn(4) + random.random() + numpy.random.rand()
        return torch.arange(4.0) * i / 10 + 0.1 * noise, i % 2


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(SAMPLES):
            yield torch.full((4,), i / 10) + 0.1 * torch.randn(4), i % 2


class Shuffled:
    def __iter__(self):
        return iter(random.sample(range(SAMPLES), SAMPLES))

    def __len__(self):
        return SAMPLES


def net():
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.3), nn.Linear(5, 2))


def shuffled(**options):
    return DataLoader(Noisy(), BATCH, **{"shuffle": True, **options})


def generator():
    """One whose seed follows from the global generator's: another in a process that begins otherwise."""
    return torch.Generator().manual_seed(torch.initial_seed())


LOADERS = {
    "shuffled": shuffled,
    "own generator": lambda: shuffled(generator=generator()),
    "in order": lambda: shuffled(shuffle=False, drop_last=True),
    "replacement": lambda: DataLoader(
        Noisy(), BATCH, sampler=RandomSampler(Noisy(), True, 11, generator=generator())
    ),
    "weighted": lambda: DataLoader(
        Noisy(), sampler=WeightedRandomSampler([1.0] * SAMPLES, 8, generator=generator()), batch_size=2
    ),
    "subset, global generator": lambda: DataLoader(
        Noisy(), batch_sampler=BatchSampler(SubsetRandomSampler([1, 4, 7, 8, 9, 2, 3, 5]), 2, False)
    ),
    "Python's generator": lambda: DataLoader(Noisy(), BATCH, sampler=Shuffled()),
    "single samples": lambda: DataLoader(
        Noisy(),
        None,
        sampler=SubsetRandomSampler([1, 4, 6, 7], generator=generator()),
        collate_fn=lambda s: (s[0].expand(2, 4) + torch.randn(2, 4), torch.tensor([s[1]] * 2)),
    ),
    "stream": lambda: DataLoader(Stream(), BATCH),
    "threads": lambda: DataLoader(
        TensorDataset(torch.linspace(0, 1, 44).reshape(11, 4), torch.arange(11) % 2),
        BATCH,
        shuffle=True,
        num_workers=2,
        worker_type="thread",
    ),
    "list": lambda: [(torch.full((3, 4), float(k)), torch.tensor([0, 1, k % 2])) for k in range(4)],
}


def make(folder, loader="shuffled", optimizer=torch.optim.AdamW, seed=7, **options):
    """A run with everything that has a state; one that resumes has another seed, and gets all from the file."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)
    model = net()
    optimizer = optimizer(model.parameters(), lr=0.05)
    images = torch.linspace(-1, 1, 24).reshape(6, 4)
    trainer = Trainer(
        model,
        nn.CrossEntropyLoss(),
        optimizer,
        LOADERS[loader](),
        **{
            "validation": DataLoader(
                TensorDataset(images, torch.arange(6) % 2), 4, shuffle=True, generator=generator()
            ),
            "metrics": {"accuracy": Accuracy()},
            "scheduler": CosineAnnealingLR(optimizer, T_max=9),
            "scheduler_unit": "update",
            "accumulate": 2,
            "clip_norm": 1.0,
            "folder": folder,
            "save_every": (1, "iteration"),
            **options,
        },
    )
    trainer.register_plugin(LossMonitor())
    trainer.register_plugin(EarlyStopping(patience=20))
    return trainer


def bits(x):
    """Something that is equal where, and only where, all bits are."""
    if isinstance(x, torch.Tensor):
        return str(x.dtype), tuple(x.shape), x.detach().contiguous().numpy().tobytes()
    if isinstance(x, dict):  # devices have states in the process that has used them alone
        return {key: bits(value) for key, value in x.items() if key != "devices"}
    if isinstance(x, (list, tuple)):
        return [bits(value) for value in x]
    return x.hex() if isinstance(x, float) else x


def ending(trainer):
    return bits({**trainer.state_dict(), "stats": trainer.stats})


def whole(tmp_path, **options):
    """The uninterrupted run."""
    trainer = make(tmp_path / "whole", **options)
    trainer.run(EPOCHS)
    return trainer


class Bomb(Plugin):
    """Raises at the n-th call of a unit."""

    def __init__(self, unit, n):
        super().__init__([(1, unit)])
        self.n = n

    def explode(self, count, *_):
        if count == self.n:
            raise KeyboardInterrupt

    batch = iteration = update = epoch = explode


@pytest.mark.parametrize("loader", LOADERS)
def test_interrupted_in_each_batch(tmp_path, loader):
    epochs = 2
    expected = make(tmp_path / "whole", loader=loader)
    expected.run(epochs)
    every = range(1, expected.iterations + 1)
    for n in every if loader == "shuffled" else (2, expected.iterations // 2, expected.iterations - 1):
        folder = tmp_path / str(n)
        trainer = make(folder, loader=loader)
        trainer.register_plugin(Bomb("batch" if n % 2 else "iteration", n))
        with pytest.raises(KeyboardInterrupt):
            trainer.run(epochs)
        resumed = make(folder, loader=loader, seed=8)
        resumed.run(epochs, resume=True)
        assert ending(resumed) == ending(expected), n


@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}], ids=["new", "persistent"])
def test_worker_processes(tmp_path, options, monkeypatch):
    """What workers draw at random goes on, too, in the middle of an epoch and at its end."""
    monkeypatch.setitem(
        LOADERS, "workers", lambda: shuffled(num_workers=2, multiprocessing_context="fork", **options)
    )
    expected = whole(tmp_path, loader="workers")
    for n in (5, 7):
        trainer = make(tmp_path / str(n), loader="workers")
        trainer.register_plugin(Bomb("iteration", n))
        with pytest.raises(KeyboardInterrupt):
            trainer.run(EPOCHS)
        resumed = make(tmp_path / str(n), loader="workers", seed=8)
        resumed.run(EPOCHS, resume=True)
        assert ending(resumed) == ending(expected), n


def test_batches_in_any_order(tmp_path):
    with pytest.raises(ValueError, match="in any order .in_order=False. leave no place"):
        model, loader = net(), shuffled(num_workers=1, in_order=False)
        Trainer(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters()), loader, folder=tmp_path)


NOT_TRIED = {"Optimizer", "LBFGS", "SparseAdam"}  # the base class; wants a closure; wants sparse gradients
OPTIMIZERS = sorted(
    name
    for name, thing in vars(torch.optim).items()
    if isinstance(thing, type) and issubclass(thing, torch.optim.Optimizer) and name not in NOT_TRIED
)


class Matrices(nn.Module):
    """Parameters of two dimensions only, as Muon wants them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 5, bias=False), nn.Linear(5, 2, bias=False)

    def forward(self, x):
        return self.second(nn.functional.dropout(self.first(x).tanh(), 0.2, self.training))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer(tmp_path, optimizer, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "net", Matrices)
    optimizer = getattr(torch.optim, optimizer)
    expected = whole(tmp_path, optimizer=optimizer)
    trainer = make(tmp_path / "a", optimizer=optimizer)
    trainer.register_plugin(Bomb("update", 4))
    with pytest.raises(KeyboardInterrupt):
        trainer.run(EPOCHS)
    resumed = make(tmp_path / "a", optimizer=optimizer, seed=8)
    resumed.run(EPOCHS, resume=True)
    assert ending(resumed) == ending(expected)


@pytest.mark.parametrize("loader", ["shuffled", "own generator"])
@pytest.mark.parametrize("every", [(1, "update"), (3, "iteration"), (1, "epoch"), (2, "epoch")])
def test_rare_checkpoints(tmp_path, every, loader):
    expected = whole(tmp_path, save_every=every, loader=loader)
    for n in (1, 2, 3):
        trainer = make(tmp_path / str(n), save_every=every, loader=loader)
        trainer.register_plugin(Bomb("epoch", n))
        with pytest.raises(KeyboardInterrupt):
            trainer.run(EPOCHS)
        resumed = make(tmp_path / str(n), save_every=every, loader=loader, seed=8)
        resumed.run(EPOCHS, resume=True)
        assert ending(resumed) == ending(expected)


def test_a_schedule_that_looks_at_a_figure_and_early_stopping(tmp_path):
    """Counters of epochs that were not better go on."""

    def started(folder, seed=7):
        trainer = make(folder, scheduler=None, seed=seed)
        trainer.scheduler = ReduceLROnPlateau(trainer.optimizer, patience=0, threshold=10.0)
        trainer.scheduler_unit = "epoch"
        trainer.plugins[-1].patience = 2
        trainer.plugins[-1].min_delta = 10.0
        return trainer

    expected = started(tmp_path / "whole")
    expected.run(9)
    assert expected.epoch == 3 and "val_loss has not got better" in expected.stopped
    assert expected.optimizer.param_groups[0]["lr"] < 0.05
    for n in (1, 2, 3):
        trainer = started(tmp_path / str(n))
        trainer.register_plugin(Bomb("epoch", n))
        with pytest.raises(KeyboardInterrupt):
            trainer.run(9)
        resumed = started(tmp_path / str(n), seed=8)
        resumed.run(9, resume=True)
        assert ending(resumed) == ending(expected)


def test_what_is_done_is_not_loaded_again(tmp_path):
    trainer = make(tmp_path, save_every=(1, "iteration"))
    trainer.register_plugin(Bomb("batch", 7))  # of four batches an epoch
    with pytest.raises(KeyboardInterrupt):
        trainer.run(EPOCHS)
    Noisy.loaded = 0
    make(tmp_path).run(2, resume=True)
    assert Noisy.loaded == SAMPLES - 2 * BATCH


def test_resuming_twice_and_longer(tmp_path):
    expected = whole(tmp_path)
    make(tmp_path / "a").run(1)
    trainer = make(tmp_path / "a")
    trainer.run(2, resume=True)
    trainer.run(EPOCHS)  # in memory
    assert ending(trainer) == ending(expected)
    again = make(tmp_path / "a")
    assert again.run(EPOCHS, resume=True) == expected.history  # nothing is left to do
    assert ending(again) == ending(expected)


def test_best_checkpoint(tmp_path):
    trainer = whole(tmp_path)
    best = min(trainer.history, key=lambda figures: figures["val_loss"])
    assert trainer.best == best
    best_trainer = make(None)
    best_trainer.load(tmp_path / "whole" / "best.pt")
    assert best_trainer.epoch == best["epoch"] and best_trainer.best == best
    assert best_trainer.history == trainer.history[: best["epoch"]]


def traced(run, at, action):
    """Calls `run`, and `action` before the `at`-th bytecode of the Trainer, or line of what saves; returns how many ran."""
    ran = 0

    def trace(frame, event, arg):
        nonlocal ran
        name = frame.f_code.co_filename.replace(os.sep, "/")
        if "/utils/trainer/" not in name and "/_files/" not in name:
            return None
        frame.f_trace_opcodes = "/utils/trainer/" in name
        if event == ("opcode" if frame.f_trace_opcodes else "line"):
            ran += 1
            if ran == at:
                action()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return ran


def interrupt():
    raise KeyboardInterrupt


def test_interrupted_at_any_moment(tmp_path):
    """A KeyboardInterrupt in the Trainer, or while it writes a checkpoint."""
    expected = whole(tmp_path)
    counted = make(tmp_path / "counted")
    moments = traced(lambda: counted.run(EPOCHS), 0, None)
    assert ending(counted) == ending(expected) and moments > 10_000
    for k, at in enumerate(random.Random(0).sample(range(1, moments), 8)):
        folder = tmp_path / str(k)
        trainer = make(folder)
        with pytest.raises(KeyboardInterrupt):
            traced(lambda trainer=trainer: trainer.run(EPOCHS), at, interrupt)
        resumed = make(folder, seed=8 if (folder / "last.pt").exists() else 7)
        resumed.run(EPOCHS, resume=True)
        assert ending(resumed) == ending(expected), at


def test_killed_at_any_moment(tmp_path):
    expected = whole(tmp_path)
    counted = make(tmp_path / "counted")
    moments = traced(lambda: counted.run(2), 0, None)
    for k, at in enumerate(random.Random(1).sample(range(1, moments), 4)):
        folder = tmp_path / str(k)
        child = os.fork()
        if child == 0:
            try:
                trainer = make(folder)
                traced(lambda t=trainer: t.run(EPOCHS), at, lambda: os.kill(os.getpid(), signal.SIGKILL))
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert {p.name for p in folder.iterdir()} <= {"last.pt", "best.pt"} if folder.exists() else True
        resumed = make(folder, seed=8 if (folder / "last.pt").exists() else 7)
        resumed.run(EPOCHS, resume=True)
        assert ending(resumed) == ending(expected), at


class Signal(Bomb):
    """Sends a signal to this process at the n-th call."""

    def __init__(self, unit, n, number):
        super().__init__(unit, n)
        self.number = number

    def explode(self, count, *_):
        if count == self.n:
            signal.raise_signal(self.number)

    batch = iteration = update = epoch = explode


@pytest.mark.parametrize(
    "unit, n", [("batch", 1), ("batch", 6), ("iteration", 8), ("update", 3), ("epoch", 2)]
)
def test_ctrl_c_finishes_the_batch(tmp_path, unit, n, capfd, interruptible):
    expected = whole(tmp_path)
    trainer = make(tmp_path / "a", save_every=(50, "epoch"))
    trainer.register_plugin(Signal(unit, n, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        trainer.run(EPOCHS)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert "SIGINT: training stops with a checkpoint after this batch" in capfd.readouterr().err
    done = {"batch": n, "iteration": n, "update": 2 * n, "epoch": 4 * n}[unit]
    assert trainer.iterations == done
    resumed = make(tmp_path / "a", save_every=(50, "epoch"), seed=8)
    resumed.load(tmp_path / "a" / "last.pt")
    assert resumed.iterations == done
    resumed.run(EPOCHS, resume=True)
    assert ending(resumed) == ending(expected)


def test_ctrl_c_in_validation(tmp_path, interruptible):
    """Nothing is lost: the epoch's batches are done, and validation is done again."""
    expected = whole(tmp_path)
    trainer = make(tmp_path / "a", save_every=(50, "epoch"))
    forward = trainer.forward

    def interrupted(input, target):
        if not trainer.model.training and trainer.epoch == 1:
            signal.raise_signal(signal.SIGINT)
        return forward(input, target)

    trainer.forward = interrupted
    with pytest.raises(KeyboardInterrupt):
        trainer.run(EPOCHS)
    resumed = make(tmp_path / "a", save_every=(50, "epoch"), seed=8)
    resumed.load(tmp_path / "a" / "last.pt")
    assert (resumed.epoch, resumed.iterations) == (1, 8)
    resumed.run(EPOCHS, resume=True)
    assert ending(resumed) == ending(expected)


def test_ctrl_c_twice_stops_at_once(tmp_path, interruptible):
    expected = whole(tmp_path)
    trainer = make(tmp_path / "a")
    trainer.register_plugin(Signal("batch", 5, signal.SIGINT))
    trainer.register_plugin(Signal("batch", 5, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        trainer.run(EPOCHS)
    assert trainer.iterations == 4
    with pytest.raises(RuntimeError, match="interrupted in the middle of a batch: resume=True"):
        trainer.run(EPOCHS)
    trainer.plugins = trainer.plugins[:2]
    trainer.run(EPOCHS, resume=True)  # the same object, from its file
    assert ending(trainer) == ending(expected)


PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
import test_trainer_resume as t
trainer = t.make({folder!r}, save_every=(1, "iteration"))
class Tell(t.Plugin):
    def batch(self, count, *_):
        print(count, flush=True)
trainer.register_plugin(Tell([(1, "batch")]))
trainer.run(2000)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_another_process_is_ended(tmp_path, number):
    """A program of its own, ended at a random moment; its parts are kept, and it ends by the signal."""
    program = PROGRAM.format(tests=str(Path(__file__).parent), folder=str(tmp_path / "a"))
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        for _ in range(6):
            assert child.stdout.readline()
        time.sleep(random.Random().random() / 100)
        child.send_signal(number)
        child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == -number
    resumed = make(tmp_path / "a", seed=8)
    resumed.load(tmp_path / "a" / "last.pt")
    assert resumed.iterations >= 5
    epochs = resumed.epoch + 1
    resumed.run(epochs, resume=True)
    expected = make(tmp_path / "whole")
    expected.run(epochs)
    assert ending(resumed) == ending(expected)


def test_an_order_that_nobody_can_repeat(tmp_path):
    """A sampler with a state that is not in the checkpoint is found out."""

    class Own:
        def __init__(self, seed):
            self.random = random.Random(seed)

        def __iter__(self):
            return iter(self.random.sample(range(SAMPLES), SAMPLES))

        def __len__(self):
            return SAMPLES

    def started(seed):
        trainer = make(tmp_path)
        return Trainer(
            trainer.model,
            trainer.criterion,
            trainer.optimizer,
            DataLoader(Noisy(), BATCH, sampler=Own(seed)),
            folder=tmp_path,
            save_every=(1, "iteration"),
        )

    first = started(1)
    first.register_plugin(Bomb("iteration", 3))
    with pytest.raises(KeyboardInterrupt):
        first.run(2)
    Noisy.loaded = 0
    with pytest.raises(
        ValueError, match="first 2 batches of the epoch are not made of the samples .*Own gives another"
    ):
        started(2).run(2, resume=True)
    assert Noisy.loaded == 0
    started(1).run(2, resume=True)


def test_extras_and_a_scaler(tmp_path):
    """Other objects with a state, and a generator, go on, too."""

    class Scaler:
        def __init__(self):
            self.factor = 4.0

        def scale(self, loss):
            return loss * self.factor

        def unscale_(self, optimizer):
            for group in optimizer.param_groups:
                for p in group["params"]:
                    p.grad.div_(self.factor)

        def step(self, optimizer):
            optimizer.step()

        def update(self):
            self.factor *= 1.5

        def state_dict(self):
            return {"factor": self.factor}

        def load_state_dict(self, state):
            self.factor = state["factor"]

    class Perturb(Plugin):
        def __init__(self, generator):
            super().__init__([(1, "update")])
            self.generator = generator

        def update(self, count, model):
            for p in model.parameters():
                with torch.no_grad():
                    p.add_(torch.randn(p.shape, generator=self.generator), alpha=1e-3)

    def started(folder, seed=7):
        torch.manual_seed(seed)
        noise = generator()
        trainer = make(folder, scaler=Scaler(), extras={"noise": noise}, seed=seed)
        trainer.register_plugin(Perturb(noise))
        return trainer

    expected = started(tmp_path / "whole")
    expected.run(EPOCHS)
    trainer = started(tmp_path / "a")
    trainer.register_plugin(Bomb("batch", 7))
    with pytest.raises(KeyboardInterrupt):
        trainer.run(EPOCHS)
    resumed = started(tmp_path / "a", seed=8)
    resumed.run(EPOCHS, resume=True)
    assert ending(resumed) == ending(expected)
    assert ending(resumed) != ending(whole(tmp_path / "plain"))


def test_signals_of_children(tmp_path):
    """A child that was forked in a run, as a loader's worker, ends by its signal."""
    ended = []

    class Fork(Plugin):
        def batch(self, count, *_):
            child = os.fork()
            if child == 0:
                os.kill(os.getpid(), signal.SIGTERM)
                os._exit(0)
            ended.append(os.waitpid(child, 0)[1])

    trainer = make(tmp_path)
    trainer.register_plugin(Fork([(3, "batch")]))
    trainer.run(1)
    assert ended == [signal.SIGTERM]


def test_handlers_of_the_program(tmp_path):
    """They are called after the checkpoint, and stay."""
    called = []

    def handler(number, frame):
        called.append((number, trainer.iterations))

    trainer = make(tmp_path, save_every=(50, "epoch"))
    trainer.register_plugin(Signal("batch", 3, signal.SIGTERM))
    before = signal.signal(signal.SIGTERM, handler)
    try:
        trainer.run(EPOCHS)
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert called == [(signal.SIGTERM, 3)]
    resumed = make(tmp_path, save_every=(50, "epoch"), seed=8)
    resumed.load(tmp_path / "last.pt")
    assert resumed.iterations == 3
