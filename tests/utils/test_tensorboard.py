"""Event files, read back by tensorboard's own reader."""

from __future__ import annotations

import inspect
import io
import os
import subprocess
import sys
import wave

import numpy
import pytest
from matplotlib.figure import Figure
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

import flambeau as torch
from flambeau.utils.tensorboard import FileWriter, SummaryWriter


@pytest.fixture
def writer(tmp_path):
    with SummaryWriter(tmp_path) as made:
        yield made


def read(writer, folder=None):
    """Everything in a folder, after closing; nothing is left out of long series."""
    writer.close()
    limits = dict.fromkeys(("scalars", "images", "audio", "histograms", "tensors", "compressedHistograms"), 0)
    return EventAccumulator(folder or writer.get_logdir(), size_guidance=limits).Reload()


def steps(events, tag):
    return [(event.step, event.value) for event in events.Scalars(tag)]


@pytest.mark.parametrize(
    "value",
    [2.5, numpy.float32(2.5), numpy.array([2.5]), torch.tensor(2.5, requires_grad=True)]
    + [torch.tensor([[2.5]], dtype=dtype) for dtype in (torch.float64, torch.bfloat16, torch.float16)],
    ids=lambda v: type(v).__name__,
)
def test_scalars(writer, value):
    for step in (1, 5):
        writer.add_scalar("a/b", value, step, walltime=100.0 + step)
    events = read(writer)
    assert steps(events, "a/b") == [(1, 2.5), (5, 2.5)]
    assert [event.wall_time for event in events.Scalars("a/b")] == [101.0, 105.0]


def test_scalars_that_are_not_finite(writer):
    for step, value in enumerate((numpy.inf, numpy.nan)):
        writer.add_scalar("x", value, step)
    (_, first), (_, second) = steps(read(writer), "x")
    assert first == numpy.inf and numpy.isnan(second)


@pytest.mark.parametrize("double", [False, True])
def test_scalars_as_tensors(writer, double):
    writer.add_scalar("x", 0.1, 3, new_style=True, double_precision=double)
    (event,) = read(writer).Tensors("x")
    array = make_ndarray(event.tensor_proto)
    assert array.dtype == (numpy.float64 if double else numpy.float32) and array == array.dtype.type(0.1)


def test_what_is_no_scalar(writer):
    with pytest.raises(ValueError, match=r"scalar 'x' has shape \(2,\), wanted one element"):
        writer.add_scalar("x", torch.ones(2))
    for value, what in (("1", "str"), (["a", "b"], "list of str"), ({}, "dict"), (None, "NoneType")):
        with pytest.raises(NotImplementedError, match=f"wanted a tensor, an array or a number, got {what}$"):
            writer.add_scalar("x", value)


def test_several_scalars(writer, tmp_path):
    for step in range(2):
        writer.add_scalars("run/loss", {"train": step, "test": 2 * step}, step)
    writer.close()
    for tag, factor in (("train", 1), ("test", 2)):
        assert steps(read(writer, str(tmp_path / f"run_loss_{tag}")), "run/loss") == [(0, 0), (1, factor)]


def test_tensors(writer):
    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.bool):
        writer.add_tensor(str(dtype), torch.arange(6).reshape(2, 3).to(dtype))
    with pytest.raises(ValueError, match="complex64"):
        writer.add_tensor("x", torch.ones(2, dtype=torch.complex64))
    events = read(writer)
    for tag in events.Tags()["tensors"]:
        array = make_ndarray(events.Tensors(tag)[0].tensor_proto)
        assert array.tolist() == numpy.arange(6).reshape(2, 3).astype(array.dtype).tolist()
    assert len(events.Tags()["tensors"]) == 6


def counted(histogram):
    """(limit, limit, count) of each bucket that is not empty."""
    limits = histogram.bucket_limit
    results = [(limits[k - 1], limits[k], n) for k, n in enumerate(histogram.bucket) if n]
    assert histogram.bucket[0] == 0  # so that each bucket has a lower limit
    return results


