"""Translate all `.pyx` to C, in as many processes as there are CPUs; the build calls it.

python tools/cythonize.py OUTPUT DEPFILE SHARED SOURCE...

A process translates many modules, so that Cython is loaded and warmed once: a third of the time of one process a module.  What is
older than its sources is translated again, and a file of C is written only where it changes, so that the compiler sees no more than
that.  SHARED is the dotted name of the module that holds what all modules need of Cython's own C; its C is `shared.c`.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIRECTIVES = {
    "freethreading_compatible": False,
    "allow_none_for_extension_args": False,  # None has no fields to read
}


def main(output: str, depfile: str, shared: str, *given: str) -> None:
    """Bring all C files up to date, and write which files they depend on."""
    build, folder, rule = Path.cwd(), Path(output).resolve(), Path(depfile).resolve()
    sources = [str(Path(source).resolve().relative_to(ROOT)) for source in given]
    os.chdir(ROOT)
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "cythonized.json"
    try:
        known = json.loads(record.read_text())
    except (OSError, ValueError):
        known = {}
    recipe = _recipe(shared)
    stale = [s for s in sources if not _is_current(known.get(s), recipe, _c_file(folder, s))]
    if not (folder / "shared.c").exists() or known.get("recipe") != recipe:
        _write_shared(folder / "shared.c", shared)
    stale.sort(key=lambda s: -os.path.getsize(s))  # the longest first
    for source, dependencies in _translated(stale, folder, shared):
        known[source] = {"key": _key(recipe, dependencies), "dependencies": dependencies}
    known = {source: known[source] for source in sources} | {"recipe": recipe}
    _write(record, json.dumps(known, indent=1))
    needed = sorted({os.path.relpath(d, build) for source in sources for d in known[source]["dependencies"]})
    _write(rule, f"{output}/{_c_file(folder, sources[0]).name}: {' '.join(needed)}\n")


def _c_file(folder: Path, source: str) -> Path:
    return folder / f"{Path(source).stem}.c"


def _recipe(shared: str) -> str:
    """What the output depends on besides the sources."""
    import Cython

    return f"{Cython.__version__} {shared} {DIRECTIVES} {Path(__file__).read_text()}"


def _key(recipe: str, dependencies: list[str]) -> str | None:
    """A hash of the recipe and of the files that a module is made of; None where one of them is gone."""
    found = hashlib.sha256(recipe.encode())
    for name in dependencies:
        try:
            content = Path(name).read_bytes()
        except OSError:
            return None
        found.update(f"{name} {len(content)} ".encode() + content)
    return found.hexdigest()


def _is_current(entry: dict | None, recipe: str, c_file: Path) -> bool:
    return entry is not None and c_file.exists() and entry["key"] == _key(recipe, entry["dependencies"])


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all, and only where its content changes."""
    if path.exists() and path.read_text() == text:
        return
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.replace(path)


def _translated(sources: list[str], folder: Path, shared: str):
    """Each source and what it depends on, once its C is there."""
    if not sources:
        return
    import Cython.Compiler.Main  # noqa: F401  before the fork, once for all
    from Cython.Build.Dependencies import create_dependency_tree  # noqa: F401

    work = [(source, str(_c_file(folder, source)), shared) for source in sources]
    count = min(
        len(sources),
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    )
    if count == 1:
        yield from map(_translate, work)
        return
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    with multiprocessing.get_context(method).Pool(count) as pool:
        yield from pool.imap_unordered(_translate, work)


def _options(**options: object):
    from Cython.Compiler.Options import CompilationOptions, default_options

    return CompilationOptions(
        defaults=default_options, language_level=3, compiler_directives=dict(DIRECTIVES), **options
    )


def _translate(work: tuple[str, str, str]) -> tuple[str, list[str]]:
    """Write the C of one module; RuntimeError where Cython has found errors, which it has printed."""
    from Cython.Build.Dependencies import create_dependency_tree
    from Cython.Compiler.Main import Context, compile_single

    source, c_file, shared = work
    new = f"{c_file}.new.c"
    options = _options(output_file=new, shared_utility_qualified_name=shared)
    if compile_single(source, options, None).num_errors:
        Path(new).unlink(missing_ok=True)
        raise RuntimeError(f"cannot translate {source}: see Cython's messages")
    _write(Path(c_file), Path(new).read_text())
    Path(new).unlink()
    found = create_dependency_tree(Context.from_options(options), quiet=True).all_dependencies(source)
    inside = {Path(d).resolve() for d in found if d.endswith(".pxd")} | {Path(source).resolve()}
    return source, sorted(str(d.relative_to(ROOT)) for d in inside if d.is_relative_to(ROOT))


def _write_shared(c_file: Path, shared: str) -> None:
    """Write the C of the module with what Cython's output has in common; nothing here uses its memory views."""
    from Cython.Build.SharedModule import generate_shared_module

    generate_shared_module(
        _options(
            shared_c_file_path=str(c_file),
            module_name=shared,
            shared_utility_features_disabled=["MemoryView"],
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
