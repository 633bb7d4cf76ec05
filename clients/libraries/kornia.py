"""kornia: the examples of its documentation with the same draws, its networks, augmentation, geometry, features and losses."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import kornia
import numpy as np
import torch
from harness import Client, doctests, draws, fill, integers, normal

client = Client("kornia")


def image(*shape, seed=0):
    return normal(*(shape or (2, 3, 16, 20)), seed=seed).sigmoid()


def both(function, *inputs):
    """What comes out, and the gradients of its inputs, where it has any."""
    given = [x.clone().requires_grad_() for x in inputs]
    out = function(*given)
    first = out[0] if isinstance(out, (tuple, list)) else out
    if first.requires_grad:
        first.square().mean().backward()
    return [out, [x.grad for x in given]]


FILTERS = {
    "gaussian": lambda x: kornia.filters.gaussian_blur2d(x, (5, 3), (1.5, 0.8)),
    "box": lambda x: kornia.filters.box_blur(x, (3, 5)),
    "median": lambda x: kornia.filters.median_blur(x, (3, 3)),
    "bilateral": lambda x: kornia.filters.bilateral_blur(x, (3, 3), 0.2, (1.5, 1.5)),
    "joint": lambda x: kornia.filters.joint_bilateral_blur(x, x.flip(-1), (3, 3), 0.2, (1.5, 1.5)),
    "guided": lambda x: kornia.filters.guided_blur(x, x, 3, 0.1),
    "motion": lambda x: kornia.filters.motion_blur(x, 5, 35.0, 0.5),
    "laplacian": lambda x: kornia.filters.laplacian(x, 5),
    "sobel": lambda x: kornia.filters.sobel(x),
    "gradient": lambda x: kornia.filters.spatial_gradient(x, "diff", 1),
    "unsharp": lambda x: kornia.filters.unsharp_mask(x, (3, 3), (1.5, 1.5)),
    "pooled": lambda x: kornia.filters.blur_pool2d(x, 3),
    "canny": lambda x: kornia.filters.canny(x)[0],
}
COLOURS = {
    "hsv": (kornia.color.rgb_to_hsv, kornia.color.hsv_to_rgb),
    "hls": (kornia.color.rgb_to_hls, kornia.color.hls_to_rgb),
    "lab": (kornia.color.rgb_to_lab, kornia.color.lab_to_rgb),
    "luv": (kornia.color.rgb_to_luv, kornia.color.luv_to_rgb),
    "xyz": (kornia.color.rgb_to_xyz, kornia.color.xyz_to_rgb),
    "yuv": (kornia.color.rgb_to_yuv, kornia.color.yuv_to_rgb),
    "ycbcr": (kornia.color.rgb_to_ycbcr, kornia.color.ycbcr_to_rgb),
    "linear": (kornia.color.rgb_to_linear_rgb, kornia.color.linear_rgb_to_rgb),
    "bgr": (kornia.color.rgb_to_bgr, kornia.color.bgr_to_rgb),
}


@client.case
def filters():
    return {name: both(f, image()) for name, f in FILTERS.items()}


@client.case
def colours():
    results = {name: [both(there, image()), back(there(image()))] for name, (there, back) in COLOURS.items()}
    results["grey"] = both(kornia.color.rgb_to_grayscale, image())
    results["raw"] = kornia.color.raw_to_rgb(image(1, 1, 8, 8), kornia.color.CFA.BG)
    results["map"] = kornia.color.apply_colormap(
        integers(200, 1, 6, 6), kornia.color.ColorMap("autumn", num_colors=64)
    )
    return results


@client.case
def enhanced():
    e, x = kornia.enhance, image()
    results = {
        name: both(f, x)
        for name, f in {
            "brightness": lambda x: e.adjust_brightness(x, 0.2),
            "contrast": lambda x: e.adjust_contrast(x, 1.3),
            "gamma": lambda x: e.adjust_gamma(x, 1.7),
            "hue": lambda x: e.adjust_hue(x, 0.4),
            "saturation": lambda x: e.adjust_saturation(x, 1.4),
            "sharpness": lambda x: e.sharpness(x, 0.8),
            "normalized": lambda x: e.normalize(x, torch.tensor([0.4] * 3), torch.tensor([0.2] * 3)),
            "least and most": lambda x: e.normalize_min_max(x),
            "integral": lambda x: e.integral_image(x),
            "histogram": lambda x: e.image_histogram2d(x.mean(1, keepdim=True), n_bins=8)[1],
        }.items()
    }
    results["few"] = [e.posterize(x, 3), e.solarize(x, 0.6), e.equalize(x), e.invert(x)]
    results["equalized locally"] = e.equalize_clahe(x, 20.0, (2, 2))
    results["whitened"] = e.zca_whiten(normal(9, 4))
    results["jpeg"] = e.jpeg_codec_differentiable(image(1, 3, 16, 16), torch.tensor([40.0]))
    return results


@client.case
def turned():
    """Pictures moved by matrices, by fields, through pyramids and polar coordinates.

    No point comes to lie on a pixel: there the slope is one-sided, and the last bit of a grid decides which it is.
    """
    t, x = kornia.geometry.transform, image()
    at = torch.tensor([[7.3, 8.8]] * 2)
    matrix = t.get_rotation_matrix2d(at, torch.tensor([20.0, -35.0]), torch.tensor([[1.1, 0.9]] * 2))
    corners = torch.tensor([[[0.0, 0], [19, 0], [19, 15], [0, 15]]] * 2)
    homography = t.get_perspective_transform(corners, corners + normal(2, 4, 2))
    return {
        "affine": both(lambda x, m: t.warp_affine(x, m, (12, 14)), x, matrix),
        "perspective": both(
            lambda x, m: t.warp_perspective(x, m, (12, 14), padding_mode="border"), x, homography
        ),
        "rotated": both(lambda x, a: t.rotate(x, a), x, torch.tensor([30.0, -10.0])),
        "translated": both(lambda x, d: t.translate(x, d), x, torch.tensor([[2.2, 1.6], [-1.1, 0.3]])),
        "scaled": both(lambda x, s: t.scale(x, s), x, torch.tensor([[1.2, 0.83], [0.57, 1.13]])),
        "sheared": both(lambda x, s: t.shear(x, s), x, torch.tensor([[0.23, 0.07], [0.11, 0.31]])),
        "resized": t.resize(x, (8, 9), antialias=True),
        "flipped": [t.hflip(x), t.vflip(x), t.rot180(x)],
        "cropped": t.crop_and_resize(x, corners * 0.5 + 2, (6, 7)),
        "smaller": [t.pyrdown(x), t.pyrup(x), t.build_pyramid(x, 3)],
        "elastic": t.elastic_transform2d(x, normal(2, 2, 16, 20), (5, 5), (3.0, 3.0), (0.5, 0.5)),
        "remapped": t.remap(x, normal(2, 16, 20) * 3 + 8, normal(2, 16, 20, seed=1) * 3 + 8),
        "volume": t.warp_affine3d(image(1, 1, 5, 6, 7), torch.eye(3, 4)[None] + 0.1, (4, 5, 6)),
        "thin plates": t.get_tps_transform(image(1, 5, 2), image(1, 5, 2, seed=1)),
    }


@client.case
def geometry():
    """Angles, quaternions, cameras, epipolar lines, planes and groups."""
    g = kornia.geometry
    turn = normal(3, 3)
    matrix = g.axis_angle_to_rotation_matrix(turn)
    points, others = normal(2, 12, 2), normal(2, 12, 2, seed=1)
    solid = normal(2, 9, 3) + torch.tensor([0.0, 0, 5])
    camera = torch.tensor([[[20.0, 0, 8], [0, 22, 6], [0, 0, 1]]] * 2)
    quaternion = g.Quaternion.from_axis_angle(turn)
    pose = g.So3.exp(turn)
    moved = g.Se3.exp(normal(2, 6))
    return {
        "forms": [
            matrix,
            g.rotation_matrix_to_axis_angle(matrix),
            g.rotation_matrix_to_quaternion(matrix),
            g.axis_angle_to_quaternion(turn),
            g.convert_points_to_homogeneous(points),
            g.convert_points_from_homogeneous(solid),
            g.normalize_homography(torch.eye(3)[None] + 0.1, (8, 9), (6, 7)),
            g.cart2pol(points[..., 0], points[..., 1]),
        ],
        "quaternions": [
            (quaternion * quaternion.inv()).data,
            quaternion.matrix(),
            quaternion.slerp(quaternion.conj(), 0.3).data,
        ],
        "groups": [
            pose.matrix(),
            pose.log(),
            moved.matrix(),
            moved.log(),
            (moved * moved.inverse()).matrix(),
        ],
        "camera": [
            g.project_points(solid, camera),
            g.unproject_points(points, normal(2, 12, 1).abs() + 1, camera[:, None]),
            g.undistort_points(points, camera, torch.tensor([[0.1, 0.01, 0.0, 0.0]] * 2)),
            g.depth_to_3d(image(2, 1, 6, 7), camera),
        ],
        "lines": [
            g.epipolar.find_fundamental(points, others, torch.ones(2, 12)).abs(),
            g.epipolar.sampson_epipolar_distance(points, others, torch.eye(3)[None] + 0.1),
            g.epipolar.compute_correspond_epilines(points, torch.eye(3)[None].repeat(2, 1, 1) + 0.1),
        ],
        "homography": g.find_homography_dlt(points, others * 0.1 + points, torch.ones(2, 12)),
        "soft places": [
            g.spatial_soft_argmax2d(image(1, 1, 7, 8)),
            g.conv_soft_argmax2d(image(1, 1, 9, 9), (3, 3), (1, 1), (1, 1)),
            g.spatial_expectation2d(image(1, 1, 5, 5)),
            g.render_gaussian2d(torch.tensor([[2.0, 3.0]]), torch.tensor([[1.0, 1.5]]), (6, 7), False),
        ],
        "boxes": g.boxes.Boxes.from_tensor(torch.tensor([[1.0, 2, 5, 8], [0, 0, 3, 3]]), mode="xyxy").to_mask(
            10, 9
        ),
    }


@client.case
def features():
    """Corners, blobs, frames, descriptors and their matches."""
    f, x = kornia.feature, image(1, 1, 40, 40)
    patches = image(3, 1, 32, 32)
    one, two = normal(1, 9, 16)[0], normal(1, 9, 16)[0] + 0.3 * normal(9, 16)
    frames = torch.tensor([[[[5.0, 1, 15], [0, 6, 18]], [[3, 0, 25], [1, 4, 20]]]])
    results = {
        "responses": [
            f.harris_response(x),
            f.gftt_response(x),
            f.hessian_response(x),
            f.dog_response(image(1, 1, 3, 12, 12)),
        ],
        "frames": [
            f.get_laf_scale(frames),
            f.get_laf_orientation(frames),
            f.make_upright(frames),
            f.laf_to_boundary_points(frames, 8),
            f.extract_patches_from_pyramid(x, frames, 9),
            f.ellipse_to_laf(torch.tensor([[[5.0, 6, 0.1, 0.02, 0.2]]])),
        ],
        "descriptors": [
            f.SIFTDescriptor(32)(patches),
            *(
                fill(getattr(f, name)(False)).eval()(patches)
                for name in ("HardNet", "SOSNet", "TFeat", "HyNet")
            ),
        ],
        "matches": [
            f.match_nn(one, two),
            f.match_mnn(one, two),
            f.match_snn(one, two, 0.95),
            f.match_smnn(one, two, 0.95),
        ],
        "orientation": f.PatchDominantGradientOrientation(32)(patches),
    }
    return results


@client.case
def networks():
    """Networks without their weights."""
    results = {}
    x = image(1, 3, 32, 32)
    for name, make, given in (
        ("vit", lambda: kornia.models.VisionTransformer(32, 8, 3, 24, 2, 3), x),
        ("mobile vit", lambda: kornia.models.MobileViT(), image(1, 3, 64, 64)),
        ("edges", lambda: kornia.filters.DexiNed(False), x),
        (
            "tiny vit",
            lambda: kornia.models.TinyViT(
                img_size=32,
                embed_dims=[8, 12, 16, 24],
                depths=[1, 1, 1, 1],
                num_heads=[1, 2, 2, 3],
                window_sizes=[2, 2, 2, 2],
                num_classes=5,
            ),
            x,
        ),
    ):
        try:
            network = fill(make()).eval()
        except AttributeError:
            continue
        with torch.no_grad():
            results[name] = network(given)
    return results


AUGMENTATIONS = {
    "flip": lambda a: a.RandomHorizontalFlip(p=1.0),
    "affine": lambda a: a.RandomAffine((-20.0, 20.0), (0.1, 0.1), (0.8, 1.2), (5.0, 10.0), p=1.0),
    "perspective": lambda a: a.RandomPerspective(0.4, p=1.0),
    "rotation": lambda a: a.RandomRotation(30.0, p=1.0),
    "crop": lambda a: a.RandomCrop((10, 12), p=1.0),
    "resized crop": lambda a: a.RandomResizedCrop((10, 12), p=1.0),
    "jitter": lambda a: a.ColorJiggle(0.2, 0.2, 0.2, 0.1, p=1.0),
    "erased": lambda a: a.RandomErasing(p=1.0),
    "blurred": lambda a: a.RandomGaussianBlur((3, 3), (0.5, 1.5), p=1.0),
    "grey": lambda a: a.RandomGrayscale(p=1.0),
    "sharp": lambda a: a.RandomSharpness(0.8, p=1.0),
    "solar": lambda a: a.RandomSolarize(0.1, 0.1, p=1.0),
    "elastic": lambda a: a.RandomElasticTransform(p=1.0),
    "mixed": lambda a: a.RandomMixUpV2(p=1.0),
}


@client.case
def augmented():
    """Augmentation whose parameters were drawn once and are given: what is drawn is PyTorch's own affair."""
    result, a, x = {}, kornia.augmentation, image()
    stream = np.random.default_rng(0)
    for name, make in AUGMENTATIONS.items():
        augmentation = make(a)
        params = augmentation.forward_parameters(x.shape)
        given = {}
        for key, value in params.items():
            if key in (
                "degrees",
                "brightness_factor",
                "contrast_factor",
                "hue_factor",
                "saturation_factor",
                "sigma",
            ):
                span = {"degrees": (-20, 20), "hue_factor": (-0.1, 0.1)}.get(key, (0.6, 1.4))
                value = torch.from_numpy(stream.uniform(*span, tuple(value.shape)).astype(np.float32))
            given[key] = value
        known = name in ("flip", "rotation", "grey", "blurred")
        out = augmentation(x, params=given)
        result[name] = out if known else list(out.shape)
    boxes = torch.tensor([[[[1.0, 1], [8, 1], [8, 8], [1, 8]]]] * 2)
    several = a.AugmentationSequential(
        a.RandomHorizontalFlip(p=1.0),
        a.RandomVerticalFlip(p=1.0),
        a.CenterCrop((12, 12)),
        data_keys=["input", "mask", "bbox", "keypoints"],
    )
    result["several"] = list(several(x, (x[:, :1] > 0.5).float(), boxes, boxes[:, 0]))
    result["matrix"] = several.transform_matrix
    return result


