"""Runs other people's libraries on flambeau, and says what passes, beside PyTorch.

    python clients/run.py                       all clients; writes clients/results/*.json and docs/clients.md
    python clients/run.py skorch captum         only these
    python clients/run.py captum --only lrp     only the cases and suites that match; writes nothing
    python clients/run.py captum --record       in an environment with PyTorch: keeps its results in clients/pytorch/
    python clients/run.py captum --compile      its cases with their models compiled (compiled.py); writes clients/compiled/*.json

Each client runs in a process of its own with the interpreter and the paths of this one, so `PYTHONPATH=dropin/src:. python …` tries the
sources and an environment into which `make clients` installed everything tries what users get.  A check that fails without a cause
written in the client's file, or that PyTorch passes and that was not run, makes the runner end with status 1.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))  # last: no file of ours stands before a library's

import harness  # noqa: E402

PAGE = HERE.parent / "docs" / "clients.md"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clients", nargs="*", help="names of files in clients/libraries")
    parser.add_argument("--only", default="", help="a pattern of cases and suites")
    parser.add_argument("--record", action="store_true", help="keep what came out as PyTorch's results")
    parser.add_argument("--compile", action="store_true", help="run the cases with their models compiled")
    parser.add_argument("--page", action="store_true", help="only write docs/clients.md from clients/results")
    parser.add_argument("--child", nargs=2, metavar=("FILE", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        harness.child(Path(options.child[0]), Path(options.child[1]), options.only, options.compile)
        return 0
    known = sorted(path.stem for path in (HERE / "libraries").glob("*.py"))
    for name in set(options.clients) - set(known):
        parser.error(f"there is no client {name!r}; there are {', '.join(known)}")
    troubled = False
    for name in [] if options.page else options.clients or known:
        print(f"{name}:", flush=True)
        report = run(name, options.only, options.compile)
        if report is None:
            troubled = True
        elif options.record:
            record(name, report, bool(options.only))
        else:
            troubled |= judge(name, report, bool(options.only), "compiled" if options.compile else "results")
    if not options.record and not options.only:
        write_page()
    return int(troubled)


def run(name, only, compiled):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [
            sys.executable,
            __file__,
            "--only",
            only,
            *(["--compile"] if compiled else []),
            "--child",
            HERE / "libraries" / f"{name}.py",
            out,
        ]
        environment = (
            os.environ
            | {
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",  # tests start `python`
                "PYTHONSAFEPATH": "1",
                "PYTHONPATH": os.pathsep.join(  # the child's folder is another
                    os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p
                ),
                "MPLBACKEND": "agg",
                "HF_HUB_OFFLINE": "1",
                "CUDA_VISIBLE_DEVICES": "",
                "FLAMBEAU_RANDOM": "pytorch",  # one seed gives the numbers that it gives in PyTorch
            }
        )
        status = subprocess.run(command, cwd=folder, env=environment).returncode
        if not out.exists():
            print(f"{name}: the process ended with {status} before its results were written")
            return None
        return json.loads(out.read_text())


def record(name, report, partial):
    if not report["torch"].startswith("PyTorch"):
        sys.exit("--record keeps PyTorch's results, and here torch is flambeau")
    path = HERE / "pytorch" / f"{name}.json"
    reference = {
        "torch": report["torch"],
        "version": report["version"],
        "cases": {},
        "failing": {},
        "suites": {},
    }
    if partial:  # the others stay
        reference = {"failing": {}, **json.loads(path.read_text())}
    for case, answer in report["cases"].items():
        here, other = ("failing", "cases") if "error" in answer else ("cases", "failing")
        reference[other].pop(case, None)
        reference[here][case] = answer.get("value", answer.get("error"))
    print(f"  {len(reference['cases'])} cases, {len(reference['failing'])} more fail")
    for suite, outcomes in report["suites"].items():
        passed = sum(outcome == "passed" for outcome in outcomes.values())
        others = {test: outcome for test, outcome in sorted(outcomes.items()) if outcome != "passed"}
        reference["suites"][suite] = {"passed": passed, "others": others}
        print(f"  {suite}: {passed} passed, {len(others)} failed or skipped")
    write_json(path, reference)


def judge(name, report, partial, folder):
    """Compares with PyTorch's results, prints and keeps the comparison; True where something is not explained."""
    if report["torch"].startswith("PyTorch"):
        sys.exit(
            f"{name}: here torch is PyTorch itself, and there is nothing to compare (--record keeps its results)"
        )
    reference = json.loads((HERE / "pytorch" / f"{name}.json").read_text())
    result = {
        "version": report["version"],
        "torch": reference["torch"],
        "checks": {},
        "failed": [],
        "difference": 0.0,
    }
    if report["version"] != reference["version"]:
        print(f"  PyTorch's results are of {reference['version']}, here is {report['version']}")
    cases = {"passed": 0, "pytorch": 0}
    for case, answer in report["cases"].items():
        if case in reference.get("failing", ()):
            continue
        cases["pytorch"] += 1
        apart = answer.get("error") or (
            harness.difference(answer["value"], reference["cases"][case])
            if case in reference["cases"]
            else "nothing was kept"
        )
        if not isinstance(apart, str) and apart > report["tolerances"][case]:
            apart = f"differs by {apart:.1e}"
        if isinstance(apart, str):
            result["failed"].append(
                {"check": case, "error": apart, "cause": cause_of(case, report["causes"])}
            )
        else:
            cases["passed"] += 1
            result["difference"] = max(result["difference"], float(f"{apart:.1e}"))
    if cases["pytorch"]:
        result["checks"]["our programs"] = cases
    for suite, outcomes in report["suites"].items():
        others = reference["suites"][suite]["others"]
        judged = {test: outcome for test, outcome in outcomes.items() if test not in others}
        passed = sum(outcome == "passed" for outcome in judged.values())
        result["checks"][suite] = {"passed": passed, "pytorch": reference["suites"][suite]["passed"]}
        for test, outcome in judged.items():
            if outcome != "passed":
                check = f"{suite}::{test}"
                result["failed"].append(
                    {"check": check, "error": outcome, "cause": cause_of(check, report["causes"])}
                )
        absent = reference["suites"][suite]["passed"] - len(judged)
        if absent > 0:
            text = f"{absent} tests were not collected"
            result["failed"].append(
                {"check": suite, "error": text, "cause": cause_of(f"{suite}::uncollected", report["causes"])}
            )
    for what, counts in result["checks"].items():
        print(f"  {what}: {counts['passed']} of {counts['pytorch']} that PyTorch passes")
    if "calls" in report:
        result["calls"] = report["calls"]
        print_calls(report["calls"])
    for failure in result["failed"]:
        print(
            f"  FAILED {failure['check']}: {failure['error']}\n         cause: {failure['cause'] or 'not known'}"
        )
    if not partial:
        write_json(HERE / folder / f"{name}.json", result)
    return any(failure["cause"] is None for failure in result["failed"])


