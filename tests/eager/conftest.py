"""What the tests of eager mode share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from functrax.backends import eager
from functrax.core import native


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--places",
        default="",
        help="run each test with recorded operations cut at these places: every=3 seed=7,collect",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    places = metafunc.config.getoption("--places").split()
    if places and "usual_cuts" not in metafunc.fixturenames:
        metafunc.fixturenames.insert(0, "place")
        metafunc.parametrize("place", places, indirect=True, scope="session")


def leave_out_of_collections() -> None:
    """What is there costs no later search for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def small_collections() -> None:
    """For tests that collect garbage often, which takes as long as objects are many."""
    leave_out_of_collections()


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> Iterator[None]:
    """Cuts at one of the ``--places`` (docs/eager.md), also in the processes that tests start."""
    leave_out_of_collections()  # also what the places before have left
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUNCTRAX_EAGER_STRESS", request.param)
        with eager.stress(request.param):
            yield


@pytest.fixture
def usual_cuts() -> Iterator[None]:
    """For tests of where recorded operations are cut: as for users, also in the stress mode."""
    if native.extension is None:
        pytest.skip("nothing is recorded without the extension")
    with eager.stress(""):
        yield
