"""What the Trainer says of bad input: which thing it is, before anything is lost."""

from __future__ import annotations

import math
import os
import warnings

import numpy
import pytest
from training import Record, data, make, net, weights

import flambeau as torch
from flambeau import nn
from flambeau.utils.data import DataLoader, IterableDataset, TensorDataset
from flambeau.utils.trainer import Accuracy, EarlyStopping, Plugin

# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, said",
    [
        ({"accumulate": 0}, "accumulate must be an integer of at least 1, got 0"),
        ({"accumulate": 1.5}, "accumulate must be an integer of at least 1, got 1.5"),
        ({"save_every": (0, "epoch")}, r"save_every\[0\] must be"),
        ({"save_every": (1, "day")}, r"save_every\[1\] must be one of iteration, update, epoch, got 'day'"),
        ({"scheduler_unit": "step"}, "scheduler_unit must be one of epoch, update, got 'step'"),
        ({"mode": "best"}, "mode must be one of min, max"),
        ({"on_nan": "ignore"}, "on_nan must be one of raise, skip, stop"),
        ({"clip_norm": 0}, "clip_norm must be above 0, got 0"),
        ({"clip_norm": math.nan}, "clip_norm must be above 0, got nan"),
        ({"monitor": "val_loss"}, "monitor must be one of loss, got 'val_loss'"),
        ({"metrics": {"loss": min}}, "a metric cannot be named 'loss'"),
        ({"loader": []}, "dataset is empty: it has no batches"),
        ({"loader": DataLoader(data(2), 3, drop_last=True)}, "dataset is empty"),
        ({"validation": []}, "validation is empty"),
    ],
    ids=lambda x: str(x)[:30],
)  # fmt: skip
def test_arguments(options, said):
    with pytest.raises(ValueError, match=said):
        make(**options)


@pytest.mark.parametrize("loader", [data(), iter([1]), 3], ids=["dataset", "iterator", "number"])
def test_what_is_no_loader(loader):
    with pytest.raises(TypeError, match="Trainer: dataset must be"):
        make(loader=loader)
    with pytest.raises(TypeError, match="Trainer: validation must be"):
        make(validation=loader)


def test_a_schedule_by_updates_that_needs_epochs():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    with pytest.raises(ValueError, match="ReduceLROnPlateau looks at epochs"):
        make(model=model, optimizer=optimizer, scheduler=schedule, scheduler_unit="update")


def test_an_optimizer_that_wants_a_closure():
    model = net()
    with pytest.raises(ValueError, match="LBFGS.step wants a closure, which this loop does not have"):
        make(model=model, optimizer=torch.optim.LBFGS(model.parameters()))


def test_loaders_that_turn_out_to_be_empty():
    class Nothing(IterableDataset):
        def __iter__(self):
            return iter(())

    for options in ({"loader": DataLoader(Nothing(), 2)}, {"validation": DataLoader(Nothing(), 2)}):
        with pytest.raises(ValueError, match="gave no batches: there is nothing to"):
            make(**options).run()


@pytest.mark.parametrize("epochs", [0, -1, 1.5, True, "2"])
def test_epochs(epochs):
    with pytest.raises(ValueError, match="epochs must be an integer of at least 1"):
        make().run(epochs)


@pytest.mark.parametrize(
    "loss, error, said",
    [
        (lambda o, t: 1.0, TypeError, "criterion must give a tensor, got float"),
        (lambda o, t: o.sum(1), ValueError, r"criterion must give a scalar, got a tensor of shape \(3,\)"),
        (lambda o, t: o + "x", TypeError, "unsupported|add"),
    ],
    ids=["number", "vector", "raises"],
)
def test_a_criterion_that_gives_no_scalar(loss, error, said):
    with pytest.raises(error, match=said) as caught:
        make(criterion=loss).run()
    assert "unsupported" not in said or "raised by the Trainer's criterion" in caught.value.__notes__


def spoilt(item=4, value=float("nan")):
    x, y = data()[:]
    x[item, 2] = value
    return DataLoader(TensorDataset(x, y), 3)


def test_a_loss_that_is_nan_because_of_an_item():
    for value, kind in ((float("nan"), "nan"), (float("inf"), "an infinity")):
        trainer = make(loader=spoilt(value=value))
        with pytest.raises(FloatingPointError, match="the loss is nan at epoch 1, step 2 .batch 2") as caught:
            if kind == "an infinity":  # tanh bounds it
                trainer.model[1] = nn.Identity()
            trainer.run()
        assert f"item 1 of the input holds {kind}" in str(caught.value)
        assert all(numpy.isfinite(w).all() for w in weights(trainer.model))


def test_a_loss_that_is_nan_because_of_a_parameter():
    class Spoil(Plugin):
        def update(self, count, model):
            with torch.no_grad():
                model[2].weight[1, 3] = float("nan")

    trainer = make()
    trainer.register_plugin(Spoil([(6, "update")]))
    with pytest.raises(
        FloatingPointError, match="epoch 2, step 7 .batch 3 of the epoch.: the parameter '2.weight' is not"
    ):
        trainer.run(3)