def print_calls(calls):
    """What became of calls of compiled modules."""
    print(
        f"  models captured whole: {calls['models_whole']} of {calls['models']}; "
        f"their calls: {calls['calls_whole']} of {calls['calls']}; calls of other modules: {calls['others_whole']} of {calls['others']}; "
        f"{calls['replayed']} made again by their plans"
    )
    for what, words in (("refused", calls["reasons"]), ("MISSED", calls["missed"])):
        for why, count in words.items():
            print(f"    {count} {what}: {why}")


def cause_of(check, causes):
    return next((words for pattern, words in causes if re.search(pattern, check)), None)


def write_json(path, value):
    path.parent.mkdir(exist_ok=True)
    text = json.dumps(value, indent=1, ensure_ascii=False)
    flat = re.sub(
        r"\[[^][{}\"]*\]", lambda numbers: " ".join(numbers[0].split()), text
    )  # arrays of numbers on a line each
    path.write_text(flat + "\n")


def write_page():
    PAGE.write_text(page())


def page():
    lines = [
        "# Other people's libraries",
        "",
        "Unmodified from PyPI, on flambeau under the drop-in; `make clients` installs them and writes this page.  *Suites* are the",
        "tests that a library ships; *our programs* are small real ones whose numbers are compared with those that PyTorch gave on the",
        "same weights (`clients/pytorch`).  Counted is what PyTorch itself passes in the same environment.",
        "",
        "| library | checks | PyTorch passes | flambeau passes of them | greatest difference of numbers |",
        "|---|---|---|---|---|",
    ]
    failures = []
    for path in sorted((HERE / "results").glob("*.json")):
        result = json.loads(path.read_text())
        for what, counts in result["checks"].items():
            share = (
                "all"
                if counts["passed"] == counts["pytorch"]
                else f"{100 * counts['passed'] / counts['pytorch']:.1f} %"
            )
            apart = f"{result['difference']:.0e}" if what == "our programs" else ""
            row = [result["version"], what, counts["pytorch"], f"{counts['passed']} ({share})", apart]
            lines.append(f"| {' | '.join(map(str, row))} |")
        failures += [(path.stem, failure) for failure in result["failed"]]
    lines += ["", "## What fails, and why", ""]
    by_cause = {}
    for name, failure in failures:
        by_cause.setdefault((name, failure["cause"] or "cause not known"), []).append(failure["check"])
    for (name, cause), checks in by_cause.items():
        shown = ", ".join(f"`{check.rpartition('/')[2]}`" for check in checks[:4])
        more = f" and {len(checks) - 4} more" if len(checks) > 4 else ""
        lines.append(f"- **{name}**: {cause} ({shown}{more})")
    if not by_cause:
        lines.append("Nothing.")
    lines += compiled_section()
    return "\n".join(lines) + "\n"


