"""ultralytics: its detectors, segmenters, posers, classifiers from their descriptions: losses, steps, a picture."""

import contextlib
import os
import sys
import tempfile

os.environ["YOLO_OFFLINE"] = "true"
os.environ["YOLO_VERBOSE"] = "false"
os.environ["YOLO_AUTOINSTALL"] = "false"

import numpy as np
import torch
from harness import Client, draws, fill, integers, normal
from ultralytics import YOLO
from ultralytics.cfg import get_cfg
from ultralytics.nn import tasks
from ultralytics.utils import loss, metrics, nms, ops, tal

client = Client("ultralytics")

# Descriptions, and the class that reads them.
MODELS = {
    "yolov3-tiny": ("yolov3-tiny.yaml", tasks.DetectionModel),
    "yolov5n": ("yolov5n.yaml", tasks.DetectionModel),
    "yolov8n": ("yolov8n.yaml", tasks.DetectionModel),
    "yolov8n-seg": ("yolov8n-seg.yaml", tasks.SegmentationModel),
    "yolov8n-pose": ("yolov8n-pose.yaml", tasks.PoseModel),
    "yolov8n-obb": ("yolov8n-obb.yaml", tasks.OBBModel),
    "yolov8n-cls": ("yolov8n-cls.yaml", tasks.ClassificationModel),
    "yolov9t": ("yolov9t.yaml", tasks.DetectionModel),
    "yolov10n": ("yolov10n.yaml", tasks.DetectionModel),
    "yolo11n": ("yolo11n.yaml", tasks.DetectionModel),
    "yolo12n": ("yolo12n.yaml", tasks.DetectionModel),
}
SIDE = 64


def build(name, classes=4):
    file, kind = MODELS[name]
    with draws():
        model = kind(file, nc=classes, verbose=False)
    model = fill(model)
    model.args = get_cfg(overrides={"overlap_mask": True})
    return model


def flat(out):
    """The tensors of what comes out, in their order."""
    if isinstance(out, torch.Tensor):
        return [out]
    if isinstance(out, dict):
        return [t for key in sorted(out) for t in flat(out[key])]
    return [t for item in out for t in flat(item)] if isinstance(out, (list, tuple)) else []


def batch(name, classes=4):
    """Two pictures with five boxes, and what else a task wants to know of them."""
    boxes = torch.tensor(
        [
            [0.3, 0.4, 0.3, 0.4],
            [0.6, 0.6, 0.5, 0.3],
            [0.5, 0.5, 0.9, 0.8],
            [0.2, 0.7, 0.2, 0.3],
            [0.7, 0.3, 0.4, 0.4],
        ]
    )
    results = {
        # of float64: a last bit of the picture is magnified to 5e-4 of yolov9t's gradients
        "img": normal(2, 3, SIDE, SIDE).double().sigmoid().float(),
        "batch_idx": torch.tensor([0.0, 0.0, 1.0, 1.0, 1.0]),
        "cls": integers(classes, 5, 1).float(),
        "bboxes": boxes,
    }
    if "seg" in name:
        results["masks"] = torch.zeros(2, SIDE // 4, SIDE // 4)
        results["masks"][0, 3:9, 2:8], results["masks"][0, 8:12, 6:14] = 1.0, 2.0
        results["masks"][1, 2:14, 1:15], results["masks"][1, 9:13, 2:5], results["masks"][1, 3:6, 9:13] = (
            1.0,
            2.0,
            3.0,
        )
    if "pose" in name:
        results["keypoints"] = torch.cat((normal(5, 17, 2).sigmoid(), torch.full((5, 17, 1), 2.0)), -1)
    if "obb" in name:
        results["bboxes"] = torch.cat((boxes, torch.linspace(0, 1, 5)[:, None]), 1)
    if "cls" in name:
        results["cls"] = torch.tensor([1, 3])
    return results


@contextlib.contextmanager
def wide():
    """Within it, numbers are of float64, as few images normalised together magnify what is rounded."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def alone():
    """Within it, boxes are chosen in Python, as torchvision's compiled operator is not everywhere."""
    hidden = sys.modules.pop("torchvision", None)
    try:
        yield
    finally:
        if hidden is not None:
            sys.modules["torchvision"] = hidden


def doubled(given):
    return {key: value.double() if value.is_floating_point() else value for key, value in given.items()}


def numbers(name):
    """What comes out, the losses, and gradients in float64."""
    model = build(name)
    with torch.no_grad():
        out = flat(model.eval()(batch(name)["img"]))
    with wide():
        total, parts = model.double().train()(doubled(batch(name)))
        total.sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    every = 1 + len(gradients) // 40
    return {
        "out": out[:2],
        "losses": parts,
        "gradients": np.array([float(g.norm()) for g in gradients[::every]]),
    }


for name in MODELS:
    client.case(lambda name=name: numbers(name), name=name)


@client.case
def fused():
    """Normalisation folded into convolutions, and moving means of weights."""
    from ultralytics.utils.torch_utils import ModelEMA, get_num_params, intersect_dicts

    model, x = build("yolov8n").eval(), normal(1, 3, SIDE, SIDE).sigmoid()
    with torch.no_grad():
        before = model(x)[0]
        mean = ModelEMA(model)
        for p in model.parameters():
            p.mul_(1.01)
        mean.update(model)
        after = mean.ema.eval()(x)[0]
        model = build("yolov8n").eval().fuse(verbose=False)
        return [
            before,
            model(x)[0],
            after,
            get_num_params(model),
            len(intersect_dicts(model.state_dict(), mean.ema.state_dict())),
        ]


@client.case
def steps():
    """Some steps of training as its trainer makes them, in float64."""
    model = build("yolov8n").double().train()
    given = doubled(batch("yolov8n"))
    groups = [[], [], []]
    for module in model.modules():
        for key, p in module.named_parameters(recurse=False):
            groups[2 if key == "bias" else 1 if isinstance(module, torch.nn.BatchNorm2d) else 0].append(p)
    optimizer = torch.optim.SGD(groups[2], lr=1e-3, momentum=0.9, nesterov=True)
    optimizer.add_param_group({"params": groups[0], "weight_decay": 5e-4})
    optimizer.add_param_group({"params": groups[1], "weight_decay": 0.0})
    results = []
    for _ in range(3):
        with wide():
            total, parts = model(given)
        optimizer.zero_grad()
        total.sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=10.0)
        optimizer.step()
        results.append(parts)
    return results


