"""Label differential privacy: mechanisms that randomize labels once, and how to read their output.

Inputs are public and only labels are private: neighboring data sets differ in the label of ONE
example.  A mechanism releases a noisy vector o for every example; everything done with these
vectors afterwards, training for any number of epochs included, is post-processing.  Because a label
enters one vector only, the privacy of a data set is that of a single label.

Sources: Malek et al. 2021, "Antipodes of Label Differential Privacy: PATE and ALIBI" (P5); Ghazi et
al. 2021, "Deep Learning with Label Differential Privacy"; Balle and Wang 2018, "Improving the
Gaussian Mechanism for Differential Privacy"; Mironov 2017, "Renyi Differential Privacy"; Duchi et
al. 2008, "Efficient Projections onto the l1-Ball".

The guarantees are those of the mechanisms in real arithmetic.  Floating-point noise is not hardened
against an adversary who reads its lowest bits (Mironov 2012), and whoever knows the seed knows the
noise: the seed of something really published must stay secret.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import softmax

from lib.check import as_array, as_generator, require_choice, require_finite, require_int, same_rows
from lib.privacy.noise import gaussian_epsilon, gaussian_log_delta, laplace_gain, renyi_epsilon
from lib.ties import ROUNDING


class _Mechanism:
    """What the three mechanisms share: labels are checked, and released as vectors, once."""

    def observe(
        self, labels: npt.ArrayLike, n_classes: int, seed: int | np.random.Generator
    ) -> npt.NDArray[np.float64]:
        """Draw the released vectors, to be kept for the whole training.

        Parameters
        ----------
        labels : array_like of int, shape (n,)
            Private labels in 0, ..., C - 1.
        n_classes : int
            Number of classes C, at least 2.
        seed : int or numpy.random.Generator
            Source of the noise.

        Returns
        -------
        ndarray of float64, shape (n, C)
            Noisy one-hot vectors.
        """
        return self._release(_labels(labels, n_classes), n_classes, as_generator(seed))


@dataclass(frozen=True)
class LaplaceLabels(_Mechanism):
    """One-hot labels plus Laplace noise: the mechanism of ALIBI (P5, Section 5.2).

    Attributes
    ----------
    scale : float
        Scale lambda > 0 of the noise on every coordinate; its standard deviation is sqrt(2) lambda.
    """

    scale: float

    def __post_init__(self):
        require_finite("scale", self.scale, above=0)

    def _release(self, labels, n_classes, rng):
        return _one_hot(labels, n_classes) + rng.laplace(0, self.scale, (len(labels), n_classes))

    def likelihood(self, observed: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Likelihood of each class given the noisy vectors, normalized over classes.

        ``p(o | y = c)`` is proportional to ``exp(-(|o_c - 1| + sum_{j != c} |o_j|) / lambda)``
        (P5, Eq. 2).  What does not depend on c cancels and leaves
        softmax(2 min(max(o_c, 0), 1) / lambda).

        Parameters
        ----------
        observed : array_like of float, shape (n, C)
            Noisy vectors o.

        Returns
        -------
        ndarray of float32, shape (n, C)
            Rows sum to 1: the posterior of a uniform prior, see :func:`posterior`.
        """
        inside = np.clip(_matrix("observed", observed), 0.0, 1.0)
        return _softmax(2 * inside, self.scale)

    def epsilon(self, delta: float = 0.0) -> float:
        """The smallest epsilon at `delta` of releasing the noisy vectors.

        Parameters
        ----------
        delta : float
            In [0, 1).

        Returns
        -------
        float
            2 / scale at delta = 0 (two coordinates change by 1 each: L1 sensitivity 2), less above.

        Notes
        -----
        Two labels y and y' differ in two coordinates.  With a = 1 / lambda, each contributes an
        independent privacy loss between -a and a with atoms of probability 1/2 at a and exp(-a)/2
        at -a, and density exp((t - a)/2)/4 between.  Their sum has an atom of 1/4 at 2a and, for
        0 < s < 2a, density ((2a - s)/16 + 1/4) exp(-(2a - s)/2).  The expectation of
        (1 - exp(epsilon - loss))_+ is, for 0 <= epsilon <= 2a and h = 2a - epsilon,

            delta = 1 - (1 + h/4) exp(-h/2),

        which Lambert's W function solves for h.
        """
        require_finite("delta", delta, at_least=0, below=1)
        return max(0.0, 2 / float(self.scale) - laplace_gain(delta))

    @classmethod
    def for_epsilon(cls, epsilon: float, delta: float = 0.0) -> "LaplaceLabels":
        """The mechanism with the least noise that is (`epsilon`, `delta`)-private.

        Parameters
        ----------
        epsilon : float
            Finite, above 0.
        delta : float
            In [0, 1).

        Returns
        -------
        LaplaceLabels
            With scale 2 / epsilon at delta = 0.
        """
        require_finite("epsilon", epsilon, above=0)
        require_finite("delta", delta, at_least=0, below=1)
        return cls(2 / (float(epsilon) + laplace_gain(delta)))