def compiled_section():
    """The part of the page on models that are compiled."""
    lines = [
        "",
        "## With their models compiled",
        "",
        "`python clients/run.py --compile` runs *our programs* with each model that they call compiled in its place: the outermost",
        "`nn.Module` with parameters.  A call that is captured whole is taken back and made again by its plan, so values and",
        "gradients are the plan's, and are compared with PyTorch's as above.  *Whole* is a model all of whose calls were captured whole,",
        "and a call that was.",
        "",
        "| library | programs | right | models | whole | calls of models | whole | made again |",
        "|---|---|---|---|---|---|---|---|",
    ]
    total, reasons = Counter(), Counter()
    for path in sorted((HERE / "compiled").glob("*.json")):
        result = json.loads(path.read_text())
        checks, calls = result["checks"].get("our programs", {"pytorch": 0, "passed": 0}), result["calls"]
        counts = {"programs": checks["pytorch"], "right": checks["passed"]} | {
            key: calls[key] for key in ("models", "models_whole", "calls", "calls_whole", "replayed")
        }
        total.update(counts)
        for why, count in calls["reasons"].items():
            reasons[refused(why)] += count
        lines.append(compiled_row(result["version"], counts))
    lines += [
        compiled_row("**all**", total),
        "",
        "Calls of models that were not captured whole, by the most frequent reasons:",
        "",
    ]
    lines += [f"- {count}: {why}" for why, count in reasons.most_common(25) if count]
    return lines


def compiled_row(name, counts):
    cells = [counts["programs"], counts["right"]]
    for what in ("models", "calls"):
        whole = counts[what + "_whole"]
        cells += [counts[what], f"{whole} ({100 * whole / max(counts[what], 1):.0f} %)"]
    return f"| {' | '.join(map(str, [name, *cells, counts['replayed']]))} |"


def refused(why):
    """A reason without the line at which it was met."""
    return re.sub(r"^\S+?:\d+: ", "", why)


if __name__ == "__main__":
    sys.exit(main())
