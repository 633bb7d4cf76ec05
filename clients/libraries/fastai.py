"""fastai: learners with callbacks, of pictures, tables, words and ratings; optimisers, losses, layers, augmentation, metrics, files."""

import tempfile

import fastai.vision.all as v
import numpy as np
import pandas as pd
import torch
from fastai.collab import CollabDataLoaders, EmbeddingDotBias, collab_learner
from fastai.tabular.all import (
    Categorify,
    CategoryBlock,
    FillMissing,
    Normalize,
    RegressionBlock,
    TabularPandas,
    tabular_config,
    tabular_learner,
)
from fastai.text.models.awdlstm import AWD_LSTM
from fastai.text.models.core import SequentialRNN, get_text_classifier
from harness import Client, draws, fill, integers, normal
from torch import nn

client = Client("fastai", "fastcore")


def quiet(learn):
    learn.remove_cbs([cb for cb in learn.cbs if isinstance(cb, v.ProgressCallback)])
    return learn


def seen(learn):
    """Losses of training by batch, what was measured by epoch, and the rates."""
    recorder = learn.recorder
    return {
        "names": list(recorder.metric_names),
        "losses": np.array([float(x) for x in recorder.losses]),
        "epochs": [np.array([float(x) for x in row if x is not None]) for row in recorder.values],
        "rates": np.array(recorder.lrs),
    }


def loaders(kind="classes", size=8):
    x = normal(48, 6)
    y = {"classes": (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long(), "number": x[:, :1] * 2 + x[:, 1:2] ** 2}[
        kind
    ]
    parts = [torch.utils.data.TensorDataset(x[a:b], y[a:b]) for a, b in ((0, 32), (32, 48))]
    return v.DataLoaders(*(v.DataLoader(part, batch_size=size) for part in parts))


def learner(kind="classes", **options):
    out = 3 if kind == "classes" else 1
    network = fill(nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, out)))
    losses = {"classes": v.CrossEntropyLossFlat(), "number": v.MSELossFlat()}
    return quiet(v.Learner(loaders(kind), network, **{"loss_func": losses[kind], **options}))


@client.case
def one_cycle():
    learn = learner(metrics=[v.accuracy, v.error_rate])
    learn.fit_one_cycle(2, 1e-2)
    scores, targets = learn.get_preds()
    return {**seen(learn), "scores": scores, "targets": targets, "validated": list(learn.validate())}


@client.case
def ways_to_fit():
    results = {}
    learn = learner("number", metrics=[v.mae, v.rmse, v.R2Score()])
    learn.fit(1, 1e-2, wd=0.01)
    results["fit"] = seen(learn)
    learn.fit_flat_cos(1, 1e-2)
    results["flat"] = seen(learn)
    learn.fit_sgdr(2, 1, 1e-2)
    results["restarts"] = seen(learn)
    learn.freeze_to(-1)
    learn.fit_one_cycle(1, slice(1e-4, 1e-2))
    results["frozen"] = [seen(learn), [p.requires_grad for p in learn.model.parameters()]]
    return results


CALLBACKS = {
    "accumulation": lambda: v.GradientAccumulation(16),
    "clipped": lambda: v.GradientClip(0.1),
    "early": lambda: v.EarlyStoppingCallback(monitor="valid_loss", min_delta=10.0, patience=1),
    "plateau": lambda: v.ReduceLROnPlateau(monitor="valid_loss", min_delta=10.0, patience=0),
    "short": lambda: v.ShortEpochCallback(0.5),
    "frozen statistics": lambda: v.BnFreeze(),
    "scheduled": lambda: v.ParamScheduler({"lr": v.SchedCos(1e-2, 1e-4), "mom": v.SchedPoly(0.9, 0.8, 2)}),
    "ends at nan": lambda: v.TerminateOnNaNCallback(),
}


@client.case
def callbacks():
    results = {}
    for name, make in CALLBACKS.items():
        learn = learner(cbs=make())
        learn.fit(2, 1e-2)
        results[name] = seen(learn)
    return results


@client.case
def hooks():
    """What layers give, kept by hooks; sizes of a model; statistics of activations."""
    learn = learner(cbs=v.ActivationStats(with_hist=False))
    learn.fit(1, 1e-2)
    stats = learn.activation_stats.stats
    network = fill(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3)))
    with v.hook_outputs(network, grad=False) as hooked:
        network(normal(1, 3, 8, 8))
        stored = [o.norm() for o in hooked.stored]
    return [
        np.array([[row["mean"], row["std"]] for batch in stats for row in batch if row is not None]),
        stored,
        [list(map(int, size)) for size in v.model_sizes(network, (16, 16))],
        list(v.num_features_model(network).__class__.__name__),
    ]


