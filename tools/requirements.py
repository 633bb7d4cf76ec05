"""Print what the library and some of its extras require, a line each, for `pip install -r`.

python tools/requirements.py [EXTRA]...     # `build`: what building it requires
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def main(*extras: str) -> None:
    """Print the requirements; KeyError for an extra that pyproject.toml does not have."""
    read = tomllib.loads(Path(__file__).parent.parent.joinpath("pyproject.toml").read_text())
    if extras == ("build",):
        print("\n".join(read["build-system"]["requires"]))
        return
    project = read["project"]
    needed = list(project["dependencies"])
    for extra in extras:
        for requirement in project["optional-dependencies"][extra]:
            own = re.fullmatch(rf"{project['name']}\[(\w+)\]", requirement)
            needed += project["optional-dependencies"][own[1]] if own else [requirement]
    print("\n".join(dict.fromkeys(needed)))


if __name__ == "__main__":
    main(*sys.argv[1:])
