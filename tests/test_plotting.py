"""matplotlib and tqdm take tensors as they are."""

from __future__ import annotations

import io

import numpy as np
import pytest

import flambeau


@pytest.fixture
def axes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    return Figure().add_subplot()


def test_tensors_are_drawn(axes):
    x, table = flambeau.linspace(0, 1, 5), flambeau.rand(4, 4)
    (line,) = axes.plot(x, x**2)
    np.testing.assert_array_equal(line.get_ydata(), (x**2).numpy())
    assert axes.imshow(table).get_array().shape == (4, 4)
    assert axes.imshow(flambeau.rand(4, 4, 3)).get_array().shape == (4, 4, 3)
    assert len(axes.bar(flambeau.arange(5), x)) == 5
    assert axes.hist(x)[0].sum() == 5
    axes.scatter(x, x, c=x)
    axes.errorbar(x, x, yerr=x)
    axes.fill_between(x, x, x + 1)
    axes.contour(table)
    axes.axhline(x[1])
    axes.set_xlim(x[0], x[-1])
    axes.figure.savefig(io.BytesIO())


def test_what_requires_a_gradient_is_refused_as_by_numpy(axes):
    x = flambeau.ones(3, requires_grad=True)
    for draw in (axes.plot, axes.hist, lambda y: axes.imshow(y[None]), lambda y: axes.scatter(y, y)):
        for y in (x, x * 2):
            with pytest.raises(RuntimeError, match="Can't call numpy.. on Tensor that requires grad"):
                draw(y)
    axes.plot(x.detach())


def test_bars_of_progress():
    tqdm = pytest.importorskip("tqdm").tqdm
    shown = io.StringIO()
    bar = tqdm(flambeau.arange(3), file=shown)
    assert len(bar) == 3 and [int(i) for i in bar] == [0, 1, 2]
    open_bar = tqdm(total=2, file=shown)
    open_bar.set_postfix(loss=flambeau.tensor(1.5))
    open_bar.close()
    assert "loss=tensor(1.5000)" in shown.getvalue()