OPTIMIZERS = {
    "sgd": lambda p: v.SGD(p, lr=1e-2, mom=0.9, wd=0.01, decouple_wd=False),
    "rmsprop": lambda p: v.RMSProp(p, lr=1e-2, mom=0.9),
    "adam": lambda p: v.Adam(p, lr=1e-2, wd=0.1),
    "radam": lambda p: v.RAdam(p, lr=1e-2),
    "qhadam": lambda p: v.QHAdam(p, lr=1e-2),
    "larc": lambda p: v.Larc(p, lr=1e-2, trust_coeff=0.02),
    "lamb": lambda p: v.Lamb(p, lr=1e-2),
    "ranger": lambda p: v.ranger(p, lr=1e-2),
    "PyTorch's": lambda p: v.OptimWrapper(p, opt=torch.optim.AdamW, lr=1e-2),
}


@client.case
def optimizers():
    results = {}
    for name, make in OPTIMIZERS.items():
        learn = learner(opt_func=lambda params, make=make, **options: make(params))
        learn.fit(1, 1e-2)
        results[name] = [seen(learn)["losses"], learn.model[0].weight]
    learn = learner()
    learn.fit(1, 1e-2)
    state = learn.opt.state_dict()
    results["state"] = [sorted(state), sorted(state["state"][0])]
    return results


@client.case
def losses():
    result, x, y = {}, normal(4, 3, 5, 5), integers(3, 4, 5, 5)
    for name, loss in {
        "cross entropy": v.CrossEntropyLossFlat(axis=1),
        "focal": v.FocalLossFlat(axis=1, gamma=1.5),
        "smooth": v.LabelSmoothingCrossEntropyFlat(axis=1),
        "dice": v.DiceLoss(),
    }.items():
        given = x.clone().requires_grad_()
        value = loss(given, y)
        value.backward()
        result[name] = [value, given.grad]
    a, b = normal(6, 4), normal(6, 4, seed=1)
    for name, loss in {
        "logits": v.BCEWithLogitsLossFlat(),
        "squares": v.MSELossFlat(),
        "absolute": v.L1LossFlat(),
    }.items():
        given = a.clone().requires_grad_()
        value = loss(given, (b > 0).float())
        value.backward()
        result[name] = [value, given.grad]
    return result


@client.case
def layers():
    x, result = normal(2, 8, 8, 8), {}
    for name, make in {
        "convolution": lambda: v.ConvLayer(8, 6, norm_type=v.NormType.Batch),
        "spectral": lambda: v.ConvLayer(8, 6, norm_type=v.NormType.Spectral),
        "weighted": lambda: v.ConvLayer(8, 6, norm_type=v.NormType.Weight),
        "instances": lambda: v.ConvLayer(8, 6, norm_type=v.NormType.Instance, act_cls=v.Mish),
        "residual": lambda: v.ResBlock(1, 8, 8),
        "excited": lambda: v.SEBlock(1, 8, 8, reduction=4),
        "next": lambda: v.SEResNeXtBlock(1, 8, 8, groups=2, reduction=4, base_width=32),
        "separable": lambda: v.SeparableBlock(1, 8, 8, reduction=4),
        "attention": lambda: v.SelfAttention(8),
        "pooled attention": lambda: v.PooledSelfAttention2d(8),
        "simple attention": lambda: v.SimpleSelfAttention(8, sym=True),
        "shuffled": lambda: v.PixelShuffle_ICNR(8, 4, blur=True),
        "pooled": lambda: v.AdaptiveConcatPool2d(2),
        "merged": lambda: v.SequentialEx(nn.Conv2d(8, 8, 1), nn.ReLU(), v.MergeLayer(dense=True)),
        "range": lambda: v.SigmoidRange(-1, 2),
        "in time": lambda: v.TimeDistributed(nn.Flatten(1)),
        "jit": lambda: v.MishJit(),
    }.items():
        with draws():
            layer = make()
        if name not in ("spectral", "weighted"):
            fill(layer)
            given = x.clone().requires_grad_()
            out = layer(given)
            out.square().sum().backward()
            result[name] = [out, given.grad]
        else:
            result[name] = [sorted(layer.state_dict()), list(layer(x).shape)]
    with draws():
        result["embedding"] = v.Embedding(5, 3).weight.shape
    result["dense"] = fill(v.LinBnDrop(8, 4, p=0.0, act=nn.ReLU()))(normal(5, 8))
    return result


