"""skorch: its whole suite, and two fits.

Its tests of tokenizers and language models download models and are not counted, as they fail on PyTorch, too, without a network.
"""

import numpy as np
import torch
from harness import Client, fill
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EarlyStopping, EpochScoring, LRScheduler
from skorch.helper import predefined_split
from torch import nn

client = Client("skorch", "scikit-learn")
client.suite("its tests", "--pyargs", "skorch.tests", processes=2)
client.cause(
    r"with_compile$",
    "it looks for `dynamo_ctx`, the mark of compiled modules; `compile` runs a module as Python yet",
)


class Digits(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
        fill(self)

    def forward(self, x):
        return self.layers(x)


def digits():
    x, y = load_digits(return_X_y=True)
    return (x / 16).astype(np.float32)[:600], y.astype(np.int64)[:600]


@client.case
def classifier():
    x, y = digits()
    held = torch.utils.data.TensorDataset(torch.from_numpy(x[500:]), torch.from_numpy(y[500:]))
    net = NeuralNetClassifier(
        Digits,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=0.01,
        max_epochs=6,
        batch_size=50,
        train_split=predefined_split(held),
        callbacks=[
            EarlyStopping(patience=5),
            LRScheduler("CosineAnnealingLR", T_max=6),
            EpochScoring("accuracy", name="acc", on_train=True),
        ],
        verbose=0,
    )
    net.fit(x[:500], y[:500])
    history = {
        key: net.history[:, key]
        for key in ("train_loss", "valid_loss", "valid_acc", "acc", "valid_loss_best")
    }
    return [history, net.predict_proba(x[500:]), net.score(x[500:], y[500:])]


@client.case
def grid_search():
    x, y = digits()
    net = NeuralNetClassifier(
        Digits, criterion=nn.CrossEntropyLoss, max_epochs=2, lr=0.1, train_split=False, verbose=0
    )
    search = GridSearchCV(
        make_pipeline(StandardScaler(), net),
        {"neuralnetclassifier__module__hidden": [16, 24]},
        cv=2,
        scoring="accuracy",
    )
    search.fit(x, y)
    return [search.best_params_, search.cv_results_["mean_test_score"]]


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        fill(self)

    def forward(self, x):
        return self.linear(x)


@client.case
def regressor():
    stream = np.random.default_rng(0)
    x = stream.standard_normal((80, 3)).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [0.5]], np.float32)
    net = NeuralNetRegressor(
        Line,
        max_epochs=20,
        lr=0.1,
        optimizer=torch.optim.SGD,
        optimizer__momentum=0.5,
        train_split=False,
        verbose=0,
    )
    net.fit(x, y)
    return [net.history[:, "train_loss"], net.predict(x[:5]), [p for p in net.module_.parameters()]]