@client.case
def losses():
    l, result = kornia.losses, {}  # noqa: E741
    scores, labels = normal(2, 4, 6, 7), integers(4, 2, 6, 7)
    for name, f in {
        "focal": lambda s: l.focal_loss(s, labels, 0.5, 2.0, "mean"),
        "dice": lambda s: l.dice_loss(s, labels),
        "tversky": lambda s: l.tversky_loss(s, labels, 0.4, 0.6),
        "lovasz": lambda s: l.lovasz_softmax_loss(s, labels),
        "lovasz of two": lambda s: l.lovasz_hinge_loss(s[:, :1], (labels > 1).long()),
        "variation": lambda s: l.total_variation(s).mean(),
        "hausdorff": lambda s: l.HausdorffERLoss(2.0, 3, "mean")(s, labels[:, None]),
    }.items():
        result[name] = both(f, scores)
    a, b = image(1, 1, 16, 16), image(1, 1, 16, 16, seed=1)
    for name, f in {
        "ssim": lambda a, b: l.ssim_loss(a, b, 5),
        "psnr": lambda a, b: l.psnr_loss(a, b, 1.0),
        "depth": lambda a, b: l.inverse_depth_smoothness_loss(a, b),
        "charbonnier": lambda a, b: l.charbonnier_loss(a, b, "mean"),
        "cauchy": lambda a, b: l.cauchy_loss(a, b, "mean"),
        "welsch": lambda a, b: l.welsch_loss(a, b, "mean"),
        "geman": lambda a, b: l.geman_mcclure_loss(a, b, "mean"),
        "js": lambda a, b: l.js_div_loss_2d(a / a.sum(), b / b.sum()),
        "kl": lambda a, b: l.kl_div_loss_2d(a / a.sum(), b / b.sum()),
        "many scales": lambda a, b: l.MS_SSIMLoss((0.5, 1.0, 2.0))(
            a.repeat(1, 3, 1, 1), b.repeat(1, 3, 1, 1)
        ),
    }.items():
        result[name] = both(f, a, b)
    m = kornia.metrics
    result["metrics"] = [
        m.mean_iou(labels, labels.flip(0), 4),
        m.confusion_matrix(labels, labels.flip(0), 4),
        m.psnr(a, b, 1.0),
        m.ssim(a, b, 5),
        m.aepe(normal(1, 4, 4, 2), normal(1, 4, 4, 2, seed=1)),
    ]
    return result


