/* What a compiled function adds to the traceback of an error that leaves it: nothing, and it takes away what functions in Python
   behind it have added, so that a traceback ends at the line that called the library.

   Cython's code calls `PyTraceBack_Here` for each compiled function that an error leaves; the linker binds these calls to what stands
   here (`--wrap`, flambeau/meson.build).  Those of the interpreter, for functions in Python, it does not see.  Only what stands first
   in a traceback is taken away: what a program's own function (a hook, a kernel, a `forward`) has added is first of all that is left.

   With FLAMBEAU_TRACEBACK=1, looked up at each error, all entries stay. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <stdlib.h>
#include <string.h>

int __real_PyTraceBack_Here(PyFrameObject *frame);
int __wrap_PyTraceBack_Here(PyFrameObject *frame);

/* What stands behind the functions that users call. */
static const char *const INSIDE[] = {"core/",   "operations/", "codegen/", "devices/",     "autograd/gradients.py", "func/",
                                     "masked/", "nested/",     "sparse/",  "_wrapper/", "library/",              "overrides.py",
                                     "nn/modules/module.py", "nn/modules/_hooks.py"};
enum { CHAINED = 8 };    /* causes and contexts looked at */

/* The package's folder, with a slash, and NULL where that cannot be said; looked up once, and kept. */
static const char *package_folder(size_t *length) {
    static const char *folder = NULL;
    static size_t known = 0;
    if (folder == NULL) {
        PyObject *package = PyDict_GetItemString(PyImport_GetModuleDict(), "flambeau");
        PyObject *name = package == NULL ? NULL : PyObject_GetAttrString(package, "__file__"); /* a reference that stays */
        const char *file = name == NULL || !PyUnicode_Check(name) ? NULL : PyUnicode_AsUTF8(name);
        const char *last = file == NULL ? NULL : strrchr(file, '/');
        if (last == NULL) {
            Py_XDECREF(name);
            return NULL;
        }
        folder = file;
        known = (size_t)(last + 1 - file);
    }
    *length = known;
    return folder;
}

static int is_inside(PyObject *trace, const char *folder, size_t length) {
    PyCodeObject *code = PyFrame_GetCode(((PyTracebackObject *)trace)->tb_frame);
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    int inside = 0;
    if (file != NULL && strncmp(file, folder, length) == 0)
        for (size_t k = 0; k < sizeof(INSIDE) / sizeof(INSIDE[0]); k++)
            inside |= strncmp(file + length, INSIDE[k], strlen(INSIDE[k])) == 0;
    Py_DECREF(code);
    return inside;
}

/* The first entry that does not lie inside, or NULL: borrowed from `trace`, which may be NULL or None. */
static PyObject *left_of(PyObject *trace, const char *folder, size_t length) {
    while (trace != NULL && PyTraceBack_Check(trace) && is_inside(trace, folder, length))
        trace = (PyObject *)((PyTracebackObject *)trace)->tb_next;
    return trace == Py_None ? NULL : trace;
}

static void set_trace(PyObject *error, PyObject *trace) {
    PyException_SetTraceback(error, trace != NULL ? trace : Py_None);
}

/* The same for the errors that led to this one. */
static void shorten_chain(PyObject *error, const char *folder, size_t length) {
    PyObject *at = error, *next, *trace, *left;
    Py_INCREF(at);
    for (int k = 0; k < CHAINED && at != NULL; k++) {
        if ((next = PyException_GetCause(at)) == NULL)
            next = PyException_GetContext(at);
        Py_DECREF(at);
        at = next;
        if (at != NULL && (trace = PyException_GetTraceback(at)) != NULL) {
            if ((left = left_of(trace, folder, length)) != trace)
                set_trace(at, left);
            Py_DECREF(trace);
        }
    }
    Py_XDECREF(at);
}

int __wrap_PyTraceBack_Here(PyFrameObject *frame) {
    const char *wanted = getenv("FLAMBEAU_TRACEBACK"), *folder;
    PyObject *kind, *error, *trace, *left;
    size_t length = 0;
    if (wanted != NULL && *wanted != '\0' && strcmp(wanted, "0") != 0)
        return __real_PyTraceBack_Here(frame);
    PyErr_Fetch(&kind, &error, &trace);
    if ((folder = package_folder(&length)) != NULL) {
        if ((left = left_of(trace, folder, length)) != trace) {
            Py_XINCREF(left);
            Py_DECREF(trace);
            trace = left;
            if (error != NULL && PyExceptionInstance_Check(error))
                set_trace(error, trace);
        }
        if (error != NULL && PyExceptionInstance_Check(error))
            shorten_chain(error, folder, length);
    }
    PyErr_Clear(); /* what went wrong in looking is not to hide the error */
    PyErr_Restore(kind, error, trace);
    return 0;
}
