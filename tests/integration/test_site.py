"""The documentation builds without a warning, is complete, and works from files without a network."""

import ast
import os
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from browser import chromium, console, needs_browser, show
from real_scripts import script

ROOT = Path(__file__).parents[2]
SITE = script("_site")
PAGES = ["index.html", "getting-started.html", "agent.html", "results/index.html", "results/compare.html"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of a site built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Links(HTMLParser):
    """Collects what a page loads, and what it links to."""

    def __init__(self):
        super().__init__()
        self.loaded, self.linked = [], []

    def handle_starttag(self, tag, attrs):
        """Keep the addresses of one tag."""
        found = dict(attrs)
        if tag in ("script", "img", "iframe", "source") and found.get("src"):
            self.loaded.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload") and found.get("href"):
            self.loaded.append(found["href"])
        if tag == "a" and found.get("href"):
            self.linked.append(found["href"])


def links_of(page):
    links = Links()
    links.feed(page.read_text())
    return links


def names_in_inventory(path):
    """Return the names of objects.inv, which other sites link to."""
    content = path.read_bytes()
    body = content.split(b"\n", 4)[4]
    return {line.split(" ")[0] for line in zlib.decompress(body).decode().splitlines()}


def public_names(module):
    """Yield public classes and functions of a module, and public methods of these classes."""
    path = ROOT / module.replace(".", "/")
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    kinds = (ast.ClassDef, ast.FunctionDef)
    for node in ast.parse(source).body:
        if isinstance(node, kinds) and not node.name.startswith("_"):
            yield f"{module}.{node.name}"
            for inner in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(inner, kinds) and not inner.name.startswith("_"):
                    yield f"{module}.{node.name}.{inner.name}"


def test_api_reference_has_every_public_name(site):
    wanted = {
        name
        for package in SITE["PACKAGES"]
        for module in SITE["public_modules"](package)
        for name in (module, *public_names(module))
    }
    assert len(wanted) > 700
    assert wanted - names_in_inventory(site / "objects.inv") == set()


def test_every_page_is_in_the_navigation(site):
    linked = {urlsplit(unquote(link)).path for link in links_of(site / "index.html").linked}
    made = {path.relative_to(site).as_posix() for path in site.rglob("*.html")} - {"404.html", "index.html"}
    assert made - linked == set()


def test_pages_load_nothing_from_elsewhere_and_all_that_they_load_is_there(site):
    pages = [path for path in site.rglob("*.html") if path.name != "404.html"]  # only a server shows that one
    assert len(pages) > 100
    for page in pages:
        for address in links_of(page).loaded:
            parts = urlsplit(unquote(address))
            assert not parts.scheme or parts.scheme == "data", f"{page}: {address}"
            assert parts.scheme or (page.parent / parts.path).exists(), f"{page}: {address}"


def test_links_between_pages_lead_to_files(site):
    for page in site.rglob("*.html"):
        for address in links_of(page).linked if page.name != "404.html" else []:
            parts = urlsplit(unquote(address))
            if not parts.scheme and parts.path:
                assert (page.parent / parts.path).resolve().exists(), f"{page}: {address}"


def test_settings_of_the_agent_page_come_from_the_code(site):
    text = (site / "agent.html").read_text()
    assert "<!-- presets -->" not in text
    assert all(f"<code>{name}</code>" in text for name in ("habnn", "habnn-greedy", "sac-tuned", "noop"))


@pytest.fixture(scope="module")
def driver():
    """Start one browser for the tests of this file."""
    with chromium() as browser:
        yield browser


@needs_browser
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("page", PAGES)
def test_page_fits_its_window_and_shows_its_figures(driver, site, page, width):
    show(driver, (site / page).as_uri(), width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    sizes = driver.execute_script("return [...document.querySelectorAll('.md-content img')].map(i => i.naturalWidth)")
    assert all(size > 100 for size in sizes)
    assert console(driver) == []


@needs_browser
def test_dark_mode_follows_the_system(driver, site):
    colours = []
    for dark in (False, True):
        show(driver, (site / "index.html").as_uri(), dark=dark)
        driver.execute_script("localStorage.clear()")
        driver.refresh()
        colour = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        colours.append(sum(map(int, re.findall(r"\d+", colour)[:3])))
    assert colours[0] > 700
    assert colours[1] < 200


@needs_browser
def test_search_works_from_files(driver, site):
    show(driver, (site / "index.html").as_uri(), 1400)
    box = driver.find_element("css selector", "input.md-search__input")
    box.click()
    box.send_keys("ChanceLimit")
    driver.implicitly_wait(30)
    found = driver.find_elements("css selector", ".md-search-result__link")
    driver.implicitly_wait(0)
    assert any("limits" in link.get_attribute("href") for link in found)