@pytest.mark.parametrize("bins", ["tensorflow", "auto", 7, [-4.0, 0.0, 1.0, 4.0]])
def test_histograms(writer, bins):
    values = torch.randn(300, generator=torch.Generator().manual_seed(1)).clamp(-3.9, 3.9)
    writer.add_histogram("x", values, 4, bins=bins)
    (event,) = read(writer).Histograms("x")
    histogram = event.histogram_value
    array = values.numpy().astype(float)
    assert event.step == 4 and histogram.num == 300
    assert (histogram.min, histogram.max) == (array.min(), array.max())
    assert numpy.allclose([histogram.sum, histogram.sum_squares], [array.sum(), (array**2).sum()])
    result = counted(histogram)
    assert sum(n for *_, n in result) == 300
    for low, high, n in result:
        assert n == ((array >= low) & ((array < high) | (array == high) & (high == array.max()))).sum()


def test_histograms_of_odd_values(writer):
    writer.add_histogram("zeros", torch.zeros(5))
    writer.add_histogram("spoilt", torch.tensor([1.0, float("nan"), float("inf")]))
    writer.add_histogram("joined", torch.arange(100), bins=100, max_bins=8)
    with pytest.raises(ValueError, match="'none' has no values"):
        writer.add_histogram("none", torch.ones(0))
    events = read(writer)
    ((low, high, n),) = counted(events.Histograms("zeros")[0].histogram_value)
    assert low <= 0 < high and n == 5
    ((low, high, n),) = counted(events.Histograms("spoilt")[0].histogram_value)
    assert low <= 1 < high and n == 1
    joined = counted(events.Histograms("joined")[0].histogram_value)
    assert len(joined) <= 8 and sum(n for *_, n in joined) == 100


def test_raw_histograms(writer):
    writer.add_histogram_raw("x", 0, 3, 4, 6, 14, [1, 2, 3], [1, 1, 2], 2)
    with pytest.raises(ValueError, match="2 limits and 1 counts"):
        writer.add_histogram_raw("x", 0, 3, 4, 6, 14, [1, 2], [1])
    histogram = read(writer).Histograms("x")[0].histogram_value
    assert histogram.bucket_limit == [1, 2, 3] and histogram.bucket == [1, 1, 2]


def pixels(event):
    picture = Image.open(io.BytesIO(event.encoded_image_string))
    assert (picture.height, picture.width) == (event.height, event.width)
    return numpy.asarray(picture)


@pytest.mark.parametrize("letters", ["CHW", "HWC", "WCH", "HW"])
@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_images(writer, letters, kind):
    image = torch.arange(3 * 4 * 5).reshape(3, 4, 5).to(torch.uint8)
    if letters == "HW":
        image = image[0]
        expected = numpy.repeat(image.numpy()[..., None], 3, -1)
    else:
        expected = image.numpy().transpose(1, 2, 0)
        image = image.permute(*("CHW".index(letter) for letter in letters))
    writer.add_image(
        "x", image if kind is torch.uint8 else (image.double() + 0.5) / 255, 7, dataformats=letters
    )
    (event,) = read(writer).Images("x")
    assert event.step == 7 and (pixels(event) == expected).all()


def test_a_grid_of_images(writer):
    images = torch.arange(10.0).reshape(10, 1, 1, 1).expand(10, 3, 2, 2) / 10
    writer.add_images("x", images)
    array = pixels(read(writer).Images("x")[0])
    assert array.shape == (4, 16, 3)
    assert (
        array[::2, ::2, 0].reshape(-1)[:10] == (numpy.arange(10, dtype="f4") / 10 * 255).astype("u1")
    ).all()
    assert (array[2:, 4:] == 0).all()


@pytest.mark.parametrize("shape, letters", [((3, 4), "CHW"), ((2, 4, 4), "CHW"), ((3, 4, 4), "CHX")])
def test_what_is_no_image(writer, shape, letters):
    with pytest.raises(ValueError, match="dataformats|channels"):
        writer.add_image("x", torch.ones(shape), dataformats=letters)


def test_boxes(writer):
    boxes = torch.tensor([[2, 3, 10, 12]])
    writer.add_image_with_boxes("x", torch.zeros(3, 20, 30), boxes)
    writer.add_image_with_boxes("large", torch.zeros(3, 20, 30), boxes, rescale=2, labels=["cat"])
    with pytest.raises(ValueError, match="1 boxes of 'x' have 2 labels"):
        writer.add_image_with_boxes("x", torch.zeros(3, 20, 30), boxes, labels=["a", "b"])
    events = read(writer)
    array = pixels(events.Images("x")[0])
    assert (array[3, 2:11] == [255, 0, 0]).all() and (array[7, 6] == 0).all() and array.shape == (20, 30, 3)
    assert pixels(events.Images("large")[0]).shape == (40, 60, 3)


