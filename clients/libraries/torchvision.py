"""torchvision: the Python part.  Models of its families with the same weights, transforms of both kinds, operators, pictures.

Its compiled operators are written for PyTorch's libraries; what needs them is refused by name.
"""

import numpy as np
import torch
import torchvision
from harness import Client, fill, integers, normal
from torchvision import models, ops, tv_tensors
from torchvision.transforms import v2

client = Client("torchvision")

SIDE = 64
# Models, the side of the images they are given, and what they are made with.
MODELS = {
    "alexnet": (SIDE, {}),
    "vgg11_bn": (SIDE, {}),
    "resnet18": (SIDE, {}),
    "resnext50_32x4d": (SIDE, {}),
    "wide_resnet50_2": (SIDE, {}),
    "squeezenet1_1": (SIDE, {}),
    "densenet121": (SIDE, {}),
    "googlenet": (SIDE, {"aux_logits": False, "init_weights": False}),
    "inception_v3": (80, {"aux_logits": False, "init_weights": False}),
    "shufflenet_v2_x0_5": (SIDE, {}),
    "mobilenet_v2": (SIDE, {}),
    "mobilenet_v3_small": (SIDE, {}),
    "mnasnet0_5": (SIDE, {}),
    "efficientnet_b0": (SIDE, {"stochastic_depth_prob": 0.0}),
    "regnet_y_400mf": (SIDE, {}),
    "convnext_tiny": (32, {"stochastic_depth_prob": 0.0}),
    "swin_t": (SIDE, {}),
    "swin_v2_t": (SIDE, {}),
}


def without_chance(model):
    for module in model.modules():
        if isinstance(module, (torch.nn.Dropout, ops.StochasticDepth)):
            module.p = 0.0
    return model


def numbers(name):
    """What comes out; in float64, as two images normalised together magnify what is rounded, the gradients."""
    side, options = MODELS[name]
    model = without_chance(fill(models.get_model(name, num_classes=10, **options)))
    x, labels = normal(2, 3, side, side), integers(10, 2)
    out = model.eval()(x)
    model = model.double().train()
    loss = torch.nn.functional.cross_entropy(model(x.double()), labels)
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return {
        "out": out,
        "loss": loss,
        "gradients": np.array([float(g.norm()) for g in gradients]),
        "first": gradients[0],
    }


for name in MODELS:
    client.case(lambda name=name: numbers(name), name=name)


@client.case
def vision_transformer():
    model = fill(models.VisionTransformer(32, 8, 2, 3, 48, 64, num_classes=10))
    out = model.eval()(normal(2, 3, 32, 32))
    out.square().sum().backward()
    return [out, model.conv_proj.weight.grad, model.encoder.layers[0].self_attention.in_proj_weight.grad]


@client.case
def segmentation():
    results = {}
    for name in ("lraspp_mobilenet_v3_large", "deeplabv3_mobilenet_v3_large", "fcn_resnet50"):
        model = fill(models.get_model(name, weights_backbone=None, num_classes=4)).eval()
        results[name] = model(normal(1, 3, SIDE, SIDE))["out"]
    return results


@client.case
def video_and_flow():
    clips = fill(models.video.r3d_18(num_classes=5)).eval()
    flow = fill(models.optical_flow.raft_small()).eval()
    with torch.no_grad():
        return [
            clips(normal(1, 3, 4, 32, 32)),
            flow(normal(1, 3, 128, 128), normal(1, 3, 128, 128, seed=1), num_flow_updates=2)[-1],
        ]


@client.case
def refused():
    """What needs a compiled operator says which."""
    boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 1.9, 2.0]])
    try:
        ops.nms(boxes, torch.tensor([0.9, 0.8]), 0.5)
    except (RuntimeError, NotImplementedError) as error:
        return "nms" in str(error)


@client.case
def operators():
    """Boxes, masks, losses and layers that are written in Python."""
    boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 4.0, 3.0], [0.5, 0.0, 3.0, 5.0]])
    others = boxes.flip(0) + 0.25
    pyramid = fill(ops.FeaturePyramidNetwork([4, 8], 6))
    scores, wanted = normal(4, 3).requires_grad_(), (normal(4, 3, seed=1) > 0).float()
    focal = ops.sigmoid_focal_loss(scores, wanted, reduction="mean")
    focal.backward()
    return {
        "overlaps": [
            f(boxes, others)
            for f in (ops.box_iou, ops.generalized_box_iou, ops.distance_box_iou, ops.complete_box_iou)
        ],
        "converted": [ops.box_convert(boxes, "xyxy", form) for form in ("xywh", "cxcywh")],
        "areas": [
            ops.box_area(boxes),
            ops.clip_boxes_to_image(boxes, (3, 3)),
            ops.remove_small_boxes(boxes, 2.0),
        ],
        "masks": ops.masks_to_boxes(torch.eye(6)[None, :4].bool()),
        "losses": [
            f(boxes, others, reduction="sum")
            for f in (ops.generalized_box_iou_loss, ops.complete_box_iou_loss)
        ],
        "focal": [focal, scores.grad],
        "pyramid": pyramid({"a": normal(1, 4, 8, 8), "b": normal(1, 8, 4, 4)}),
        "squeezed": fill(ops.SqueezeExcitation(8, 2))(normal(1, 8, 4, 4)),
        "mlp": fill(ops.MLP(4, [8, 3], norm_layer=torch.nn.LayerNorm))(normal(2, 4)),
        "frozen": ops.FrozenBatchNorm2d(3)(normal(1, 3, 2, 2)),
    }


