"""XLA's opcodes of elementwise operations.

Primitives and scalar operations (``core/scalars/scalar.py``) that mean the same have one name, so
one table serves both.
"""

from __future__ import annotations

from typing import Final

OPCODES: Final[dict[str, str]] = {
    "neg": "negate", "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide",
    "rem": "remainder", "max": "maximum", "min": "minimum", "clamp": "clamp", "abs": "abs",
    "sign": "sign", "floor": "floor", "ceil": "ceil", "round_even": "round-nearest-even",
    "is_finite": "is-finite", "sqrt": "sqrt", "rsqrt": "rsqrt", "cbrt": "cbrt", "pow": "power",
    "exp": "exponential", "expm1": "exponential-minus-one", "log": "log", "log1p": "log-plus-one",
    "logistic": "logistic", "sin": "sine", "cos": "cosine", "tan": "tan", "tanh": "tanh",
    "atan2": "atan2", "erf": "erf", "real": "real", "imag": "imag", "complex": "complex",
    "copy": "copy", "and": "and", "or": "or", "xor": "xor", "not": "not",
    "shift_left": "shift-left", "shl": "shift-left",
    "shift_right_logical": "shift-right-logical",
    "shift_right_arithmetic": "shift-right-arithmetic",
    "population_count": "popcnt", "popcount": "popcnt", "clz": "count-leading-zeros",
}  # fmt: skip
