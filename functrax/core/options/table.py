"""The table of all options: what there is to set, which values it takes, and how text is read.

Who has set an option, and to what, is the business of :mod:`functrax.core.options.config`.

Start at ``OPTIONS``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Hashable
from typing import Any, Final, Literal

from functrax.core.errors.typed import ArgumentError
from functrax.core.options import jax_options, option_text
from functrax.core.records import record


@record
class Option:
    """One option.

    Args:
      name: its name, without the ``jax_`` that users may put in front.
      kind: what its values are; of kind ``choice`` are the strings in ``choices``, ``path`` takes
        strings and path objects, ``any`` anything that can be hashed, ``text`` what ``form`` reads.
      default: its value where nobody sets it; None there means that None may be set.
      doc: what it does.
      traced: whether it changes what a traced program means.
      compiled: whether it changes what the compiler makes of a program.
      form: for the kind ``text``, raises an ArgumentError if a text is not of the right form.
      short: a shorter name for the environment.
      inert: for an option of JAX that changes nothing here, why.
      sets_backend: whether setting it for the process sets ``backend``, as ``BACKENDS`` says; the
        interpreter stays where the value is that of the CPU.
    """

    name: str
    kind: Literal["switch", "choice", "path", "any", "text", "integer"]
    default: Any
    doc: str
    choices: tuple[str, ...] = ()
    traced: bool = False
    compiled: bool = False
    form: Callable[[str], object] | None = None
    short: str = ""
    inert: str = ""
    sets_backend: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that sets it: ``FUNCTRAX_ENABLE_X64``."""
        return "FUNCTRAX_" + (self.short or self.name).upper()

    def allowed(self) -> str:
        """The values that it takes, in words."""
        words = {
            "switch": "True or False",
            "choice": ", ".join(map(repr, self.choices)),
            "path": "a path",
            "any": "anything that can be hashed",
            "text": "a text",
            "integer": "an integer",
        }[self.kind]
        return words + (", or None" if self.default is None and self.kind != "any" else "")

    def check(self, value: Any) -> Any:
        """``value`` as it is kept.

        Raises:
          ArgumentError: if the option does not take it.
        """
        if value is None and self.default is None:
            return None
        if self.kind == "switch" and (value is True or value is False):
            return value
        if self.kind == "choice" and isinstance(value, str) and value in self.choices:
            return value
        if self.kind == "path" and isinstance(value, (str, os.PathLike)):
            return os.fspath(value)
        if self.kind == "any" and isinstance(value, Hashable):
            self._warn_if_inert(value)
            return value
        if self.kind == "integer" and isinstance(value, int) and not isinstance(value, bool):
            return value
        if self.kind == "text" and isinstance(value, str) and self.form is not None:
            self.form(value)
            return value
        raise ArgumentError(
            f"config: {self.name} does not take this value", got=repr(value), fix=self.allowed()
        )

    def _warn_if_inert(self, value: Any) -> None:
        if self.inert and value != self.default and self.name not in _told:
            _told.add(self.name)
            warnings.warn(
                f"config: jax_{self.name} is an option of JAX that changes nothing here: "
                f"{self.inert}",
                UserWarning,
                stacklevel=4,
            )

    def read(self, text: str) -> Any:
        """The value that the environment variable's ``text`` stands for.

        Raises:
          ArgumentError: if it stands for none.
        """
        word = text.strip().lower()
        if word in ("", "none") and self.default is None:
            return None
        if self.kind == "switch":
            if word not in _SWITCH_WORDS:
                raise ArgumentError(
                    f"config: the environment variable {self.variable} is on or off",
                    got=repr(text),
                    fix="1 or 0",
                )
            return _SWITCH_WORDS[word]
        if self.kind == "integer" and word.removeprefix("-").isdecimal():
            return int(word)
        return self.check(text.strip())


_told: Final[set[str]] = set()  # options of whose lack of effect there was a warning
_SWITCH_WORDS: Final[dict[str, bool]] = {
    **dict.fromkeys(("1", "true", "on", "yes", "y", "t"), True),
    **dict.fromkeys(("", "0", "false", "off", "no", "n", "f"), False),
}

#: By the names that JAX has for platforms, the values of the option ``backend``.
BACKENDS: Final = {"cpu": "llvm", "gpu": "cuda", "cuda": "cuda"}
_TRANSFERS: Final = ("", "_host_to_device", "_device_to_device", "_device_to_host")


