"""The header that a program in C includes: one page, with all that it has to know."""

from __future__ import annotations

from collections.abc import Sequence

from .frame import ALIGN, CODES, Described

VERSION = 1  # of what stands in a header


def header_of(
    name: str,
    inputs: Sequence[Described],
    outputs: Sequence[Described],
    workspace: int,
    weights: str,
    processor: str,
) -> str:
    """The text of `name.h`; `weights` is the name of the file, or empty."""
    big = name.upper()
    codes = "\n".join(f"    {big}_{code} = {k}, /* {why} */" for k, (code, why) in enumerate(CODES))
    return f"""/* {name}: made by flambeau's export_library, for {processor}.

{_listed("inputs", inputs)}
{_listed("outputs", outputs)}

   Elements lie one after another, in the order of rows.  Outputs overlap neither inputs nor each other.  Any number of threads may call
   {name}_run at the same time, each with outputs and a workspace of its own; a call computes on the thread that makes it. */
#ifndef {big}_H
#define {big}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {big}_VERSION {VERSION}
#define {big}_INPUTS {len(inputs)}
#define {big}_OUTPUTS {len(outputs)}
#define {big}_WORKSPACE {workspace} /* bytes; 0: none is needed, and it may be null */
#define {big}_ALIGNMENT {ALIGN} /* of the workspace, in bytes; tensors are aligned as their elements are */

enum {{
{codes}
}};

/* dtype, number of dimensions, sizes, bytes of each input and output. */
typedef struct {{
    const char *dtype;
    int64_t rank;
    const int64_t *shape;
    int64_t bytes;
}} {name}_tensor;
{_arrays(name, inputs, outputs)}
/* What a code means. */
const char *{name}_message(int code);
{_loading(name, weights)}
/* Computes the outputs; a code, {big}_OK where they are written.  Where it is another they hold what is there, or what is
   to be thrown away. */
int {name}_run(const void *const *inputs, void *const *outputs, void *workspace);

#ifdef __cplusplus
}}
#endif
#endif
"""


def _listed(what: str, described: Sequence[Described]) -> str:
    lines = [
        f"   {what[:-1]} {k}: {d.dtype} [{', '.join(map(str, d.shape))}]" for k, d in enumerate(described)
    ]
    return "\n".join(lines) if lines else f"   no {what}"


def _arrays(name: str, inputs: Sequence[Described], outputs: Sequence[Described]) -> str:
    result = [
        f"extern const {name}_tensor {name}_{kind}[{len(d)}];"
        for kind, d in (("inputs", inputs), ("outputs", outputs))
        if d
    ]
    return "".join(f"{line}\n" for line in result)


def _loading(name: str, weights: str) -> str:
    if not weights:
        return ""
    return f"""
/* Maps the file of weights, `{weights}`, for reading; to be called before {name}_run, once.  A second call changes nothing. */
int {name}_load(const char *path);
/* Gives the memory of the weights back; no {name}_run may be under way. */
void {name}_unload(void);
"""
