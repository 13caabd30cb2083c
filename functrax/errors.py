"""The errors that functrax raises; each says what, got, where, and what to try.

JAX's names for them are below, so that an ``except`` clause written for JAX catches the same.
"""

from __future__ import annotations

from functrax.core.errors.typed import (
    ArgumentError as ArgumentError,
    AxisError as AxisError,
    AxisNameError as AxisNameError,
    BroadcastAxisError as BroadcastAxisError,
    CallbackResultError as CallbackResultError,
    CompilerError as CompilerError,
    ConcretizationError as ConcretizationError,
    DeviceError as DeviceError,
    DifferentiationError as DifferentiationError,
    DonatedBufferError as DonatedBufferError,
    DTypeError as DTypeError,
    FileFormatError as FileFormatError,
    ForeignCallError as ForeignCallError,
    FormatError as FormatError,
    FunctraxError as FunctraxError,
    GuardError as GuardError,
    HandleError as HandleError,
    ImmutableError as ImmutableError,
    IndexingError as IndexingError,
    InterruptedProgramError as InterruptedProgramError,
    LeakedTracerError as LeakedTracerError,
    ListenerError as ListenerError,
    MachineCodeError as MachineCodeError,
    MiscompilationError as MiscompilationError,
    MissingRuleError as MissingRuleError,
    NonConcreteBooleanIndexError as NonConcreteBooleanIndexError,
    NonFiniteError as NonFiniteError,
    OutOfDeviceMemory as OutOfDeviceMemory,
    ParseError as ParseError,
    PyTreeError as PyTreeError,
    ReferenceUseError as ReferenceUseError,
    ShapeError as ShapeError,
    ShardingError as ShardingError,
    SizeError as SizeError,
    StaticArgumentError as StaticArgumentError,
    TangentError as TangentError,
    TracerArrayConversionError as TracerArrayConversionError,
    TracerBoolConversionError as TracerBoolConversionError,
    TracerIntegerConversionError as TracerIntegerConversionError,
    UnavailableError as UnavailableError,
    UnknownNameError as UnknownNameError,
    VerificationError as VerificationError,
    VmapMethodError as VmapMethodError,
)
from functrax.core.native import MissingExtensionWarning as MissingExtensionWarning

JAXTypeError = FunctraxError
JAXIndexError = IndexingError
ConcretizationTypeError = ConcretizationError
UnexpectedTracerError = LeakedTracerError
JaxprTypeError = VerificationError
InconclusiveDimensionOperation = SizeError
JaxRuntimeError = RuntimeError  # what goes wrong while a program runs is one


class KeyReuseError(FunctraxError, TypeError):
    """A random key was used twice; functrax does not look for that, and never raises this."""
