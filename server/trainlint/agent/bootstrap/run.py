"""Runs a job with the agent where the interpreter's options keep PYTHONPATH or `site` from it: -E, -I and -S.

`python -I RECORDING/agent/bootstrap/run.py SCRIPT ARGS…`, likewise with `-m MODULE` or `-c CODE` in the place of the
script. `__main__`, `sys.argv` and `sys.path` are as if the script had been run by itself, and no frame of this file is
in its tracebacks.
"""

import contextlib
import sys


def _inject():
    import os

    bootstrap = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != bootstrap]
    if sys.version_info < (3, 9) or not os.environ.get("TRAINLINT_PROBE_DIR"):
        return
    agent = os.path.dirname(bootstrap)
    names = {"__name__": "_trainlint_agent.loading"}
    with open(agent + "/loading.py", "rb") as source:
        exec(compile(source.read(), "<trainlint loading>", "exec"), names)
    names["load"](agent)


def _prepared():
    """The code to run and its arguments, with `sys.path` as the interpreter would have set it."""
    import os

    isolated = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
    what, rest = sys.argv[1], sys.argv[2:]
    if what == "-c":
        sys.argv[:] = ["-c", *rest[1:]]
        if not isolated:
            sys.path.insert(0, "")
        return compile(rest[0], "<string>", "exec"), None
    if what == "-m":
        if not isolated:
            sys.path.insert(0, os.getcwd())
        import runpy

        _, spec, code = runpy._get_module_details(rest[0])
        sys.argv[:] = [spec.origin, *rest[1:]]
        return code, spec
    sys.argv[:] = [what, *rest]
    if not isolated:
        sys.path.insert(0, os.path.dirname(os.path.realpath(what)))
    with open(what, "rb") as script:
        return compile(script.read(), os.path.abspath(what), "exec"), None


def _namespace(spec):
    """What `__main__` holds before the job's code runs, and nothing of this file."""
    import os
    import sys as system

    script = system.argv[0]
    names = system.modules["__main__"].__dict__
    for name in [one for one in names if not (one.startswith("__") and one.endswith("__"))]:
        del names[name]
    names["__doc__"] = None
    names["__spec__"] = spec
    names["__package__"] = spec.parent if spec is not None else None
    if script == "-c":
        names.pop("__file__", None)
        names.pop("__cached__", None)
        names["__loader__"] = system.__loader__
    else:
        names["__file__"] = os.path.abspath(script)
        names["__cached__"] = spec.cached if spec is not None else None
        names["__loader__"] = spec.loader if spec is not None else type(names["__loader__"])("__main__", script)
    return names


def _run():
    with contextlib.suppress(BaseException):
        _inject()
    code, spec = _prepared()
    names = _namespace(spec)
    try:
        exec(code, names)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        raise


try:
    _run()
except BaseException as raised:
    raised.__traceback__ = raised.__traceback__.tb_next
    raise
