"""Build the compiled modules and link them beside their sources, so that this checkout can be imported and edited.

python tools/develop.py [BUILD]     # BUILD: the build folder, by default build/cp<version>
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Set up the build folder where it is new, build, and link what is installed elsewhere."""
    default = ROOT / "build" / f"cp{sys.version_info.major}{sys.version_info.minor}"
    build = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else default
    if not (build / "build.ninja").exists():
        subprocess.run(
            ["meson", "setup", str(build), "-Dbuildtype=release", "-Db_ndebug=if-release"],
            cwd=ROOT,
            check=True,
        )
    subprocess.run(["ninja", "-C", str(build)], check=True)
    info = subprocess.run(["meson", "introspect", "--installed", str(build)], capture_output=True, check=True)
    current = {}
    for built, installed in json.loads(info.stdout).items():
        if built.endswith(".so"):
            current[ROOT / "flambeau" / installed.rpartition("/flambeau/")[2]] = Path(built)
    for old in (ROOT / "flambeau").rglob("*.so"):
        if old not in current:
            old.unlink()
    for place, built in current.items():
        place.unlink(missing_ok=True)
        place.symlink_to(os.path.relpath(built, place.parent))  # so that a copy of the checkout finds its own


if __name__ == "__main__":
    main()
