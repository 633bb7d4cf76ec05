"""segmentation_models_pytorch: its eleven decoders, encoders of every family, its losses, its metrics, training, files."""

import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import segmentation_models_pytorch as smp
import torch
from harness import Client, fill, integers, normal

client = Client("segmentation_models_pytorch")

SIDE = 32
# Decoders, their encoders, what else they are made with, and the side of images where it is another.
DECODERS = {
    "Unet": ("resnet18", {}),
    "Unet_attention": ("resnet18", {"decoder_attention_type": "scse"}),
    "UnetPlusPlus": ("resnet18", {}),
    "MAnet": ("resnet18", {}),
    "Linknet": ("resnet18", {}),
    "FPN": ("resnet18", {"decoder_pyramid_channels": 48, "decoder_segmentation_channels": 32}),
    "PSPNet": ("resnet18", {}),
    "DeepLabV3": ("resnet18", {"decoder_channels": 32}),
    "DeepLabV3Plus": ("resnet18", {}),
    "PAN": ("resnet18", {}, 128),
    "UPerNet": ("resnet18", {"decoder_channels": 32}),
    "Segformer": ("mit_b0", {}),
    "DPT": (
        "tu-vit_tiny_patch16_224",
        {"dynamic_img_size": True, "decoder_intermediate_channels": (16, 24, 32, 32)},
    ),
}
ENCODERS = [
    "resnet34",
    "timm-tf_efficientnet_lite0",
    "dpn68",
    "vgg11_bn",
    "se_resnet50",
    "densenet121",
    "inceptionv4",
    "efficientnet-b0",
    "mobilenet_v2",
    "xception",
    "timm-skresnet18",
    "mit_b0",
    "mobileone_s0",
    "tu-convnext_atto",
    "tu-regnety_002",
]


def without_chance(model):
    for module in model.modules():
        if isinstance(module, (torch.nn.Dropout, torch.nn.Dropout2d)):
            module.p = 0.0
        for chance in ("drop_prob", "_drop_connect_rate"):
            if hasattr(module, chance):
                setattr(module, chance, 0.0)
    return model


def build(name, encoder, **options):
    kind = getattr(smp, name.partition("_")[0])
    return without_chance(fill(kind(encoder, encoder_weights=None, classes=3, **options)))


