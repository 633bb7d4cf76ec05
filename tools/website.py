"""Build the documentation site (`make docs`): pages of docs/site and docs, the reference from the registry, in HTML.

python tools/website.py [FOLDER]      # by default build/site; the pages are in FOLDER/html
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import links
import long_pages
import reference

LONGEST = 150_000  # bytes of a page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

# Pages that stand elsewhere in the repository, by their name on the site.
TAKEN = {
    "architecture": ROOT / "ARCHITECTURE.md",
    **{page: DOCS / "dev" / f"{page}.md" for page in ("packages", "internals", "decisions")},
    "contributing": ROOT / "CONTRIBUTING.md",
    "changes": ROOT / "CHANGELOG.md",
    "benchmarks": ROOT / "benchmarks" / "RESULTS.md",
    **{
        page: DOCS / f"{page}.md"
        for page in (
            "coverage",
            "parity",
            "operations",
            "meta",
            "accuracy",
            "computing",
            "devices",
            "ulp",
            "clients",
            "extending",
            "gallery",
            "graphs",
            "formats",
            "keeping",
            "quantisation",
            "export",
            "native",
        )
    },
}


def write(source: Path) -> None:
    """All pages, in Markdown, in one folder."""
    shutil.copytree(DOCS / "site", source)
    for page, path in TAKEN.items():
        for name, text in long_pages.cut(page, on_the_site(path.read_text())).items():
            (source / f"{name}.md").write_text(text)
    shutil.copytree(DOCS / "gallery", source / "gallery")
    for program in (ROOT / "examples").glob("*/main.py"):  # the gallery links to them
        (source / "examples" / program.parent.name).mkdir(parents=True)
        shutil.copy(program, source / "examples" / program.parent.name)
    folder = source / "reference"
    folder.mkdir()
    for page, leaf in reference.pages().items():
        (folder / f"{page}.md").write_text(reference.page_text(leaf))
    for page, text in reference.index().items():
        (folder / f"{page}.md").write_text(text)


def brought() -> frozenset[str]:
    """The pages of the site that do not stand in docs/site."""
    names = {f"{page}.md" for page in TAKEN}
    return frozenset(names | {f"reference/{page}.md" for page in (*reference.pages(), *reference.index())})


def on_the_site(text: str) -> str:
    """A page of the repository, whose links to pages that the site has lead there."""
    for page, path in TAKEN.items():
        text = re.sub(
            rf"\]\((?:\.\./)*(?:docs/(?:dev/)?|benchmarks/)?{re.escape(path.name)}(#[^)]*)?\)",
            rf"]({page}.md\1)",
            text,
        )
    return text.replace("](../examples/", "](examples/")


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else ROOT / "build" / "site"
    shutil.rmtree(folder, ignore_errors=True)
    write(folder / "source")
    # -P: the installed package, not the sources in the working folder.
    build = [sys.executable, "-P", "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "2", "-b", "html"]
    status = subprocess.run([*build, str(folder / "source"), str(folder / "html")]).returncode
    if status:
        return status
    wrong = links.in_html(folder / "html")
    pages = {p: p.stat().st_size for p in (folder / "html").rglob("*.html") if "_static" not in p.parts}
    wrong += [f"{p.relative_to(folder)}: {size // 1000} KB" for p, size in pages.items() if size > LONGEST]
    names = [name for leaf in reference.pages().values() for name in leaf.names]
    print(*wrong, sep="\n")
    print(
        f"{len(pages)} pages, the largest {max(pages.values()) // 1000} KB; {reference.count(names)} entries of "
        f"{len(names)} things and their members; {len(wrong)} broken links and long pages"
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
