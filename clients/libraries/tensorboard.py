"""tensorboard: what `torch.utils.tensorboard.SummaryWriter` wrote, read by TensorBoard's own reader."""

import tempfile

import matplotlib.pyplot
import numpy as np
from harness import Client, normal
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray
from torch import nn
from torch.utils.tensorboard import SummaryWriter

client = Client("tensorboard")


def written(write):
    with tempfile.TemporaryDirectory() as folder:
        with SummaryWriter(folder) as writer:
            write(writer)
        seen = EventAccumulator(
            folder, size_guidance={"images": 0, "histograms": 0, "scalars": 0, "tensors": 0}
        )
        seen.Reload()
        return seen


@client.case
def scalars():
    def write(writer):
        for step in range(5):
            writer.add_scalar("loss", 1 / (step + 1), step)
            writer.add_scalar("tensor", normal(1, seed=step)[0], step, new_style=True)

    seen = written(write)
    return [
        sorted(seen.Tags()["scalars"]),
        [(e.step, e.value) for e in seen.Scalars("loss")],
        [(e.step, make_ndarray(e.tensor_proto)) for e in seen.Tensors("tensor")],
    ]


@client.case
def histograms():
    seen = written(lambda writer: writer.add_histogram("weights", normal(1000), 3))
    result = seen.Histograms("weights")[0]
    value = result.histogram_value
    return [result.step, value.min, value.max, value.num, value.sum, value.bucket_limit, value.bucket]


@client.case
def pictures():
    def write(writer):
        writer.add_image("noise", normal(3, 8, 8).sigmoid(), 0)
        writer.add_images("several", normal(5, 1, 8, 8).sigmoid(), 1)
        figure = matplotlib.pyplot.figure(figsize=(2, 1), dpi=50)
        writer.add_figure("figure", figure, 2)

    seen = written(write)
    results = [seen.Images(tag)[0] for tag in ("noise", "several", "figure")]
    return [(e.step, e.width, e.height) for e in results]


@client.case
def others():
    def write(writer):
        writer.add_text("note", "**hello**", 1)
        writer.add_pr_curve("curve", np.array([0, 1, 1, 0, 1]), normal(5).sigmoid(), 0)
        writer.add_hparams({"lr": 0.1, "batch": 3, "bias": True}, {"hparam/loss": 0.5}, run_name=".")
        writer.add_audio("tone", normal(1, 800).clamp(-1, 1), 0, sample_rate=8000)
        writer.add_mesh("mesh", normal(1, 4, 3))
        writer.add_embedding(normal(4, 3), metadata=list("abcd"))
        writer.add_custom_scalars({"all": {"loss": ["Multiline", ["loss/.*"]]}})

    seen = written(write)
    plain = sorted(
        tag for tag in seen.Tags()["tensors"] if not tag.startswith("_hparams_")
    )  # PyTorch's hold no tensor
    session = [seen.SummaryMetadata("_hparams_/" + tag) for tag in ("experiment", "session_start_info")]
    return {
        "tags": plain,
        "session": [data.plugin_data.plugin_name for data in session],
        "audio": seen.Tags()["audio"],
        "curve": make_ndarray(seen.Tensors("curve")[0].tensor_proto),
        "loss": [e.value for e in seen.Scalars("hparam/loss")],
    }


@client.case
def graph():
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    return bool(written(lambda writer: writer.add_graph(network, normal(2, 3))).Tags()["graph"])
