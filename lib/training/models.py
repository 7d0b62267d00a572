"""Architectures for private training: no layer lets one example's output depend on another's.

Batch normalization would, so every normalization here is by groups of channels within an example
(Wu and He 2018); P1 and P5 need the same replacement for their ResNets.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from lib.check import require_choice, require_finite, require_int
from lib.training import text

NAMES = ("linear", "mlp", "small_cnn", "medium_cnn", "p3_cnn", "resnet18", "wide_resnet", "roberta")
HEADS = ("plain", "abstain", "selective")
_SMALLEST = {"small_cnn": 8, "medium_cnn": 8, "p3_cnn": 18, "resnet18": 8, "wide_resnet": 8}
SMALL_CNN_FEATURES = 32  # that enter its last layer
ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


@dataclass(frozen=True)
class ModelSpec:
    """An architecture.

    Attributes
    ----------
    name : str
        ``"linear"``: softmax regression.  ``"mlp"``: a multi-layer network (MLP).
        ``"small_cnn"``: the two-layer tanh network that Papernot et al. (2021) and Tramèr and Boneh
        (2021) use on small gray images, about 26 thousand parameters there; ``"medium_cnn"`` has
        twice its filters and units, about 101 thousand.  ``"p3_cnn"``: three convolutions and a
        dense layer with tanh, max and average pooling, as in the authors' public code
        (microsoft/responsible-ai-toolbox-privacy, experiments/models/cnn.py): 973,962 parameters
        on 3 x 32 x 32.  ``"resnet18"``: He et al. (2016) with a 3 x 3
        stem for small images, 11.2 million parameters.  ``"wide_resnet"``: Zagoruyko and Komodakis
        (2016) with three groups of blocks; depth 16 and width 4 by default.  P5 says
        "Wide-ResNet18" without more; set `depth` and `width` to what you take that to be.
        ``"roberta"``: RoBERTa-base, pre-trained, with a new classification head, as P3 fine-tunes
        it; needs ``transformers``.
    inputs : tuple of int
        Shape of one example, (features,), (channels, height, width) or (tokens,).
    classes : int
        At least 2.
    hidden : tuple of int
        Units of the MLP's hidden layers.
    activation : {"tanh", "relu"}
        Of the MLP and small networks; ResNets have ReLU.
    dropout : float
        In [0, 1): after every hidden activation of the MLP, before the last layer of the
        others.
    depth, width : int
        Of ``"wide_resnet"``; depth = 6 k + 4.
    head : {"plain", "abstain", "selective"}
        Outputs: class logits; one more for abstention (Self-Adaptive Training); or class logits f,
        auxiliary class logits h and one selection logit g in this order, 2 C + 1 in all
        (SelectiveNet).
    """

    name: str
    inputs: tuple[int, ...]
    classes: int
    hidden: tuple[int, ...] = (32,)
    activation: str = "tanh"
    dropout: float = 0.0
    depth: int = 16
    width: int = 4
    head: str = "plain"

    def __post_init__(self):
        require_choice("name", self.name, NAMES)
        if not isinstance(self.inputs, Sequence) or isinstance(self.inputs, str):
            raise ValueError(f"inputs must be a tuple of integers, got {self.inputs!r}")
        object.__setattr__(self, "inputs", tuple(self.inputs))
        object.__setattr__(self, "hidden", tuple(self.hidden))
        for size in self.inputs:
            require_int("inputs", size, at_least=1)
        for size in self.hidden:
            require_int("hidden", size, at_least=1)
        require_int("classes", self.classes, at_least=2)
        require_choice("activation", self.activation, tuple(ACTIVATIONS))
        require_finite("dropout", self.dropout, at_least=0, below=1)
        require_choice("head", self.head, HEADS)
        require_int("depth", self.depth, at_least=10)
        require_int("width", self.width, at_least=1)
        if self.name == "roberta":
            if len(self.inputs) != 1 or self.head != "plain":
                raise ValueError(
                    "inputs must be (tokens,), with a plain head, for 'roberta', got"
                    f" {self.inputs} and {self.head!r}"
                )
        elif self.name in ("linear", "mlp"):
            if not self.inputs:
                raise ValueError("inputs must have at least one number, got ()")
        elif len(self.inputs) != 3 or min(self.inputs[1:]) < _SMALLEST[self.name]:
            least = _SMALLEST[self.name]
            raise ValueError(
                f"inputs must be (channels, height, width) of at least {least} x {least} for"
                f" {self.name}, got {self.inputs}"
            )
        if self.name == "mlp" and not self.hidden:
            raise ValueError("hidden must name at least one layer for 'mlp', got ()")
        if self.name == "wide_resnet" and (self.depth - 4) % 6:
            raise ValueError(f"depth must be 6 k + 4 for 'wide_resnet', got {self.depth}")

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return {"plain": 0, "abstain": 1, "selective": self.classes + 1}[self.head] + self.classes


def build_model(spec: ModelSpec, seed: int) -> nn.Module:
    """Make a network with initial parameters that depend on nothing but the seed.

    Parameters
    ----------
    spec : ModelSpec
        The architecture.
    seed : int
        Of PyTorch's default initialization, from 0 to 2**64 - 1; the global generator is put back
        as it was.

    Returns
    -------
    torch.nn.Module
        On the CPU, in training mode.

    Examples
    --------
    >>> network = build_model(model, seed=0)
    >>> sum(p.numel() for p in network.parameters()) == parameter_count(model)
    True
    """
    if not isinstance(spec, ModelSpec):
        raise ValueError(f"spec must be a ModelSpec, got {spec!r}")
    require_int("seed", seed, at_least=0, at_most=2**64 - 1)
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would seed GPUs too, which is not put back and takes most of the time.
        torch.default_generator.manual_seed(seed)
        layers = {
            "linear": _linear,
            "mlp": _mlp,
            "small_cnn": _small_cnn,
            "medium_cnn": partial(_small_cnn, width=2),
            "p3_cnn": _p3_cnn,
            "resnet18": _resnet18,
            "wide_resnet": _wide_resnet,
            "roberta": _roberta,
        }[spec.name](spec)
    return nn.Sequential(*layers)


def check_private(network: nn.Module) -> None:
    """Refuse a network in which examples influence each other, or which Opacus cannot train."""
    from opacus.validators import ModuleValidator  # here: importing Opacus takes a second

    # Opacus looks at layers with parameters alone.
    for name, module in network.named_modules():
        alone = isinstance(module, nn.modules.instancenorm._InstanceNorm)
        if isinstance(module, nn.modules.batchnorm._NormBase) and (
            module.track_running_stats or not alone
        ):
            raise ValueError(
                f"layer {name or type(module).__name__!r} is a {type(module).__name__}, which mixes"
                " the examples of a batch: private training needs GroupNorm instead"
            )
    errors = ModuleValidator.validate(network, strict=False)
    if errors:
        raise ValueError(f"network cannot be trained privately: {errors[0]}")


@cache
def parameter_count(spec: ModelSpec) -> int:
    """Number of trainable parameters."""
    return sum(p.numel() for p in build_model(spec, 0).parameters())


@cache
def forward_flops(spec: ModelSpec) -> int:
    """Floating-point operations of one example's forward pass, two a multiply-add.

    Products of matrices and convolutions are counted; the rest is small beside them.
    """
    network = build_model(spec, 0).eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, *spec.inputs))
    return counter.get_total_flops()


def _head(spec: ModelSpec, features: int) -> list[nn.Module]:
    last = [nn.Linear(features, spec.outputs)]
    return [nn.Dropout(spec.dropout), *last] if spec.dropout else last


def _linear(spec: ModelSpec) -> list[nn.Module]:
    return [nn.Flatten(), *_head(spec, math.prod(spec.inputs))]


def _mlp(spec: ModelSpec) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Flatten()]
    size = math.prod(spec.inputs)
    for units in spec.hidden:
        layers += [nn.Linear(size, units), ACTIVATIONS[spec.activation]()]
        if spec.dropout:
            layers.append(nn.Dropout(spec.dropout))
        size = units
    return [*layers, nn.Linear(size, spec.outputs)]


def _flat_size(spec: ModelSpec, layers: list[nn.Module]) -> int:
    with torch.no_grad():
        return nn.Sequential(*layers)(torch.zeros(1, *spec.inputs)).shape[1]


def _small_cnn(spec: ModelSpec, width: int = 1) -> list[nn.Module]:
    act, units = ACTIVATIONS[spec.activation], width * SMALL_CNN_FEATURES
    before, after = 16 * width, 32 * width
    channels, *size = spec.inputs
    if min(size) < 20:  # digits of 8 x 8: the usual kernels and strides leave nothing
        first = [nn.Conv2d(channels, before, 3, stride=1, padding=1), act(), nn.MaxPool2d(2)]
        second = [nn.Conv2d(before, after, 3, stride=1, padding=1), act(), nn.MaxPool2d(2)]
    else:
        first = [nn.Conv2d(channels, before, 8, stride=2, padding=2), act(), nn.MaxPool2d(2, 1)]
        second = [nn.Conv2d(before, after, 4, stride=2), act(), nn.MaxPool2d(2, 1)]
    layers = [*first, *second, nn.Flatten()]
    dense = [nn.Linear(_flat_size(spec, layers), units), act()]
    return [*layers, *dense, *_head(spec, units)]


def _p3_cnn(spec: ModelSpec) -> list[nn.Module]:
    layers = [
        nn.Conv2d(spec.inputs[0], 128, 8, stride=2, padding=3),
        nn.Tanh(),
        nn.MaxPool2d(3, 1),
        nn.Conv2d(128, 256, 3),
        nn.Tanh(),
        nn.Conv2d(256, 256, 3),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
    ]
    return [*layers, *_head(spec, _flat_size(spec, layers))]


class _Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, before: int, after: int, stride: int, *, preactivated: bool):
        super().__init__()
        self.preactivated = preactivated
        self.norm1 = _norm(before if preactivated else after)
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.norm2 = _norm(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.shortcut = None
        if stride != 1 or before != after:
            self.shortcut = nn.Conv2d(before, after, 1, stride=stride, bias=False)
            if not preactivated:
                self.shortcut_norm = _norm(after)

    def forward(self, x):
        if self.preactivated:
            inner = torch.relu(self.norm1(x))
            kept = x if self.shortcut is None else self.shortcut(inner)
            return kept + self.conv2(torch.relu(self.norm2(self.conv1(inner))))
        inner = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        kept = x if self.shortcut is None else self.shortcut_norm(self.shortcut(x))
        return torch.relu(kept + inner)


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(32, channels), channels)


def _resnet18(spec: ModelSpec) -> list[nn.Module]:
    layers = [nn.Conv2d(spec.inputs[0], 64, 3, padding=1, bias=False), _norm(64), nn.ReLU()]
    before = 64
    for after, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [
            _Block(before, after, stride, preactivated=False),
            _Block(after, after, 1, preactivated=False),
        ]
        before = after
    return [*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *_head(spec, 512)]


def _roberta(spec: ModelSpec) -> list[nn.Module]:
    return [text.pretrained(spec.classes, spec.dropout)]


def _wide_resnet(spec: ModelSpec) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Conv2d(spec.inputs[0], 16, 3, padding=1, bias=False)]
    before = 16
    for base, stride in ((16, 1), (32, 2), (64, 2)):
        after = base * spec.width
        for k in range((spec.depth - 4) // 6):
            layers.append(_Block(before, after, stride if k == 0 else 1, preactivated=True))
            before = after
    return [
        *layers,
        _norm(before),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        *_head(spec, before),
    ]
