"""Events that functrax and programs record, and functions that listen; as ``jax.monitoring``.

functrax records, under JAX's names:

- ``/jax/core/compile/jaxpr_trace_duration``: a jitted function was traced;
- ``/jax/core/compile/backend_compile_duration``: a program was compiled, or found on disk;
- ``/jax/compilation_cache/compile_requests_use_cache``, ``.../cache_hits``, ``.../cache_misses``:
  a program was looked for on disk, and was there, or was not.

The two durations are also recorded as time spans, and as scalars (their beginning), with the name
of the function as ``fun_name``.

>>> import functrax
>>> seen = []
>>> listener = lambda event, duration, **more: seen.append(event.split("/")[-1])
>>> register_event_duration_secs_listener(listener)
>>> x = functrax.jit(lambda x: x * 3)(1.0)
>>> unregister_event_duration_listener(listener)
>>> seen
['jaxpr_trace_duration', 'backend_compile_duration']
"""

from __future__ import annotations

from functrax.core.events.monitoring import (
    clear_event_listeners as clear_event_listeners,
    record_event as record_event,
    record_event_duration_secs as record_event_duration_secs,
    record_event_time_span as record_event_time_span,
    record_scalar as record_scalar,
    register_event_duration_secs_listener as register_event_duration_secs_listener,
    register_event_listener as register_event_listener,
    register_event_time_span_listener as register_event_time_span_listener,
    register_scalar_listener as register_scalar_listener,
    unregister_event_duration_listener as unregister_event_duration_listener,
    unregister_event_listener as unregister_event_listener,
    unregister_event_time_span_listener as unregister_event_time_span_listener,
    unregister_scalar_listener as unregister_scalar_listener,
)
from functrax.core.lazy import listing as _listing

__dir__ = _listing(globals())