def pixels():
    stream = np.random.default_rng(0)
    image = stream.integers(0, 90, (80, 96, 3), dtype=np.uint8)
    image[20:60, 30:70] += 120
    return image


@client.case
def said():
    """A picture through the whole of `predict`: drawn to size, boxes chosen, results in its own classes."""
    results = {}
    for name in ("yolov8n", "yolov8n-seg", "yolov8n-pose", "yolov8n-cls"):
        with draws():
            yolo = YOLO(MODELS[name][0], verbose=False)
        yolo.model = build(name).eval()
        yolo.overrides["model"] = name
        with alone():
            (result,) = yolo.predict(
                pixels(), imgsz=64, conf=0.0001, max_det=6, verbose=False, device="cpu", save=False
            )
        if result.boxes is not None:
            results[name] = [
                len(result.boxes),
                result.boxes.xyxy,
                result.boxes.conf,
                result.boxes.cls,
                list(result.orig_shape),
            ]
        if result.masks is not None:
            results[name] += [list(result.masks.data.shape), result.masks.data.float().mean()]
        if result.keypoints is not None:
            results[name].append(result.keypoints.xy)
        if result.probs is not None:
            results[name] = [result.probs.top5, result.probs.data]
    return results


@client.case
def files():
    """A model saved and loaded, whole."""
    with tempfile.TemporaryDirectory() as folder, draws():
        yolo = YOLO("yolov8n.yaml", verbose=False)
        yolo.model = build("yolov8n").eval()
        yolo.save(f"{folder}/model.pt")
        again = YOLO(f"{folder}/model.pt", verbose=False)
        x = normal(1, 3, SIDE, SIDE).sigmoid()
        with torch.no_grad():
            return [again.task, len(again.names), again.model.eval().float()(x)[0], os.listdir(folder)]


@client.case
def boxes():
    """Forms of boxes, of which many are chosen few, overlaps of all kinds, masks and polygons."""
    a = torch.tensor([[10.0, 10, 30, 40], [12, 8, 33, 38], [50, 50, 70, 90], [11, 11, 29, 41]])
    b = a.flip(0) + 3
    out = torch.cat((ops.xyxy2xywh(a).T[None], normal(1, 3, 4).sigmoid()), 1)
    turned = torch.cat((ops.xyxy2xywh(a), torch.tensor([[0.1], [0.5], [1.2], [0.0]])), 1)
    many = torch.cat(
        (ops.xyxy2xywh(normal(60, 4).abs().cumsum(1) * 40).T[None], normal(1, 3, 60).sigmoid()), 1
    )
    with alone():
        chosen = {
            "chosen": nms.non_max_suppression(out, conf_thres=0.1, iou_thres=0.5),
            "of many": nms.non_max_suppression(
                many, conf_thres=0.2, iou_thres=0.4, multi_label=True, max_det=9
            ),
            "agnostic": nms.non_max_suppression(
                many, conf_thres=0.2, iou_thres=0.4, agnostic=True, classes=[0, 2]
            ),
        }
    return {
        **chosen,
        "forms": [
            ops.xyxy2xywh(a),
            ops.xywh2xyxy(a),
            ops.xywhn2xyxy(a / 100, 64, 48),
            ops.xyxy2xywhn(a, 100, 100),
            ops.ltwh2xyxy(a),
        ],
        "overlaps": [
            metrics.box_iou(a, b),
            *(metrics.bbox_iou(a, b, xywh=False, **{kind: True}) for kind in ("GIoU", "DIoU", "CIoU")),
            metrics.probiou(turned, turned.flip(0)),
            metrics.batch_probiou(turned, turned),
        ],
        "corners": ops.xywhr2xyxyxyxy(turned),
        "scaled": ops.scale_boxes((64, 64), a.clone(), (80, 96)),
        "clipped": ops.clip_boxes(a * 2, (60, 70)),
        "masks": ops.process_mask(
            normal(4, 16, 16), normal(2, 4), torch.tensor([[4.0, 4, 40, 40], [10, 20, 60, 60]]), (64, 64)
        ).float(),
        "cropped": ops.crop_mask(torch.ones(2, 12, 12), torch.tensor([[1.0, 2, 6, 7], [3, 3, 11, 10]])),
    }


