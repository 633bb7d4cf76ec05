"""torchmetrics: all examples in its docstrings, with the same random numbers in both libraries, and metrics in a loop.

Its sdist holds no tests.  Examples that need packages or models beside it fail on PyTorch, too, and are not counted.
"""

import pickle
import warnings

import torch
import torchmetrics
from harness import Client, doctests, integers, normal

warnings.simplefilter("ignore")
client = Client("torchmetrics")


@client.case
def collection():
    """Updates, copies, pickles and state of a collection of metrics, as a training loop uses them."""
    kinds = {"task": "multiclass", "num_classes": 5}
    metrics = torchmetrics.MetricCollection(
        {
            "accuracy": torchmetrics.Accuracy(**kinds),
            "macro": torchmetrics.F1Score(**kinds, average="macro"),
            "auroc": torchmetrics.AUROC(**kinds),
            "confusion": torchmetrics.ConfusionMatrix(**kinds),
            "calibration": torchmetrics.CalibrationError(**kinds),
        },
        prefix="val_",
    )
    seen = []
    for step in range(3):
        seen.append(metrics(normal(40, 5, seed=step).softmax(1), integers(5, 40, seed=step)))
    whole = metrics.compute()
    again = pickle.loads(pickle.dumps(metrics)).compute()
    copied = metrics.clone(prefix="test_")
    copied.persistent(True)
    state = copied.state_dict()
    metrics.reset()
    return [seen, whole, again, {k: v for k, v in state.items() if torch.is_tensor(v)}]


doctests(client, "torchmetrics")
