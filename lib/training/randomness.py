"""The random numbers of a training: one independent stream per purpose, all from one seed.

Both ways of training draw them here, so that the same configuration gets the same samples and the
same noise from either.  The generators are statistical ones, not cryptographic: an adversary who
knew the seed would know the noise, so a seed of a model that is really published must stay secret.
"""

import math

import numpy as np
import numpy.typing as npt

_PURPOSES = {
    "model": 0,
    "sampling": 1,
    "overflow": 2,
    "noise": 3,
    "statistics": 4,
    "step": 5,
    "device": 6,
}


class Streams:
    """Independent generators for one seed.

    For Poisson samples, the rare long ones (`overflow`), gradient noise and SelectiveNet's batch
    statistics; `model` is the seed of the initial parameters.
    """

    names = ("sampling", "overflow", "noise", "statistics")

    def __init__(self, seed: int):
        self.seed = seed
        for name in self.names:
            setattr(self, name, np.random.Generator(np.random.SFC64(_sequence(seed, name))))
        self.model = int(_sequence(seed, "model").generate_state(1)[0])

    def step(self, step: int) -> int:
        """Seed of dropout and augmentation in one step."""
        return self._of_step("step", step)

    def step_noise(self, step: int) -> int:
        """Seed of a step's noise where the device draws it."""
        return self._of_step("device", step)

    def _of_step(self, purpose: str, step: int) -> int:
        state = _sequence(self.seed, purpose, step).generate_state(1, np.uint64)
        return int(state[0] >> np.uint64(1))


def _sequence(seed: int, purpose: str, *step: int) -> np.random.SeedSequence:
    return np.random.SeedSequence([seed, _PURPOSES[purpose], *step])


class PoissonSampler:
    """Exact Poisson samples: every example independently with the same probability.

    The distances between successive members of such a sample are geometric, so one exponential
    number per member is enough: the cost does not grow with the number of examples.  A fixed count
    of exponentials is drawn per step; the rare sample that needs more takes them from a stream of
    its own, so that the next step's numbers do not depend on it.
    """

    def __init__(self, streams: Streams, n: int, rate: float):
        self._streams = streams
        self._n = n
        self._scale = 0.0 if rate >= 1 else -1.0 / math.log1p(-rate)
        spread = math.sqrt(n * rate * (1 - rate))
        self._count = min(n, math.ceil(n * rate + 6 * spread) + 8)

    def draw(self, steps: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Positions sampled in the next steps, ascending in each, and where each step's begin."""
        # Gaps between sampled examples are geometric: exponentials, scaled and rounded down. That
        # takes as many numbers as there are samples, not one for every example:
        #
        #     example    0 1 2 3 4 5 6 7 8 9
        #     sampled        x     x x     x      gaps 3, 3, 1, 3; positions 2, 5, 6, 9
        gaps = self._streams.sampling.standard_exponential((steps, self._count))
        gaps *= self._scale
        np.floor(gaps, out=gaps)
        gaps += 1
        positions = np.cumsum(gaps, axis=1, out=gaps)
        positions -= 1
        inside = positions < self._n
        starts = np.zeros(steps + 1, dtype=np.int64)
        # So many gaps hardly ever end before the last example; where they do, the rest comes from a
        # stream of its own, so that steps stay independent of each other.
        unfinished = np.flatnonzero(inside[:, -1] & (positions[:, -1] < self._n - 1))
        if not len(unfinished):
            np.cumsum(inside.sum(axis=1), out=starts[1:])
            return positions[inside].astype(np.int64), starts
        samples = [row[keep] for row, keep in zip(positions, inside, strict=True)]
        for step in unfinished:
            samples[step] = np.append(samples[step], self._rest(positions[step, -1]))
        np.cumsum([len(sample) for sample in samples], out=starts[1:])
        return np.concatenate(samples).astype(np.int64), starts

    def _rest(self, last: float) -> list[float]:
        found = []
        while True:
            last += 1 + math.floor(self._streams.overflow.standard_exponential() * self._scale)
            if last >= self._n:
                return found
            found.append(last)