def picture():
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, 24, 30), dtype=np.uint8))


@client.case
def transforms_of_tensors():
    """Every functional transform that draws no numbers, on tensors of bytes and of floats."""
    f = torchvision.transforms.functional
    results = {}
    for kind, image in (("bytes", picture()), ("floats", picture().float() / 255)):
        results[kind] = {
            "resized": [f.resize(image, [12, 17], antialias=antialias) for antialias in (True, False)],
            "larger": f.resize(image, [40, 41], interpolation=f.InterpolationMode.BICUBIC),
            "cropped": [
                f.crop(image, 2, 3, 8, 9),
                f.center_crop(image, [10, 40]),
                f.resized_crop(image, 2, 3, 9, 9, [5, 5]),
            ],
            "flipped": [f.hflip(image), f.vflip(image)],
            "padded": [
                f.pad(image, [1, 2, 3, 4], padding_mode=mode)
                for mode in ("constant", "edge", "reflect", "symmetric")
            ],
            "turned": [f.rotate(image, 30.0, expand=expand) for expand in (False, True)],
            "affine": f.affine(image, 15.0, [2, 1], 1.2, [5.0, 2.0], f.InterpolationMode.BILINEAR),
            "perspective": f.perspective(
                image, [[0, 0], [29, 0], [29, 23], [0, 23]], [[2, 1], [27, 3], [28, 20], [1, 22]]
            ),
            "light": [
                f.adjust_brightness(image, 1.3),
                f.adjust_contrast(image, 0.7),
                f.adjust_gamma(image, 1.5),
            ],
            "colours": [
                f.adjust_saturation(image, 0.4),
                f.adjust_hue(image, 0.2),
                f.rgb_to_grayscale(image, 3),
            ],
            "sharp": [
                f.adjust_sharpness(image, 2.0),
                f.gaussian_blur(image, [3, 5]),
                f.autocontrast(image),
                f.invert(image),
            ],
        }
    results["few bits"] = [f.posterize(picture(), 3), f.solarize(picture(), 100), f.equalize(picture())]
    return results


@client.case
def pipelines():
    """Pictures of the PIL through transforms of the first kind and of the second, with boxes and masks beside them."""
    from PIL import Image

    image = Image.fromarray(picture().permute(1, 2, 0).numpy())
    old = torchvision.transforms
    first = old.Compose(
        [old.Resize(20), old.CenterCrop(16), old.ToTensor(), old.Normalize([0.5] * 3, [0.2] * 3)]
    )
    second = v2.Compose(
        [
            v2.ToImage(),
            v2.Resize((20, 25)),
            v2.RandomHorizontalFlip(1.0),
            v2.CenterCrop(18),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.5] * 3, [0.2] * 3),
        ]
    )
    boxes = tv_tensors.BoundingBoxes([[2, 3, 20, 15], [10, 5, 29, 23]], format="XYXY", canvas_size=(24, 30))
    mask = tv_tensors.Mask(picture()[:1] > 128)
    seen, where, what, label = second(image, boxes, mask, 7)
    return {
        "first": first(image),
        "second": seen,
        "boxes": where,
        "kinds": [
            type(where).__name__,
            list(where.canvas_size),
            type(what).__name__,
            type(seen + 1).__name__,
            label,
        ],
        "mask": what,
        "back": np.asarray(v2.functional.to_pil_image(picture())),
    }


@client.case
def shown():
    """A grid of pictures, boxes, masks, points and flow drawn into one."""
    from torchvision import utils

    boxes = torch.tensor([[2, 3, 12, 15], [10, 5, 25, 20]])
    masks = torch.stack([picture()[0] > 200, picture()[1] > 200])
    return [
        utils.make_grid(normal(5, 3, 6, 6), nrow=2, normalize=True, scale_each=True),
        utils.draw_bounding_boxes(picture(), boxes, colors=["red", "blue"], width=2),
        utils.draw_segmentation_masks(picture(), masks, alpha=0.6, colors=["red", "blue"]),
        utils.draw_keypoints(
            picture(), torch.tensor([[[5.0, 6.0], [12.0, 9.0]]]), connectivity=[(0, 1)], radius=2
        ),
        utils.flow_to_image(normal(2, 8, 8)),
    ]


@client.case
def data():
    """A folder of pictures, loaded in batches."""
    import os
    import tempfile

    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        for k, kind in enumerate(("a", "b", "a")):
            os.makedirs(f"{folder}/{kind}", exist_ok=True)
            pixels = np.random.default_rng(k).integers(0, 256, (10, 12, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(f"{folder}/{kind}/{k}.png")
        result = torchvision.datasets.ImageFolder(folder, transform=torchvision.transforms.ToTensor())
        fake = torchvision.datasets.FakeData(3, (3, 8, 8), 4)
        return [
            result.classes,
            [list(batch) for batch in torch.utils.data.DataLoader(result, batch_size=2)],
            len(fake),
        ]
