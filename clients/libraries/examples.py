"""PyTorch's own examples as programs: what each does, small, over data that is made or that scikit-learn and gymnasium ship."""

import math

import gymnasium
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from harness import Client, draws, fill, integers, normal
from sklearn.datasets import load_diabetes, load_digits
from torch.utils.data import DataLoader, Dataset, TensorDataset

client = Client("scikit-learn", "gymnasium")


def digits(count=320, side=16):
    """Pictures of digits in [0, 1], of the side that is wanted, and what they show."""
    data = load_digits()
    images = torch.from_numpy(data.images[:count].astype(np.float32)) / 16
    return F.interpolate(images[:, None], size=(side, side), mode="nearest"), torch.from_numpy(
        data.target[:count]
    ).long()


def norms(module):
    return np.array([float(p.detach().double().norm()) for p in module.parameters()])


# Pictures --------------------------------------------------------------------------------------------------------------------


class Digits(nn.Module):
    def __init__(self, side=16):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.dropout1 = nn.Dropout(0.0)
        self.dropout2 = nn.Dropout(0.0)
        self.fc1 = nn.Linear(16 * ((side - 4) // 2) ** 2, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(self.dropout2(x)), dim=1)


@client.case
def mnist():
    """A convolutional network of digits, Adadelta, a rate that falls; losses, and what is right of what was not shown."""
    x, y = digits()
    model = fill(Digits())
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    losses = []
    for _ in range(2):
        model.train()
        for data, target in DataLoader(TensorDataset(x[:256], y[:256]), batch_size=64):
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
    model.eval()
    with torch.no_grad():
        out = model(x[256:])
        lost = F.nll_loss(out, y[256:], reduction="sum").item()
        right = (
            out.argmax(dim=1, keepdim=True).eq(y[256:].view_as(out.argmax(dim=1, keepdim=True))).sum().item()
        )
    return {"losses": losses, "lost": lost, "right": right, "state": sorted(model.state_dict())}


@client.case
def mnist_forward_forward():
    """Hinton's layers that learn alone: each tells pictures with their label from pictures with another."""

    def labelled(x, y):
        x = x.clone()
        x[:, :10] *= 0.0
        x[range(x.shape[0]), y] = x.max()
        return x

    class Layer(nn.Linear):
        def __init__(self, inputs, outputs):
            super().__init__(inputs, outputs)
            self.relu = torch.nn.ReLU()
            self.threshold = 1.5

        def forward(self, x):
            direction = x / (x.norm(2, 1, keepdim=True) + 1e-4)
            return self.relu(torch.mm(direction, self.weight.T) + self.bias.unsqueeze(0))

        def learn(self, positive, negative, optimizer, steps):
            losses = []
            for _ in range(steps):
                good = self.forward(positive).pow(2).mean(1)
                bad = self.forward(negative).pow(2).mean(1)
                loss = torch.log(
                    1 + torch.exp(torch.cat([-good + self.threshold, bad - self.threshold]))
                ).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            return self.forward(positive).detach(), self.forward(negative).detach(), losses

    x, y = digits(128, 8)
    x = x.flatten(1)
    wrong = (y + 1 + integers(9, 128)) % 10
    layers = [fill(Layer(64, 48)), fill(Layer(48, 32), seed=1)]
    positive, negative = labelled(x, y), labelled(x, wrong)
    losses = []
    for layer in layers:
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
        positive, negative, lost = layer.learn(positive, negative, optimizer, 12)
        losses.append(lost)
    goodness = []
    for label in range(10):
        h, good = labelled(x, torch.full((128,), label)), []
        for layer in layers:
            h = layer(h)
            good.append(h.pow(2).mean(1))
        goodness.append(sum(good).unsqueeze(1))
    goodness = torch.cat(goodness, 1)
    return {"losses": losses, "goodness": goodness, "right": goodness.argmax(1).eq(y).float().mean().item()}


@client.case
def siamese_network():
    """Two pictures through one network, and whether they show the same."""

    class Pairs(Dataset):
        def __init__(self, images, targets):
            self.images, self.targets = images, targets
            self.groups = {int(k): np.where(targets == k)[0] for k in np.unique(targets)}

        def __len__(self):
            return len(self.images)

        def __getitem__(self, k):
            label = int(self.targets[k])
            same = k % 2
            group = self.groups[label if same else (label + 1 + k % 9) % 10]
            other = group[k % len(group)]
            return self.images[k], self.images[other], torch.tensor(float(same), dtype=torch.float)

    class Siamese(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Sequential(
                nn.Conv2d(1, 8, 3, 2, 1, bias=False),
                nn.BatchNorm2d(8),
                nn.ReLU(inplace=True),
                nn.Conv2d(8, 16, 3, 2, 1),
                nn.ReLU(inplace=True),
                nn.AdaptiveAvgPool2d(2),
            )
            self.fc = nn.Sequential(nn.Linear(128, 32), nn.ReLU(inplace=True), nn.Linear(32, 1))
            self.sigmoid = nn.Sigmoid()
            self.apply(self.init_weights)

        def init_weights(self, m):
            if isinstance(m, nn.Linear):
                torch.nn.init.xavier_uniform_(m.weight)
                m.bias.data.fill_(0.01)

        def forward_once(self, x):
            out = self.trunk(x)
            return out.view(out.size()[0], -1)

        def forward(self, a, b):
            return self.sigmoid(self.fc(torch.cat((self.forward_once(a), self.forward_once(b)), 1)))

    x, y = digits(192, 16)
    model, criterion = fill(Siamese()), nn.BCELoss()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    losses, right = [], 0
    for a, b, target in DataLoader(Pairs(x, y.numpy()), batch_size=32):
        optimizer.zero_grad()
        out = model(a, b).squeeze()
        loss = criterion(out, target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        right += torch.where(out > 0.5, 1, 0).eq(target.view_as(out)).sum().item()
    return [losses, right, [bool(b) for b in Pairs(x, y.numpy())[1][2:]]]


@client.case
def vae():
    """A variational autoencoder of digits: both of its losses, and pictures from noise."""

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc21, self.fc22 = nn.Linear(64, 40), nn.Linear(40, 6), nn.Linear(40, 6)
            self.fc3, self.fc4 = nn.Linear(6, 40), nn.Linear(40, 64)

        def encode(self, x):
            h = F.relu(self.fc1(x))
            return self.fc21(h), self.fc22(h)

        def reparameterize(self, mu, logvar):
            std = torch.exp(0.5 * logvar)
            return mu + torch.randn_like(std) * std

        def decode(self, z):
            return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

        def forward(self, x):
            mu, logvar = self.encode(x.view(-1, 64))
            return self.decode(self.reparameterize(mu, logvar)), mu, logvar

    x, _ = digits(256, 8)
    model, losses = fill(VAE()), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with draws():
        for _ in range(2):
            for (data,) in DataLoader(TensorDataset(x), batch_size=64):
                optimizer.zero_grad()
                out, mu, logvar = model(data)
                bce = F.binary_cross_entropy(out, data.view(-1, 64), reduction="sum")
                kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
                (bce + kld).backward()
                optimizer.step()
                losses.append([bce.item(), kld.item()])
        with torch.no_grad():
            made = model.decode(torch.randn(5, 6)).view(5, 1, 8, 8)
    return [np.array(losses), made]


@client.case
def dcgan():
    """A generator and a discriminator against each other."""

    class Generator(nn.Module):
        def __init__(self, nz=8, ngf=6):
            super().__init__()
            self.main = nn.Sequential(
                nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False),
                nn.BatchNorm2d(ngf * 4),
                nn.ReLU(True),
                nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False),
                nn.BatchNorm2d(ngf * 2),
                nn.ReLU(True),
                nn.ConvTranspose2d(ngf * 2, 1, 4, 2, 1, bias=False),
                nn.Tanh(),
            )

        def forward(self, x):
            return self.main(x)

    class Discriminator(nn.Module):
        def __init__(self, ndf=6):
            super().__init__()
            self.main = nn.Sequential(
                nn.Conv2d(1, ndf, 4, 2, 1, bias=False),
                nn.LeakyReLU(0.2, inplace=True),
                nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
                nn.BatchNorm2d(ndf * 2),
                nn.LeakyReLU(0.2, inplace=True),
                nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
                nn.Sigmoid(),
            )

        def forward(self, x):
            return self.main(x).view(-1, 1).squeeze(1)

    def weights_init(m):
        kind = m.__class__.__name__
        if kind.find("Conv") != -1:
            torch.nn.init.normal_(m.weight, 0.0, 0.02)
        elif kind.find("BatchNorm") != -1:
            torch.nn.init.normal_(m.weight, 1.0, 0.02)
            torch.nn.init.zeros_(m.bias)

    x, _ = digits(96, 16)
    nets = Generator(), Discriminator()
    for net in nets:
        net.apply(weights_init)
    g, d = fill(nets[0]), fill(nets[1], seed=1)
    criterion, seen = nn.BCELoss(), []
    optimizers = [torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999)) for net in (d, g)]
    with draws():
        for (real,) in DataLoader(TensorDataset(x * 2 - 1), batch_size=32):
            d.zero_grad()
            label = torch.full((len(real),), 1, dtype=real.dtype)
            out = d(real)
            wrong_real = criterion(out, label)
            wrong_real.backward()
            fake = g(torch.randn(len(real), 8, 1, 1))
            label.fill_(0)
            out_fake = d(fake.detach())
            wrong_fake = criterion(out_fake, label)
            wrong_fake.backward()
            optimizers[0].step()
            g.zero_grad()
            label.fill_(1)
            lost = criterion(d(fake), label)
            lost.backward()
            optimizers[1].step()
            seen.append(
                [
                    wrong_real.item() + wrong_fake.item(),
                    lost.item(),
                    out.mean().item(),
                    out_fake.mean().item(),
                ]
            )
    return [np.array(seen), fake]


