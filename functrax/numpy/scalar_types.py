"""Scalar types: ``functrax.numpy.float32`` and its like.

Each names a dtype (wherever a dtype is asked for), makes arrays when called, equals NumPy's type
of that name, and is what ``issubdtype`` knows by NumPy's abstract types.

>>> float32(3)
Array(3., dtype=float32)
>>> float32 == np.float32, np.dtype(bfloat16)
(True, dtype(bfloat16))
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrax.core.tracing.primitive import Value
from functrax.core.types import dtypes
from functrax.core.types.dtypes import DType


class ScalarType(type):
    """The type of scalar types; the types themselves have no instances."""

    dtype: DType

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: object) -> bool:
        return cls is other or other is cls.dtype.type or cls.dtype == other

    def __ne__(cls, other: object) -> bool:
        return not cls == other

    def __call__(cls, x: Any) -> Value:
        """An array of this dtype."""
        from functrax.numpy.creation import asarray

        return asarray(x, dtype=cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)

    def __repr__(cls) -> str:
        return f"<class 'functrax.numpy.{cls.__name__}'>"


def scalar_type(dtype: DType) -> ScalarType:
    """The scalar type of a dtype."""
    doc = f"The dtype {dtype.name}; called, it makes an array of that dtype."
    made = ScalarType(dtype.name, (), {"dtype": dtype, "__doc__": doc})
    made.__module__ = "functrax.numpy"
    return made


bool_ = scalar_type(dtypes.bool_)
int8, int16 = scalar_type(dtypes.int8), scalar_type(dtypes.int16)
int32, int64 = scalar_type(dtypes.int32), scalar_type(dtypes.int64)
uint8, uint16 = scalar_type(dtypes.uint8), scalar_type(dtypes.uint16)
uint32, uint64 = scalar_type(dtypes.uint32), scalar_type(dtypes.uint64)
float16, bfloat16 = scalar_type(dtypes.float16), scalar_type(dtypes.bfloat16)
float32, float64 = scalar_type(dtypes.float32), scalar_type(dtypes.float64)
complex64, complex128 = scalar_type(dtypes.complex64), scalar_type(dtypes.complex128)

int_, uint, float_, complex_ = int64, uint64, float64, complex128
single, double, csingle, cdouble = float32, float64, complex64, complex128

generic, number, integer = np.generic, np.number, np.integer
signedinteger, unsignedinteger = np.signedinteger, np.unsignedinteger
inexact, floating, complexfloating = np.inexact, np.floating, np.complexfloating
character, flexible, object_ = np.character, np.flexible, np.object_
dtype = np.dtype
