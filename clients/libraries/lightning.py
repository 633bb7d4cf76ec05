"""lightning: its Trainer on a module with validation, checkpoints, callbacks, loggers; Fabric; what its tuner finds."""

import csv
import os
import tempfile
import warnings

import lightning
import numpy as np
import torch
from harness import Client, fill, integers, normal
from lightning.pytorch import callbacks
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

client = Client("lightning", "torchmetrics")

warnings.filterwarnings("ignore")


class Classifier(lightning.LightningModule):
    def __init__(self, width=16, rate=0.05):
        super().__init__()
        self.save_hyperparameters()
        self.network = fill(
            torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.Tanh(), torch.nn.Linear(width, 3))
        )
        self.example_input_array = normal(1, 6)
        self.losses, self.seen = [], []

    def forward(self, x):
        return self.network(x)

    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.losses.append(loss.item())
        self.log("loss", loss, prog_bar=True, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, index):
        scores = self(batch[0])
        self.log("val_loss", torch.nn.functional.cross_entropy(scores, batch[1]))
        self.log_dict({"accuracy": (scores.argmax(1) == batch[1]).float().mean()})

    test_step = validation_step

    def predict_step(self, batch, index):
        return self(batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.rate, momentum=0.9)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2)}


def loader(count=24, seed=0):
    x = normal(count, 6, seed=seed)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x[:, :3].argmax(1)), batch_size=4)


def trainer(folder, **options):
    settings = {
        "default_root_dir": folder,
        "max_epochs": 4,
        "accelerator": "cpu",
        "devices": 1,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "logger": False,
        "log_every_n_steps": 1,
        **options,
    }
    return lightning.Trainer(**settings)


def measured(runner):
    return {name: float(value) for name, value in sorted(runner.callback_metrics.items())}