@client.case
def super_resolution():
    """Pixels shuffled out of channels."""

    class Net(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.relu = nn.ReLU()
            self.conv1 = nn.Conv2d(1, 16, (5, 5), (1, 1), (2, 2))
            self.conv2 = nn.Conv2d(16, 16, (3, 3), (1, 1), (1, 1))
            self.conv3 = nn.Conv2d(16, factor**2, (3, 3), (1, 1), (1, 1))
            self.pixel_shuffle = nn.PixelShuffle(factor)
            nn.init.orthogonal_(self.conv1.weight, nn.init.calculate_gain("relu"))
            nn.init.orthogonal_(self.conv3.weight)

        def forward(self, x):
            return self.pixel_shuffle(self.conv3(self.relu(self.conv2(self.relu(self.conv1(x))))))

    large, _ = digits(64, 16)
    small = F.interpolate(large, scale_factor=0.5, mode="bicubic", align_corners=False)
    model, criterion, losses = fill(Net(2)), nn.MSELoss(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in DataLoader(TensorDataset(small, large), batch_size=16):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        psnr = 10 * math.log10(1 / criterion(model(small), large).item())
    return [losses, psnr]


@client.case
def fast_neural_style():
    """A network that transfers style, between padding by reflection and normalised instances, with losses of Gram matrices.

    In float64: Adam takes the sign of gradients, and those of biases before instances are rounding alone.
    """

    class ConvLayer(nn.Module):
        def __init__(self, inputs, outputs, kernel, stride, upsample=None):
            super().__init__()
            self.upsample = upsample
            self.reflection_pad = nn.ReflectionPad2d(kernel // 2)
            self.conv2d = nn.Conv2d(inputs, outputs, kernel, stride)

        def forward(self, x):
            if self.upsample:
                x = F.interpolate(x, mode="nearest", scale_factor=self.upsample)
            return self.conv2d(self.reflection_pad(x))

    class Residual(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.conv1, self.in1 = (
                ConvLayer(channels, channels, 3, 1),
                nn.InstanceNorm2d(channels, affine=True),
            )
            self.conv2, self.in2 = (
                ConvLayer(channels, channels, 3, 1),
                nn.InstanceNorm2d(channels, affine=True),
            )
            self.relu = nn.ReLU()

        def forward(self, x):
            return self.in2(self.conv2(self.relu(self.in1(self.conv1(x))))) + x

    transformer = fill(
        nn.Sequential(
            ConvLayer(3, 8, 9, 1),
            nn.InstanceNorm2d(8, affine=True),
            nn.ReLU(),
            ConvLayer(8, 16, 3, 2),
            nn.InstanceNorm2d(16, affine=True),
            nn.ReLU(),
            Residual(16),
            ConvLayer(16, 8, 3, 1, upsample=2),
            nn.InstanceNorm2d(8, affine=True),
            nn.ReLU(),
            ConvLayer(8, 3, 9, 1),
        )
    ).double()
    judge = fill(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3), nn.ReLU()), seed=1
    ).double()
    for p in judge.parameters():
        p.requires_grad = False

    def gram(y):
        b, ch, h, w = y.size()
        features = y.view(b, ch, w * h)
        return features.bmm(features.transpose(1, 2)) / (ch * h * w)

    x, style = normal(4, 3, 24, 24).sigmoid().double(), gram(judge(normal(1, 3, 24, 24, seed=1).double()))
    optimizer, losses = torch.optim.Adam(transformer.parameters(), 1e-3), []
    for _ in range(3):
        optimizer.zero_grad()
        y = transformer(x)
        of_x, of_y = judge(x), judge(y)
        content = F.mse_loss(of_y, of_x)
        styled = F.mse_loss(gram(of_y), style.expand(4, -1, -1))
        (content + 10 * styled).backward()
        optimizer.step()
        losses.append([content.item(), styled.item()])
    return [np.array(losses), y]


@client.case
def vision_transformer():
    """Patches of digits through an encoder, trained with a rate that follows a cosine."""

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(1, 24, 4, 4)
            self.token = nn.Parameter(torch.zeros(1, 1, 24))
            self.places = nn.Parameter(torch.zeros(1, 17, 24))
            layer = nn.TransformerEncoderLayer(24, 4, 48, 0.0, "gelu", batch_first=True, norm_first=True)
            self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 10))

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat((self.token.expand(len(x), -1, -1), x), 1) + self.places
            return self.head(self.blocks(x)[:, 0])

    x, y = digits(128, 16)
    model, losses = fill(ViT()), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
    for data, target in DataLoader(TensorDataset(x, y), batch_size=32):
        loss = nn.CrossEntropyLoss(label_smoothing=0.1)(model(data), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return [losses, schedule.get_last_lr(), model.eval()(x[:4])]


# Numbers and time ------------------------------------------------------------------------------------------------------------


@client.case
def regression():
    """The coefficients of a polynomial, learned from its values."""
    target_w, target_b = normal(4, 1) * 5, normal(1) * 5

    def features(x):
        return torch.cat([x.unsqueeze(1) ** i for i in range(1, 5)], 1)

    fc, losses = fill(nn.Linear(4, 1)), []
    for k in range(40):
        x = features(normal(32, seed=k))
        y = x.mm(target_w) + target_b.item()
        fc.zero_grad()
        out = F.smooth_l1_loss(fc(x), y)
        out.backward()
        for param in fc.parameters():
            param.data.add_(-0.1 * param.grad)
        losses.append(out.item())
    return [losses, fc.weight.view(-1), fc.bias]


@client.case
def table():
    """Diabetes: whitened columns, a small network, and a stop when nothing is gained."""
    data = load_diabetes()
    x, y = torch.tensor(data.data, dtype=torch.float32) * 20, torch.tensor(data.target, dtype=torch.float32)
    y = (y - y.mean()) / y.std()
    model = fill(nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 1), nn.Flatten(0)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    held = []
    for _ in range(5):
        for a, b in DataLoader(TensorDataset(x[:342], y[:342]), batch_size=57):
            optimizer.zero_grad(set_to_none=True)
            F.huber_loss(model(a), b).backward()
            optimizer.step()
        with torch.no_grad():
            held.append(F.mse_loss(model(x[342:]), y[342:]).item())
        schedule.step(held[-1])
    return [held, optimizer.param_groups[0]["lr"]]


@client.case
def time_sequence_prediction():
    """Two LSTM cells over sines in float64, by L-BFGS with a closure; what they say of the future."""

    class Sequence(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm1, self.lstm2, self.linear = nn.LSTMCell(1, 12), nn.LSTMCell(12, 12), nn.Linear(12, 1)

        def forward(self, input, future=0):
            outputs = []
            h_t = c_t = torch.zeros(input.size(0), 12, dtype=torch.double)
            h_t2 = c_t2 = torch.zeros(input.size(0), 12, dtype=torch.double)
            for input_t in input.split(1, dim=1):
                h_t, c_t = self.lstm1(input_t, (h_t, c_t))
                h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
                output = self.linear(h_t2)
                outputs += [output]
            for _ in range(future):
                h_t, c_t = self.lstm1(output, (h_t, c_t))
                h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
                output = self.linear(h_t2)
                outputs += [output]
            return torch.cat(outputs, dim=1)

    at = np.arange(24)[None] + np.random.default_rng(0).integers(-40, 40, 6)[:, None]
    data = np.sin(at / 4.0).astype("float64")
    x, y = torch.from_numpy(data[1:, :-1]), torch.from_numpy(data[1:, 1:])
    model = fill(Sequence()).double()
    criterion, losses = nn.MSELoss(), []
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
    for _ in range(2):

        def closure():
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            losses.append(loss.item())
            return loss

        optimizer.step(closure)
    with torch.no_grad():
        future = model(torch.from_numpy(data[:1, :-1]), future=10)
    return [losses, future]


# Words -----------------------------------------------------------------------------------------------------------------------


TEXT = (
    "the cat sat on the mat . the dog sat on the log . the cat saw the dog and the dog saw the cat . "
    "on the log the dog and on the mat the cat sat and saw the sun . "
) * 6


def words():
    vocabulary = {word: k for k, word in enumerate(sorted(set(TEXT.split())))}
    return torch.tensor([vocabulary[word] for word in TEXT.split()]), len(vocabulary)


class RNNModel(nn.Module):
    def __init__(self, kind, ntoken, ninp, nhid, tie_weights=False):
        super().__init__()
        self.ntoken, self.kind, self.nhid = ntoken, kind, nhid
        self.drop, self.encoder = nn.Dropout(0.0), nn.Embedding(ntoken, ninp)
        if kind in ("LSTM", "GRU"):
            self.rnn = getattr(nn, kind)(ninp, nhid, 2, dropout=0.0)
        else:
            self.rnn = nn.RNN(ninp, nhid, 2, nonlinearity={"RNN_TANH": "tanh", "RNN_RELU": "relu"}[kind])
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        zeros = weight.new_zeros(2, bsz, self.nhid)
        return (zeros, weight.new_zeros(2, bsz, self.nhid)) if self.kind == "LSTM" else zeros


class TransformerModel(nn.Transformer):
    def __init__(self, ntoken, ninp=24, nhead=4, nhid=32):
        super().__init__(d_model=ninp, nhead=nhead, dim_feedforward=nhid, num_encoder_layers=2, dropout=0.0)
        self.src_mask = None
        pe, position = torch.zeros(64, ninp), torch.arange(0, 64, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, ninp, 2).float() * (-math.log(10000.0) / ninp))
        pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0).transpose(0, 1), persistent=False)
        self.input_emb, self.ninp = nn.Embedding(ntoken, ninp), ninp
        self.decoder = nn.Linear(ninp, ntoken)

    def forward(self, src):
        if self.src_mask is None or self.src_mask.size(0) != len(src):
            self.src_mask = torch.log(torch.tril(torch.ones(len(src), len(src))))
        src = self.input_emb(src) * math.sqrt(self.ninp)
        output = self.encoder(src + self.pe[: src.size(0), :], mask=self.src_mask)
        return F.log_softmax(self.decoder(output), dim=-1)