def test_figures(writer):
    figure = Figure(figsize=(2, 1), dpi=50)
    figure.subplots().plot([1, 2])
    writer.add_figure("x", figure, 3)
    writer.add_figure("two", [figure, figure])
    events = read(writer)
    array = pixels(events.Images("x")[0])
    assert array.shape == (50, 100, 4) and len(numpy.unique(array)) > 5
    assert pixels(events.Images("two")[0]).shape == (50, 200, 4)


def test_figures_of_pyplot_are_closed(writer):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    for close in (False, True):
        figure = pyplot.figure()
        writer.add_figure("x", figure, close=close)
        assert pyplot.fignum_exists(figure.number) is not close
        pyplot.close(figure)


def test_video(writer):
    frames = torch.zeros(1, 3, 1, 4, 6)
    frames[0, 1] = 1
    writer.add_video("x", frames, fps=10)
    with pytest.raises(ValueError, match=r"wanted \(N, T, C, H, W\)"):
        writer.add_video("x", frames[0])
    picture = Image.open(io.BytesIO(read(writer).Images("x")[0].encoded_image_string))
    shades = []
    for k in range(picture.n_frames):
        picture.seek(k)
        shades.append(numpy.asarray(picture.convert("L")).max())
    assert shades == [0, 255, 0] and picture.size == (6, 4)


def test_audio(writer):
    sound = torch.sin(torch.arange(100.0))
    writer.add_audio("x", sound.reshape(1, -1) * 1.5, 2, sample_rate=8000)
    with pytest.raises(ValueError, match=r"wanted \(L,\) or \(1, L\)"):
        writer.add_audio("x", torch.ones(2, 100))
    (event,) = read(writer).Audio("x")
    assert (event.sample_rate, event.length_frames, event.content_type) == (8000, 100, "audio/wav")
    with wave.open(io.BytesIO(event.encoded_audio_string)) as file:
        samples = numpy.frombuffer(file.readframes(100), "<i2")
    assert numpy.abs(samples / 32767 - (sound.numpy() * 1.5).clip(-1, 1)).max() < 1e-4


def test_text(writer):
    writer.add_text("note", "**größer**", 1)
    (event,) = read(writer).Tensors("note/text_summary")
    assert make_ndarray(event.tensor_proto).tolist() == ["**größer**".encode()]


def test_precision_and_recall(writer):
    labels, chances = torch.tensor([1, 1, 0, 1, 0, 0]), torch.tensor([1.0, 0.8, 0.6, 0.4, 0.2, 0.0])
    writer.add_pr_curve("x", labels, chances, num_thresholds=6)
    writer.add_pr_curve("weighted", labels.bool(), chances, num_thresholds=6, weights=2 * torch.ones(6))
    with pytest.raises(ValueError, match=r"predictions of 'x' lie outside of \[0, 1\]"):
        writer.add_pr_curve("x", labels, chances * 2)
    with pytest.raises(ValueError, match=r"has shape \(6, 2\), wanted \(6, 127\)"):
        writer.add_pr_curve_raw("raw", *([[1, 2]] * 6))
    writer.add_pr_curve_raw("raw", *([[1, 2]] * 6), num_thresholds=2)
    events = read(writer)
    rows = make_ndarray(events.Tensors("x")[0].tensor_proto)
    for k in range(6):
        said = chances.numpy() >= k / 5 - 1e-6
        truth = labels.numpy() == 1
        expected = [
            (said & truth).sum(),
            (said & ~truth).sum(),
            (~said & ~truth).sum(),
            (~said & truth).sum(),
        ]
        assert rows[:4, k].tolist() == expected
        assert numpy.allclose(rows[4:, k], [expected[0] / max(1, said.sum()), expected[0] / 3])
    assert (make_ndarray(events.Tensors("weighted")[0].tensor_proto)[:4] == 2 * rows[:4]).all()
    assert events.SummaryMetadata("x").plugin_data.plugin_name == "pr_curves"


