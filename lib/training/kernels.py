"""Compiled DP-SGD for linear models and multi-layer perceptrons on a CPU.

A whole training step of one small model - gather the sampled examples, forward, per-example
gradient norms, clipping, summed gradient, noise, update - is one pass over tiles of 64 examples
that stay in the processor's cache.  The gradient of a dense layer for one example is the outer
product of the error d and the input a, so its norm is |d| |a| (with bias: |d| sqrt(|a|^2 + 1)) and
no per-example gradient is ever stored.

Parameters lie in one flat float32 vector in PyTorch's order (weight row by row, then bias, layer
after layer).  Tiles hold examples along their last axis.  Random numbers are not drawn here: the
caller hands them over, so that every path of training can be given the same.
"""

import numpy as np
from numba import njit

__all__ = ["ACTIVATIONS", "predict", "run_steps"]

ACTIVATIONS = {"tanh": 0, "relu": 1}
TILE = 64
_CLIP_GUARD = np.float32(1e-6)  # Opacus divides by the norm plus this

# Reordering of sums is allowed (it is what vectorises them); assuming away NaN and infinity is not,
# for diverged models must show as such.
_MATH = {"reassoc", "contract", "arcp", "nsz"}
_LARGEST = np.float32(np.finfo(np.float32).max)
_compiled = njit(fastmath=_MATH, nogil=True, cache=True, error_model="numpy")


@_compiled
def _forward(w, at, n_out, n_in, bias, a, z, width):
    """Z = W A + b on a tile; W starts at w[at], b at w[bias]."""
    o = 0
    while o + 4 <= n_out:
        r0 = at + o * n_in
        r1 = r0 + n_in
        r2 = r1 + n_in
        r3 = r2 + n_in
        for t in range(width):
            z[o, t] = w[bias + o]
            z[o + 1, t] = w[bias + o + 1]
            z[o + 2, t] = w[bias + o + 2]
            z[o + 3, t] = w[bias + o + 3]
        i = 0
        while i + 4 <= n_in:
            p0, p1, p2, p3 = w[r0 + i], w[r0 + i + 1], w[r0 + i + 2], w[r0 + i + 3]
            q0, q1, q2, q3 = w[r1 + i], w[r1 + i + 1], w[r1 + i + 2], w[r1 + i + 3]
            s0, s1, s2, s3 = w[r2 + i], w[r2 + i + 1], w[r2 + i + 2], w[r2 + i + 3]
            u0, u1, u2, u3 = w[r3 + i], w[r3 + i + 1], w[r3 + i + 2], w[r3 + i + 3]
            for t in range(width):
                x0, x1, x2, x3 = a[i, t], a[i + 1, t], a[i + 2, t], a[i + 3, t]
                z[o, t] += p0 * x0 + p1 * x1 + p2 * x2 + p3 * x3
                z[o + 1, t] += q0 * x0 + q1 * x1 + q2 * x2 + q3 * x3
                z[o + 2, t] += s0 * x0 + s1 * x1 + s2 * x2 + s3 * x3
                z[o + 3, t] += u0 * x0 + u1 * x1 + u2 * x2 + u3 * x3
            i += 4
        while i < n_in:
            p0, q0, s0, u0 = w[r0 + i], w[r1 + i], w[r2 + i], w[r3 + i]
            for t in range(width):
                x0 = a[i, t]
                z[o, t] += p0 * x0
                z[o + 1, t] += q0 * x0
                z[o + 2, t] += s0 * x0
                z[o + 3, t] += u0 * x0
            i += 1
        o += 4
    while o < n_out:
        r0 = at + o * n_in
        for t in range(width):
            z[o, t] = w[bias + o]
        i = 0
        while i + 4 <= n_in:
            p0, p1, p2, p3 = w[r0 + i], w[r0 + i + 1], w[r0 + i + 2], w[r0 + i + 3]
            for t in range(width):
                z[o, t] += p0 * a[i, t] + p1 * a[i + 1, t] + p2 * a[i + 2, t] + p3 * a[i + 3, t]
            i += 4
        while i < n_in:
            p0 = w[r0 + i]
            for t in range(width):
                z[o, t] += p0 * a[i, t]
            i += 1
        o += 1


