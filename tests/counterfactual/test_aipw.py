"""E[Y(1)] by augmented inverse propensity weighting, given the nuisance functions."""

import numpy as np
import pytest
from scipy import special
from statsmodels.discrete.discrete_model import Logit
from statsmodels.regression.linear_model import OLS
from statsmodels.tools import add_constant
from statsmodels.treatment.treatment_effects import TreatmentEffect

from lib.counterfactual import Nuisances, estimate_from_nuisances


@pytest.mark.parametrize("seed", range(5))
def test_equals_statsmodels(seed):
    rng, n = np.random.default_rng(seed), 400
    x = rng.normal(size=(n, 2))
    answered = rng.random(n) < special.expit(0.5 + x @ [0.6, -0.4])
    score = 0.5 + x @ [0.2, 0.1] + 0.3 * rng.normal(size=n)
    exog = add_constant(x)
    share = Logit(answered.astype(float), exog).fit(disp=0)
    effect = TreatmentEffect(OLS(score, exog), answered.astype(float), results_select=share)
    line = OLS(score[answered], exog[answered]).fit()
    known = Nuisances(
        ~answered, np.where(answered, score, 0.0), 1 - share.predict(exog), line.predict(exog)
    )
    found = estimate_from_nuisances(known, clip=1e-9).value
    assert found == pytest.approx(effect.aipw(return_results=False)[2], abs=1e-10)
