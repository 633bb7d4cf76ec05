"""Look at the documentation site in a real browser: Chromium, headless, by Selenium.

python tools/browse.py [FOLDER]     # by default build/site/html; needs chromium and chromedriver on the path

Every page is loaded: no errors on its console, no dead link inside of the site, every picture shown. The search for `softmax`
finds the function first and `legacy` last. Ends with another status than 0 where anything is wrong.
"""

from __future__ import annotations

import functools
import http.server
import shutil
import sys
import threading
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urldefrag
from urllib.request import urlopen

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).resolve().parent.parent

LOOK = """
return {
    links: [...document.querySelectorAll("a[href]")].map(a => a.href),
    ids: [...document.querySelectorAll("[id]")].map(e => e.id),
    broken: [...document.images].filter(i => !(i.complete && i.naturalWidth)).map(i => i.src),
    title: document.title,
}
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """What the server says of each request is of no interest here."""


def browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for flag in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
    ):
        options.add_argument("--" + flag)
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def walk(driver: webdriver.Chrome, home: str) -> list[str]:
    """Load every page that a link leads to, from the first on; what was wrong."""
    wrong: list[str] = []
    seen: dict[str, set[str]] = {}
    pending: list[tuple[str, str]] = [(home + "index.html", "the start")]
    fragments: list[tuple[str, str, str]] = []
    while pending:
        page, origin = pending.pop()
        if page in seen:
            continue
        if not page.endswith((".html", "/")):  # a picture, or a file
            seen[page] = set()
            try:
                urlopen(page).close()
            except HTTPError as error:
                wrong.append(f"{page}: {error}, and {origin} links to it")
            continue
        driver.get(page)
        page_state = driver.execute_script(LOOK)
        seen[page] = set(page_state["ids"])
        if page_state["title"].startswith("Error response"):
            wrong.append(f"{page}: dead, and {origin} links to it")
        wrong += [f"{page}: picture {source} does not show" for source in page_state["broken"]]
        wrong += [
            f"{page}: {entry['message']}" for entry in driver.get_log("browser") if entry["level"] == "SEVERE"
        ]
        for link in page_state["links"]:
            target, fragment = urldefrag(link)
            if target.startswith(home):
                pending.append((target, page))
                if fragment:
                    fragments.append((target, fragment, page))
    for target, fragment, page in fragments:
        if fragment not in seen.get(target, {fragment}):
            wrong.append(f"{page}: no place #{fragment} in {target}")
    print(f"{len(seen)} pages")
    return wrong


def search(driver: webdriver.Chrome, home: str, word: str) -> list[str]:
    """The addresses that the site's search finds for a word."""
    driver.get(f"{home}search.html?q={word}")
    WebDriverWait(driver, 60).until(
        lambda d: "finished" in d.find_element(By.CSS_SELECTOR, ".search-summary").text
    )
    return [
        a.get_attribute("href") or "" for a in driver.find_elements(By.CSS_SELECTOR, "#search-results li > a")
    ]


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else ROOT / "build" / "site" / "html"
    server = http.server.ThreadingHTTPServer(
        ("localhost", 0), functools.partial(Quiet, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://localhost:{server.server_port}/"
    driver = browser()
    try:
        wrong = walk(driver, home)
        hits = search(driver, home, "softmax")
        if not hits or not hits[0].endswith(".softmax"):
            wrong.append(f"the search finds softmax not first, but {hits[:5]}")
        old = ["/legacy." in address for address in hits]
        if old != sorted(old) or not any(old):
            wrong.append("the search for softmax finds `legacy` not last")
    finally:
        driver.quit()
        server.shutdown()
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