@_compiled
def _outer(g, at, n_out, n_in, d, a, width):
    """Add D A^T to the gradient of a layer, summed over the tile."""
    zero = np.float32(0.0)
    o = 0
    while o + 2 <= n_out:
        i = 0
        while i + 4 <= n_in:
            p0 = p1 = p2 = p3 = q0 = q1 = q2 = q3 = zero
            for t in range(width):
                e0, e1 = d[o, t], d[o + 1, t]
                x0, x1, x2, x3 = a[i, t], a[i + 1, t], a[i + 2, t], a[i + 3, t]
                p0 += e0 * x0
                p1 += e0 * x1
                p2 += e0 * x2
                p3 += e0 * x3
                q0 += e1 * x0
                q1 += e1 * x1
                q2 += e1 * x2
                q3 += e1 * x3
            k = at + o * n_in + i
            g[k] += p0
            g[k + 1] += p1
            g[k + 2] += p2
            g[k + 3] += p3
            k += n_in
            g[k] += q0
            g[k + 1] += q1
            g[k + 2] += q2
            g[k + 3] += q3
            i += 4
        while i < n_in:
            p0 = q0 = zero
            for t in range(width):
                p0 += d[o, t] * a[i, t]
                q0 += d[o + 1, t] * a[i, t]
            g[at + o * n_in + i] += p0
            g[at + (o + 1) * n_in + i] += q0
            i += 1
        o += 2
    while o < n_out:
        for i in range(n_in):
            p0 = zero
            for t in range(width):
                p0 += d[o, t] * a[i, t]
            g[at + o * n_in + i] += p0
        o += 1


@_compiled
def _backward(w, at, n_out, n_in, d, e, width):
    """E = W^T D on a tile."""
    i = 0
    while i + 4 <= n_in:
        for t in range(width):
            e[i, t] = e[i + 1, t] = e[i + 2, t] = e[i + 3, t] = np.float32(0.0)
        o = 0
        while o + 2 <= n_out:
            k = at + o * n_in + i
            m = k + n_in
            p0, p1, p2, p3 = w[k], w[k + 1], w[k + 2], w[k + 3]
            q0, q1, q2, q3 = w[m], w[m + 1], w[m + 2], w[m + 3]
            for t in range(width):
                x0, x1 = d[o, t], d[o + 1, t]
                e[i, t] += p0 * x0 + q0 * x1
                e[i + 1, t] += p1 * x0 + q1 * x1
                e[i + 2, t] += p2 * x0 + q2 * x1
                e[i + 3, t] += p3 * x0 + q3 * x1
            o += 2
        if o < n_out:
            k = at + o * n_in + i
            for t in range(width):
                x0 = d[o, t]
                e[i, t] += w[k] * x0
                e[i + 1, t] += w[k + 1] * x0
                e[i + 2, t] += w[k + 2] * x0
                e[i + 3, t] += w[k + 3] * x0
        i += 4
    while i < n_in:
        for t in range(width):
            e[i, t] = np.float32(0.0)
        for o in range(n_out):
            p0 = w[at + o * n_in + i]
            for t in range(width):
                e[i, t] += p0 * d[o, t]
        i += 1


@_compiled
def _exp(x, out, bits, powers, width):
    """exp(x) in float32 to 1 ulp (Cephes' polynomial); bits and powers share their memory."""
    for t in range(width):
        v = min(max(x[t], np.float32(-87.0)), np.float32(88.0))
        k = np.floor(v * np.float32(1.44269504088896341) + np.float32(0.5))
        v -= k * np.float32(0.693359375)
        v -= k * np.float32(-2.12194440e-4)
        p = np.float32(1.9875691500e-4)
        p = p * v + np.float32(1.3981999507e-3)
        p = p * v + np.float32(8.3334519073e-3)
        p = p * v + np.float32(4.1665795894e-2)
        p = p * v + np.float32(1.6666665459e-1)
        p = p * v + np.float32(5.0000001201e-1)
        out[t] = p * v * v + v + np.float32(1.0) + (x[t] - x[t])  # NaN and infinity stay visible
        bits[t] = (np.int32(k) + np.int32(127)) << np.int32(23)
    for t in range(width):
        out[t] *= powers[t]


