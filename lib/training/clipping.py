"""What one example may add to a step's sum: one rule, which all engines follow.

The gradient of an example is what float32 holds of it, averaged over its augmented copies.

- Where one of its numbers is infinite or NaN, nothing would bound it: the example is left out.
- Every other gradient g is multiplied by min(1, C / (\\|g\\| + 1e-6)), as Opacus does, whatever its
  size: numbers whose squares float32 does not hold neither drop out nor escape.

Squares, factors and sums are in float32, which is fast, where all of them are far from its ends.
An example for which they are not is clipped *by definition*: its gradient is written out, its norm
and its multiple are computed in float64, which holds the squares of all that float32 holds.  The
compiled engines do the same by the same limits.  Engines may differ where a sum within a layer
overflows in one order of its terms and not in another.
"""

import math

import torch

GUARD = 1e-6  # as in Opacus: an error of a norm that is far below this is none
LARGEST_SQUARE = 1e37  # of a norm that float32 is trusted with
SMALLEST_FACTOR = 1e-20  # that numbers are multiplied by in float32
#: A product of two squares is in doubt where one, below the first, may have lost digits, and the
#: other, above the second, makes up for its size.
TINY_SQUARE, LARGE_SQUARE = 1e-28, 1e13
AT_ONCE = 16  # gradients that are written out together


def product(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Squared norms (n,) of outer products, from those of two factors; infinite where in doubt."""
    low, high = torch.minimum(one, other), torch.maximum(one, other)
    return torch.where((low < TINY_SQUARE) & (high > LARGE_SQUARE), math.inf, one * other)


def factors(
    squares: torch.Tensor, clipping_norm: float | torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What gradients of these squared norms are multiplied by, and where float32 is enough."""
    return of_norms(squares.sqrt(), clipping_norm, squares <= LARGEST_SQUARE)


def of_norms(
    norms: torch.Tensor, clipping_norm: float | torch.Tensor, small: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """As :func:`factors`, from norms."""
    if small is None:
        small = norms <= math.sqrt(LARGEST_SQUARE)
    factor = (clipping_norm / (norms + GUARD)).clamp(max=1.0)
    return factor, small & (factor >= SMALLEST_FACTOR)


def by_definition(gradients: torch.Tensor, clipping_norm: float) -> torch.Tensor:
    """The sum (p,) of gradients (n, p) by the rule above."""
    total = gradients.new_zeros(gradients.shape[1], dtype=torch.float64)
    for some in gradients.split(AT_ONCE):
        finite = some.isfinite().all(dim=1)
        wide = some[finite].double()
        norms = torch.linalg.vector_norm(wide, dim=1)
        total += (clipping_norm / (norms + GUARD)).clamp(max=1.0) @ wide
    return total.float()
