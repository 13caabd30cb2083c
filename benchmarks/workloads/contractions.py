"""Matrix products, convolutions, and the models made of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.models import dcgan, gpt, losses, recurrent, resnet, wgan_gp
from benchmarks.models.torch_steps import gradients
from benchmarks.workload import Target, Workload, faster, floats, of_peak, of_read

TITLE = "Contractions and models"
Shape = tuple[int, ...]


def matmul(a: Shape, b: Shape, targets: tuple[Target, ...], name: str = "") -> Workload:
    """A product of matrices, of a batch of them, or with a vector."""
    m, k, n = a[-2], a[-1], b[-1] if len(b) > 1 else 1
    batch = a[0] if len(a) > 2 else 1
    elements = batch * (m * k + k * n + m * n)
    return Workload(
        name or f"matmul {m}×{k}×{n}",
        floats(a, b),
        lambda jax: lambda x, y: x @ y,
        targets,
        {
            "torch": lambda torch, staged: staged(torch.matmul),
            "numpy": lambda np: np.matmul,
        },
        bytes=4.0 * elements,
        flops=2.0 * batch * m * k * n,
        read_only=n == 1,
    )


LARGE = (faster(1.0), faster(2.0, "torch"), of_peak(0.93))
PRODUCTS = (
    *(matmul((n, n), (n, n), LARGE, f"matmul {n}³") for n in (1000, 1024, 1536, 2048)),
    matmul((64, 784), (784, 512), (faster(1.5),)),
    matmul((512, 64), (64, 784), (faster(1.5),)),
    matmul((128, 64), (64, 128), (faster(1.5),)),
    *(matmul((n, n), (n, n), (faster(1.5),), f"matmul {n}³") for n in (192, 256)),
    matmul((2048, 2048), (2048,), (of_read(0.9), faster(1.5)), "matrix-vector 2048²"),
    *(
        matmul((512, n, n), (512, n, n), (faster(3),), f"batched matmul 512 × {n}³")
        for n in (16, 64)
    ),
    Workload(
        "gelu MLP 512×384×1536",
        lambda: tuple(
            a * s
            for a, s in zip(
                floats((512, 384), (384, 1536), (1536,), (1536, 384))(), (1, 0.05, 0.05, 0.05)
            )
        ),
        losses.gelu_mlp,
        (faster(1.8),),
        {"torch": losses.torch_gelu_mlp},
        flops=4.0 * 512 * 384 * 1536,
        bytes=4.0 * (2 * 512 * 384 + 2 * 384 * 1536),
    ),
    Workload(
        "causal attention 8×128×6×64",
        floats(*[(8, 128, 6, 64)] * 3),
        losses.attention,
        (faster(2.5),),
        {"torch": losses.torch_attention},
        flops=4.0 * 8 * 6 * 128 * 128 * 64,
        bytes=16.0 * 8 * 128 * 6 * 64,
    ),
)

# ---- convolutions, NCHW -------------------------------------------------------------------------


def convolution(
    name: str,
    image: Shape,
    kernel: Shape,
    targets: tuple[Target, ...],
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
) -> Workload:
    """A convolution padded by half of its (dilated) kernel."""
    size = kernel[-1]
    pad = dilation * (size // 2)
    out = -(-image[2] // stride)
    options = {"stride": stride, "padding": pad, "dilation": dilation, "groups": groups}

    def text(jax: Any) -> Any:
        return lambda x, w: jax.lax.conv_general_dilated(
            x,
            w,
            (stride, stride),
            ((pad, pad), (pad, pad)),
            rhs_dilation=(dilation, dilation),
            feature_group_count=groups,
        )

    def by_torch(torch: Any, staged: Any) -> Any:
        return staged(lambda x, w: torch.nn.functional.conv2d(x, w, **options))

    return Workload(
        name,
        floats(image, kernel, scale=0.3),
        text,
        targets,
        {"torch": by_torch},
        flops=2.0 * image[0] * out**2 * kernel[0] * kernel[1] * size**2,
        bytes=4.0 * image[0] * (image[1] * image[2] ** 2 + kernel[0] * out**2),
    )


def transposed(jax: Any) -> Any:
    """The transpose of a 3×3 convolution of stride 2, as ``conv_transpose`` states it."""
    return lambda x, w: jax.lax.conv_general_dilated(
        x, w, (1, 1), ((1, 2), (1, 2)), lhs_dilation=(2, 2)
    )


def torch_transposed(torch: Any, staged: Any) -> Any:
    """PyTorch's kernel is (in, out, height, width) and flipped; it is laid out before timing."""
    laid_out: list[Any] = []
    convolve = staged(
        lambda x, w: torch.nn.functional.conv_transpose2d(
            x, w, stride=2, padding=1, output_padding=1
        )
    )

    def run(x, w):
        if not laid_out:
            laid_out.append(w.transpose(0, 1).flip(2, 3).contiguous())
        return convolve(x, laid_out[0])

    return run