@_compiled
def _activate(z, n, kind, scratch, bits, powers, width):
    """Apply tanh or relu in place."""
    for o in range(n):
        if kind == 1:
            for t in range(width):
                z[o, t] = max(z[o, t], np.float32(0.0))
            continue
        for t in range(width):
            scratch[0, t] = np.float32(2.0) * min(abs(z[o, t]), np.float32(20.0))
        _exp(scratch[0], scratch[1], bits, powers, width)
        for t in range(width):
            v = z[o, t]
            large = np.float32(1.0) - np.float32(2.0) / (scratch[1, t] + np.float32(1.0))
            u = v * v  # Cephes' tanhf near 0, where the form above loses digits
            p = np.float32(-5.70498872745e-3) * u + np.float32(2.06390887954e-2)
            p = p * u + np.float32(-5.37397155531e-2)
            p = p * u + np.float32(1.33314422036e-1)
            p = p * u + np.float32(-3.33332819422e-1)
            small = p * u * v + v
            signed = large if v > 0 else -large
            z[o, t] = (small if abs(v) < np.float32(0.625) else signed) + (v - v)


@_compiled
def _softmax(z, n, top, total, bits, powers, width):
    """Softmax over the classes in place; leaves the largest logit and the sum of exponentials."""
    for t in range(width):
        top[t] = z[0, t]
        total[t] = np.float32(0.0)
    for c in range(1, n):
        for t in range(width):
            top[t] = max(top[t], z[c, t])
    for c in range(n):
        for t in range(width):
            z[c, t] -= top[t]
        _exp(z[c], z[c], bits, powers, width)
        for t in range(width):
            total[t] += z[c, t]
    for c in range(n):
        for t in range(width):
            z[c, t] /= total[t]


@_compiled
def _gather(x, rows, start, count, a, width):
    for t in range(count):
        row = x[rows[start + t]]
        for i in range(row.shape[0]):
            a[i, t] = row[i]
    for t in range(count, width):
        for i in range(x.shape[1]):
            a[i, t] = np.float32(0.0)