@pytest.mark.parametrize(
    "criterion, said",
    [
        (lambda o, t: (o - float("inf")).mean(), "it arises in the criterion"),
        (lambda o, t: (o / 0).log().mean(), "it arises in the criterion"),
    ],
)
def test_a_loss_that_is_nan_because_of_the_criterion(criterion, said):
    with pytest.raises(FloatingPointError, match=said):
        make(criterion=criterion).run()


def test_a_loss_that_is_nan_because_of_the_model():
    class Log(nn.Module):
        def forward(self, x):
            return x.log()

    model = nn.Sequential(nn.Linear(4, 2), Log())
    with pytest.raises(
        FloatingPointError, match="batch and parameters are finite, but item [012] of the output holds nan"
    ):
        make(model=model).run()


def test_batches_that_are_skipped():
    """As if the batch was not there."""
    x, y = data()[:]
    batches = [(x[k : k + 3], y[k : k + 3]) for k in range(0, 9, 3)]
    bad = torch.full((3, 4), float("nan"))
    trainer = make(loader=[batches[0], (bad, y[:3]), *batches[1:]], on_nan="skip")
    expected = make(loader=batches)
    assert [f["loss"] for f in trainer.run(2)] == [f["loss"] for f in expected.run(2)]
    assert all((a == b).all() for a, b in zip(weights(trainer.model), weights(expected.model)))


def test_a_batch_that_cannot_be_skipped():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2))
    with pytest.raises(
        FloatingPointError, match="cannot be skipped: its values have reached the buffer '0.running_mean'"
    ):
        make(model=model, loader=spoilt(), on_nan="skip").run()


def test_stopping_at_a_loss_that_is_nan(tmp_path):
    trainer = make(tmp_path, loader=spoilt(), on_nan="stop")
    assert trainer.run(3) == []
    assert trainer.iterations == 2 and "item 1 of the input holds nan" in trainer.stopped
    again = make(tmp_path, loader=spoilt(), on_nan="stop")
    assert again.run(3, resume=True) == [] and again.stopped == trainer.stopped


def test_gradients_that_are_not_finite():
    """A loss that is finite and has an infinite slope."""

    def root(output, target):
        return (output * 0).abs().sqrt().mean()

    for action in ("raise", "skip"):
        trainer = make(criterion=root, clip_norm=1.0, on_nan=action)
        before = weights(trainer.model)
        if action == "raise":
            with pytest.raises(
                FloatingPointError, match="norm of the gradients is nan at epoch 1, step .*that of '0.weight'"
            ):
                trainer.run()
        else:
            trainer.run()
        assert all((a == b).all() for a, b in zip(weights(trainer.model), before))


# --- folders and files --------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", "/proc/nothing"):
        log = []
        trainer = make(folder)
        trainer.register_plugin(Record([(1, "batch")], log))
        with pytest.raises(OSError, match="Trainer: cannot keep checkpoints in '.*(file|nothing)") as caught:
            trainer.run()
        assert log == [] and caught.value.errno


def test_a_checkpoint_that_cannot_be_written(tmp_path):
    """Found before training: a folder stands in its place."""
    os.makedirs(tmp_path / "last.pt.d")
    os.symlink(tmp_path / "nowhere" / "x", tmp_path / "last.pt")
    with pytest.raises(OSError, match="Trainer: cannot write the checkpoint '.*last.pt'"):
        make(tmp_path).run()


def test_a_folder_that_is_taken(tmp_path):
    trainer = make(tmp_path)
    trainer.run(1)
    trainer.run(2)  # its own
    before = (tmp_path / "last.pt").read_bytes()
    with pytest.raises(
        FileExistsError, match=r"there is a checkpoint '.*last.pt': resume=True goes on from it"
    ):
        make(tmp_path).run(1)
    assert (tmp_path / "last.pt").read_bytes() == before


def test_resume_without_a_folder_or_a_checkpoint(tmp_path):
    with pytest.raises(ValueError, match="resume=True needs a folder"):
        make().run(1, resume=True)
    assert len(make(tmp_path / "new").run(1, resume=True)) == 1


@pytest.mark.parametrize("cut", [0, 1, 0.5, -1])
def test_a_checkpoint_that_is_cut_short(tmp_path, cut):
    make(tmp_path).run(1)
    whole = (tmp_path / "last.pt").read_bytes()
    end = int(len(whole) * cut) if isinstance(cut, float) else cut % len(whole)
    (tmp_path / "last.pt").write_bytes(whole[:end])
    trainer = make(tmp_path)
    with pytest.raises(RuntimeError, match=r"cannot resume from '.*last.pt'"):
        trainer.run(2, resume=True)
    assert trainer.iterations == 0 and (tmp_path / "last.pt").read_bytes() == whole[:end]


