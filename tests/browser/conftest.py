from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import build_network

import ptq

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
NETWORK = """
c1 = Conv<pads = [1, 1, 1, 1]>(x, w1)
r1 = Relu(c1)
c2 = Conv<pads = [1, 1, 1, 1]>(r1, w2)
s = Add(c2, r1)
c3 = Conv<pads = [1, 1, 1, 1]>(s, w4)
r3 = Relu(c3)
c4 = Conv<pads = [1, 1, 1, 1]>(r3, w5)
e = Erf(c4)
g = GlobalAveragePool(e)
f = Flatten(g)
y = MatMul(f, w3)
"""
EVIL = "</script><img src=x onerror=document.title='broken'>\"'&"

Open = Callable[..., Any]


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small network with one name that tries to break out of it."""
    rng = np.random.default_rng(3)
    shapes = {"w1": (6, 3, 3, 3), "w2": (6, 6, 3, 3), "w3": (6, 4)}
    shapes |= {"w4": (6, 6, 3, 3), "w5": (6, 6, 3, 3)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    model = build_network(NETWORK, {"x": ("N", 3, 16, 16)}, ["y"], **weights)
    for node in model.graph.node:
        node.name = f"{node.op_type}_{node.output[0]}"
    model.graph.node[3].name = EVIL
    images = rng.normal(size=(40, 3, 16, 16)).astype(np.float32)
    data = {"x": images, "labels": rng.integers(0, 4, 40)}
    folder = tmp_path_factory.mktemp("page")
    np.savez(folder / "data.npz", **data)
    result = ptq.quantize(model, folder / "data.npz", effort="fast", threads=1)
    path = folder / "page.html"
    path.write_text(result.to_html([("command", "ptq quantize model.onnx")]), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is an extra: browser")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("Chromium and its driver are not installed: chromium, chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(executable_path=driver)
        opened = webdriver.Chrome(options=options, service=service)
        yield opened
        opened.quit()


@pytest.fixture
def open_page(browser: Any, page: Path) -> Open:
    """Open the page at a node, on a screen of some width, in light or dark colours or for print."""

    def call(node: str = "", *, width: int = 1280, scheme: str = "light", media: str = "") -> Any:
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": media, "features": features}
        )
        browser.get("about:blank")
        browser.get(f"{page.as_uri()}{node}")
        return browser

    return call