def pictures(count=16, side=32):
    stream = np.random.default_rng(0)
    pixels = stream.integers(0, 120, (count, side, side, 3), dtype=np.uint8)
    for k in range(count):
        pixels[k, :, :, k % 2] += 100
    return pixels


def of_pictures(size=4, item=None, batch=None, mask=False):
    pixels = pictures()
    kind = v.MaskBlock(codes=["a", "b"]) if mask else CategoryBlock
    block = v.DataBlock(
        blocks=(v.ImageBlock, kind),
        get_x=lambda k: v.PILImage.create(pixels[k]),
        get_y=(lambda k: v.PILMask.create((pixels[k, :, :, 0] > 110).astype(np.uint8)))
        if mask
        else (lambda k: "red" if k % 2 == 0 else "green"),
        splitter=v.IndexSplitter(range(12, 16)),
        item_tfms=item,
        batch_tfms=batch,
    )
    return block.dataloaders(list(range(16)), bs=size, shuffle=False, num_workers=0)


@client.case
def vision():
    """A learner of pictures: resized, normalised, a residual network, one cycle; what it says of one."""
    batch = [Normalize.from_stats([0.4] * 3, [0.2] * 3)]
    dls = of_pictures(item=v.Resize(32, method="squish"), batch=batch)
    dls.train.shuffle = False
    with draws():
        network = fill(v.xresnet18(n_out=2))
    learn = quiet(v.Learner(dls, network, metrics=v.accuracy))
    x, y = dls.valid.one_batch()
    learn.fit_one_cycle(1, 1e-3)
    said, index, scores = learn.predict(v.PILImage.create(pictures()[13]))
    return {
        "kinds": [type(x).__name__, type(y).__name__, list(dls.vocab)],
        "batch": x,
        "labels": y,
        **seen(learn),
        "said": [said, index, scores],
    }


@client.case
def segmented():
    """Masks by a U-Net grown on a small network."""
    dls = of_pictures(mask=True)
    dls.train.shuffle = False
    body = nn.Sequential(
        v.ConvLayer(3, 8, stride=2), v.ConvLayer(8, 16, stride=2), v.ConvLayer(16, 24, stride=2)
    )
    with draws():
        model = v.DynamicUnet(body, 2, (32, 32), self_attention=True, blur=True)
    learn = quiet(v.Learner(dls, fill(model), opt_func=v.SGD, loss_func=v.CrossEntropyLossFlat(axis=1)))
    learn.fit(1, 1e-3)
    return {**seen(learn), "kinds": [type(t).__name__ for t in dls.one_batch()]}


@client.case
def heads():
    """A learner of pictures on torchvision's body, its groups of parameters, frozen and not."""
    with draws():
        learn = quiet(
            v.vision_learner(of_pictures(), v.resnet18, pretrained=False, n_out=2, normalize=False, ps=0.0)
        )
    fill(learn.model)
    learn.freeze()
    frozen = sum(not p.requires_grad for p in learn.model.parameters())
    learn.unfreeze()
    learn.fit_one_cycle(1, slice(1e-5, 1e-3))
    return [frozen, len(learn.opt.param_lists), seen(learn)["rates"], [len(p) for p in learn.opt.param_lists]]


@client.case
def augmented():
    """Transforms of batches with given numbers, of pictures, masks, points and boxes together."""
    image = v.TensorImage(normal(2, 3, 16, 16).sigmoid())
    results = {}
    for name, transform in {
        "rotated": v.Rotate(p=1.0, draw=15.0),
        "zoomed": v.Zoom(p=1.0, draw=1.2, draw_x=0.4, draw_y=0.6),
        "warped": v.Warp(p=1.0, draw_x=0.2, draw_y=-0.1),
        "flipped": v.Flip(p=1.0, draw=lambda x: torch.ones(len(x))),
        "dihedral": v.Dihedral(p=1.0, draw=lambda x: torch.tensor([1, 6])),
        "brighter": v.Brightness(p=1.0, draw=0.7),
        "contrast": v.Contrast(p=1.0, draw=1.3),
        "saturated": v.Saturation(p=1.0, draw=0.5),
        "hue": v.Hue(p=1.0, draw=0.3),
    }.items():
        with draws():
            transform.before_call(image, 0)
            results[name] = transform(image.clone(), split_idx=0)
    mask, points = v.TensorMask(integers(2, 2, 16, 16)), v.TensorPoint(normal(2, 5, 2).tanh())
    with draws():
        turn = v.Rotate(p=1.0, draw=30.0)
        several = turn((image, mask, points), split_idx=0)
    results["several"] = list(several)
    results["kinds"] = [type(t).__name__ for t in several]
    results["back"] = [v.rgb2hsv(image), v.hsv2rgb(v.rgb2hsv(image))]
    return results


