"""Libraries that take arrays of the standard, without knowing flambeau: SciPy and scikit-learn, in processes of their own.

Both read `SCIPY_ARRAY_API` when they are imported.
"""

from __future__ import annotations

import os
import subprocess
import sys

BEFORE = """
import numpy as np, flambeau
from flambeau import Tensor
rng = np.random.default_rng(0)
def same(found, wanted):
    assert isinstance(found, Tensor), type(found)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6, atol=1e-9)
"""


def run(program: str) -> None:
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", BEFORE + program], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_scipy():
    run("""
import scipy.fft, scipy.signal, scipy.special, scipy.stats
from scipy.cluster import vq
table, row = rng.normal(size=(20, 3)), rng.normal(size=20)
x, y = flambeau.from_numpy(table), flambeau.from_numpy(row)
same(scipy.stats.zscore(x), scipy.stats.zscore(table))
same(scipy.stats.ttest_1samp(x, 0.1).pvalue, scipy.stats.ttest_1samp(table, 0.1).pvalue)
same(scipy.stats.pearsonr(y, x[:, 0]).statistic, scipy.stats.pearsonr(row, table[:, 0]).statistic)
same(scipy.special.logsumexp(x, axis=1), scipy.special.logsumexp(table, axis=1))
same(scipy.special.gammaln(abs(x)), scipy.special.gammaln(abs(table)))
same(scipy.fft.rfft(y), scipy.fft.rfft(row))
same(scipy.fft.dct(y), scipy.fft.dct(row))
same(scipy.signal.fftconvolve(y, x[:5, 0]), scipy.signal.fftconvolve(row, table[:5, 0]))
same(scipy.signal.correlate(y, x[:5, 0]), scipy.signal.correlate(row, table[:5, 0]))  # reads from the end
same(vq.whiten(x), vq.whiten(table))
same(vq.vq(x, x[:4])[1], vq.vq(table, table[:4])[1])
""")


def test_scikit_learn():
    run("""
import sklearn
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import MinMaxScaler
table, label = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
table += label[:, None]
x, y = flambeau.from_numpy(table), flambeau.from_numpy(label)
with sklearn.config_context(array_api_dispatch=True):
    same(MinMaxScaler().fit_transform(x), MinMaxScaler().fit_transform(table))
    same(abs(PCA(2, svd_solver="full").fit_transform(x)), abs(PCA(2, svd_solver="full").fit_transform(table)))
    model = LinearDiscriminantAnalysis().fit(x, y)
    same(model.predict_proba(x), LinearDiscriminantAnalysis().fit(table, label).predict_proba(table))
    found = model.predict(x)
    assert abs(accuracy_score(y, found) - accuracy_score(label, found.numpy())) < 1e-6  # means are float32 here
    same(Ridge(solver="svd").fit(x, x[:, 0]).coef_, Ridge(solver="svd").fit(table, table[:, 0]).coef_)
    same(rbf_kernel(x), rbf_kernel(table))
""")