@client.case
def word_language_model():
    """The next word, by recurrent networks of each kind and by a transformer; gradients cut at a norm."""
    ids, count = words()
    columns = ids[: len(ids) // 4 * 4].view(4, -1).t().contiguous()
    criterion, result = nn.NLLLoss(), {}
    for kind in ("RNN_TANH", "RNN_RELU", "LSTM", "GRU", "tied", "Transformer"):
        if kind == "Transformer":
            model = fill(TransformerModel(count))
        elif kind == "tied":
            model = fill(RNNModel("LSTM", count, 24, 24, tie_weights=True))
        else:
            model = fill(RNNModel(kind, count, 16, 24))
        losses = []
        hidden = None if kind == "Transformer" else model.init_hidden(4)
        for k in range(0, columns.size(0) - 1, 8):
            length = min(8, len(columns) - 1 - k)
            data, targets = columns[k : k + length], columns[k + 1 : k + 1 + length].view(-1)
            model.zero_grad()
            if kind == "Transformer":
                out = model(data).view(-1, count)
            else:
                hidden = tuple(h.detach() for h in hidden) if isinstance(hidden, tuple) else hidden.detach()
                out, hidden = model(data, hidden)
            loss = criterion(out, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            for p in model.parameters():
                if p.grad is not None:
                    p.data.add_(p.grad, alpha=-2.0)
            losses.append(loss.item())
        result[kind] = losses
    return result


@client.case
def language_translation():
    """Sentences of numbers turned round by a transformer of two halves, with masks, and written greedily."""
    count, pad, begin, end = 12, 0, 1, 2

    class Seq2Seq(nn.Module):
        def __init__(self):
            super().__init__()
            self.transformer = nn.Transformer(24, 4, 1, 1, 32, dropout=0.0)
            self.generator = nn.Linear(24, count)
            self.src, self.tgt = nn.Embedding(count, 24), nn.Embedding(count, 24)

        def forward(self, src, tgt, src_mask, tgt_mask, src_padding, tgt_padding):
            out = self.transformer(
                self.src(src) * math.sqrt(24),
                self.tgt(tgt) * math.sqrt(24),
                src_mask,
                tgt_mask,
                None,
                src_padding,
                tgt_padding,
                src_padding,
            )
            return self.generator(out)

    rows = [integers(9, 3 + k % 4, seed=k) + 3 for k in range(24)]
    close = [torch.cat((torch.tensor([begin]), row, torch.tensor([end]))) for row in rows]
    turned = [torch.cat((torch.tensor([begin]), row.flip(0), torch.tensor([end]))) for row in rows]
    src = torch.nn.utils.rnn.pad_sequence(close, padding_value=pad)
    tgt = torch.nn.utils.rnn.pad_sequence(turned, padding_value=pad)
    model, losses = fill(Seq2Seq()), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=pad)
    given = tgt[:-1]
    causal = nn.Transformer.generate_square_subsequent_mask(len(given)).isinf()
    none = torch.zeros((len(src), len(src))).type(torch.bool)
    for _ in range(4):
        logits = model(src, given, none, causal, (src == pad).t(), (given == pad).t())
        optimizer.zero_grad()
        loss = criterion(logits.reshape(-1, count), tgt[1:].reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        model.eval()
        memory = model.transformer.encoder(model.src(src[:, :1]) * math.sqrt(24), none)
        ys = torch.ones(1, 1).fill_(begin).type(torch.long)
        for _ in range(6):
            mask = nn.Transformer.generate_square_subsequent_mask(ys.size(0)).type(torch.bool)
            out = model.transformer.decoder(model.tgt(ys) * math.sqrt(24), memory, mask).transpose(0, 1)
            word = model.generator(out[:, -1]).max(dim=1)[1].item()
            ys = torch.cat([ys, torch.ones(1, 1).type_as(src.data).fill_(word)], dim=0)
    return [losses, ys.flatten()]


@client.case
def snli():
    """Two sentences of different lengths, packed, through one LSTM of two directions; whether one follows from the other."""
    embedding = fill(nn.Embedding(20, 8, padding_idx=0))
    lstm = fill(nn.LSTM(8, 10, 1, bidirectional=True), seed=1)
    head = fill(nn.Sequential(nn.Linear(80, 16), nn.ReLU(), nn.Linear(16, 3)), seed=2)
    parameters = [*embedding.parameters(), *lstm.parameters(), *head.parameters()]
    optimizer, losses = torch.optim.Adam(parameters, lr=1e-2), []

    def sentence(lengths, seed):
        rows = [integers(19, n, seed=seed + k) + 1 for k, n in enumerate(lengths)]
        packed = nn.utils.rnn.pack_sequence([embedding(r) for r in rows], enforce_sorted=False)
        out, (last, _) = lstm(packed)
        padded, sizes = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        assert sizes.tolist() == list(lengths)
        return torch.cat((last.transpose(0, 1).reshape(len(rows), -1), padded.sum(1)), 1)

    for k in range(3):
        a, b = sentence((4, 7, 2, 5), 10 * k), sentence((3, 3, 6, 1), 10 * k + 5)
        out = head(torch.cat((a, (a - b).abs()), 1))
        loss = F.cross_entropy(out, torch.tensor([0, 1, 2, 1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, out, embedding.weight.grad[0]]


# Graphs ----------------------------------------------------------------------------------------------------------------------


def graph(nodes=30, edges=70):
    ends = integers(nodes, 2, edges)
    adjacency = torch.zeros(nodes, nodes)
    adjacency[ends[0], ends[1]] = 1.0
    adjacency = ((adjacency + adjacency.t()) > 0).float()
    adjacency.fill_diagonal_(1.0)
    return adjacency, (normal(nodes, 12) > 0.5).float(), integers(4, nodes)


@client.case
def gcn():
    """Graph convolutions over a sparse adjacency matrix."""

    class GraphConv(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.kernel = nn.Parameter(torch.Tensor(inputs, outputs))
            nn.init.xavier_normal_(self.kernel)
            self.bias = nn.Parameter(torch.Tensor(outputs))
            nn.init.zeros_(self.bias)

        def forward(self, x, adjacency):
            return torch.sparse.mm(adjacency, torch.mm(x, self.kernel)) + self.bias

    adjacency, features, labels = graph()
    degrees = adjacency.sum(1).pow(-0.5)
    normalised = (degrees[:, None] * adjacency * degrees[None]).to_sparse()
    first, second = fill(GraphConv(12, 8)), fill(GraphConv(8, 4), seed=1)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01, weight_decay=5e-4)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        out = F.log_softmax(second(F.relu(first(features, normalised)), normalised), dim=1)
        loss = F.nll_loss(out[:20], labels[:20])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, out[20:].argmax(1).eq(labels[20:]).float().mean()]


@client.case
def gat():
    """Graph attention: heads, a mask of edges, softmax over neighbours."""

    class GraphAttention(nn.Module):
        def __init__(self, inputs, outputs, heads, concat):
            super().__init__()
            self.heads, self.concat = heads, concat
            self.hidden = outputs // heads if concat else outputs
            self.W = nn.Parameter(torch.empty(size=(inputs, self.hidden * heads)))
            self.a = nn.Parameter(torch.empty(size=(heads, 2 * self.hidden, 1)))
            self.leakyrelu, self.softmax = nn.LeakyReLU(0.2), nn.Softmax(dim=1)

        def forward(self, h, adjacency):
            n = h.shape[0]
            h = torch.mm(h, self.W).view(n, self.heads, self.hidden).permute(1, 0, 2)
            source, target = (
                torch.matmul(h, self.a[:, : self.hidden]),
                torch.matmul(h, self.a[:, self.hidden :]),
            )
            e = self.leakyrelu(source + target.mT)
            e = torch.where(adjacency > 0, e, -9e16 * torch.ones_like(e))
            out = torch.matmul(F.dropout(F.softmax(e, dim=-1), 0.0, training=self.training), h)
            return out.permute(1, 0, 2).contiguous().view(n, -1) if self.concat else out.mean(dim=0)

    adjacency, features, labels = graph()
    first, second = fill(GraphAttention(12, 16, 4, True)), fill(GraphAttention(16, 4, 1, False), seed=1)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.005)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        out = F.log_softmax(second(F.elu(first(features, adjacency)), adjacency), dim=1)
        loss = F.nll_loss(out[labels < 3], labels[labels < 3])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, out]


# Learning by reward ----------------------------------------------------------------------------------------------------------


def choose(probabilities, stream):
    """An action, by a number that is drawn outside of both libraries."""
    return torch.tensor(int((probabilities.detach().cumsum(-1).numpy() < stream.random()).sum()))


@client.case
def reinforce():
    """The pole on a cart, by the gradient of the policy."""

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.affine1, self.dropout, self.affine2 = nn.Linear(4, 32), nn.Dropout(p=0.0), nn.Linear(32, 2)

        def forward(self, x):
            return F.softmax(self.affine2(F.relu(self.dropout(self.affine1(x)))), dim=1)

    env, stream = gymnasium.make("CartPole-v1"), np.random.default_rng(0)
    policy, lengths, losses = fill(Policy()), [], []
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for episode in range(6):
        state, _ = env.reset(seed=episode)
        saved, rewards = [], []
        for _ in range(200):
            probs = policy(torch.from_numpy(state).float().unsqueeze(0))
            m = torch.distributions.Categorical(probs)
            action = choose(probs[0], stream).unsqueeze(0)
            saved.append(m.log_prob(action))
            state, reward, done, _, _ = env.step(action.item())
            rewards.append(reward)
            if done:
                break
        R, returns = 0.0, []
        for r in rewards[::-1]:
            R = r + 0.99 * R
            returns.insert(0, R)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + np.finfo(np.float32).eps.item())
        optimizer.zero_grad()
        loss = torch.cat([-p * r for p, r in zip(saved, returns)]).sum()
        loss.backward()
        optimizer.step()
        lengths.append(len(rewards))
        losses.append(loss.item())
    return [np.array(lengths), losses]


