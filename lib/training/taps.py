"""Clipped sums of per-example gradients, faster than Opacus'.

The network runs with its weights frozen; autograd goes only as far as the outputs of the layers
that have parameters.  From a layer's input and the gradient of its output the per-example
gradients follow in closed form, so that the gradients of the batch, which DP-SGD has no use for,
and the input gradient of the first layer are never computed.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from numba import njit
from torch import nn
from torch.nn import functional

from lib.training import clipping
from lib.training.stem import Stem, split

_LAYERS = (nn.Linear, nn.Conv2d, nn.GroupNorm)
_CONV_CHUNK = 16  # examples whose unfolded patches are in a CPU's cache at once
_PATCHES = 1 << 26  # numbers of unfolded patches in an accelerator's memory at once
_CANCELLED = 64  # how many times its parts together a sum may be smaller before rounding counts
_WRITING = 16  # multiplications that take as long as to write a number of a gradient and read it
#: Rows of a batch that a CPU works on at once: their activations stay in its cache.
ROWS = 256


def supports(network: nn.Module) -> bool:
    """Whether every parameter belongs to a layer whose per-example gradients are known here."""
    own = [p for module in network.modules() for p in module.parameters(recurse=False)]
    if len(own) > len(list(network.parameters())):
        return False  # layers that share a parameter
    for module in network.modules():
        own = list(module.parameters(recurse=False))
        if own and not isinstance(module, _LAYERS):
            return False
        if isinstance(module, nn.Conv2d) and (
            module.groups != 1 or module.padding_mode != "zeros" or isinstance(module.padding, str)
        ):
            return False
        if own and not all(p.requires_grad for p in own):
            return False
    return True


def clipped_sum(
    network: nn.Module,
    inputs: torch.Tensor,
    loss: Callable[[torch.Tensor], torch.Tensor],
    clipping_norm: float,
    copies: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Flat sum (p,) of per-example gradients, each clipped to an L2 norm, and the outputs.

    By the rule of :mod:`lib.training.clipping`.

    Of a network that :func:`supports` knows and that uses each layer once.  `loss` gives one number
    a row, and no row may depend on another; `copies` augmented copies of an example follow each
    other, and their gradients are averaged before clipping.
    """
    taps: dict[nn.Module, tuple[torch.Tensor, torch.Tensor]] = {}

    def tap(module, arguments, output):
        if module in taps:
            raise ValueError("network must use each of its layers once, but used one again")
        if not output.requires_grad:
            output.requires_grad_()
        taps[module] = (arguments[0].detach(), output)
        return output

    # A layer's gradient for one example needs what entered the layer and the error of what left it.
    # Hooks note both in one pass over many examples, while the weights themselves want no gradient:
    #
    #     inputs -> layer 1 -> layer 2 -> ... -> outputs -> loss
    #               (x, error) (x, error)        noted in `taps`, cleared piece by piece
    stem, rest = split(network, inputs)
    layers = [m for m in rest.modules() if isinstance(m, _LAYERS) and m._parameters]
    weights = [p for p in network.parameters() if p.requires_grad]
    hooks = [layer.register_forward_hook(tap) for layer in layers]
    at_once = len(inputs) or 1
    if inputs.device.type == "cpu":
        at_once = max(copies, ROWS // copies * copies)
    parts = []
    try:
        for p in weights:
            p.requires_grad_(False)
        with torch.enable_grad():
            for rows in inputs.split(at_once):
                passed = None
                if stem is not None:
                    rows, passed = stem.outputs(rows)
                    rows.requires_grad_()
                outputs = rest(rows)
                if len(taps) < len(layers):
                    raise ValueError("network must use each of its layers, but some were not")
                parts.append((outputs, [taps.pop(layer) for layer in layers], rows, passed))
        ends = torch.cat([outputs.detach() for outputs, *_ in parts])
        with torch.enable_grad():
            total = loss(ends.requires_grad_().float()).sum()
        (slopes,) = torch.autograd.grad(total, [ends])
    finally:
        for hook in hooks:
            hook.remove()
        for p in weights:
            p.requires_grad_(True)
    gradient = torch.zeros(sum(p.numel() for p in weights), device=inputs.device)
    for slope in slopes.split(at_once):
        outputs, found, rows, passed = parts.pop(0)
        wanted = [output for _, output in found]
        errors = torch.autograd.grad(outputs, wanted if stem is None else [*wanted, rows], slope)
        pairs = [
            (layer, x.float(), error.float())
            for layer, (x, _), error in zip(layers, found, errors, strict=False)
        ]
        first = None if stem is None else (stem, passed, errors[-1])
        with exact(inputs.device):
            gradient += _clip_and_sum(rest, pairs, clipping_norm, copies, first)
    return gradient, ends.detach()


@contextmanager
def exact(device: torch.device) -> Iterator[None]:
    """Compute in float32 proper, whatever the passes use.

    Products in fewer bits after the norms are known would let a batch's sum jump by more than the
    clipping norm when one example joins.
    """
    before = torch.get_float32_matmul_precision()
    if before != "highest":
        torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        if before != "highest":
            torch.set_float32_matmul_precision(before)


def _clip_and_sum(
    network: nn.Module,
    pairs: list,
    clipping_norm: float,
    copies: int,
    first: tuple[Stem, tuple, torch.Tensor] | None,
) -> torch.Tensor:
    """Of the layers of `network`, after those of `first`, if any: a stem and what it needs."""
    contributions = _contributions(pairs, copies)
    squares = sum(square for _, square, _ in contributions)
    parts = []
    if first is not None:
        stem, *needed = first
        total, squares = stem.clipped(*needed, squares, clipping_norm, copies)
        parts.append(total)
    factor, tame = clipping.factors(squares, clipping_norm)
    others = 0.0
    if not bool(tame.all()):
        # Those in doubt are clipped one by one from gradients that are written out, and leave the
        # sum.
        others = _by_definition(network, pairs, clipping_norm, copies, first, ~tame)
        rows = tame.repeat_interleave(copies)
        pairs = [(layer, _only(x, rows), _only(error, rows)) for layer, x, error in pairs]
        contributions, factor = _contributions(pairs, copies), _only(factor, tame)
    sums = {p: total(factor).reshape(-1) for p, _, total in contributions}
    return torch.cat([*parts, *(sums[p] for p in network.parameters())]) + others


def _by_definition(network, pairs, clipping_norm: float, copies: int, first, wanted: torch.Tensor):
    """The sum of some examples' gradients, which are written out."""
    total: torch.Tensor | float = 0.0
    for some in wanted.nonzero()[:, 0].split(clipping.AT_ONCE):
        rows = (some[:, None] * copies + torch.arange(copies, device=some.device)).flatten()
        found = {}
        for layer, x, error in pairs:
            for p, gradient in _per_example(layer, x[rows], error[rows]):
                found[p] = gradient.float().reshape(len(some), copies, -1).mean(dim=1)
        parts = [found[p] for p in network.parameters()]
        if first is not None:
            stem, *needed = first
            parts.insert(0, stem.written(*needed, some.tolist(), copies))
        total = total + clipping.by_definition(torch.cat(parts, dim=1), clipping_norm)
    return total


def _contributions(pairs, copies: int) -> list:
    """Per parameter: squared norms of the examples' gradients, and how to sum them.

    A square that float32 may have got wrong is infinite.
    """
    found = []
    for layer, x, error in pairs:
        if isinstance(layer, nn.Linear) and x.dim() == 2 and copies == 1:
            found.extend(_outer_products(layer, x, error))
            continue
        if isinstance(layer, nn.Conv2d) and copies == 1 and _by_ghost(layer, error):
            found.extend(_ghost(layer, x, error.flatten(2)))
            continue
        for p, gradient in _per_example(layer, x, error):
            flat = gradient.flatten(1).float()
            if copies > 1:
                flat = flat.view(-1, copies, flat.shape[1]).mean(dim=1)
            found.append((p, torch.linalg.vector_norm(flat, dim=1).square(), _sum_of(flat)))
    return found


def _only(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The values, 0 in all other rows."""
    return torch.where(rows.view(-1, *[1] * (values.dim() - 1)), values, torch.zeros_like(values))


def _sum_of(flat: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda factor: factor @ flat


def _outer_products(layer: nn.Linear, x: torch.Tensor, error: torch.Tensor):
    """A dense layer's gradients are outer products, which need not be written out."""
    x, error = x.float(), error.float()
    size = (error * error).sum(dim=1)
    # |error x^T| = |error| |x|; where a product of float32 numbers is not to be trusted it is
    # infinite.
    squares = clipping.product(size, (x * x).sum(dim=1))
    yield layer.weight, squares, lambda factor: (factor[:, None] * error).T @ x
    if layer.bias is not None:
        yield layer.bias, size, lambda factor: factor @ error


def _by_ghost(layer: nn.Conv2d, error: torch.Tensor) -> bool:
    """Whether a convolution has few places for its weights: their gradients need not be written."""
    places, weights = error.shape[2:].numel(), layer.weight.numel()
    width = layer.weight[0].numel() + layer.out_channels
    # Operations of the products against numbers that would be written.
    return places**2 * width < _WRITING * weights


def _ghost(layer: nn.Conv2d, x: torch.Tensor, error: torch.Tensor):
    """Norms from products between places (ghost clipping: Bu, Mao and Xu 2022).

    In double precision: where places cancel, the norm would be too small by more than rounding.
    Where they cancel so far that rounding of the sum counts, it is infinite: in doubt.
    """
    squares = error.new_empty(len(x))
    for some, patches in _patches(layer, x):
        wide, errors = patches.double(), error[some].double()
        # |sum_t e_t x_t^T|^2 = sum over pairs of places s, t of (x_s . x_t) (e_s . e_t): no
        # gradient is written.
        between = torch.bmm(wide.transpose(1, 2), wide) * torch.bmm(errors.transpose(1, 2), errors)
        square = between.sum(dim=(1, 2)).clamp(min=0)
        most = between.diagonal(dim1=1, dim2=2).sqrt().sum(dim=1)  # were nothing to cancel
        doubtful = most > _CANCELLED * (square.sqrt() + clipping.GUARD)
        squares[some] = torch.where(doubtful, math.inf, square).float()

    def total(factor: torch.Tensor) -> torch.Tensor:
        found = torch.zeros_like(layer.weight).flatten(1)
        for some, patches in _patches(layer, x):
            errors = error[some] * factor[some, None, None]
            found += torch.einsum("npt,nkt->pk", errors, patches)
        return found

    yield layer.weight, squares, total
    if layer.bias is not None:
        sums = error.sum(dim=2)
        yield layer.bias, sums.square().sum(dim=1), lambda factor: factor @ sums


def _convolution_gradients(layer: nn.Conv2d, x: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
    """Per-example gradients (n, outputs, channels * kernel) of a convolution's weights."""
    gradients = x.new_empty(len(x), layer.out_channels, layer.weight[0].numel())
    for some, patches in _patches(layer, x):
        torch.bmm(error[some], patches.transpose(1, 2), out=gradients[some])
    return gradients


def _patches(layer: nn.Conv2d, x: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
    """What a convolution sees of some examples at a time, (n, channels * kernel, places)."""
    unfold, at_once = _unfolded, _CONV_CHUNK
    if x.device.type != "cpu":
        unfold = _strided
        at_once = max(1, _PATCHES // (layer.weight[0].numel() * x.shape[2:].numel()))
    for start in range(0, len(x), at_once):
        some = slice(start, start + at_once)
        yield some, unfold(x[some], layer.kernel_size, layer.dilation, layer.padding, layer.stride)


def _unfolded(x: torch.Tensor, kernel, dilation, padding, stride) -> torch.Tensor:
    """As PyTorch's ``unfold``, several times as fast: (n, channels * kernel, places)."""
    high, wide = padding
    if high or wide:
        x = functional.pad(x, (wide, wide, high, high))
    size = [(x.shape[2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    patches = x.new_empty(len(x), x.shape[1], *kernel, *size)
    _unfold(x.contiguous().numpy(), dilation, stride, patches.numpy())
    return patches.view(len(x), -1, size[0] * size[1])


def _strided(x: torch.Tensor, kernel, dilation, padding, stride) -> torch.Tensor:
    """The same by one copy: PyTorch's ``unfold`` asks an accelerator for each example by itself."""
    x = functional.pad(x, (padding[1], padding[1], padding[0], padding[0])).contiguous()
    size = [(x.shape[2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    rows, columns = x.stride()[2:]
    steps = (rows * dilation[0], columns * dilation[1], rows * stride[0], columns * stride[1])
    patches = x.as_strided((*x.shape[:2], *kernel, *size), (*x.stride()[:2], *steps))
    return patches.reshape(len(x), -1, size[0] * size[1])


@njit(cache=True, nogil=True)
def _unfold(x, dilation, stride, out):
    n, channels, kernel_high, kernel_wide, high, wide = out.shape
    for p in range(n):
        for c in range(channels):
            for a in range(kernel_high):
                for b in range(kernel_wide):
                    to = out[p, c, a, b]
                    for i in range(high):
                        source = x[p, c, i * stride[0] + a * dilation[0], b * dilation[1] :]
                        for j in range(wide):
                            to[i, j] = source[j * stride[1]]


def _per_example(layer: nn.Module, x: torch.Tensor, error: torch.Tensor):
    """Pairs of a parameter and its gradients, one an example."""
    if isinstance(layer, nn.Linear):
        if x.dim() > 2:  # the same weights at several positions of an example
            x, error = x.flatten(1, -2), error.flatten(1, -2)
            yield layer.weight, torch.bmm(error.transpose(1, 2), x)
            if layer.bias is not None:
                yield layer.bias, error.sum(dim=1)
            return
        yield layer.weight, error[:, :, None] * x[:, None, :]
        if layer.bias is not None:
            yield layer.bias, error
    elif isinstance(layer, nn.Conv2d):
        error = error.flatten(2)
        yield layer.weight, _convolution_gradients(layer, x, error)
        if layer.bias is not None:
            yield layer.bias, error.sum(dim=2)
    else:
        normalised = functional.group_norm(x, layer.num_groups, eps=layer.eps)
        if layer.weight is not None:
            yield layer.weight, (error * normalised).flatten(2).sum(dim=2)
            yield layer.bias, error.flatten(2).sum(dim=2)
