"""What is injected into the training process: the standard library and the user's torch, nothing else.

The probe copies this folder beside a recording and loads it there under a private name, in the interpreter of the
training environment, which need not have trainlint. Everything here therefore runs on Python 3.9 and newer, imports its
neighbours relatively through the private name, and never raises into the job: the first fault turns the agent off.

`bootstrap/sitecustomize.py` starts it where its folder is on PYTHONPATH, `bootstrap/run.py` where the interpreter's
options forbid that. It reads two environment variables:

- TRAINLINT_PROBE_DIR: the recording's folder, an absolute path, in which it writes to `processes/` and `traces/`;
- TRAINLINT_PROBE_OPTIONS: the path of a JSON file with fields of `recording.Options`: `warmup`, `steps`, `profile`,
  `profile_steps` and `keep_running`; what is missing has the default there.
"""