def conv_norm_relu(jax: Any) -> Any:
    """Gradients of a weighted sum by the image, the kernel, gain and shift."""
    jnp = jax.numpy

    def loss(x, w, gain, shift, weights):
        y = jax.lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)))
        mean = jnp.mean(y, (0, 2, 3), keepdims=True)
        variance = jnp.mean((y - mean) ** 2, (0, 2, 3), keepdims=True)
        y = (y - mean) / jnp.sqrt(variance + 1e-5) * gain[:, None, None] + shift[:, None, None]
        return jnp.sum(jax.nn.relu(y) * weights)

    return jax.grad(loss, argnums=(0, 1, 2, 3))


def torch_conv_norm_relu(torch: Any, staged: Any) -> Any:
    f = torch.nn.functional

    def loss(x, w, gain, shift, weights):
        y = f.conv2d(x, w, padding=1)
        y = f.batch_norm(y, None, None, gain, shift, training=True, eps=1e-5)
        return (f.relu(y) * weights).sum()

    return gradients(torch, staged(loss), 4)


TORCH_TOO = (faster(1.5), faster(0.9, "torch"))
IMAGES = (16, 64, 32, 32)
CONVOLUTIONS = (
    convolution(
        "conv 3×3, 16×64×32×32 → 64",
        IMAGES,
        (64, 64, 3, 3),
        (faster(1.0, "torch"), faster(2.3)),
    ),
    convolution(
        "conv 7×7 stride 2, 4×3×224×224 → 64",
        (4, 3, 224, 224),
        (64, 3, 7, 7),
        (faster(3), faster(1.0, "torch")),
        stride=2,
    ),
    convolution("depthwise conv 3×3, 16×64×32×32", IMAGES, (64, 1, 3, 3), TORCH_TOO, groups=64),
    convolution("conv 1×1, 16×64×32×32 → 64", IMAGES, (64, 64, 1, 1), TORCH_TOO),
    convolution("dilated conv 3×3, 16×64×32×32", IMAGES, (64, 64, 3, 3), TORCH_TOO, dilation=2),
    convolution(
        "grouped conv 3×3, 16×64×32×32, 4 groups", IMAGES, (64, 16, 3, 3), TORCH_TOO, groups=4
    ),
    Workload(
        "transposed conv 3×3 stride 2, 16×32×32×32 → 64",
        floats((16, 32, 32, 32), (64, 32, 3, 3), scale=0.3),
        transposed,
        (faster(6), faster(0.9, "torch")),
        {"torch": torch_transposed},
        flops=2.0 * 16 * 32**2 * 32 * 64 * 9,
        bytes=4.0 * 16 * (32 * 32**2 + 64 * 64**2),
    ),
    Workload(
        "conv + batch norm + ReLU gradients, 8×32×32×32 → 32",
        floats((8, 32, 32, 32), (32, 32, 3, 3), (32,), (32,), (8, 32, 32, 32), scale=0.3),
        conv_norm_relu,
        (faster(2),),
        {"torch": torch_conv_norm_relu},
        flops=3 * 2.0 * 8 * 32**2 * 32 * 32 * 9,
        tolerance=2e-3,
    ),
)

# ---- models -------------------------------------------------------------------------------------

MODELS = (
    Workload(
        "WGAN-GP critic step, batch 64",
        wgan_gp.inputs,
        wgan_gp.step,
        (faster(2.5), faster(5, "torch")),
        {"torch": wgan_gp.torch_step},
        flops=wgan_gp.flops(),
    ),
    *(
        Workload(
            f"{name} iteration, batch 64",
            partial(dcgan.inputs, least_squares),
            partial(dcgan.step, least_squares=least_squares),
            (faster(2, "torch"), faster(2)),
            {"torch": partial(dcgan.torch_step, least_squares=least_squares)},
            tolerance=2e-2,
            noise=1e-8,  # a bias before a batch norm has no gradient but rounding
        )
        for name, least_squares in (("DCGAN", False), ("LSGAN", True))
    ),
    Workload(
        "LSTM by scan, 100 steps, gradients",
        recurrent.lstm_inputs,
        recurrent.lstm_gradients,
        (faster(4),),
        {"torch": recurrent.torch_lstm_gradients},
        flops=3 * 2.0 * 100 * 32 * 8 * 128**2,
        note="batch 32, width 128",
    ),
    Workload(
        "small GPT training step, 4 layers, 192 wide, 4×128",
        gpt.inputs,
        gpt.step,
        (faster(2.5),),
        {"torch": gpt.torch_step},
        flops=gpt.flops(),
        tolerance=5e-3,
    ),
    Workload(
        "small ResNet training step, 32 images of 32×32",
        resnet.inputs,
        resnet.step,
        (faster(2), faster(1.2, "torch")),
        {"torch": resnet.torch_step},
        flops=resnet.flops(),
        tolerance=5e-3,
    ),
    Workload(
        "uniformity loss 1024×128, value and gradient",
        floats((1024, 128)),
        losses.uniformity,
        (faster(1.5),),
        {"torch": losses.torch_uniformity},
        flops=3 * 2.0 * 1024 * 1024 * 128,
    ),
)

ROWS = (*PRODUCTS, *CONVOLUTIONS, *MODELS)
