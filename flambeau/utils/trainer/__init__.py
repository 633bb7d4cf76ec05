"""Training a model: the loop, checkpoints that resume exactly, metrics, and plug-ins.

From a data set to a trained model:

>>> import flambeau as torch
>>> from flambeau import nn
>>> from flambeau.utils.data import DataLoader, TensorDataset, random_split
>>> from flambeau.utils.trainer import Accuracy, EarlyStopping, Trainer

>>> _ = torch.manual_seed(0)
>>> points = torch.rand(400, 2) * 2 - 1
>>> inside = (points.square().sum(1) < 0.6).long()
>>> training, held_out = random_split(TensorDataset(points, inside), [300, 100])

>>> model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
>>> optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
>>> trainer = Trainer(
...     model,
...     nn.CrossEntropyLoss(),
...     optimizer,
...     DataLoader(training, batch_size=30, shuffle=True),
...     validation=DataLoader(held_out, batch_size=100),
...     metrics={"accuracy": Accuracy()},
...     scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=15),
...     clip_norm=1.0,
... )
>>> trainer.register_plugin(EarlyStopping(patience=10))
>>> history = trainer.run(epochs=15)
>>> trainer.best["val_accuracy"] > 0.9
True

With `folder="runs/circle"` and `trainer.run(epochs=15, resume=True)` the same program may be ended at any moment, by Ctrl-C
or any signal, and started again: it goes on from its last checkpoint, and ends with the same bits.
"""

from ._loop import Trainer
from .metrics import Accuracy, Mean, Metric
from .plugins import (
    AccuracyMonitor,
    Curves,
    EarlyStopping,
    Logger,
    LossMonitor,
    Monitor,
    Plugin,
    ProgressBar,
    ProgressMonitor,
    TensorBoard,
    TimeMonitor,
)

__all__ = [
    "Accuracy",
    "AccuracyMonitor",
    "Curves",
    "EarlyStopping",
    "Logger",
    "LossMonitor",
    "Mean",
    "Metric",
    "Monitor",
    "Plugin",
    "ProgressBar",
    "ProgressMonitor",
    "TensorBoard",
    "TimeMonitor",
    "Trainer",
]
