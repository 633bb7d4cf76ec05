"""The air of the next year: a temporal convolution forecasts carbon dioxide above Mauna Loa.

Data: weekly means from March 1958 to December 2001 in parts per million (Keeling and Whorf, 2004), in statsmodels; weeks without a
measurement are interpolated.  The last ten years are held out.  The network reads three years and says the next 52 weeks, as a
correction to "as last year, and as much more as this week is above last year's".

Figure: root mean squared error over all 52 weeks ahead, from every second week of the ten years, in ppm.  To beat: that seasonal-naive
forecast with drift, by 15 %.  To compare: statsmodels' `AutoReg` with a trend and seasonal terms, and `AutoReg` of 26 weeks on the
differences from the year before.

    python examples/time_series/main.py --picture time_series.png
"""

from __future__ import annotations

import argparse
import sys

try:
    import matplotlib.pyplot as plt
    import numpy as np
    from statsmodels.datasets import co2
    from statsmodels.tsa.ar_model import AutoReg
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install '.[examples]'")

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

YEAR, PAST, AHEAD = 52, 156, 52


class Causal(nn.Module):
    """A convolution over now, `step` and 2 `step` weeks ago, and what it read (Bai, Kolter and Koltun, 2018)."""

    def __init__(self, width: int, step: int) -> None:
        super().__init__()
        self.past, self.dropout = 2 * step, nn.Dropout(0.2)
        self.conv = nn.Conv1d(width, width, 3, dilation=step)

    def forward(self, x):
        return x + self.dropout(self.conv(F.pad(x, (self.past, 0))).relu())


class Forecaster(nn.Module):
    """Weeks (batch, PAST) in ppm to the next ones (batch, AHEAD)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(nn.Conv1d(1, width, 1), *[Causal(width, 2**k) for k in range(6)])
        self.out, self.linear = nn.Linear(width, AHEAD), nn.Linear(PAST, AHEAD)
        for layer in (self.out, self.linear):  # begins as the seasonal-naive forecast
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, past):
        x = (past - past[:, -1:]) / 5
        return seasonal(past) + self.out(self.convolutions(x[:, None])[:, :, -1]) + self.linear(x)


def seasonal(past):
    """Last year's weeks, and as much more as the last week is above that of the year before."""
    return past[:, -YEAR:] + past[:, -1:] - past[:, -YEAR - 1 : -YEAR]


def rmse(forecasts, true) -> float:
    return float(np.sqrt(np.mean((np.asarray(forecasts) - true) ** 2)))


def linear_models(series: np.ndarray, cut: int, origins: range) -> dict[str, np.ndarray]:
    """Forecasts from each origin by models that were fitted to what was before `cut`."""
    trend = AutoReg(series[:cut], 4, trend="ct", seasonal=True, period=YEAR).fit()
    change = series[YEAR:] - series[:-YEAR]
    yearly = AutoReg(change[: cut - YEAR], 26).fit()
    return {
        "AutoReg": np.stack([trend.apply(series[:o]).forecast(AHEAD) for o in origins]),
        "AutoReg of differences": np.stack(
            [series[o - YEAR : o] + yearly.apply(change[: o - YEAR]).forecast(AHEAD) for o in origins]
        ),
    }


def draw(
    path: str, series: np.ndarray, origins: range, forecasts: dict, true: np.ndarray, title: str
) -> None:
    """Two forecasts of a year, and how errors grow with the weeks ahead."""
    figure, panels = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    figure.suptitle(title)
    shown = {"network": "tab:orange", "seasonal-naive with drift": "tab:blue"}
    for axes, k in zip(panels, (len(origins) // 4, 3 * len(origins) // 4)):
        o = origins[k]
        weeks = 1958.24 + np.arange(o - 60, o + AHEAD) / 52.18
        axes.plot(weeks, series[o - 60 : o + AHEAD], color="0.3", linewidth=1, label="measured")
        for name, colour in shown.items():
            axes.plot(weeks[60:], forecasts[name][k], color=colour, label=name)
        axes.axvline(weeks[60], color="0.8")
        axes.set(xlabel="year", ylabel="carbon dioxide, ppm")
        axes.ticklabel_format(useOffset=False)
    panels[0].legend(loc="lower right", fontsize=8)
    for (name, made), colour in zip(forecasts.items(), ("tab:orange", "tab:blue", "0.7", "0.4")):
        errors = np.sqrt(((made - true) ** 2).mean(0))
        panels[2].plot(range(1, AHEAD + 1), errors, label=name, color=colour)
    panels[2].set(xlabel="weeks ahead", title="root mean squared error, ppm", ylim=(0, None))
    panels[2].legend(fontsize=8)
    figure.savefig(path, dpi=80)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="one epoch, and an easy figure")
    options.add_argument("--picture", default="time_series.png")
    args = options.parse_args()
    torch.manual_seed(0)
    epochs = 2 if args.quick else 30

    series = co2.load_pandas().data["co2"].interpolate().to_numpy()
    cut = len(series) - 10 * YEAR
    origins = range(cut, len(series) - AHEAD + 1, 40 if args.quick else 2)
    windows = torch.tensor(series).float().unfold(0, PAST + AHEAD, 1)
    known, held_out = windows[: cut - PAST - AHEAD + 1], windows[[o - PAST for o in origins]]
    net = Forecaster()
    optimiser = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for _ in (bar := tqdm(range(epochs), disable=None)):
        for chosen in torch.randperm(len(known)).split(32):
            past, future = known[chosen].split([PAST, AHEAD], 1)
            loss = (net(past) - future).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
        bar.set_postfix(rmse=loss.sqrt().item())

    net.eval()
    past, future = held_out.split([PAST, AHEAD], 1)
    true = future.numpy()
    with torch.no_grad():
        forecasts = {"network": net(past).numpy(), "seasonal-naive with drift": seasonal(past).numpy()}
    forecasts |= linear_models(series, cut, origins)
    errors = {name: rmse(made, true) for name, made in forecasts.items()}
    goal = errors["seasonal-naive with drift"] * (1.1 if args.quick else 0.85)
    others = ", ".join(f"{name} {error:.2f}" for name, error in errors.items() if name != "network")
    figure = f"error {errors['network']:.2f} ppm over the next year; to reach {goal:.2f}; {others}"
    draw(args.picture, series, origins, forecasts, true, figure)
    print(figure)
    if not errors["network"] <= goal:
        sys.exit("missed")


if __name__ == "__main__":
    main()