@client.case
def actor_critic():
    """The same with a head that says what a state is worth."""

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.affine1 = nn.Linear(4, 32)
            self.action_head, self.value_head = nn.Linear(32, 2), nn.Linear(32, 1)

        def forward(self, x):
            x = F.relu(self.affine1(x))
            return F.softmax(self.action_head(x), dim=-1), self.value_head(x)

    env, stream = gymnasium.make("CartPole-v1"), np.random.default_rng(1)
    model, losses = fill(Policy()), []
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for episode in range(5):
        state, _ = env.reset(seed=episode)
        saved, rewards = [], []
        for _ in range(100):
            probs, value = model(torch.from_numpy(state).float())
            m = torch.distributions.Categorical(probs)
            action = choose(probs, stream)
            saved.append((m.log_prob(action), value, m.entropy()))
            state, reward, done, _, _ = env.step(action.item())
            rewards.append(reward)
            if done:
                break
        R, returns = 0.0, []
        for r in rewards[::-1]:
            R = r + 0.99 * R
            returns.insert(0, R)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-7)
        policy_losses, value_losses = [], []
        for (log_prob, value, _), R in zip(saved, returns):
            policy_losses.append(-log_prob * (R - value.item()))
            value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
        optimizer.zero_grad()
        loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, torch.stack([e for _, _, e in saved]).mean()]