@dataclass(frozen=True)
class GaussianLabels(_Mechanism):
    """One-hot labels plus Gaussian noise: the mechanism of "AGIBI" (P5, appendix D.2).

    Attributes
    ----------
    sigma : float
        Standard deviation > 0 of the noise on every coordinate.
    """

    sigma: float

    def __post_init__(self):
        require_finite("sigma", self.sigma, above=0)

    def _release(self, labels, n_classes, rng):
        return _one_hot(labels, n_classes) + rng.normal(0, self.sigma, (len(labels), n_classes))

    def likelihood(self, observed: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Likelihood of each class given the noisy vectors, normalized over classes.

        p(o | y = c) is that of P5, Eq. 4; normalized, softmax(o_c / sigma^2) (Eq. 5).

        Parameters and result are those of :meth:`LaplaceLabels.likelihood`.
        """
        return _softmax(_matrix("observed", observed), self.sigma, self.sigma)

    def epsilon(self, delta: float = 0.0, accountant: str = "exact") -> float:
        """Epsilon at `delta` of releasing the noisy vectors.

        Two one-hot vectors are sqrt(2) apart (L2 sensitivity), so this is a Gaussian mechanism with
        mu = sqrt(2) / sigma.

        Parameters
        ----------
        delta : float
            In (0, 1); the default, 0, is rejected, as no finite epsilon belongs to it.
        accountant : {"exact", "rdp"}
            ``"exact"`` solves Balle and Wang 2018, Theorem 8, for epsilon:
            delta = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu).
            ``"rdp"`` minimizes the bound from the Renyi divergences alpha mu^2 / 2 (Mironov 2017,
            Corollary 3) over all real orders alpha > 1, with the conversion of Canonne, Kamath and
            Steinke 2020, Proposition 12, that dp-accounting and Opacus use.

        Returns
        -------
        float
            For ``"exact"`` the smallest possible epsilon up to rounding, never more than for
            ``"rdp"``.
        """
        require_finite("delta", delta, above=0, below=1)
        require_choice("accountant", accountant, ("exact", "rdp"))
        mu = math.sqrt(2) / float(self.sigma)
        solve = gaussian_epsilon if accountant == "exact" else renyi_epsilon
        return solve(mu, float(delta))

    @classmethod
    def for_epsilon(cls, epsilon: float, delta: float = 0.0) -> "GaussianLabels":
        """The mechanism with the least noise that is (`epsilon`, `delta`)-private.

        As :meth:`LaplaceLabels.for_epsilon`, up to rounding.  The `delta` is in (0, 1): the
        default, 0, is rejected, as no Gaussian noise reaches it.
        """
        require_finite("epsilon", epsilon, above=0)
        require_finite("delta", delta, above=0, below=1)
        epsilon, log_delta = float(epsilon), math.log(delta)

        def excess(mu: float) -> float:
            return gaussian_log_delta(epsilon, mu) - log_delta

        # The mu for which the tail bound of gaussian_epsilon is epsilon: private, nearly tight.
        root = math.sqrt(-2 * log_delta)
        low = high = max(1e-305, 2 * epsilon / (root + math.sqrt(root * root + 2 * epsilon)))
        while excess(low) > 0:
            low /= 2
        while excess(high) <= 0:
            low, high = high, 2 * high
        mu = brentq(excess, low, high, xtol=max(1e-15 * low, 1e-300), rtol=1e-15, maxiter=1000)
        return cls(math.sqrt(2) / mu)


@dataclass(frozen=True)
class RandomizedResponse(_Mechanism):
    """Randomized response: the true label, or now and then another one.

    The true one of C classes is released with probability q = e^eps / (e^eps + C - 1), each other
    one with (1 - q) / (C - 1): Warner (1965) for two classes, Ghazi et al. 2021 for C.

    Attributes
    ----------
    pure_epsilon : float
        The eps of this formula, above 0: the privacy at delta = 0.
    """

    pure_epsilon: float  # not "epsilon", which is the method that all mechanisms share

    def __post_init__(self):
        require_finite("pure_epsilon", self.pure_epsilon, above=0)

    def _release(self, labels, n_classes, rng):
        _, other = self._probabilities(n_classes)
        changed = rng.random(len(labels)) < (n_classes - 1) * other
        offset = rng.integers(1, n_classes, len(labels))
        return _one_hot(np.where(changed, (labels + offset) % n_classes, labels), n_classes)

    def likelihood(self, observed: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Likelihood of each class given the randomized labels, one-hot vectors from ``observe``.

        q for the class observed, (1 - q) / (C - 1) for the others.

        Parameters and result are those of :meth:`LaplaceLabels.likelihood`.
        """
        observed = _matrix("observed", observed)
        wrong = ((observed != 0) & (observed != 1)).any(axis=1) | (observed.sum(axis=1) != 1)
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(f"observed must have one-hot rows, got {observed[row]} in row {row}")
        same, other = self._probabilities(observed.shape[1])
        return np.where(observed == 1, same, other).astype(np.float32)

    def epsilon(self, delta: float = 0.0, *, n_classes: int = 2) -> float:
        """The smallest epsilon at `delta` of releasing the randomized labels.

        Parameters
        ----------
        delta : float
            In [0, 1).
        n_classes : int
            Number of classes C, at least 2.  With more than two classes the default gives an upper
            bound; at delta = 0 the number makes no difference.

        Notes
        -----
        The distributions of two labels y and y' have a ratio above 1 at the output y alone, where
        it is e^eps.  Hence delta(epsilon) = q - e^epsilon (1 - q) / (C - 1)
        = (e^eps - e^epsilon) / (e^eps + C - 1) for 0 <= epsilon <= eps.
        """
        require_finite("delta", delta, at_least=0, below=1)
        require_int("n_classes", n_classes, at_least=2)
        pure = float(self.pure_epsilon)
        lost = delta * (1 + (n_classes - 1) * math.exp(-pure))
        return max(0.0, pure + math.log1p(-lost)) if lost < 1 else 0.0

    @classmethod
    def for_epsilon(
        cls, epsilon: float, delta: float = 0.0, *, n_classes: int = 2
    ) -> "RandomizedResponse":
        """The mechanism with the least noise that is (`epsilon`, `delta`)-private.

        As :meth:`LaplaceLabels.for_epsilon`.  The default of `n_classes`, which is at least 2, is
        safe for any number of classes, and wasteful for more than two if delta > 0.
        """
        require_finite("epsilon", epsilon, above=0)
        require_finite("delta", delta, at_least=0, below=1)
        require_int("n_classes", n_classes, at_least=2)
        if delta == 0:
            return cls(float(epsilon))
        odds = np.logaddexp(float(epsilon), math.log(delta) + math.log(n_classes - 1))
        return cls(float(odds) - math.log1p(-delta))

    def _probabilities(self, n_classes: int) -> tuple[float, float]:
        """Probability of the true class and of each other one; no overflow for large epsilon."""
        odds = math.exp(-self.pure_epsilon)
        same = 1 / (1 + (n_classes - 1) * odds)
        return same, odds * same