def _platform(name: str) -> Option:
    """A name of JAX's for the platform."""
    doc = "The platform that programs run on; setting it sets backend."
    choices = ("", *BACKENDS)
    return Option(name, "choice", "", doc, choices=choices, sets_backend=True)


def _transfers(suffix: str) -> Option:
    """Whether transfers may happen that the program does not name; there are none."""
    return Option(
        f"transfer_guard{suffix}",
        "choice",
        None,
        "What happens at transfers between host and device; a CPU has none.",
        choices=("allow", "log", "disallow", "log_explicit", "disallow_explicit"),
    )


OPTIONS: Final[dict[str, Option]] = {
    option.name: option
    for option in (
        Option("enable_x64", "switch", False, "Allow arrays of 64-bit dtypes.", traced=True),
        Option(
            "threefry_partitionable",
            "switch",
            True,
            "Make each random number from its place alone; off, halves of a sample are made "
            "together, as JAX did before 0.5: other numbers.",
            traced=True,
        ),
        Option(
            "high_dynamic_range_gumbel",
            "switch",
            False,
            "Have random.gumbel and random.categorical take twice the bits where no mode is given.",
            traced=True,
        ),
        Option(
            "random_seed_offset",
            "integer",
            0,
            "What is added to the seed of every random key.",
            traced=True,
        ),
        Option(
            "enable_custom_prng",
            "switch",
            False,
            "Have random.PRNGKey make typed keys, as random.key does.",
            traced=True,
        ),
        Option(
            "legacy_prng_key",
            "choice",
            "allow",
            "What happens when an array of uint32 is used as a random key.",
            choices=("allow", "warn", "error"),
            traced=True,
        ),
        *[_platform(name) for name in ("platform_name", "platforms", "xla_backend")],
        Option("debug_nans", "switch", False, "Raise when a result holds a NaN.", traced=True),
        Option(
            "debug_infs", "switch", False, "Raise when a result holds an infinity.", traced=True
        ),
        Option("disable_jit", "switch", False, "Run jitted functions operation by operation."),
        Option(
            "default_matmul_precision",
            "choice",
            None,
            "Precision of products of 32-bit floats where the call names none.",
            choices=(
                *("default", "high", "highest", "bfloat16", "tensorfloat32", "float32"),
                *("F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32"),
                *("BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9"),
                *("TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32"),
            ),
            traced=True,
        ),
        Option(
            "numpy_dtype_promotion",
            "choice",
            "standard",
            "Whether operands of different dtypes are promoted, or refused.",
            choices=("standard", "strict"),
            traced=True,
        ),
        Option(
            "numpy_rank_promotion",
            "choice",
            "allow",
            "What happens when operands of different ranks are broadcast together.",
            choices=("allow", "warn", "raise"),
            traced=True,
        ),
        Option(
            "check_static_indices",
            "switch",
            False,
            "Raise where x[i] reads outside of an axis and i is known, instead of the nearest "
            "element.",
            traced=True,
        ),
        Option(
            "check_tracer_leaks",
            "switch",
            False,
            "Raise when a traced value outlives the function being traced.",
        ),
        Option(
            "traceback_filtering",
            "choice",
            "auto",
            "Whether tracebacks of mistakes leave functrax's own frames out: full or off does not; "
            "tracebackhide marks them for pytest and IPython; remove_frames keeps them in the "
            "error's cause; quiet_remove_frames, and auto, add a note.",
            choices=(
                *("auto", "off", "full", "tracebackhide", "remove_frames"),
                "quiet_remove_frames",
            ),
            short="traceback",
        ),
        Option("log_compiles", "switch", False, "Log every compilation of a jitted function."),
        Option(
            "explain_cache_misses",
            "switch",
            False,
            "Log why jitted functions are traced: what differs from earlier calls.",
        ),
        Option("default_device", "any", None, "Where arrays are made and functions run."),
        Option(
            "eager_constant_folding",
            "switch",
            False,
            "While a function is traced, compute at once what depends on known arrays alone.",
        ),
        Option("no_tracing", "switch", False, "Refuse to trace jitted functions."),
        Option("no_execution", "switch", False, "Refuse to run operations and programs."),
        *[_transfers(suffix) for suffix in _TRANSFERS],
        Option(
            "mesh_context",
            "any",
            None,
            "The mesh that code is for, which functrax.set_mesh sets.",
            traced=True,
        ),
        Option(
            "user_contexts",
            "any",
            (),
            "The values of contexts that functrax.make_user_context makes.",
            traced=True,
        ),
        Option(
            "default_prng_impl",
            "choice",
            "threefry2x32",
            "The random number generator behind new keys.",
            choices=("threefry2x32", "rbg", "unsafe_rbg"),
            traced=True,
        ),
        Option(
            "strict",
            "switch",
            False,
            "Round every operation, so that results do not depend on what shares a kernel.",
            traced=True,
            compiled=True,
        ),
        Option(
            "strict_tiles",
            "switch",
            False,
            "In strict mode, compute sums of products by tiles, in an order of their own.",
            compiled=True,
        ),
        Option(
            "schedule_off",
            "text",
            "",
            "Kinds of rewrites that schedules of kernels leave out, joined by commas.",
            form=option_text.words,
            compiled=True,
        ),
        Option(
            "autotune",
            "choice",
            "off",
            "Whether plans of large contractions are measured, once on each kind of processor.",
            choices=("off", "on"),
            compiled=True,
        ),
        Option(
            "backend",
            "choice",
            "auto",
            "What runs programs: machine code made by LLVM, interpreted NumPy, or a GPU; "
            "by default a GPU where there is one, else machine code.",
            choices=("auto", "llvm", "interp", "cuda"),
        ),
        Option(
            "eager",
            "choice",
            "lazy",
            "When operations outside of jit run: when a value is needed, or at once.",
            choices=("lazy", "immediate"),
        ),
        Option(
            "async_dispatch",
            "switch",
            False,
            "Let large programs run while Python goes on, until their results are looked at.",
        ),
        Option(
            "device_timeout",
            "integer",
            0,
            "The most seconds to wait for a GPU; 0 waits for as long as it takes.",
        ),
        Option(
            "cuda_graphs",
            "switch",
            True,
            "Ask a GPU for the launches of a program as CUDA graphs, from its second run on.",
            compiled=True,
        ),
        Option(
            "cuda_conditional_nodes",
            "choice",
            "simulated",
            "Whether a GPU decides loops and branches by itself, in such graphs; by default a "
            "simulated one alone, as no other has run it yet.",
            choices=("off", "simulated", "on"),
            compiled=True,
        ),
        Option(
            "cuda_libraries",
            "choice",
            "simulated",
            "Whether cuFFT, cuSOLVER and cuBLAS compute what has no kernel on a GPU, where they "
            "are; by default on a simulated one alone, as no other has run it yet.",
            choices=("off", "simulated", "on"),
            compiled=True,
        ),
        Option("cache", "switch", True, "Keep compiled kernels on disk for the next process."),
        Option("cache_programs", "switch", True, "Keep whole programs there, not only kernels."),
        Option("plans", "switch", True, "Make programs of new sizes from those of earlier ones."),
        Option(
            "compilation_cache_dir",
            "path",
            None,
            "Where compiled kernels are kept on disk; None is the platform's directory for caches.",
            short="cache_dir",
        ),
        Option(
            "cache_limit",
            "text",
            "512MB",
            "How much disk compiled kernels may take; those not used for longest go first.",
            form=option_text.byte_count,
        ),
        Option(
            "memory_budget",
            "text",
            "",
            "How many bytes temporaries of a program may take, such as 512MB; empty: any number.",
            form=option_text.budget,
            compiled=True,
        ),
        Option(
            "compile_threads",
            "switch",
            True,
            "Compile the kernels of a program in several threads.",
        ),
        Option("opt", "switch", True, "Run the compiler's optional passes.", compiled=True),
        Option("check", "switch", False, "Verify the program after each of the compiler's passes."),
        Option(
            "opt_limit",
            "text",
            "",
            "Stop passes after so many rewrites: pass=n, several joined by colons.",
            compiled=True,
            form=option_text.limits,
        ),
        Option(
            "log",
            "text",
            "",
            "Passes to print, joined by colons: the program after one that changed it; with > "
            "in front also a line for each rewrite, with >> also what was not rewritten.",
            form=option_text.levels,
        ),
        Option(
            "dump",
            "text",
            "",
            "Stages to print, joined by commas: " + ", ".join(option_text.STAGES) + ".",
            form=option_text.stages,
        ),
        Option("dump_dir", "path", None, "Where dumps are written as files, not to stderr."),
        *[
            Option(name, "any", default, f"An option of JAX without effect: {why}.", inert=why)
            for why, options in jax_options.INERT.items()
            for name, default in options.items()
        ],
        *[
            Option(name, "any", default, "An option of JAX; both its values mean the same here.")
            for name, default in jax_options.SILENT.items()
        ],
    )
}