@client.case
def fit():
    """Training and validation, a test, predictions, the best checkpoint read back, and training on from the last."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = callbacks.ModelCheckpoint(
            folder, monitor="val_loss", save_top_k=2, save_last=True, filename="{epoch}"
        )
        model, runner = Classifier(), trainer(folder, callbacks=[checkpoint])
        runner.fit(model, loader(), loader(12, 1))
        fitted = measured(runner)
        tested = runner.test(model, loader(8, 2), verbose=False)
        predicted = torch.cat(runner.predict(model, loader(8, 2)))
        names = sorted(os.listdir(folder))
        again = Classifier.load_from_checkpoint(checkpoint.best_model_path)
        onward = Classifier()
        trainer(folder, max_epochs=6).fit(onward, loader(), loader(12, 1), ckpt_path=folder + "/last.ckpt")
        return {
            "losses": np.array(model.losses),
            "metrics": fitted,
            "tested": tested,
            "predicted": predicted,
            "files": names,
            "again": again(normal(2, 6)),
            "width": again.hparams.width,
            "onward": np.array(onward.losses),
        }


@client.case
def guided():
    """Callbacks: early stop, rates noted, averaged weights, accumulation that grows, gradients clipped, times."""

    class Notes(callbacks.Callback):
        def __init__(self):
            self.calls = []

        def on_train_epoch_end(self, trainer, module):
            self.calls.append(f"epoch {trainer.current_epoch}, step {trainer.global_step}")

        def on_before_optimizer_step(self, trainer, module, optimizer):
            self.calls.append(len(optimizer.param_groups))

    with tempfile.TemporaryDirectory() as folder:
        notes, rates = Notes(), callbacks.LearningRateMonitor()
        model = Classifier()
        runner = trainer(
            folder,
            max_epochs=8,
            gradient_clip_val=0.5,
            logger=CSVLogger(folder),
            callbacks=[
                notes,
                rates,
                callbacks.EarlyStopping("val_loss", patience=2, min_delta=0.5),
                callbacks.GradientAccumulationScheduler({0: 1, 2: 2}),
                callbacks.StochasticWeightAveraging(1e-2, swa_epoch_start=0.6),
                callbacks.Timer(),
            ],
        )
        runner.fit(model, loader(), loader(12, 1))
        with open(runner.logger.log_dir + "/metrics.csv") as file:
            rows = list(csv.DictReader(file))
    return {
        "losses": np.array(model.losses),
        "calls": [str(call) for call in notes.calls],
        "stopped": runner.current_epoch,
        "columns": sorted(rows[0]),
        "rows": len(rows),
        "last": [float(row["loss_step"]) for row in rows if row["loss_step"]][-1],
    }


@client.case
def by_hand():
    """Two optimisers that the module steps itself."""

    class Pair(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.a, self.b = fill(torch.nn.Linear(6, 4)), fill(torch.nn.Linear(4, 6), 1)
            self.losses = []

        def training_step(self, batch, index):
            for which, optimizer in enumerate(self.optimizers()):
                self.toggle_optimizer(optimizer)
                loss = (self.b(self.a(batch[0])) - batch[0] * (1 + which)).square().mean()
                optimizer.zero_grad()
                self.manual_backward(loss)
                self.clip_gradients(optimizer, 0.5, "norm")
                optimizer.step()
                self.untoggle_optimizer(optimizer)
                self.losses.append(loss.item())

        def configure_optimizers(self):
            return [torch.optim.Adam(self.a.parameters(), 1e-2), torch.optim.SGD(self.b.parameters(), 1e-2)]

    with tempfile.TemporaryDirectory() as folder:
        model = Pair()
        trainer(folder, max_epochs=2).fit(model, loader())
        return np.array(model.losses)


@client.case(tolerance=3e-2)
def half_precision():
    with tempfile.TemporaryDirectory() as folder:
        model = Classifier()
        trainer(folder, precision="bf16-mixed").fit(model, loader(), loader(12, 1))
        return np.array(model.losses)


@client.case
def double_precision():
    with tempfile.TemporaryDirectory() as folder:
        model = Classifier()
        trainer(folder, precision="64-true").fit(model, loader(), loader(12, 1))
        return [np.array(model.losses), model.network[0].weight]


@client.case
def with_workers_and_a_board():
    """A data module whose loader has workers, events for TensorBoard, a profile, a summary."""

    class Data(lightning.LightningDataModule):
        def setup(self, stage):
            self.x = normal(24, 6)

        def train_dataloader(self):
            data = torch.utils.data.TensorDataset(self.x, self.x[:, :3].argmax(1))
            return torch.utils.data.DataLoader(data, 4, num_workers=2, persistent_workers=True)

    with tempfile.TemporaryDirectory() as folder:
        model = Classifier()
        runner = trainer(
            folder, max_epochs=2, logger=TensorBoardLogger(folder, log_graph=False), profiler="simple"
        )
        runner.fit(model, Data())
        from lightning.pytorch.utilities.model_summary import ModelSummary

        summary = ModelSummary(model, max_depth=-1)
        files = [name for name in os.listdir(runner.logger.log_dir) if name.startswith("events")]
        sizes = [summary.total_parameters, summary.trainable_parameters, len(files)]
        return [np.array(model.losses), sizes, [str(size) for size in summary.in_sizes], measured(runner)]


@client.case
def fabric():
    """The loop by hand under Fabric, a state saved and loaded, values gathered."""
    with tempfile.TemporaryDirectory() as folder:
        made = lightning.Fabric(accelerator="cpu", devices=1)
        made.launch()
        network = fill(torch.nn.Linear(6, 3))
        network, optimizer = made.setup(network, torch.optim.Adam(network.parameters(), 1e-2))
        batches = made.setup_dataloaders(loader())
        losses = []
        for x, labels in batches:
            with made.no_backward_sync(network, enabled=False):
                loss = torch.nn.functional.cross_entropy(network(x), labels)
                made.backward(loss)
            made.clip_gradients(network, optimizer, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        made.save(folder + "/state.ckpt", {"network": network, "optimizer": optimizer, "step": 6})
        with torch.no_grad():
            network.weight.zero_()
        state = {"network": network, "optimizer": optimizer, "step": 0}
        made.load(folder + "/state.ckpt", state)
        return [np.array(losses), network(normal(2, 6)), state["step"], made.all_gather(torch.ones(2))]


@client.case
def tuned():
    """The rates tried by the finder of a rate, and the batch that fits."""
    from lightning.pytorch.tuner import Tuner

    with tempfile.TemporaryDirectory() as folder:
        model = Classifier()
        finder = Tuner(trainer(folder)).lr_find(model, loader(400), num_training=20, attr_name="rate")
        return [np.array(finder.results["lr"]), np.array(finder.results["loss"])]


@client.case
def checked():
    """A trial run, a batch overfitted, wrong arguments."""
    with tempfile.TemporaryDirectory() as folder:
        model = Classifier()
        trainer(folder, fast_dev_run=True).fit(model, loader(), loader(12, 1))
        over = Classifier()
        trainer(folder, overfit_batches=1, max_epochs=5).fit(over, loader())
        try:
            trainer(folder, precision="7")
        except ValueError as error:
            return [np.array(model.losses), np.array(over.losses), "precision" in str(error).lower()]


@client.case
def seeds():
    lightning.seed_everything(5, workers=True, verbose=False)
    first = [torch.rand(3), np.random.rand(2)]
    lightning.seed_everything(5, verbose=False)
    second = [torch.rand(3), np.random.rand(2)]
    return [bool(torch.equal(first[0], second[0])), first[1] - second[1], integers(3, 2)]