@client.case
def shapes():
    """Morphology, distances, components, patches, drawings."""
    c, m, x = kornia.contrib, kornia.morphology, image(1, 1, 12, 12)
    kernel, marks = torch.ones(3, 3), (image(1, 1, 12, 12) > 0.6).float()
    patches = c.extract_tensor_patches(x, (4, 4), stride=(4, 4))
    points = torch.cat((normal(9, 2), normal(8, 2) + 6))
    clusters = c.KMeans(2, points[[0, -1]], 1e-4, 10, 0)
    clusters.fit(points)
    return {
        "morphology": [
            getattr(m, name)(x, kernel)
            for name in ("dilation", "erosion", "opening", "closing", "gradient", "top_hat", "bottom_hat")
        ],
        "distances": c.distance_transform(marks),
        "components": c.connected_components(marks, 30),
        "patches": [patches, c.combine_tensor_patches(patches, (12, 12), (4, 4), (4, 4))],
        "clusters": [clusters.cluster_centers, clusters.predict(points)],
        "drawn": [
            kornia.utils.draw_rectangle(image(1, 3, 12, 12), torch.tensor([[[1.0, 2, 6, 8]]])),
            kornia.utils.draw_line(
                image(3, 12, 12), torch.tensor([1, 2]), torch.tensor([9, 7]), torch.tensor([1.0, 0, 0])
            ),
        ],
        "matched": c.histogram_matching.match_histograms(image(3, 12, 12), image(3, 12, 12, seed=1))
        if hasattr(c, "match_histograms")
        else None,
    }


@client.case
def registered():
    """One picture laid over another, by gradients of a homography."""
    target = kornia.geometry.transform.warp_affine(
        image(1, 1, 20, 20), torch.tensor([[[1.0, 0.1, 1], [-0.05, 1, 0.5]]]), (20, 20)
    )
    model, losses = kornia.geometry.transform.Similarity(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(5):
        matrix = model()
        out = kornia.geometry.homography_warp(image(1, 1, 20, 20), matrix, (20, 20))
        loss = (out - target).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, model()]


with draws(0):
    for part in ("color", "enhance", "filters", "geometry", "losses", "metrics", "morphology"):
        doctests(client, "kornia." + part)

client.cause(
    r"So2\.inverse|Se2\.inverse",
    "1 / x is one quotient and its node DivBackward0; PyTorch multiplies 1 by a reciprocal: two nodes, the upper MulBackward0",
)
