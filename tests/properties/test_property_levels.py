"""Every public name of a formula has a property test, or a reason why it has none here."""

import ast
import inspect
from pathlib import Path

import pytest

from lib import audit, counterfactual, privacy, selective, suitability

REASONS = {
    "holds results; its fields are those of the function that makes it": """
        AccuracyCoverage AttackCurve TradeOff Estimate Mean Threshold Canaries CanaryAudit
        EpsilonPosterior PrivacyRegion ConfidenceSequence Diagnostics Metric
        PositivityWarning
        ActiveDecision AdjustedMargin CalibrationErrors Decision Equivalence GroupEquivalence
        LabelsTest MonitorDecision NonInferiority Offset PredictionPowered SampleSize
        SequentialDecision Answers PateCost PublishedCost""",
    "a table of names": """
        ACCOUNTANTS CALIBRATIONS LEARNERS SIGNAL_NAMES register_signal""",
    "a model or a learner, which has no order of points to forget": """
        Attack LiRA CorrectnessEstimator RefinedFilter make_estimator shap_values fit_nuisances
        learner_pair ForestClassifier ForestRegressor SuperLearnerClassifier SuperLearnerRegressor
        counterfactual_score counterfactual_difference mixed_difference insert_canaries
        predictable_nuisances select_worst""",
    "passes its numbers to one that has a property test": """
        influence_values labels_test tipping_point anova_table budget_table
        gaussian_lower_bound""",
    "has closed forms or a definition that its own tests hold it to": """
        error_free_bound trials_needed confident_gnmax group_guarantee joint_epsilon
        label_guarantee efficiency_bound Multicalibrator multi_stage_parts pate_epsilon
        publish_epsilon shards smooth_noise_rdp smooth_sensitivity vote_histogram
        selection_epsilon selection_noise_multiplier draw_trials trade_off attack_curve
        exact_sequence log_odds""",
}
ELSEWHERE = {name for names in REASONS.values() for name in names.split()}
PACKAGES = {"selective", "audit", "cf", "su"}  # as the property tests call them


def with_property() -> set[str]:
    """What the property tests take from `lib`."""
    found: set[str] = set()
    for path in Path(__file__).parent.glob("test_property_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in PACKAGES:
                found.add(node.attr)
            elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("lib."):
                found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("package", [selective, audit, counterfactual, suitability, privacy])
def test_every_public_name_has_a_property_test_or_a_reason(package):
    assert sorted(set(package.__all__) - with_property() - ELSEWHERE) == []


#: Says in its own words what its level rests on.
CONDITIONAL = {"ActiveMonitor"}


def with_a_level():
    """Functions, and classes but for results, that take a level, or plan for one."""
    for package in (selective, suitability):
        for name in sorted(set(package.__all__) - CONDITIONAL):
            value = getattr(package, name)
            if not callable(value) or hasattr(value, "__dataclass_fields__"):
                continue
            if {"level", "alpha", "power"} & set(inspect.signature(value).parameters):
                yield pytest.param(value, id=name)


@pytest.mark.parametrize("value", list(with_a_level()))
def test_a_level_says_that_it_rests_on_independence(value):
    own = [value, *(vars(value).values() if inspect.isclass(value) else ())]
    assert "independen" in " ".join(part.__doc__ or "" for part in own)


def test_what_takes_no_level_itself_says_so_too():
    assert "independen" in selective.compare_over_seeds.__doc__


def test_no_reason_is_for_what_is_gone():
    packages = (selective, audit, counterfactual, suitability, privacy)
    public = {name for package in packages for name in package.__all__}
    assert sorted(ELSEWHERE - public) == []
