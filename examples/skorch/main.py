"""A flambeau network as a scikit-learn estimator: skorch, unmodified, in a pipeline under a grid search.

`flambeau.as_torch()` makes `import torch` mean flambeau for the rest of the program, so a library that was written for PyTorch runs on it.

Data: scikit-learn's breast cancer data (Wisconsin, 569 tumours, 30 measurements of cell nuclei).  A quarter is held out; the grid search
sees the other three, and chooses width and learning rate by 3-fold cross-validation.

Figure: accuracy on the held-out quarter, mean of 3 splits.  To reach: 96 %.  To compare: logistic regression, which is hard to beat
here, a decision tree, and calling every tumour benign.

    python examples/skorch/main.py --picture skorch.png
"""

from __future__ import annotations

import argparse
import sys
import warnings

import flambeau

flambeau.as_torch()

try:
    import matplotlib.pyplot as plt
    import numpy as np
    import torch  # this is flambeau
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import RocCurveDisplay
    from sklearn.model_selection import GridSearchCV, train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier
    from skorch import NeuralNetClassifier
    from skorch.callbacks import EarlyStopping, LRScheduler
    from torch import nn
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install ./dropin '.[examples]'")


class Net(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(30, width),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 2),
        )

    def forward(self, x):
        return self.layers(x)


def estimator(epochs: int):
    """Scaling and a network, fitted and scored like any other estimator."""
    net = NeuralNetClassifier(
        Net,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.AdamW,
        optimizer__weight_decay=0.05,
        batch_size=64,
        max_epochs=epochs,
        iterator_train__shuffle=True,
        callbacks=[
            EarlyStopping(patience=10),
            LRScheduler(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=epochs),
        ],
        verbose=0,
    )
    return make_pipeline(StandardScaler(), net)


def draw(path: str, search: GridSearchCV, others: dict, held_out: tuple, title: str) -> None:
    """What the grid search saw, how the chosen network learnt, and the trade between the two kinds of error."""
    figure, (grid, learning, roc) = plt.subplots(1, 3, figsize=(13, 4.3), layout="constrained")
    figure.suptitle(title)
    results = search.cv_results_
    widths, rates = (
        sorted(set(results[f"param_neuralnetclassifier__{name}"])) for name in ("module__width", "lr")
    )
    scores = results["mean_test_score"].reshape(len(rates), len(widths))
    grid.imshow(scores, cmap="Blues")
    grid.set(
        xticks=range(len(widths)),
        yticks=range(len(rates)),
        xlabel="width",
        ylabel="learning rate",
        title="grid search",
    )
    grid.set_xticklabels(widths)
    grid.set_yticklabels(rates)
    for (row, column), score in np.ndenumerate(scores):
        dark = score > (scores.min() + scores.max()) / 2
        grid.text(column, row, f"{score:.1%}", ha="center", va="center", color="white" if dark else "black")
    history = search.best_estimator_[-1].history
    learning.plot(history[:, "train_loss"], label="training loss")
    learning.plot(history[:, "valid_loss"], label="validation loss")
    learning.set(xlabel="epoch", yscale="log", title="the chosen network")
    learning.legend()
    RocCurveDisplay.from_estimator(search, *held_out, ax=roc, name="network")
    for name, other in others.items():
        RocCurveDisplay.from_estimator(other, *held_out, ax=roc, name=name)
    roc.set(xlim=(-0.01, 0.4), ylim=(0.6, 1.01), title="held out")
    figure.savefig(path, dpi=80)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="one split and few epochs, and an easy figure")
    options.add_argument("--picture", default="skorch.png")
    args = options.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    splits, epochs = (1, 5) if args.quick else (3, 30)

    data = load_breast_cancer()
    x, y = data.data.astype(np.float32), data.target.astype(np.int64)
    choices = {"neuralnetclassifier__lr": [0.003, 0.01], "neuralnetclassifier__module__width": [8, 64]}
    scores = []
    for seed in tqdm(range(splits), disable=None):
        torch.manual_seed(seed)
        np.random.seed(seed)
        known_x, x_held_out, known_y, y_held_out = train_test_split(x, y, stratify=y, random_state=seed)
        search = GridSearchCV(estimator(epochs), choices, cv=3).fit(known_x, known_y)
        others = {
            "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()).fit(
                known_x, known_y
            ),
            "decision tree": DecisionTreeClassifier(random_state=seed).fit(known_x, known_y),
        }
        scores.append([fitted.score(x_held_out, y_held_out) for fitted in (search, *others.values())])

    network, linear, tree = np.mean(scores, axis=0)
    bar = 0.8 if args.quick else 0.96
    figure = (
        f"accuracy {network:.1%} over {splits} splits; to reach {bar:.0%}; "
        f"logistic regression {linear:.1%}, decision tree {tree:.1%}, all benign {y.mean():.1%}"
    )
    draw(args.picture, search, others, (x_held_out, y_held_out), figure)
    print(figure)
    if not network >= bar:
        sys.exit("missed")


if __name__ == "__main__":
    main()