@client.case
def deep_q():
    """Values of actions, learned from a memory, with a second network that follows slowly."""
    env, stream = gymnasium.make("CartPole-v1"), np.random.default_rng(2)
    make = lambda: fill(
        nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    )  # noqa: E731
    policy, target = make(), make()
    optimizer, memory, losses = torch.optim.AdamW(policy.parameters(), lr=1e-3, amsgrad=True), [], []
    for episode in range(4):
        state = torch.tensor(env.reset(seed=episode)[0], dtype=torch.float32).unsqueeze(0)
        for _ in range(60):
            with torch.no_grad():
                best = policy(state).max(1).indices.view(1, 1)
            action = torch.tensor([[int(stream.integers(2))]]) if stream.random() < 0.3 else best
            seen, reward, done, _, _ = env.step(action.item())
            after = None if done else torch.tensor(seen, dtype=torch.float32).unsqueeze(0)
            memory.append((state, action, after, torch.tensor([reward])))
            if len(memory) >= 16:
                chosen = [memory[k] for k in stream.choice(len(memory), 16, replace=False)]
                states, actions, afters, rewards = zip(*chosen)
                going = torch.tensor(tuple(s is not None for s in afters), dtype=torch.bool)
                worth = policy(torch.cat(states)).gather(1, torch.cat(actions))
                next_worth = torch.zeros(16)
                with torch.no_grad():
                    next_worth[going] = target(torch.cat([s for s in afters if s is not None])).max(1).values
                expected = next_worth * 0.99 + torch.cat(rewards)
                loss = nn.SmoothL1Loss()(worth, expected.unsqueeze(1))
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_value_(policy.parameters(), 100)
                optimizer.step()
                losses.append(loss.item())
                state_dict, of_policy = target.state_dict(), policy.state_dict()
                for key in of_policy:
                    state_dict[key] = of_policy[key] * 0.05 + state_dict[key] * 0.95
                target.load_state_dict(state_dict)
            if done:
                break
            state = after
    return [np.array(losses)[::4], norms(target), len(memory)]


