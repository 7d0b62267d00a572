"""Canaries as gradients: which directions they have, and who is in."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lib.check import as_real, require_finite, require_int

#: First words of the seeds here: a training with the same seed draws other numbers.
_COINS, _PLACES, _SAMPLES = 0xC01D_C0135, 0xD14EC71045, 0x5A4D1E5


@dataclass(frozen=True)
class Directions:
    """Orthogonal unit vectors, each on coordinates of its own.

    Attributes
    ----------
    places : ndarray of int64, shape (m, width)
        Coordinates of the flat gradient, no coordinate twice.
    signs : ndarray of float, shape (m, width)
        1 or -1: a direction is its signs over the root of the width, at its places, and 0
        elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from lib.audit.white_box import Directions
    >>> found = Directions(np.array([[0, 3], [1, 4]]), np.array([[1, -1], [1, 1]]))
    >>> found.along(np.array([3.0, 2.0, 9.0, 1.0, 0.0])).round(2).tolist()
    [1.41, 1.41]
    """

    places: npt.NDArray[np.int64]
    signs: npt.NDArray[np.float64]

    def __post_init__(self):
        places, signs = as_real("places", self.places), as_real("signs", self.signs)
        if places.ndim != 2 or not places.size or places.dtype.kind not in "iu":
            raise ValueError(
                "places must be whole numbers of shape (m, width), both at least 1, got"
                f" {places.dtype} of shape {places.shape}"
            )
        if places.min() < 0:
            raise ValueError(f"places must be at least 0, got {int(places.min())}")
        shared = places.size - len(np.unique(places))
        if shared:
            raise ValueError(
                f"places must not repeat, got {shared} that come twice: canaries that overlap see"
                " each other, and their scores mean nothing"
            )
        if signs.shape != places.shape or not (np.abs(signs) == 1).all():
            raise ValueError(
                f"signs must be 1 or -1, of the shape of places, {places.shape}, got an array of"
                f" shape {signs.shape}"
            )
        object.__setattr__(self, "places", places.astype(np.int64))
        object.__setattr__(self, "signs", signs.astype(float))

    def __len__(self) -> int:
        """Return the number of directions."""
        return len(self.places)

    def along(self, vector: npt.NDArray) -> npt.NDArray[np.float64]:
        """How far a flat vector (p,) reaches along each direction, shape (m,)."""
        values = np.asarray(vector)[self.places] * self.signs
        return values.sum(axis=1, dtype=float) / np.sqrt(self.places.shape[1])


@dataclass(frozen=True)
class GradientCanaries:
    """Canaries that take part in a training as gradients.

    Attributes
    ----------
    number : int
        How many, at least 2.  About half are in.
    seed : int
        Of coins and directions, at least 0.  Not the training's: coins that follow from a seed
        which the model's noise follows from, too, are no secret of the audit.
    width : int
        Coordinates of each direction, at least 1.  Number times width is at most the number of
        parameters.
    times : float
        Norm of a canary's gradient, in clipping norms, above 1: clipping has something to do.

    Examples
    --------
    >>> from lib.audit.white_box import GradientCanaries
    >>> canaries = GradientCanaries(number=100, seed=1)
    >>> canaries.directions(26_010).places.shape, int(canaries.coins().sum())
    ((100, 1), 51)
    """

    number: int
    seed: int
    width: int = 1
    times: float = 10.0

    def __post_init__(self):
        require_int("number", self.number, at_least=2)
        require_int("seed", self.seed, at_least=0)
        require_int("width", self.width, at_least=1)
        require_finite("times", self.times, above=1, at_most=1e6)

    def coins(self) -> npt.NDArray[np.bool_]:
        """Who is in, shape (number,)."""
        return np.random.default_rng([self.seed, _COINS]).random(self.number) < 0.5

    def sampler(self) -> np.random.Generator:
        """Who takes part in which step, where the training's own sampler does not say."""
        return np.random.default_rng([self.seed, _SAMPLES])

    def directions(self, size: int) -> Directions:
        """Their directions among so many parameters, drawn at random."""
        require_int("size", size, at_least=1)
        needed = self.number * self.width
        if needed > size:
            raise ValueError(
                f"number must be at most {size // self.width} for {size:,} parameters and a width"
                f" of {self.width}, got {self.number:,}: more directions than these cannot be"
                " orthogonal"
            )
        rng = np.random.default_rng([self.seed, _PLACES])
        places = rng.choice(size, needed, replace=False).reshape(self.number, self.width)
        return Directions(places, rng.choice([-1.0, 1.0], places.shape))
