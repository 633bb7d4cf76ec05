"""Nine networks in plain `nn`, written once for either library: `networks(t)` builds them with the modules of `t`.

Their weights are the same numbers in both (`initialise`), so outputs and losses can be compared.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def initialise(t, net):
    """Weights of two dimensions and more from NumPy, by their number alone; norms and biases keep ones and zeros."""
    with t.no_grad():
        for number, (name, p) in enumerate(net.named_parameters()):
            if name.endswith("bias") or "bias_" in name:
                p.zero_()
            elif p.ndim > 1:
                fan = p[0].numel()
                table = p.ndim == 2 and p.shape[0] > 8000  # words
                values = np.random.default_rng(number).standard_normal(tuple(p.shape), dtype=np.float32)
                p.copy_(t.from_numpy(values * np.float32(0.02 if table else fan**-0.5)))
    return net


def networks(t) -> dict[str, Callable]:
    """Builders by name, over the modules of the library `t`."""
    nn, F = t.nn, t.nn.functional

    def conv(inside, outside, kernel=1, stride=1, groups=1, act: Callable | None = None):
        """Convolution without bias, batch norm, activation."""
        layers = [
            nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outside),
        ]
        return nn.Sequential(*layers, *([act()] if act else []))

    def rectified():
        return nn.ReLU(inplace=True)

    class Residual(nn.Module):
        """relu(body(x) + x), where x goes through a 1×1 convolution if the shape changes."""

        def __init__(self, body, inside, outside, stride):
            super().__init__()
            self.body = body
            self.short = (
                conv(inside, outside, 1, stride) if stride > 1 or inside != outside else nn.Identity()
            )

        def forward(self, x):
            return F.relu(self.body(x) + self.short(x), inplace=True)

    class ResNet(nn.Module):
        """He et al. 2015: 18 layers of basic blocks, 50 of bottlenecks."""

        def __init__(self, depths, wide: bool):
            super().__init__()
            layers = [conv(3, 64, 7, 2, act=rectified), nn.MaxPool2d(3, 2, 1)]
            inside = 64
            for stage, depth in enumerate(depths):
                width = 64 << stage
                outside = width * (4 if wide else 1)
                for block in range(depth):
                    stride = 2 if stage and not block else 1
                    if wide:
                        body = nn.Sequential(
                            conv(inside, width, act=rectified),
                            conv(width, width, 3, stride, act=rectified),
                            conv(width, outside),
                        )
                    else:
                        body = nn.Sequential(
                            conv(inside, width, 3, stride, act=rectified), conv(width, width, 3)
                        )
                    layers.append(Residual(body, inside, outside, stride))
                    inside = outside
            self.features, self.pool = nn.Sequential(*layers), nn.AdaptiveAvgPool2d(1)
            self.head = nn.Linear(inside, 1000)

        def forward(self, x):
            return self.head(self.pool(self.features(x)).flatten(1))

    class Squeeze(nn.Module):
        """Channels scaled by what their means say."""

        def __init__(self, channels, inner):
            super().__init__()
            self.down, self.up = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

        def forward(self, x):
            scale = F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))
            return x * F.hardsigmoid(self.up(scale))

    class Inverted(nn.Module):
        """Widened, convolved by channel, squeezed, narrowed."""

        def __init__(self, inside, kernel, inner, outside, squeeze, act, stride):
            super().__init__()
            layers = [conv(inside, inner, act=act)] if inner != inside else []
            layers.append(conv(inner, inner, kernel, stride, groups=inner, act=act))
            if squeeze:
                layers.append(Squeeze(inner, -(-inner // 32) * 8))
            self.body = nn.Sequential(*layers, conv(inner, outside))
            self.adds = stride == 1 and inside == outside

        def forward(self, x):
            return x + self.body(x) if self.adds else self.body(x)

    class MobileNetV3(nn.Module):
        """Howard et al. 2019, large."""

        def __init__(self):
            super().__init__()
            relu, swish = nn.ReLU, nn.Hardswish
            rows = [  # kernel, inner, outside, squeeze, activation, stride
                (3, 16, 16, False, relu, 1),
                (3, 64, 24, False, relu, 2),
                (3, 72, 24, False, relu, 1),
                (5, 72, 40, True, relu, 2),
                (5, 120, 40, True, relu, 1),
                (5, 120, 40, True, relu, 1),
                (3, 240, 80, False, swish, 2),
                (3, 200, 80, False, swish, 1),
                (3, 184, 80, False, swish, 1),
                (3, 184, 80, False, swish, 1),
                (3, 480, 112, True, swish, 1),
                (3, 672, 112, True, swish, 1),
                (5, 672, 160, True, swish, 2),
                (5, 960, 160, True, swish, 1),
                (5, 960, 160, True, swish, 1),
            ]
            layers, inside = [conv(3, 16, 3, 2, act=swish)], 16
            for kernel, inner, outside, squeeze, act, stride in rows:
                layers.append(Inverted(inside, kernel, inner, outside, squeeze, act, stride))
                inside = outside
            self.features = nn.Sequential(*layers, conv(inside, 960, act=swish))
            self.head = nn.Sequential(nn.Linear(960, 1280), swish(), nn.Dropout(0.2), nn.Linear(1280, 1000))

        def forward(self, x):
            return self.head(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))

    class ChannelNorm(nn.LayerNorm):
        """Layer norm over the channels of images."""

        def forward(self, x):
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class NextBlock(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.depthwise, self.norm = (
                nn.Conv2d(dim, dim, 7, padding=3, groups=dim),
                nn.LayerNorm(dim, eps=1e-6),
            )
            self.up, self.act, self.down = nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
            self.scale = nn.Parameter(t.full((dim,), 0.1))

        def forward(self, x):
            y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
            return x + (self.scale * self.down(self.act(self.up(y)))).permute(0, 3, 1, 2)

    class ConvNeXt(nn.Module):
        """Liu et al. 2022, tiny."""

        def __init__(self):
            super().__init__()
            dims, layers = (96, 192, 384, 768), []
            for stage, (dim, depth) in enumerate(zip(dims, (3, 3, 9, 3))):
                if stage:
                    layers += [ChannelNorm(dims[stage - 1], eps=1e-6), nn.Conv2d(dims[stage - 1], dim, 2, 2)]
                else:
                    layers += [nn.Conv2d(3, dim, 4, 4), ChannelNorm(dim, eps=1e-6)]
                layers += [NextBlock(dim) for _ in range(depth)]
            self.features, self.norm = nn.Sequential(*layers), nn.LayerNorm(768, eps=1e-6)
            self.head = nn.Linear(768, 1000)

        def forward(self, x):
            return self.head(self.norm(self.features(x).mean((2, 3))))

    class Attention(nn.Module):
        def __init__(self, dim, heads, dropout, causal):
            super().__init__()
            self.heads, self.dropout, self.causal = heads, dropout, causal
            self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

        def forward(self, x):
            batch, length, dim = x.shape
            qkv = self.qkv(x).view(batch, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
            p = self.dropout.p if self.training else 0.0
            y = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], dropout_p=p, is_causal=self.causal)
            return self.out(y.transpose(1, 2).reshape(batch, length, dim))

    class Block(nn.Module):
        """Attention and two linear layers; norms before them, or after as BERT has them."""

        def __init__(self, dim, heads, dropout=0.0, causal=False, after=False, approximate="none"):
            super().__init__()
            self.after, self.drop = after, nn.Dropout(dropout)
            self.first, self.second = nn.LayerNorm(dim), nn.LayerNorm(dim)
            self.attention = Attention(dim, heads, self.drop, causal)
            self.feed = nn.Sequential(
                nn.Linear(dim, 4 * dim), nn.GELU(approximate=approximate), nn.Linear(4 * dim, dim)
            )

        def forward(self, x):
            if self.after:
                x = self.first(x + self.drop(self.attention(x)))
                return self.second(x + self.drop(self.feed(x)))
            x = x + self.drop(self.attention(self.first(x)))
            return x + self.drop(self.feed(self.second(x)))

    class ViT(nn.Module):
        """Dosovitskiy et al. 2020, with DeiT's tiny widths: 12 layers of 192, 3 heads, patches of 16."""

        def __init__(self):
            super().__init__()
            self.patches, self.kind = nn.Conv2d(3, 192, 16, 16), nn.Parameter(t.zeros(1, 1, 192))
            self.places = nn.Parameter(t.zeros(1, 197, 192))
            self.blocks = nn.Sequential(*[Block(192, 3) for _ in range(12)])
            self.norm, self.head = nn.LayerNorm(192), nn.Linear(192, 1000)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = t.cat([self.kind.expand(x.shape[0], -1, -1), x], 1)
            x = x + self.places[:, : x.shape[1]]
            return self.head(self.norm(self.blocks(x))[:, 0])

    class GPT2(nn.Module):
        """Radford et al. 2019, small; the head's weights are the words'."""

        def __init__(self, words=50257, dim=768):
            super().__init__()
            self.words, self.places, self.drop = (
                nn.Embedding(words, dim),
                nn.Embedding(1024, dim),
                nn.Dropout(0.1),
            )
            self.blocks = nn.Sequential(
                *[Block(dim, 12, 0.1, causal=True, approximate="tanh") for _ in range(12)]
            )
            self.norm = nn.LayerNorm(dim)

        def forward(self, x):
            x = self.drop(self.words(x) + self.places(t.arange(x.shape[1])))
            return F.linear(self.norm(self.blocks(x)), self.words.weight).flatten(0, 1)

    class BERT(nn.Module):
        """Devlin et al. 2018, base, with a classifier of two classes."""

        def __init__(self, words=30522, dim=768):
            super().__init__()
            self.words, self.places = nn.Embedding(words, dim), nn.Embedding(512, dim)
            self.segments = nn.Embedding(2, dim)
            self.norm, self.drop = nn.LayerNorm(dim, eps=1e-12), nn.Dropout(0.1)
            self.blocks = nn.Sequential(*[Block(dim, 12, 0.1, after=True) for _ in range(12)])
            self.pool, self.head = nn.Linear(dim, dim), nn.Linear(dim, 2)

        def forward(self, x):
            places = self.places(t.arange(x.shape[1]))
            x = self.drop(self.norm(self.words(x) + self.segments(t.zeros_like(x)) + places))
            return self.head(self.drop(t.tanh(self.pool(self.blocks(x)[:, 0]))))

    class LSTM(nn.Module):
        """Two layers of 512 over words of 256."""

        def __init__(self, words=10000):
            super().__init__()
            self.words, self.drop = nn.Embedding(words, 256), nn.Dropout(0.2)
            self.rnn, self.head = nn.LSTM(256, 512, 2, batch_first=True, dropout=0.2), nn.Linear(512, words)

        def forward(self, x):
            return self.head(self.drop(self.rnn(self.drop(self.words(x)))[0])).flatten(0, 1)

    class Grouped(nn.Module):
        """Attention of 8 heads over keys and values of 4, places by rotation, with a cache that a step writes one place of."""

        def __init__(self, dim, places):
            super().__init__()
            self.q, self.kv = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
            self.out = nn.Linear(dim, dim, bias=False)
            width = dim // 8
            angles = t.outer(t.arange(places).float(), 10000.0 ** (-t.arange(0, width, 2).float() / width))
            self.register_buffer("cos", t.cat([angles.cos()] * 2, -1))
            self.register_buffer("sin", t.cat([angles.sin()] * 2, -1))
            earlier = t.arange(2 * 4 * places * width).float().sin().view(2, 1, 4, places, width)
            self.register_buffer("keys", earlier[0].repeat(16, 1, 1, 1))
            self.register_buffer("values", earlier[1].repeat(16, 1, 1, 1))

        def rotated(self, x, first, last):
            half = x.shape[-1] // 2
            turned = t.cat([-x[..., half:], x[..., :half]], -1)
            return x * self.cos[first:last] + turned * self.sin[first:last]

        def forward(self, x, first):
            batch, length, dim = x.shape
            last = first + length
            q = self.rotated(self.q(x).view(batch, length, 8, dim // 8).transpose(1, 2), first, last)
            k, v = self.kv(x).view(batch, length, 2, 4, dim // 8).permute(2, 0, 3, 1, 4)
            k = self.rotated(k, first, last)
            if first:
                self.keys[:batch, :, first:last], self.values[:batch, :, first:last] = k, v
                k, v = self.keys[:batch, :, :last], self.values[:batch, :, :last]
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=not first)
            return self.out(y.transpose(1, 2).reshape(batch, length, dim))

    class LlamaBlock(nn.Module):
        def __init__(self, dim, places):
            super().__init__()
            self.first, self.second = nn.RMSNorm(dim, eps=1e-5), nn.RMSNorm(dim, eps=1e-5)
            self.attention = Grouped(dim, places)
            self.gate, self.up = nn.Linear(dim, 1376, bias=False), nn.Linear(dim, 1376, bias=False)
            self.down = nn.Linear(1376, dim, bias=False)

        def forward(self, x, first):
            x = x + self.attention(self.first(x), first)
            y = self.second(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Llama(nn.Module):
        """Touvron et al. 2023 with grouped heads, 4 blocks of 512.  Training reads a text; else a step adds its last word to a cache."""

        def __init__(self, words=8000, dim=512):
            super().__init__()
            self.words = nn.Embedding(words, dim)
            self.blocks = nn.ModuleList(LlamaBlock(dim, 512) for _ in range(4))
            self.norm, self.head = nn.RMSNorm(dim, eps=1e-5), nn.Linear(dim, words, bias=False)

        def forward(self, x):
            first = 0 if self.training else x.shape[1] - 1
            x = self.words(x[:, first:])
            for block in self.blocks:
                x = block(x, first)
            return self.head(self.norm(x)).flatten(0, 1)

    return {
        "resnet18": lambda: ResNet((2, 2, 2, 2), False),
        "resnet50": lambda: ResNet((3, 4, 6, 3), True),
        "mobilenetv3": MobileNetV3,
        "convnext": ConvNeXt,
        "vit_tiny": ViT,
        "gpt2": GPT2,
        "bert": BERT,
        "lstm": LSTM,
        "llama": Llama,
    }