@client.case
def mixed_pictures():
    """MixUp, CutMix and half precision that is none on this device."""
    results = {}
    for name, make in (("mixup", lambda: v.MixUp(0.4)), ("cutmix", lambda: v.CutMix(1.0))):
        callback = make()
        callback.distrib.sample = lambda shape=(): torch.full(tuple(shape) or (1,), 0.3)
        dls = of_pictures()
        dls.train.shuffle = False
        network = fill(nn.Sequential(nn.Conv2d(3, 4, 5, 4), nn.ReLU(), nn.Flatten(), nn.Linear(196, 2)))
        with draws():
            learn = quiet(v.Learner(dls, network, cbs=callback, loss_func=v.CrossEntropyLossFlat()))
            learn.fit(1, 1e-3)
        results[name] = seen(learn)["losses"]
    return results


@client.case
def tables():
    """Columns of categories and numbers, some of them missing, to a class and to a number."""
    stream = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "kind": stream.choice(["a", "b", "c"], 60),
            "place": stream.choice(["x", "y"], 60),
            "age": stream.normal(40, 10, 60),
            "size": np.where(stream.random(60) < 0.2, np.nan, stream.normal(0, 1, 60)),
        }
    )
    frame = frame.astype({"kind": object, "place": object})
    frame["rich"] = np.where(frame["age"] + 10 * (frame["kind"] == "a") > 42, 1, 0)
    results = {}
    for name, target, block in (("class", "rich", CategoryBlock()), ("number", "age", RegressionBlock())):
        numbers = ["size"] if name == "number" else ["age", "size"]
        to = TabularPandas(
            frame,
            [Categorify, FillMissing, Normalize],
            ["kind", "place"],
            list(numbers),
            target,
            block,
            splits=(list(range(44)), list(range(44, 60))),
        )
        dls = to.dataloaders(bs=11, shuffle=False)
        dls.train.shuffle = False
        learn = quiet(
            tabular_learner(
                dls,
                layers=[16, 8],
                config=tabular_config(ps=0.0, embed_p=0.0),
                metrics=[v.accuracy] if name == "class" else [v.rmse],
            )
        )
        fill(learn.model)
        learn.fit_one_cycle(2, 1e-2)
        scores, targets = learn.get_preds()
        results[name] = {
            **seen(learn),
            "batch": list(dls.valid.one_batch()),
            "embeddings": [list(e.weight.shape) for e in learn.model.embeds],
            "said": [scores, targets],
        }
    return results


@client.case
def ratings():
    """Who likes what, by products of embeddings and by a network."""
    stream = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "user": stream.integers(0, 8, 80),
            "item": stream.integers(0, 12, 80),
            "rating": stream.integers(1, 6, 80),
        }
    )
    results = {}
    for name, options in (("products", {"n_factors": 6}), ("network", {"use_nn": True, "layers": [12]})):
        with draws():
            dls = CollabDataLoaders.from_df(frame, valid_pct=0.25, seed=None, bs=16)
            dls.train.shuffle = False
            learn = quiet(collab_learner(dls, y_range=(0.5, 5.5), **options))
            fill(learn.model)
            learn.fit(1, 5e-3)
        results[name] = [list(dls.classes), type(learn.model).__name__, len(learn.recorder.losses)]
    model = fill(EmbeddingDotBias(4, 5, 6, y_range=(0.5, 5.5)))
    results["alone"] = model(torch.stack([integers(5, 7), integers(6, 7, seed=1)], 1))
    return results