@client.case
def assigned():
    """Which place is to find which box, and the losses of boxes."""
    points, strides = tal.make_anchors([torch.zeros(1, 1, 8, 8), torch.zeros(1, 1, 4, 4)], (8, 16))
    assigner = tal.TaskAlignedAssigner(topk=5, num_classes=3, alpha=0.5, beta=6.0)
    truth = torch.tensor([[[4.0, 4, 30, 40], [20, 20, 60, 60], [0, 0, 0, 0]]])
    spans = normal(1, 80, 4).abs() * 20
    predicted = tal.dist2bbox(spans, points * strides, xywh=False)
    labels, boxes, scores, chosen, index = assigner(
        normal(1, 80, 3).sigmoid(),
        predicted,
        points * strides,
        torch.tensor([[[0], [2], [0]]]),
        truth,
        torch.tensor([[[1.0], [1.0], [0.0]]]).bool(),
    )
    focal = loss.VarifocalLoss()(
        normal(1, 6, 3), normal(1, 6, 3, seed=1).sigmoid(), (normal(1, 6, 3) > 0).float()
    )
    dfl = loss.DFLoss(16)(normal(20, 16), integers(14, 5, 4).float() + 0.3)
    return [
        points[:5],
        labels.float().mean(),
        boxes[chosen],
        scores.sum(),
        index[chosen],
        focal,
        dfl,
        tal.bbox2dist(points, predicted[0] / 8, 15)[:4],
    ]


@client.case
def measured():
    """What a validation measures: average precisions and a table of what was taken for what."""
    stream = np.random.default_rng(0)
    right = stream.random((40, 10)) > np.linspace(0.3, 0.9, 10)
    conf, said, true = stream.random(40), stream.integers(0, 3, 40), stream.integers(0, 3, 30)
    result = metrics.ap_per_class(right, conf, said, true, names={0: "a", 1: "b", 2: "c"})
    return [np.asarray(part, np.float64) for part in result[:7]]


@client.case
def layers():
    """Its blocks, one by one."""
    from ultralytics.nn import modules as m

    result, x = {}, normal(1, 16, 8, 8)
    for name, make in {
        "C2f": lambda: m.C2f(16, 16, 2, True),
        "C3": lambda: m.C3(16, 16, 1),
        "C3k2": lambda: m.C3k2(16, 16, 1, True),
        "SPPF": lambda: m.SPPF(16, 16, 5),
        "SPP": lambda: m.SPP(16, 16, (3, 5)),
        "C2PSA": lambda: m.C2PSA(128, 128, 1),
        "A2C2f": lambda: m.A2C2f(16, 64, 1, True, 1),
        "GhostConv": lambda: m.GhostConv(16, 8),
        "RepConv": lambda: m.RepConv(16, 16),
        "CBAM": lambda: m.CBAM(16),
        "DWConv": lambda: m.DWConv(16, 16, 3),
        "Focus": lambda: m.Focus(16, 8),
        "ELAN1": lambda: m.ELAN1(16, 16, 16, 8),
        "SPPELAN": lambda: m.SPPELAN(16, 16, 8),
        "ConvTranspose": lambda: m.ConvTranspose(16, 8),
        "HGStem": lambda: m.HGStem(16, 8, 16),
        "AIFI": lambda: m.AIFI(16, 32, 4),
        "SCDown": lambda: m.SCDown(16, 16, 3, 2),
        "PSA": lambda: m.PSA(128, 128),
    }.items():
        layer = fill(make()).eval()
        given = (normal(1, 128, 4, 4) if name in ("C2PSA", "PSA") else x.clone()).requires_grad_()
        out = layer(given)
        out.square().mean().backward()
        result[name] = [out, given.grad.norm()]
    return result