def test_charts(writer):
    from tensorboard.plugins.custom_scalar import layout_pb2

    writer.add_custom_scalars({"c": {"t": ["Multiline", ["a", "b"]], "m": ["Margin", ["v", "l", "u"]]}})
    with pytest.raises(ValueError, match="'t' is 'Margin' with 2 tags"):
        writer.add_custom_scalars_marginchart(["v", "l"], title="t")
    events = read(writer)
    (tag,) = events.Tags()["tensors"]
    data = make_ndarray(events.Tensors(tag)[0].tensor_proto).item()
    line, margin = layout_pb2.Layout.FromString(data).category[0].chart
    assert line.title == "t" and list(line.multiline.tag) == ["a", "b"]
    assert (margin.margin.series[0].value, margin.margin.series[0].upper) == ("v", "u")


def test_charts_by_name(writer):
    writer.add_custom_scalars_multilinechart(["a", "b"], "c", "t")
    writer.add_custom_scalars_marginchart(["v", "l", "u"])
    assert len(read(writer).Tags()["tensors"]) == 1  # the last one is what is shown


def test_meshes(writer):
    points, faces = torch.rand(1, 4, 3), torch.tensor([[[0, 1, 2], [1, 2, 3]]])
    writer.add_mesh(
        "m", points, colors=(points * 255).int(), faces=faces, config_dict={"camera": {}}, global_step=1
    )
    with pytest.raises(ValueError, match=r"a part of shape \(4, 3\)"):
        writer.add_mesh("m", points[0])
    events = read(writer)
    results = {tag: make_ndarray(events.Tensors(tag)[0].tensor_proto) for tag in events.Tags()["tensors"]}
    assert (results["m_VERTEX"] == points.numpy()).all() and (results["m_FACE"] == faces.numpy()).all()
    assert (results["m_COLOR"] == (points * 255).int().numpy()).all()


def test_hyperparameters(writer, tmp_path):
    from tensorboard.plugins.hparams import plugin_data_pb2

    values = {"lr": 0.1, "batch": 4, "name": "adam", "amsgrad": True, "none": None, "t": torch.tensor(2)}
    writer.add_hparams(values, {"accuracy": torch.tensor(0.5)}, {"name": ["adam", "sgd"]}, run_name="r")
    with pytest.raises(ValueError, match="'layers' must be a bool, a str, a number or None, got list"):
        writer.add_hparams({"layers": [1, 2]}, {})
    with pytest.raises(TypeError, match="must be dicts"):
        writer.add_hparams([("lr", 1)], {})
    events = read(writer, str(tmp_path / "r"))
    assert steps(events, "accuracy") == [(0, 0.5)]
    parts = {
        tag: plugin_data_pb2.HParamsPluginData.FromString(data)
        for tag, data in events.PluginTagToContent("hparams").items()
    }
    start = parts["_hparams_/session_start_info"].session_start_info.hparams
    assert start["lr"].number_value == 0.1 and start["name"].string_value == "adam"
    assert start["amsgrad"].bool_value is True and start["t"].number_value == 2
    infos = {info.name: info for info in parts["_hparams_/experiment"].experiment.hparam_infos}
    assert set(infos) == set(values) and list(infos["name"].domain_discrete) == [
        "adam",
        "sgd",
    ]
    assert "_hparams_/session_end_info" in parts


def test_embeddings(writer, tmp_path):
    writer.add_embedding(torch.eye(3), ["a", "b\tc", "d"], torch.rand(3, 1, 4, 5), 7, "x/y")
    writer.add_embedding(torch.eye(2), [["a", 1], ["b", 2]], metadata_header=["name", "n"])
    for options in ({"metadata": ["a"]}, {"label_img": torch.rand(2, 3, 4, 4)}):
        with pytest.raises(ValueError, match="3"):
            writer.add_embedding(torch.eye(3), **options)
    with pytest.raises(ValueError, match=r"wanted \(N, D\)"):
        writer.add_embedding(torch.ones(3))
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    config = text_format.Parse((tmp_path / "projector_config.pbtxt").read_text(), ProjectorConfig())
    first, second = list(config.embeddings)[:2]
    assert numpy.loadtxt(tmp_path / first.tensor_path).tolist() == numpy.eye(3).tolist()
    assert (tmp_path / first.metadata_path).read_text() == "a\nb c\nd\n"
    assert (tmp_path / second.metadata_path).read_text() == "name\tn\na\t1\nb\t2\n"
    assert Image.open(tmp_path / first.sprite.image_path).size == (10, 8)
    assert list(first.sprite.single_image_dim) == [5, 4]