# How programs are written ----------------------------------------------------------------------------------------------------


@client.case
def polynomials():
    """Five ways to fit sines by a polynomial: by hand, by gradients, a function of one's own, nn and optim, control flow."""
    x = torch.linspace(-math.pi, math.pi, 200)
    y, result = torch.sin(x), {}
    a, b, c, d = (float(v) for v in normal(4))
    for _ in range(50):
        out = a + b * x + c * x**2 + d * x**3
        grad = 2.0 * (out - y)
        steps = [grad.sum(), (grad * x).sum(), (grad * x**2).sum(), (grad * x**3).sum()]
        a, b, c, d = (v - 1e-6 * g for v, g in zip((a, b, c, d), steps))
    result["by hand"] = [float(v) for v in (a, b, c, d)]

    class LegendrePolynomial3(torch.autograd.Function):
        @staticmethod
        def forward(ctx, input):
            ctx.save_for_backward(input)
            return 0.5 * (5 * input**3 - 3 * input)

        @staticmethod
        def backward(ctx, grad_output):
            (input,) = ctx.saved_tensors
            return grad_output * 1.5 * (5 * input**2 - 1)

    weights = [torch.full((), v, requires_grad=True) for v in (0.0, -1.0, 0.0, 0.3)]
    for _ in range(50):
        a, b, c, d = weights
        (a + b * LegendrePolynomial3.apply(c + d * x) - y).pow(2).sum().backward()
        with torch.no_grad():
            for w in weights:
                w -= 5e-6 * w.grad
                w.grad = None
    result["own"] = [w.item() for w in weights]
    xx = x.unsqueeze(-1).pow(torch.tensor([1, 2, 3]))
    model = fill(torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0, 1)))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for _ in range(50):
        loss = torch.nn.MSELoss(reduction="sum")(model(xx), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    result["optim"] = [loss.item(), model[0].weight]
    e = torch.nn.Parameter(torch.tensor(0.02))
    for k in range(6):
        out = 0.9 * x - 0.15 * x**3
        for exp in range(4, 5 + k % 3):
            out = out + e * x**exp
        ((out - y) ** 2).sum().backward()
    result["flow"] = e.grad
    return result