def test_a_file_that_is_no_checkpoint(tmp_path):
    torch.save({"weight": torch.ones(2)}, tmp_path / "last.pt")
    with pytest.raises(RuntimeError, match="it holds no state of a Trainer"):
        make(tmp_path).run(2, resume=True)


def other(**options):
    """A run that differs from `make()`."""
    model = options.pop("model", None) or net()
    if options.get("optimizer"):
        options["optimizer"] = options["optimizer"](model)
    return lambda folder: make(folder, model=model, **options)


@pytest.mark.parametrize(
    "started, said",
    [
        (other(loader=DataLoader(data(11), 3)), "made with dataset length 10, this run has 11"),
        (other(loader=DataLoader(data(), 4)), "made with batch size 3, this run has 4"),
        (other(loader=DataLoader(data(), 3, drop_last=True)), "made with number of batches 4, this run has 3"),
        (other(validation=DataLoader(data(), 5)), "validation length None, this run has 10"),
        (other(accumulate=2), "made with accumulate 1, this run has 2"),
        (other(optimizer=lambda m: torch.optim.SGD(m.parameters(), lr=0.1)), "optimizer Adam, this run has SGD"),
        (other(optimizer=lambda m: torch.optim.Adam(m[0].parameters())), r"optimizer's groups \[4\], this run has \[2\]"),
        (other(metrics={"accuracy": Accuracy()}), r"metrics \[\], this run has \['accuracy'\]"),
        (other(mode="max"), "monitor"),
        (other(model=nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))), r"2.weight is \(2, 6\) of .*float32 there and \(3, 6\)"),
        (other(model=nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))), "missing in it: 1.weight, 1.bias; unexpected in it: 2.weight"),
        (other(model=net().double()), "0.weight is .*float32 there and .*float64 here"),
    ],
    ids=["length", "batch size", "batches", "validation", "accumulate", "optimizer", "groups", "metrics", "mode", "shape", "keys", "dtype"],
)  # fmt: skip
def test_resuming_another_run(tmp_path, started, said):
    make(tmp_path).run(1)
    before = (tmp_path / "last.pt").read_bytes()
    trainer = started(tmp_path)
    saved = weights(trainer.model)
    with pytest.raises(ValueError, match=said):
        trainer.run(2, resume=True)
    assert all((a == b).all() for a, b in zip(weights(trainer.model), saved)) and trainer.history == []
    assert (tmp_path / "last.pt").read_bytes() == before


def test_resuming_without_a_plugin(tmp_path):
    trainer = make(tmp_path)
    trainer.register_plugin(EarlyStopping(3))
    trainer.run(1)
    with pytest.raises(ValueError, match="has the state of the plug-in EarlyStopping 1: register it"):
        make(tmp_path).run(2, resume=True)


def test_no_warnings(tmp_path):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer = make(
            tmp_path,
            model=model,
            optimizer=optimizer,
            scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 2),
            scheduler_unit="update",
            accumulate=2,
        )
        trainer.run(2)


# --- metrics and plug-ins -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, said",
    [("high", "'high' of type str"), (torch.ones(3), r"a tensor of shape \(3,\)"), (None, "NoneType")],
)
def test_a_metric_that_is_no_number(value, said):
    with pytest.raises(TypeError, match=f"score.* gave .*{said}.*, wanted a number") as caught:

        def score(output, target):
            return value

        make(metrics={"score": score}).run()
    assert caught.value.__notes__ == ["raised by the Trainer's metric 'score'"]


@pytest.mark.parametrize("unit", ["start", "batch", "iteration", "update", "epoch", "finish"])
def test_a_plugin_that_raises(tmp_path, unit):
    """Its error has a note that names it; other plug-ins are finished; what was saved resumes."""

    class Broken(Plugin):
        broken = True

        def fail(self, *_):
            if self.broken:
                raise LookupError("no such thing")

    setattr(Broken, unit, Broken.fail)
    log = []
    trainer = make(tmp_path)
    trainer.register_plugin(Record([], log))
    trainer.register_plugin(Broken([] if unit in ("start", "finish") else [(1, unit)]))
    with pytest.raises(LookupError, match="no such thing") as caught:
        trainer.run(1)
    count = {"start": "", "finish": ""}.get(unit, " 1")
    assert caught.value.__notes__ == [f"raised by the Trainer's plug-in Broken, {unit}{count}"]
    assert log == ["start", "finish"]
    Broken.broken = False
    trainer.run(1, resume=True)
    assert trainer.history == make().run(1)


def test_what_is_no_plugin():
    trainer = make()
    with pytest.raises(TypeError, match="register_plugin: wanted a Plugin, got function"):
        trainer.register_plugin(lambda: None)
    for interval, said in (
        (("epoch", 1), "the unit|at least 1"),
        ((1, "epochs"), "must be one of batch, iter"),
        ((0, "epoch"), "at least 1"),
    ):
        with pytest.raises(ValueError, match=said):
            trainer.register_plugin(Plugin([interval]))
    assert trainer.plugins == []
