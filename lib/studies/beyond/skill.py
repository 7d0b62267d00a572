"""Two forecasts of whether a model is right, compared month by month while labels arrive."""

import numpy as np
import pandas as pd

from lib.counterfactual.forecasts import lagged_p_values, one_sided_e_process, winkler_score
from lib.studies.beyond.watch import Deployment

_NEAR = 1e-3  # no forecast is nearer to 0 or 1


def confidence_skill(deployment: Deployment, rng: np.random.Generator) -> pd.DataFrame:
    """Skill of the model's own confidence against the estimated correctness, month by month.

    The mean of Winkler's scores of a month, at most 1; evidence that it is below 0 on average, if
    labels came at once; and the p-value with the labels as late as the plan has them.
    """
    skill = []
    for signals, estimated, right in deployment.months(rng):
        pair = (np.clip(f, _NEAR, 1 - _NEAR) for f in (signals[:, 0], estimated))
        skill.append(winkler_score(*pair, right).mean())
    worse = -np.array(skill)
    return pd.DataFrame(
        {
            "month": np.arange(1, len(skill) + 1),
            "skill": skill,
            "evidence": one_sided_e_process(worse, -1),
            "p, late": lagged_p_values(worse, -1, max(1, deployment.plan.lag)),
        }
    )