@client.case
def words():
    """AWD-LSTM without its chances: a language model with its regularisation, and a classifier of long texts."""
    none = {"hidden_p": 0.0, "input_p": 0.0, "embed_p": 0.0, "weight_p": 1e-9}  # at 0 it cannot be reset
    body = fill(AWD_LSTM(20, 8, 12, 2, **none))
    model = SequentialRNN(body, fill(fastai_decoder(20, 8, body), seed=1))
    ids = torch.stack([integers(20, 6, seed=k) for k in range(32)])
    data = torch.utils.data.TensorDataset(ids[:, :-1], ids[:, 1:])
    dls = v.DataLoaders(v.DataLoader(data, batch_size=8), v.DataLoader(data, batch_size=8))
    learn = quiet(
        v.Learner(
            dls,
            model,
            loss_func=v.CrossEntropyLossFlat(),
            cbs=[v.ModelResetter(), v.RNNCallback(), v.RNNRegularizer(alpha=2.0, beta=1.0)],
            metrics=[v.accuracy, v.Perplexity()],
        )
    )
    learn.fit(1, 1e-2)
    classifier = get_text_classifier(
        AWD_LSTM,
        20,
        3,
        seq_len=4,
        config={
            "emb_sz": 8,
            "n_hid": 12,
            "n_layers": 2,
            "pad_token": 1,
            "bidir": False,
            "output_p": 0.0,
            **none,
        },
        drop_mult=0.0,
    )
    fill(classifier).eval()
    scores, raw, _ = classifier(integers(20, 4, 9))
    return [seen(learn), scores, [r.shape for r in raw][:2]]


def fastai_decoder(words, width, body):
    from fastai.text.models.core import LinearDecoder

    return LinearDecoder(words, width, output_p=0.0, tie_encoder=body.encoder)


@client.case
def files():
    """A model saved with its optimiser and loaded; a whole learner exported; the best of the epochs kept."""
    with tempfile.TemporaryDirectory() as folder:
        learn = learner(path=folder, cbs=v.SaveModelCallback(monitor="valid_loss", fname="best"))
        learn.fit(2, 1e-2)
        best = learn.model[0].weight.detach().clone()
        learn.save("now")
        learn.fit(1, 1e-2)
        learn.load("now")
        again = learn.model[0].weight
        learn.remove_cb(v.SaveModelCallback)
        learn.fit(1, 1e-2)
        return [best, again, seen(learn)["losses"], learn.model[3].bias]


@client.case
def metrics():
    scores, targets = normal(12, 3), integers(3, 12)
    a, b = normal(20), normal(20, seed=1)
    masks, wanted = normal(2, 2, 6, 6), integers(2, 2, 6, 6)
    results = {
        "top": v.top_k_accuracy(scores, targets, k=2),
        "errors": [v.mse(a, b), v.mae(a, b), v.msle(a.abs(), b.abs())],
        "foreground": v.foreground_acc(masks, wanted),
        "many": v.accuracy_multi(scores, (scores > 0.2).float()),
    }
    learn = learner(
        metrics=[
            v.F1Score(average="macro"),
            v.Precision(average="micro"),
            v.Recall(average="macro"),
            v.CohenKappa(),
            v.MatthewsCorrCoef(),
            v.BalancedAccuracy(),
        ]
    )
    learn.fit(1, 1e-2)
    results["learner"] = seen(learn)
    learn = learner("number", metrics=[v.PearsonCorrCoef(), v.SpearmanCorrCoef(), v.ExplainedVariance()])
    learn.fit(1, 1e-2)
    results["correlations"] = seen(learn)
    return results


@client.case
def kinds_of_tensors():
    """Subclasses keep their kind, and what they were made with, through operations."""
    image = v.TensorImage(normal(3, 4, 4).sigmoid())
    mask = v.TensorMask(integers(2, 4, 4), codes=["a", "b"])
    label = v.TensorCategory(torch.tensor([1, 2]))
    return [
        [
            type(t).__name__
            for t in (image + 1, image[0], image.mean(), image * mask.float(), mask == 1, label.long())
        ],
        (mask + 1).codes if hasattr(mask + 1, "codes") else None,
        image.new_zeros(2).shape,
        v.F.relu(image - 0.5),
        torch.stack([image, image]).sum(),
        [type(t).__name__ for t in v.to_device((image, mask), "cpu")],
        [type(t).__name__ for t in v.to_detach([image, label])],
        type(image.as_subclass(torch.Tensor)).__name__,
        v.cast(torch.ones(2), v.TensorImage).__class__.__name__,
    ]


@client.case
def rates():
    """The search for a rate, which saves the model and loads it again."""
    with tempfile.TemporaryDirectory() as folder:
        learn = learner(path=folder)
        before = learn.model[0].weight.detach().clone()
        learn.lr_find(num_it=12, show_plot=False, suggest_funcs=())
        return [seen(learn)["losses"], seen(learn)["rates"], torch.equal(before, learn.model[0].weight)]