def numbers(model, side=SIDE):
    """What comes out; in float64, as few images normalised together magnify what is rounded, the gradients."""
    x, labels = normal(4, 3, side, side), integers(3, 4, side, side)
    with torch.no_grad():
        out = model.eval()(x)
    model = model.double().train()
    loss = smp.losses.DiceLoss("multiclass")(model(x.double()), labels)
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return {
        "out": out,
        "loss": loss,
        "gradients": np.array([float(g.norm()) for g in gradients[:: 1 + len(gradients) // 40]]),
        "first": gradients[0],
    }


def decoded(name):
    encoder, options, *side = DECODERS[name]
    return numbers(build(name, encoder, **options), *side)


for name in DECODERS:
    client.case(lambda name=name: decoded(name), name=name)
for encoder in ENCODERS:
    client.case(
        lambda encoder=encoder: numbers(build("Unet", encoder, decoder_channels=(32, 24, 16, 8, 8))),
        name="Unet of " + encoder,
    )


@client.case
def classes_beside():
    """A second head that classifies the image."""
    model = without_chance(
        fill(
            smp.Unet(
                "resnet18",
                encoder_weights=None,
                encoder_depth=3,
                decoder_channels=(16, 8, 8),
                in_channels=1,
                classes=2,
                activation="softmax2d",
                aux_params={"classes": 4, "pooling": "max", "activation": "sigmoid", "dropout": 0.0},
            )
        )
    ).eval()
    masks, labels = model(normal(2, 1, 40, 40))
    (masks.square().sum() + labels.sum()).backward()
    return [masks, labels, model.encoder.conv1.weight.grad]


LOSSES = {
    "dice": smp.losses.DiceLoss("multiclass", smooth=0.1),
    "dice of logarithms": smp.losses.DiceLoss("multiclass", classes=[0, 2], log_loss=True),
    "jaccard": smp.losses.JaccardLoss("multiclass"),
    "tversky": smp.losses.TverskyLoss("multiclass", alpha=0.3, beta=0.7, gamma=1.5),
    "focal": smp.losses.FocalLoss("multiclass", alpha=0.25, gamma=2.0, normalized=True),
    "lovasz": smp.losses.LovaszLoss("multiclass"),
    "lovasz per image": smp.losses.LovaszLoss("multiclass", per_image=True, ignore_index=1),
    "cross entropy": smp.losses.SoftCrossEntropyLoss(smooth_factor=0.1, ignore_index=1),
}
BINARY = {
    "dice": smp.losses.DiceLoss("binary"),
    "jaccard": smp.losses.JaccardLoss("binary", log_loss=True),
    "tversky": smp.losses.TverskyLoss("binary"),
    "focal": smp.losses.FocalLoss("binary", reduced_threshold=0.4),
    "lovasz": smp.losses.LovaszLoss("binary"),
    "cross entropy": smp.losses.SoftBCEWithLogitsLoss(smooth_factor=0.1, pos_weight=torch.tensor(2.0)),
    "correlation": smp.losses.MCCLoss(),
}


def losses(table, scores, target):
    results = {}
    for name, loss in table.items():
        x = scores.clone().requires_grad_()
        value = loss(x, target)
        value.backward()
        results[name] = [value, x.grad]
    return results


@client.case
def losses_of_classes():
    return losses(LOSSES, normal(2, 3, 6, 7), integers(3, 2, 6, 7))


@client.case
def losses_of_two():
    return losses(BINARY, normal(2, 1, 6, 7), integers(2, 2, 1, 6, 7).float())


@client.case
def losses_of_many_labels():
    table = {name: type(loss)("multilabel") for name, loss in BINARY.items() if name in ("dice", "focal")}
    return losses(table, normal(2, 3, 6, 7), integers(2, 2, 3, 6, 7).float())


@client.case
def metrics():
    results = {}
    for mode, out, target, options in (
        ("binary", normal(3, 1, 5, 6).sigmoid(), integers(2, 3, 1, 5, 6), {"threshold": 0.5}),
        ("multilabel", normal(3, 4, 5, 6).sigmoid(), integers(2, 3, 4, 5, 6), {"threshold": 0.4}),
        ("multiclass", integers(4, 3, 5, 6, seed=1), integers(4, 3, 5, 6), {"num_classes": 4}),
    ):
        counts = smp.metrics.get_stats(out, target, mode=mode, **options)
        results[mode] = {"counts": list(counts)}
        for name in ("iou_score", "f1_score", "accuracy", "recall", "precision", "specificity"):
            of = getattr(smp.metrics, name)
            results[mode][name] = [
                of(*counts, reduction=way) for way in ("micro", "macro", "micro-imagewise", "none")
            ]
    return results


@client.case
def trained():
    """A network that marks bright squares, trained for some steps: losses, and what is right at the end."""
    stream = np.random.default_rng(0)
    x, y = stream.standard_normal((8, 3, 32, 32)) * 0.1, np.zeros((8, 1, 32, 32))
    for k in range(8):
        top, left = stream.integers(0, 20, 2)
        x[k, :, top : top + 10, left : left + 10] += 1
        y[k, :, top : top + 10, left : left + 10] = 1
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    model = fill(smp.Unet("resnet18", encoder_weights=None, decoder_channels=(32, 16, 16, 8, 8))).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss, result = smp.losses.DiceLoss("binary"), []
    for _ in range(4):
        out = model(x)
        value = loss(out, y)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        result.append(float(value.detach()))
    counts = smp.metrics.get_stats(out.detach().sigmoid(), y.long(), mode="binary", threshold=0.5)
    return [result, smp.metrics.iou_score(*counts, reduction="micro")]


@client.case
def files():
    """A model saved, and made again from what was saved."""
    model = fill(smp.create_model("fpn", "resnet18", encoder_weights=None, classes=2)).eval()
    x = normal(1, 3, SIDE, SIDE)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = smp.from_pretrained(folder).eval()
        return [sorted(os.listdir(folder)), type(again).__name__, model(x), again(x)]


@client.case
def prepared():
    """Images, prepared."""
    prepare = smp.encoders._preprocessing.preprocess_input
    image = normal(4, 5, 3).sigmoid().numpy()
    return [
        prepare(image, mean=[0.4, 0.5, 0.6], std=[0.1, 0.2, 0.3], input_space=space, input_range=[0, 1])
        for space in ("RGB", "BGR")
    ]
