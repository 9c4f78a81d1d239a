"""A headless Chromium for tests of pages; tests that need it are skipped where it is not installed."""

import shutil
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None or find_spec("selenium") is None,
    reason="no Chromium here (apt-get install chromium chromium-driver)",
)


@contextmanager
def chromium(downloads=None):
    """Start a browser that reaches nothing but this machine."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    names = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument(f"--host-resolver-rules={names}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if downloads is not None:
        options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(60)
    try:
        yield driver
    finally:
        driver.quit()


def show(driver, address, width=1200, dark=False):
    """Open a page in a window `width` pixels wide."""
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    driver.get(address)


def console(driver):
    """Return what the page wrote to the console since the last call."""
    return [entry["message"] for entry in driver.get_log("browser")]
