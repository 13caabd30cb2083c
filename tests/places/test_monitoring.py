"""Events and their listeners."""

import numpy as np
import pytest

import functrax
from functrax import monitoring
from functrax.core.events.monitoring import COMPILE, TRACE


@pytest.fixture(autouse=True)
def nobody_listens_afterwards():
    yield
    monitoring.clear_event_listeners()


def test_listeners_get_what_is_recorded():
    seen = []

    def listener(*values, **more):
        seen.append((values, more))

    monitoring.register_event_listener(listener)
    monitoring.register_event_duration_secs_listener(listener)
    monitoring.register_event_time_span_listener(listener)
    monitoring.register_scalar_listener(listener)
    monitoring.record_event("/a", kind="x")
    monitoring.record_event_duration_secs("/b", 1.5)
    monitoring.record_event_time_span("/c", 1.0, 2.0)
    monitoring.record_scalar("/d", 3, n=4)
    want = [
        (("/a",), {"kind": "x"}),
        (("/b", 1.5), {}),
        (("/c", 1.0, 2.0), {}),
        (("/d", 3), {"n": 4}),
    ]
    assert seen == want
    monitoring.unregister_event_listener(listener)
    monitoring.unregister_event_duration_listener(listener)
    monitoring.unregister_event_time_span_listener(listener)
    monitoring.unregister_scalar_listener(listener)
    monitoring.record_event("/a")
    monitoring.record_scalar("/d", 3)
    assert seen == want
    monitoring.register_event_listener(listener)
    monitoring.clear_event_listeners()
    monitoring.record_event("/a")
    assert seen == want


def test_wrong_listeners_are_refused():
    with pytest.raises(AssertionError, match="no such listener"):
        monitoring.unregister_scalar_listener(print)
    with pytest.raises(TypeError, match="cannot be called"):
        monitoring.register_event_listener(3)


def test_tracing_and_compiling_are_recorded():
    durations, spans, scalars = [], [], []
    monitoring.register_event_duration_secs_listener(lambda *v, **m: durations.append((v, m)))
    monitoring.register_event_time_span_listener(lambda *v, **m: spans.append((v, m)))
    monitoring.register_scalar_listener(lambda *v, **m: scalars.append((v, m)))

    @functrax.jit
    def tripled(x):
        return x * 3 + 0.25

    tripled(np.ones(3))
    assert [v[0] for v, _ in durations] == [TRACE, COMPILE]
    assert all(m == {"fun_name": "tripled"} and v[1] >= 0 for v, m in durations)
    assert [v[0] for v, _ in spans] == [v[0] for v, _ in scalars] == [TRACE, COMPILE]
    assert all(end >= begin for (_, begin, end), _ in spans)
    tripled(np.ones(3))
    assert len(durations) == 2
    tripled.lower(np.ones(4)).compile()
    assert [v[0] for v, _ in durations] == [TRACE, COMPILE] * 2


def test_the_cache_on_disk_is_recorded(tmp_path, monkeypatch):
    """The options are put back: the caches of the other tests are theirs."""
    monkeypatch.setattr(functrax.config.state, "compilation_cache_dir", str(tmp_path))
    monkeypatch.setattr(functrax.config.state, "cache_programs", True)
    events = []
    monitoring.register_event_listener(lambda event, **more: events.append(event.split("/")[-1]))
    for _ in range(2):
        functrax.jit(lambda x: x * 5 + 0.125)(np.ones(3))
    asked = "compile_requests_use_cache"
    assert events == [asked, "cache_misses", asked, "cache_hits"]