def posterior(likelihood: npt.ArrayLike, prior: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Posterior distribution of the labels: the normalized product (P5, Eqs. 1 and 5).

    Parameters
    ----------
    likelihood : array_like of float, shape (n, C)
        p(o_i | y = c) for each example i and class c, up to a factor per example.
    prior : array_like of float, shape (n, C) or (C,)
        p(y = c), up to a factor per example; in ALIBI the softmax of the present model, which must
        not have seen the labels other than through the same noisy vectors.

    Returns
    -------
    ndarray of float64, shape (n, C)
        Rows sum to 1, even where the products themselves underflow.

    Examples
    --------
    >>> posterior([[0.8, 0.1, 0.1]], prior=[0.2, 0.4, 0.4]).round(3).tolist()
    [[0.667, 0.167, 0.167]]
    """
    same_rows(likelihood=likelihood, prior=prior)
    likelihood, prior = _weights("likelihood", likelihood), as_array("prior", prior)
    if prior.ndim == 1:
        prior = np.broadcast_to(prior, (len(likelihood), len(prior)))
    prior = _weights("prior", prior)
    _check_shape(prior, likelihood.shape)
    with np.errstate(divide="ignore"):
        log_product = np.log(likelihood) + np.log(prior)
    # Less the largest: the product of tiny likelihoods would be 0.
    peak = log_product.max(axis=1, keepdims=True)
    lost = np.isneginf(peak[:, 0])
    if lost.any():
        raise ValueError(
            "prior must be positive for a class with positive likelihood in every row, got none in"
            f" row {int(lost.argmax())}"
        )
    product = np.exp(log_product - peak)
    return product / product.sum(axis=1, keepdims=True)


def project_to_simplex(observed: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The closest probability vectors in Euclidean distance (P5, Algorithm 4; Duchi et al. 2008).

    Parameters
    ----------
    observed : array_like of float, shape (n, C)
        Noisy vectors o.

    Returns
    -------
    ndarray of float64, shape (n, C)
        max(o_i - u, 0), with u such that rows sum to 1.

    Examples
    --------
    >>> project_to_simplex([[0.9, 0.4, -0.2]]).round(3).tolist()
    [[0.75, 0.25, 0.0]]
    """
    observed = _matrix("observed", observed)
    # A shift of a row leaves its projection alone, and an entry that is 1 or more below the largest
    # gets 0 however far below it is.  So the sums are small, whatever the size of the input.
    with np.errstate(over="ignore"):
        centred = np.maximum(observed - observed.max(axis=1, keepdims=True), -1.0)
    # Duchi et al.: entries sorted from the largest down, u_k = (sum of the first k, less 1) / k;
    # the support is the largest k whose k-th entry is still above u_k.
    ranked = -np.sort(-centred, axis=1)
    counts = np.arange(1, observed.shape[1] + 1)
    thresholds = (np.cumsum(ranked, axis=1) - 1) / counts
    support = np.where(ranked > thresholds, counts, 0).max(axis=1)
    threshold = np.take_along_axis(thresholds, support[:, None] - 1, axis=1)
    return np.maximum(centred - threshold, 0.0)


def rr_with_prior(
    labels: npt.ArrayLike, prior: npt.ArrayLike, epsilon: float, seed: int | np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Randomized response among the classes that a prior holds likely.

    RRWithPrior with RRTop-k (Ghazi et al. 2021, Algorithms 2 and 1): for each example, k maximizes
    e^epsilon / (e^epsilon + k - 1) times the sum of the k largest priors, which is the probability
    of a right output.  A label among these k classes is kept with probability
    e^epsilon / (e^epsilon + k - 1), or else replaced by another of them, uniformly; for any other
    label the output is uniform over the k.

    Parameters
    ----------
    labels : array_like of int, shape (n,)
        Private labels in 0, ..., C - 1.
    prior : array_like of float, shape (n, C)
        Prior of each example's label, up to a factor.  It may depend on the inputs and on outputs
        for *other* labels, not on the labels randomized here.
    epsilon : float
        Finite, above 0: label differential privacy of each output at delta = 0.
    seed : int or numpy.random.Generator
        Source of the noise.

    Returns
    -------
    labels : ndarray of int64, shape (n,)
        The randomized labels.
    k : ndarray of int64, shape (n,)
        How many classes were in play.  They depend on the prior only.

    Notes
    -----
    Among equal priors the lower class comes first, and among equally good k, up to rounding, the
    smallest is taken.

    LP-MST (their Algorithm 3) trains in stages: part t of the data (:func:`multi_stage_parts`) is
    randomized with the model of the stages before it as the prior.  Every label is randomized
    exactly once and all else is a function of the outputs.  So a change of one label changes the
    distribution of one output by at most e^epsilon, given the earlier ones, and the later ones are
    post-processing: by parallel composition the whole training is epsilon-private, however many
    stages it has.

    Examples
    --------
    >>> noisy, k = rr_with_prior([0, 1], [[0.9, 0.05, 0.05], [1, 1, 1]], 1.0, seed=0)
    >>> k.tolist()
    [1, 3]
    """
    same_rows(labels=labels, prior=prior)
    prior = _weights("prior", prior)
    n, n_classes = prior.shape
    labels = _labels(labels, n_classes)
    _check_shape(prior, (len(labels), n_classes))
    require_finite("epsilon", epsilon, above=0)
    empty = ~(prior > 0).any(axis=1)
    if empty.any():
        raise ValueError(
            f"prior must have a positive entry in every row, got none in row {int(empty.argmax())}"
        )
    rng = as_generator(seed)

    order = np.argsort(-prior, axis=1, kind="stable")
    odds = math.exp(-epsilon)
    kept = 1 / (1 + np.arange(n_classes) * odds)  # e^epsilon / (e^epsilon + k - 1) for k = 1, 2, ..
    largest = np.take_along_axis(prior, order, axis=1)
    largest = largest / largest[:, :1]
    # The probability of a right output with k classes: of keeping times that of being among them.
    gain = kept * np.cumsum(largest, axis=1)
    k = np.argmax(gain >= gain.max(axis=1, keepdims=True) * (1 - ROUNDING), axis=1) + 1

    # `order` lists classes by their prior, the likeliest first; the label is at `rank` in it:
    #
    #     order:   3 7 1 | 0 9 ...      k = 3 classes are in play
    #                  ^ rank 2: inside, so that it is kept or moved to one of the two others
    #
    # A label outside gets one of the k by a fair draw.
    rank = (order == labels[:, None]).argmax(axis=1)
    changed = rng.random(n) < (k - 1) * odds * kept[k - 1]
    moved = (rank + rng.integers(1, np.maximum(k, 2))) % k
    inside = np.where(changed, moved, rank)
    chosen = np.where(rank < k, inside, rng.integers(0, k))
    return np.take_along_axis(order, chosen[:, None], axis=1)[:, 0].astype(np.int64), k


def multi_stage_parts(
    n: int, stages: int, seed: int | np.random.Generator
) -> list[npt.NDArray[np.int64]]:
    """Divide examples at random among the stages of LP-MST (Ghazi et al. 2021).

    Parameters
    ----------
    n : int
        Number of examples, at least 1.
    stages : int
        Number of parts, from 1 to `n`.
    seed : int or numpy.random.Generator
        Source of the permutation, which is public: it does not depend on any label.

    Returns
    -------
    list of ndarray of int64
        Disjoint ascending positions, together 0, ..., n - 1.  Sizes differ by at most 1.

    Examples
    --------
    >>> [len(part) for part in multi_stage_parts(10, stages=3, seed=0)]
    [4, 3, 3]
    """
    require_int("n", n, at_least=1)
    require_int("stages", stages, at_least=1, at_most=n)
    order = as_generator(seed).permutation(n).astype(np.int64)
    return [np.sort(part) for part in np.array_split(order, stages)]


def _softmax(values: npt.NDArray[np.float64], *divisors: float) -> npt.NDArray[np.float32]:
    """Softmax along rows of `values` divided by each of `divisors`; no overflow."""
    with np.errstate(over="ignore"):
        logits = values - values.max(axis=1, keepdims=True)
        for divisor in divisors:
            logits = logits / divisor
    return softmax(logits, axis=1).astype(np.float32)


def _labels(labels: npt.ArrayLike, n_classes: int) -> npt.NDArray[np.int64]:
    require_int("n_classes", n_classes, at_least=2)
    labels = as_array("labels", labels)
    if labels.ndim != 1:
        raise ValueError(f"labels must have shape (n,), got {labels.shape}")
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels must be integers, got dtype {labels.dtype}")
    wrong = (labels < 0) | (labels >= n_classes)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"labels must be in 0, ..., {n_classes - 1}, got {labels[row]} in position {row}"
        )
    return labels.astype(np.int64)


def _one_hot(labels: npt.NDArray[np.int64], n_classes: int) -> npt.NDArray[np.float64]:
    vectors = np.zeros((len(labels), n_classes))
    vectors[np.arange(len(labels)), labels] = 1
    return vectors


def _matrix(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    values = as_array(name, values)
    if values.ndim != 2 or values.shape[1] < 2:
        raise ValueError(f"{name} must have shape (n, C) with C at least 2, got {values.shape}")
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be numbers, got dtype {values.dtype}")
    values = values.astype(np.float64)
    wrong = ~np.isfinite(values)
    if wrong.any():
        raise ValueError(f"{name} must be finite, got {values[wrong][0]}")
    return values


def _weights(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    values = _matrix(name, values)
    if (values < 0).any():
        raise ValueError(f"{name} must not be negative, got {values[values < 0][0]}")
    return values


def _check_shape(prior: npt.NDArray[np.float64], expected: tuple[int, int]) -> None:
    if prior.shape != expected:
        raise ValueError(f"prior must have shape {expected}, got {prior.shape}")