def test_a_run_that_goes_on_takes_back_what_it_will_write_again(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step in range(6):
            writer.add_scalar("x", step, step)
    with SummaryWriter(tmp_path, purge_step=4) as writer:
        for step in range(4, 8):
            writer.add_scalar("x", 10 * step, step)
    assert steps(read(writer), "x") == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 40), (5, 50), (6, 60), (7, 70)]


def test_flush_and_close(writer):
    writer.add_scalar("x", 1.0, 1)
    writer.flush()
    seen = EventAccumulator(writer.get_logdir()).Reload()
    assert steps(seen, "x") == [(1, 1.0)]
    writer.close()
    writer.close()
    writer.add_scalar("x", 2.0, 2)  # into another file
    assert steps(read(writer), "x") == [(1, 1.0), (2, 2.0)]


def test_where_runs_go_by_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_lr0.1") as writer:
        assert os.path.dirname(writer.get_logdir()) == "runs" and writer.get_logdir().endswith("_lr0.1")


def test_file_writer(tmp_path):
    from tensorboard.compat.proto.event_pb2 import Event

    writer = FileWriter(tmp_path, filename_suffix=".mine")
    writer.add_event(Event(file_version="brain.Event:2"), 3)
    writer.flush()
    writer.close()
    (name,) = os.listdir(writer.get_logdir())
    assert name.endswith(".mine")


def test_every_method_has_a_test():
    methods = {
        name for name, _ in inspect.getmembers(SummaryWriter, inspect.isfunction) if name.startswith("add_")
    }
    with open(__file__) as file:
        text = file.read()
    assert methods and not {name for name in methods if f"writer.{name}(" not in text}


def test_without_tensorboard():
    """What is missing is told when a writer is made, not at the import; and nothing of it is imported before."""
    program = """
import sys
import flambeau
from flambeau.utils.tensorboard import SummaryWriter
import flambeau.utils.trainer
assert not {"tensorboard", "google.protobuf", "tqdm", "matplotlib"} & set(sys.modules)
sys.modules["tensorboard"] = None
try:
    SummaryWriter("/nowhere")
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "tensorboard is not installed" in done.stdout and "the extra 'tensorboard'" in done.stdout, done


def test_graphs(writer):
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(3, 1))
    )
    writer.add_graph(model, torch.ones(4, 2))
    nodes = {n.name: n for n in read(writer).Graph().node}
    first, last = nodes["Sequential/Linear[0]/linear"], nodes["Sequential/Sequential[1]/Linear[1]/linear_1"]
    assert list(first.input) == ["input_0", "weight/0.weight", "weight/0.bias"] and first.op == "linear"
    assert list(nodes["Sequential/Sequential[1]/ReLU[0]/relu"].input) == [first.name]
    assert list(nodes["output_0"].input) == [last.name]
    sizes = [d.size for d in last.attr["_output_shapes"].list.shape[0].dim]
    assert sizes == [4, 1] and not model._forward_hooks
    assert {x for n in nodes.values() for x in n.input} <= set(nodes)
    with pytest.raises(TypeError, match="model must be a Module, got function"):
        writer.add_graph(lambda x: x, torch.ones(1))


def test_graphs_of_onnx(writer, tmp_path, capsys):
    path = tmp_path / "model.onnx"
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    torch.onnx.export(model, (torch.ones(1, 2),), path, input_names=["x"], output_names=["y"])
    writer.add_onnx_graph(path)
    nodes = {n.name: n for n in read(writer).Graph().node}
    assert list(nodes["Gemm_0"].input) == ["x", "0.weight", "0.bias"] and list(nodes["y"].input) == ["Relu_1"]
    other = torch.utils.tensorboard.SummaryWriter(tmp_path / "other")
    other.add_graph(model, (torch.ones(1, 2),), verbose=True)
    other.close()
    assert "Sequential/ReLU[1]/relu: relu(Sequential/Linear[0]/linear)" in capsys.readouterr().out


def test_loggers_of_others_write_events_of_their_own(writer):
    from flambeau.utils.tensorboard.summary import scalar

    writer._get_file_writer().add_summary(scalar("theirs", 2.0), 3)
    assert steps(read(writer), "theirs") == [(3, 2.0)]
    assert writer._get_file_writer().get_logdir() == writer.get_logdir()