@_compiled
def run_steps(
    x,
    labels,
    soft,
    rows,
    starts,
    params,
    velocity,
    noise,
    noise_scale,
    clipping_norm,
    learning_rates,
    batch_size,
    momentum,
    weight_decay,
    entropy,
    sizes,
    activation,
    posterior,
):
    """Train one model for some steps, in place.

    Parameters
    ----------
    x : ndarray of float32, shape (n, sizes[0])
        All examples.
    labels : ndarray of int32, shape (n,)
        Classes; ignored where `soft` has rows.
    soft : ndarray of float32, shape (n, sizes[-1]) or (0, sizes[-1])
        Target distributions, if targets are soft.
    rows : ndarray of int64
        The sampled rows of all steps, one step after the other.
    starts : ndarray of int64, shape (steps + 1,)
        Step s uses ``rows[starts[s]:starts[s + 1]]``.
    params, velocity : ndarray of float32, shape (p,)
        Changed in place; `velocity` is momentum's running sum.
    noise : ndarray of float32, shape (steps, p) or (0, p)
        Standard normal numbers, added times `noise_scale` to the summed clipped gradient.
    noise_scale, clipping_norm : float32
        Noise multiplier times clipping norm; the clipping norm (may be infinite).
    learning_rates : ndarray of float32, shape (steps,)
        One a step.
    batch_size : float32
        The expected batch size, which the noisy sum is divided by.
    momentum, weight_decay, entropy : float32
        As in :class:`lib.training.TrainingConfig` and :class:`lib.training.CrossEntropy`.
    sizes : ndarray of int64, shape (layers + 1,)
        Numbers of units, input first.
    activation : int
        A value of `ACTIVATIONS`.
    posterior : bool
        Take `soft` for likelihoods, as :class:`lib.training.PosteriorTargets` does.
    """
    one, zero = np.float32(1.0), np.float32(0.0)
    n_layers = sizes.shape[0] - 1
    n_classes = sizes[n_layers]
    widest = sizes.max()
    units = np.empty((n_layers + 1, widest, TILE), np.float32)
    errors = np.empty((2, widest, TILE), np.float32)
    scratch = np.empty((2, TILE), np.float32)
    bits = np.empty(TILE, np.int32)
    powers = bits.view(np.float32)
    top = np.empty(TILE, np.float32)
    total = np.empty(TILE, np.float32)
    norms = np.empty(TILE, np.float32)
    gradient = np.empty_like(params)
    use_soft = soft.shape[0] > 0
    at = np.empty(n_layers, np.int64)  # where each layer's weights start
    position = 0
    for layer in range(n_layers):
        at[layer] = position
        position += (sizes[layer] + 1) * sizes[layer + 1]
    # Errors of all layers are needed until the clipping factor is known.
    deltas = np.empty((n_layers, widest, TILE), np.float32)

    for step in range(starts.shape[0] - 1):
        gradient[:] = zero
        start, end = starts[step], starts[step + 1]
        while start < end:
            count = min(TILE, end - start)
            width = TILE if count > 48 else (48 if count > 32 else (32 if count > 16 else 16))
            _gather(x, rows, start, count, units[0], width)
            for layer in range(n_layers):
                n_in, n_out = sizes[layer], sizes[layer + 1]
                bias = at[layer] + n_in * n_out
                target = deltas[layer] if layer == n_layers - 1 else units[layer + 1]
                _forward(params, at[layer], n_out, n_in, bias, units[layer], target, width)
                if layer < n_layers - 1:
                    _activate(target, n_out, activation, scratch, bits, powers, width)

            # The error of the last layer: softmax minus target, plus the entropy's gradient.
            d = deltas[n_layers - 1]
            if entropy != zero:
                for c in range(n_classes):
                    for t in range(width):
                        errors[0, c, t] = d[c, t]
            _softmax(d, n_classes, top, total, bits, powers, width)
            if entropy != zero:
                for t in range(width):
                    shift = top[t] + np.log(total[t])
                    h = zero
                    for c in range(n_classes):
                        errors[0, c, t] -= shift  # log p
                        h -= d[c, t] * errors[0, c, t]
                    for c in range(n_classes):
                        d[c, t] -= entropy * d[c, t] * (errors[0, c, t] + h)
            for t in range(count):
                row = rows[start + t]
                if posterior:
                    s = zero
                    for c in range(n_classes):
                        s += soft[row, c] * d[c, t]
                    # Where likelihood and prior have nothing in common, the likelihood decides.
                    for c in range(n_classes):
                        d[c, t] -= soft[row, c] * d[c, t] / s if s > zero else soft[row, c]
                elif use_soft:
                    for c in range(n_classes):
                        d[c, t] -= soft[row, c]
                else:
                    d[labels[row], t] -= one

            # Errors of the layers below, and the squared norm of each example's gradient.
            for t in range(width):
                norms[t] = zero
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
                for t in range(width):
                    norms[t] += scratch[0, t] * scratch[1, t]
                if layer > 0:
                    below = deltas[layer - 1]
                    _backward(params, at[layer], n_out, n_in, d, below, width)
                    for i in range(n_in):
                        for t in range(width):
                            v = a[i, t]
                            if activation == 0:
                                below[i, t] *= one - v * v
                            elif v <= zero:
                                below[i, t] = zero

            # Clip, and add to the summed gradient.
            for t in range(count):
                if clipping_norm > _LARGEST:  # not private
                    norms[t] = one
                elif norms[t] <= _LARGEST:
                    norms[t] = min(one, clipping_norm / (np.sqrt(norms[t]) + _CLIP_GUARD))
                else:  # infinite or NaN: nothing bounds this gradient, so it is left out
                    norms[t] = zero
                    for layer in range(n_layers):
                        for o in range(sizes[layer + 1]):
                            deltas[layer][o, t] = zero
                        for i in range(sizes[layer]):
                            units[layer][i, t] = zero
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
    """Logits of one model on all rows of `x`, written to `logits` of shape (n, classes)."""
    n_layers = sizes.shape[0] - 1
    widest = sizes.max()
    units = np.empty((2, widest, TILE), np.float32)
    scratch = np.empty((2, TILE), np.float32)
    bits = np.empty(TILE, np.int32)
    powers = bits.view(np.float32)
    rows = np.arange(x.shape[0])
    start = 0
    while start < x.shape[0]:
        count = min(TILE, x.shape[0] - start)
        _gather(x, rows, start, count, units[0], TILE)
        position = 0
        for layer in range(n_layers):
            n_in, n_out = sizes[layer], sizes[layer + 1]
            a, z = units[layer % 2], units[(layer + 1) % 2]
            _forward(params, position, n_out, n_in, position + n_in * n_out, a, z, TILE)
            if layer < n_layers - 1:
                _activate(z, n_out, activation, scratch, bits, powers, TILE)
            position += (n_in + 1) * n_out
        last = units[n_layers % 2]
        for t in range(count):
            for c in range(sizes[n_layers]):
                logits[start + t, c] = last[c, t]
        start += count
