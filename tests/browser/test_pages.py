"""The site and the pages of explanations and recordings, looked at in a browser.

At the widths of a telephone and of a desktop, light and dark: nothing is wider than the window,
nothing is logged as an error, text can be read, and Tab reaches what can be used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import functrax
import functrax.numpy as jnp
from functrax import lax, profiler

pytestmark = pytest.mark.slow

WIDTHS = (390, 1280)
SITE = (
    "index", "start", "from_jax", "notebooks", "jax_compatibility", "reference/functrax",
    "reference/functrax.numpy",
)  # fmt: skip


def loss(x: Any, w: Any) -> Any:
    centred = x - x.mean(1, keepdims=True)
    y = jnp.tanh(centred / jnp.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) @ w)
    states, _ = lax.scan(lambda c, row: (jnp.tanh(c @ w) + row, c.sum()), y[0], y)
    return (y * states).sum()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of an explanation, and one of a recording."""
    folder = tmp_path_factory.mktemp("pages")
    found = {name: folder / f"{name}.html" for name in ("explanation", "recording")}
    x, w = jnp.ones((64, 64)), jnp.ones((64, 64))
    with functrax.backend("llvm"):
        functrax.explain(functrax.value_and_grad(loss), measure=True)(x, w).save(
            found["explanation"]
        )
        f = functrax.jit(loss)
        with profiler.trace(found["recording"]):
            for _ in range(5):
                f(x, w).block_until_ready()
    return found


@pytest.fixture(params=[(w, s) for w in WIDTHS for s in ("light", "dark")], ids=str)
def window(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A window of one width in light or dark; errors that pages log fail the test."""
    width, scheme = request.param
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.add_init_script(path=Path(__file__).with_name("looking.js"))
    window = context.new_page()
    window.size, window.scheme = width, scheme
    logged: list[str] = []
    window.on("console", lambda m: logged.append(m.text) if m.type == "error" else None)
    window.on("pageerror", lambda error: logged.append(str(error)))
    yield window
    context.close()
    assert logged == []


def seen(window: Any, address: Path, folder: Path, name: str) -> None:
    """Open a page, leave its picture, and test what holds for every page."""
    window.goto(address.as_uri())
    checked(window, folder, name)
    reached = tabbed(window, 40)
    assert len({x["name"] for x in reached if x["tag"] == "a"}) >= 5
    assert [x for x in reached if not (x["shown"] and x["marked"])] == []


def checked(window: Any, folder: Path, name: str) -> None:
    path = folder / f"{name.replace('/', '_')}_{window.size}_{window.scheme}.png"
    window.screenshot(path=path)
    assert window.evaluate("looking.tooWide()") == []
    assert window.evaluate("looking.lowContrast()") == []


def until(window: Any, condition: str) -> None:
    """Wait for a condition; the driver's own way to wait is forbidden by the pages' policy."""
    for _ in range(100):
        if window.evaluate(condition):
            return
        window.wait_for_timeout(50)
    raise AssertionError(f"never: {condition}")


def tabbed(window: Any, steps: int) -> list[dict[str, Any]]:
    """What has the focus after each press of Tab, from the top of the page."""
    found = []
    for _ in range(steps):
        window.keyboard.press("Tab")
        focused = window.evaluate("looking.focused()")
        if focused is None:
            break
        found.append(focused)
    return found


@pytest.mark.parametrize("name", SITE)
def test_the_site(window: Any, site: Path, screenshots: Path, name: str) -> None:
    seen(window, site / f"{name}.html", screenshots, name)


def test_tutorials(window: Any, site: Path, screenshots: Path) -> None:
    for path in sorted(site.glob("tutorials/*.html")):
        seen(window, path, screenshots, f"tutorials_{path.stem}")


@pytest.mark.parametrize("name", ["explanation", "recording"])
def test_pages(window: Any, pages: dict[str, Path], screenshots: Path, name: str) -> None:
    seen(window, pages[name], screenshots, name)
    for kernel in window.query_selector_all("details.kernel")[:2]:
        kernel.query_selector("summary").click()
    window.query_selector("details.kernel[open] details summary").click()
    until(window, "document.querySelector('details.kernel pre').textContent")
    assert "kernel " in window.inner_text("details.kernel[open] pre >> nth=0")
    window.evaluate("document.querySelector('details.kernel').scrollIntoView()")
    checked(window, screenshots, f"{name}_kernels")
    window.evaluate("document.querySelector('#lines').scrollIntoView()")
    checked(window, screenshots, f"{name}_lines")


def test_links_open_kernels(window: Any, pages: dict[str, Path]) -> None:
    window.goto(pages["explanation"].as_uri())
    window.click("#kernels tbody tr:nth-child(3) a >> nth=0")
    assert window.evaluate("document.querySelector('#kernel-2').open")
    assert window.evaluate("document.activeElement.closest('details').id") == "kernel-2"
    line = window.query_selector("#kernel-2 dl a[href^='#line']")
    line.click()
    assert window.evaluate("document.querySelector(':target').className").startswith("line")
    window.focus("#picture a[href='#kernel-1']")
    window.keyboard.press("Enter")
    until(window, "document.querySelector('#kernel-1').open")


def test_search_and_sorting(window: Any, pages: dict[str, Path]) -> None:
    window.goto(pages["explanation"].as_uri())
    window.keyboard.press("/")
    window.keyboard.type("tanh nosuchword")
    assert window.inner_text("#found").startswith("0 of ")
    window.fill("#search", "tanh")
    shown = window.query_selector_all("details.kernel:not(.hidden)")
    everything = window.query_selector_all("details.kernel")
    assert 0 < len(shown) < len(everything)
    assert all("tanh" in x.text_content() for x in shown)
    window.evaluate("location.hash = 'kernel-0'; 0")  # hidden or not, a link shows it
    until(window, "document.querySelector('#kernel-0').open")
    window.fill("#search", "")
    button = window.query_selector("#kernels th button >> text=reads")
    for order, sign in (("descending", -1), ("ascending", 1)):
        button.click()
        heading = "document.querySelector('#kernels th[aria-sort]').getAttribute('aria-sort')"
        assert window.evaluate(heading) == order
        cells = window.evaluate(
            "[...document.querySelectorAll('#kernels tbody tr')].map((r) => r.cells[4].textContent)"
        )
        sizes = [float(x.split()[0]) * (1000 if "k" in x else 1) for x in cells]
        assert sizes == sorted(sizes, key=lambda x: sign * x)


@pytest.mark.parametrize("name", ["explanation", "recording"])
def test_the_time_line_by_keyboard(
    window: Any, pages: dict[str, Path], screenshots: Path, name: str
) -> None:
    window.goto(pages[name].as_uri())
    window.focus("#canvas")
    window.wait_for_selector("#canvas[style]")
    window.keyboard.press("ArrowRight")
    first = window.inner_text("#event")
    window.keyboard.press("ArrowRight")
    second = window.inner_text("#event")
    assert "No event" not in first and first != second
    window.keyboard.press("+")
    checked(window, screenshots, f"{name}_timeline")
    for _ in range(400):  # to the first kernel
        if window.query_selector("#event a"):
            break
        window.keyboard.press("ArrowDown")
        if not window.query_selector("#event a"):
            window.keyboard.press("ArrowRight")
    window.keyboard.press("Enter")
    until(window, "document.querySelector('details.kernel[open]')")
