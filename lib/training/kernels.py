"""Compiled DP-SGD for linear models and MLPs on a CPU.

A whole training step of one small model - gather the sampled examples, forward, per-example
gradient norms, clipping, summed gradient, noise, update - is one pass over tiles of 64 examples
that stay in the processor's cache.  The gradient of a dense layer for one example is the outer
product of the error d and the input a, so its norm is |d| |a| (with bias: |d| sqrt(|a|^2 + 1)) and
no per-example gradient is ever stored.

Parameters lie in one flat float32 vector in PyTorch's order (weight row by row, then bias, layer
after layer).  Tiles hold examples along their last axis.  Random numbers are not drawn here: the
caller hands them over, so that every path of training can be given the same.

One step::

    rows[starts[s] : starts[s + 1]]         the sample of step s
    |<- tile ->|<- tile ->|<- rest ->|      64 examples at a time

    units[0]  -W0->  units[1]  -W1->  ...  outputs        forward (:func:`_outputs`)
                     deltas[0] <-W1-  ...  deltas[-1]     errors, from the loss down
    |units[l]|^2 + 1  times  |deltas[l]|^2                added over layers: an example's norm
    gradient += clip * deltas[l] units[l]^T               only now, when the factor is known

    params -= rate * (momentum * velocity + (gradient + noise) / batch_size)

What functions of a tile share are :class:`lib.training.kernel_layers.Tile` and ``Work``.

All objectives of :mod:`lib.training.objectives` are here, as the gradient of one example's loss by
the network's outputs; what follows from it is the same for all.  There is one :func:`run_steps`,
not one an objective: most of the seconds that compiling it takes go into what all need.
"""

import numpy as np

from lib.training import clipping
from lib.training.kernel_layers import (
    TILE,
    Tile,
    Work,
    _backward,
    _by_definition,
    _compiled,
    _layers,
    _outer,
    _outputs,
    _softmax,
)

ACTIVATIONS = {"tanh": 0, "relu": 1}
#: Numbers of the objectives, by class name.
OBJECTIVES = {
    "CrossEntropy": 0,
    "PosteriorTargets": 1,
    "SelfAdaptiveTraining": 2,
    "DeepGamblers": 3,
    "SelectiveNet": 4,
}
_POSTERIOR, _SELF_ADAPTIVE, _GAMBLERS, _SELECTIVE = 1, 2, 3, 4
_GUARD = np.float32(clipping.GUARD)
_LARGEST_SQUARE = np.float32(clipping.LARGEST_SQUARE)
_SMALLEST_FACTOR = np.float32(clipping.SMALLEST_FACTOR)
_TINY_SQUARE = np.float32(clipping.TINY_SQUARE)
_LARGE_SQUARE = np.float32(clipping.LARGE_SQUARE)
_DOUBTFUL = np.float32(np.inf)
_LARGEST = np.float32(np.finfo(np.float32).max)


@_compiled
def _entropy_errors(p, first, n, entropy, logs, work, width):
    """Errors due to the entropy, to be subtracted: `logs` has logits, which they replace.

    Row `first` of `p` and the n - 1 after it are their softmax, and `work` is as :func:`_softmax`
    leaves it; its contents are lost.
    """
    top, total = work.top, work.total
    for t in range(width):
        total[t] = top[t] + np.log(total[t])  # the logarithm of the sum, of all logits
        top[t] = np.float32(0.0)
    for c in range(n):
        for t in range(width):
            logs[c, t] -= total[t]
            top[t] -= p[first + c, t] * logs[c, t]  # in the end the entropy
    for c in range(n):
        for t in range(width):
            logs[c, t] = entropy * p[first + c, t] * (logs[c, t] + top[t])


@_compiled
def _class_errors(d, first, n, tile, labels, soft, posterior, entropy, logs, work):
    """Cross-entropy, with entropy: from the n logits at row `first` to the errors, in place."""
    rows, start, count, width = tile
    zero = np.float32(0.0)
    if entropy != zero:
        for c in range(n):
            for t in range(width):
                logs[c, t] = d[first + c, t]
    _softmax(d, first, n, work, width)
    if entropy != zero:
        _entropy_errors(d, first, n, entropy, logs, work, width)
        for c in range(n):
            for t in range(width):
                d[first + c, t] -= logs[c, t]
    for t in range(count):
        row = rows[start + t]
        if posterior:  # ALIBI and AGIBI (P5): likelihood times the model's own prediction
            s = zero
            for c in range(n):
                s += soft[row, c] * d[first + c, t]
            # Where likelihood and prior have nothing in common, the likelihood decides.
            for c in range(n):
                d[first + c, t] -= soft[row, c] * d[first + c, t] / s if s > zero else soft[row, c]
        elif soft.shape[0] > 0:
            for c in range(n):
                d[first + c, t] -= soft[row, c]
        else:
            d[first + labels[row], t] -= np.float32(1.0)


@_compiled
def _abstention_errors(
    d, n, tile, labels, objective, constants, memory, entropy, logs, q, share, work
):
    """Self-Adaptive Training and deep gamblers after the burn-in: outputs to errors, in place.

    Both losses have the gradient softmax(all outputs) minus a target that is shared between the
    label and abstention.  The memory of the former moves on the way.
    """
    rows, start, count, width = tile
    one, zero = np.float32(1.0), np.float32(0.0)
    if objective == _SELF_ADAPTIVE or entropy != zero:  # the classes' softmax without abstention
        for c in range(n):
            for t in range(width):
                q[c, t] = logs[c, t] = d[c, t]
        _softmax(q, np.int64(0), n, work, width)
        if entropy != zero:
            _entropy_errors(q, np.int64(0), n, entropy, logs, work, width)
    for t in range(count):
        row = rows[start + t]
        label = labels[row]
        if objective == _SELF_ADAPTIVE:
            for c in range(n):  # the average that the label is to be taken from (P1, Eq. 12)
                memory[row, c] = constants[0] * memory[row, c] + constants[1] * q[c, t]
            share[t] = memory[row, label]
        else:  # p_y / (p_y + p_abstain / reward), of which constants[0] is the reward's logarithm
            share[t] = one / (one + np.exp(d[n, t] - d[label, t] - constants[0]))
    _softmax(d, np.int64(0), n + 1, work, width)
    for t in range(count):
        d[labels[rows[start + t]], t] -= share[t]
        d[n, t] -= one - share[t]
    if entropy != zero:
        for c in range(n):
            for t in range(width):
                d[c, t] -= logs[c, t]


@_compiled
def _losses(z, n, tile, labels, soft, entropy, q, losses, work):
    """Cross-entropy, with entropy, of the first n logits; they stay as they are."""
    rows, start, count, width = tile
    top, total = work.top, work.total
    zero = np.float32(0.0)
    for c in range(n):
        for t in range(width):
            q[c, t] = z[c, t]
    _softmax(q, np.int64(0), n, work, width)
    for t in range(width):
        losses[t] = zero
    for t in range(count):
        row = rows[start + t]
        shift = top[t] + np.log(total[t])
        if soft.shape[0] > 0:
            for c in range(n):
                losses[t] -= soft[row, c] * (z[c, t] - shift)
        else:
            losses[t] = shift - z[labels[row], t]
        if entropy != zero:
            for c in range(n):
                losses[t] -= entropy * q[c, t] * (z[c, t] - shift)


@_compiled
def _sigmoid(v):
    return np.float32(1.0) / (np.float32(1.0) + np.exp(-v))


@_compiled
def run_steps(
    x,  # float32 (n, sizes[0]): all examples
    labels,  # int32 (n,): classes, ignored where `soft` has rows
    soft,  # float32 (n, classes) or (0, classes): target distributions, if targets are soft
    rows,  # int64: the sampled rows of all steps, one step after the other
    starts,  # int64 (steps + 1,): step s uses rows[starts[s]:starts[s + 1]]
    params,  # float32 (p,), changed in place
    velocity,  # float32 (p,), changed in place: momentum's running sum
    noise,  # float32 (steps, p) or (0, p): standard normal numbers, which noise_scale multiplies
    noise_scale,  # float32: noise multiplier times clipping norm
    clipping_norm,  # float32: infinite without privacy
    learning_rates,  # float32 (steps,)
    batch_size,  # float32: the expected one, which the noisy sum is divided by
    momentum,  # float32
    weight_decay,  # float32
    entropy,  # float32: its weight in the loss
    sizes,  # int64 (layers + 1,): numbers of units, inputs first, outputs last
    activation,  # a value of ACTIVATIONS
    objective,  # a value of OBJECTIVES
    constants,  # float32, of the objective, see below
    settled,  # bool (steps,): whether the burn-in of SAT and deep gamblers is over
    memory,  # float32 (n, classes) or (0, classes): SAT's averages, changed in place; not private
    normals,  # float32 (steps, 2) or (0, 2): standard normal, for SelectiveNet's statistics
    masks,  # float32 (len(rows), dropped) or (0, dropped): dropout, see below
    keep,  # float32: probability that a unit is not dropped
):
    """Train one model for some steps, in place.

    `constants`: SAT's momentum m and 1 - m; the logarithm of deep gamblers' reward; SelectiveNet's
    coverage, alpha, penalty, loss bound, smallest coverage, and standard deviation of the noise in
    the sums of its statistics.  `masks` multiply hidden units (of a linear model: inputs), layer
    after layer, by 0 or 1 / `keep`; not for SelectiveNet, which runs the network twice a step.
    """
    one, zero = np.float32(1.0), np.float32(0.0)
    n_layers = sizes.shape[0] - 1
    n_outputs = sizes[n_layers]
    n_classes = n_outputs
    posterior = objective == _POSTERIOR
    abstains = objective in (_SELF_ADAPTIVE, _GAMBLERS)
    if abstains:
        n_classes = n_outputs - 1
    elif objective == _SELECTIVE:
        n_classes = (n_outputs - 1) // 2
    widest = sizes.max()
    units = np.empty((n_layers + 1, widest, TILE), np.float32)
    logs = np.empty((n_classes, TILE), np.float32)
    q = np.empty((n_classes, TILE), np.float32)
    scratch = np.empty((2, TILE), np.float32)
    bits = np.empty(TILE, np.int32)
    powers = bits.view(np.float32)
    top = np.empty(TILE, np.float32)
    total = np.empty(TILE, np.float32)
    work = Work(top, total, bits, powers)
    norms = np.empty(TILE, np.float32)
    losses = np.empty(TILE, np.float32)
    gradient = np.empty_like(params)
    at = _layers(sizes)
    coverage = ratio = missing = zero  # SelectiveNet's c, r / c and max(0, wanted coverage - c)
    # Errors of all layers are needed until the clipping factor is known.
    deltas = np.empty((n_layers, widest, TILE), np.float32)

    for step in range(starts.shape[0] - 1):
        gradient[:] = zero
        accepted, risk = 0.0, 0.0
        # SelectiveNet's loss depends on the coverage of the batch: a first sweep over the sample
        # measures it, and what comes of it is released with noise; the second one differentiates.
        for sweep in range(0 if objective == _SELECTIVE else 1, 2):
            if objective == _SELECTIVE and sweep == 1:
                # With privacy the expected size of the batch, without it the actual one.
                size = batch_size
                if clipping_norm > _LARGEST:
                    size = np.float32(max(1, starts[step + 1] - starts[step]))
                c = (np.float32(accepted) + constants[5] * normals[step, 0]) / size
                r = (np.float32(risk) + constants[5] * normals[step, 1]) / size
                coverage = min(max(c, constants[4]), one)
                ratio = constants[3] * min(max(r, zero), one) / coverage
                missing = max(constants[0] - coverage, zero)
            start, end = starts[step], starts[step + 1]
            while start < end:
                count = min(TILE, end - start)
                # The last tile of a sample is padded to 16, 32 or 48 columns, not always to 64.
                width = TILE if count > 48 else (48 if count > 32 else (32 if count > 16 else 16))
                tile = Tile(rows, start, count, width)
                d = deltas[n_layers - 1]
                _outputs(x, tile, params, at, sizes, activation, masks, units, d, scratch, work)
                if objective == _SELECTIVE:
                    _losses(d, n_classes, tile, labels, soft, entropy, q, losses, work)
                if sweep == 0:
                    for t in range(count):
                        g = _sigmoid(d[n_outputs - 1, t])
                        # Both terms are in [0, 1], whatever an example does, NaN included.
                        if g >= zero:
                            accepted += g
                            if losses[t] > zero:
                                risk += min(losses[t], constants[3]) / constants[3] * g
                    start += count
                    continue

                # The errors of the last layer: the gradient of an example's loss by its outputs.
                if abstains and settled[step]:
                    _abstention_errors(
                        d,
                        n_classes,
                        tile,
                        labels,
                        objective,
                        constants,
                        memory,
                        entropy,
                        logs,
                        q,
                        losses,
                        work,
                    )
                else:
                    # The entropy of SelectiveNet's auxiliary classifier has no weight.
                    heads = 2 if objective == _SELECTIVE else 1
                    for head in range(heads):
                        _class_errors(
                            d,
                            head * n_classes,
                            n_classes,
                            tile,
                            labels,
                            soft,
                            posterior,
                            entropy if head == 0 else zero,
                            logs,
                            work,
                        )
                    if abstains:
                        for t in range(width):
                            d[n_classes, t] = zero
                # Of alpha (gated risk + penalty) + (1 - alpha) cross-entropy of the auxiliary head:
                # the gate's own error, then what the gate lets through of the classes' errors.
                if objective == _SELECTIVE:
                    alpha = constants[1]
                    push = np.float32(2.0) * constants[2] * missing
                    for t in range(width):
                        g = _sigmoid(d[n_outputs - 1, t])
                        slope = (losses[t] - ratio) / coverage - push
                        d[n_outputs - 1, t] = alpha * slope * g * (one - g)
                        factor = alpha * g / coverage
                        for c in range(n_classes):
                            d[c, t] *= factor
                            d[n_classes + c, t] *= one - alpha

                # Errors of the layers below, and the squared norm of each example's gradient.
                for t in range(width):
                    norms[t] = zero
                column = masks.shape[1]
                for layer in range(n_layers - 1, -1, -1):
                    n_in, n_out = sizes[layer], sizes[layer + 1]
                    d, a = deltas[layer], units[layer]
                    for t in range(width):
                        scratch[0, t] = zero
                        scratch[1, t] = one
                    for o in range(n_out):
                        for t in range(width):
                            scratch[0, t] += d[o, t] * d[o, t]
                    for i in range(n_in):
                        for t in range(width):
                            scratch[1, t] += a[i, t] * a[i, t]
                    # |d|^2 (|a|^2 + 1), unless a tiny square has lost digits that a large one would
                    # bring to light: such an example is clipped by definition, further below.
                    for t in range(width):
                        square, factor = scratch[0, t], scratch[1, t]
                        doubtful = square < _TINY_SQUARE and factor > _LARGE_SQUARE
                        norms[t] = _DOUBTFUL if doubtful else norms[t] + square * factor
                    if layer > 0:
                        below = deltas[layer - 1]
                        _backward(params, at[layer], n_out, n_in, d, below, width)
                        for i in range(n_in):
                            for t in range(width):
                                v = a[i, t] * keep  # as it was before dropout, which scaled it
                                if activation == 0:
                                    below[i, t] *= one - v * v
                                elif v <= zero:
                                    below[i, t] = zero
                        if masks.shape[0] > 0:
                            column -= n_in
                            for t in range(count):
                                for i in range(n_in):
                                    below[i, t] *= masks[start + t, column + i]

                # Clip, and add to the summed gradient. From here `norms` holds factors.
                for t in range(count):
                    square = norms[t]
                    norms[t] = min(one, clipping_norm / (np.sqrt(square) + _GUARD))
                    if clipping_norm > _LARGEST:  # not private
                        norms[t] = one
                    elif not (square <= _LARGEST_SQUARE and norms[t] >= _SMALLEST_FACTOR):
                        _by_definition(gradient, at, sizes, deltas, units, t, clipping_norm)
                        norms[t] = zero
                for t in range(count, width):
                    norms[t] = zero
                for layer in range(n_layers):
                    n_in, n_out = sizes[layer], sizes[layer + 1]
                    d = deltas[layer]
                    bias = at[layer] + n_in * n_out
                    for o in range(n_out):
                        s = zero
                        for t in range(width):
                            d[o, t] *= norms[t]
                            s += d[o, t]
                        gradient[bias + o] += s
                    _outer(gradient, at[layer], n_out, n_in, d, units[layer], width)
                start += count

        # Noise is added once to the sum, as DP-SGD has it, and both are divided by the *expected*
        # size of the sample: the actual one is private.
        rate = learning_rates[step]
        noisy = noise.shape[0] > 0
        for k in range(params.shape[0]):
            g = gradient[k]
            if noisy:
                g += noise_scale * noise[step, k]
            g = g / batch_size + weight_decay * params[k]
            velocity[k] = momentum * velocity[k] + g
            params[k] -= rate * velocity[k]


@_compiled
def predict(x, params, sizes, activation, logits):
    """First outputs of one model on all rows of `x`, written to `logits` of shape (n, classes)."""
    n_layers = sizes.shape[0] - 1
    widest = sizes.max()
    units = np.empty((n_layers + 1, widest, TILE), np.float32)
    scratch = np.empty((2, TILE), np.float32)
    bits = np.empty(TILE, np.int32)
    empty = np.empty(TILE, np.float32)  # for softmax, which is not needed
    work = Work(empty, empty, bits, bits.view(np.float32))
    rows = np.arange(x.shape[0])
    masks = np.empty((0, 0), np.float32)
    last = units[n_layers]
    at = _layers(sizes)
    start = rows[0]  # not the literal 0, nor TILE below: numba would compile all anew for them
    while start < x.shape[0]:
        count = min(TILE, x.shape[0] - start)
        tile = Tile(rows, start, count, np.int64(units.shape[2]))
        _outputs(x, tile, params, at, sizes, activation, masks, units, last, scratch, work)
        for t in range(count):
            for c in range(logits.shape[1]):
                logits[start + t, c] = last[c, t]
        start += count
