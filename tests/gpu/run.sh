#!/usr/bin/env bash
# Runs the cases of the probe on a machine with an NVIDIA GPU, and writes one result file:
#
#     tests/gpu/run.sh WHEELS [RESULT]
#
# WHEELS is a folder made beforehand, on a machine with a network and the same Python, by
#
#     pip wheel --wheel-dir WHEELS '.[probe]'
#
# PYTHON names an interpreter, 3.11 or newer, that has PyTorch with CUDA (default: python3). Nothing is downloaded, the
# interpreter's environment stays as it is, and all is over within five minutes; what there was no time for is listed in
# the result as not run. RESULT is gpu-result.json by default. The status is 0 where everything was as it should be.
set -euo pipefail

wheels=$(realpath -- "${1:?usage: tests/gpu/run.sh WHEELS [RESULT]}")
result=$(realpath -m -- "${2:-gpu-result.json}")
python=${PYTHON:-python3}
started=$SECONDS
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

if ! "$python" -c 'import sys, torch; sys.exit(sys.version_info < (3, 11) or not torch.cuda.is_available())'; then
  echo "run.sh: $python has to be Python 3.11 or newer with a PyTorch that sees a CUDA GPU; name another: PYTHON=PATH" >&2
  exit 2
fi

environment=$(mktemp -d)
trap 'rm -rf -- "$environment"' EXIT
"$python" -m venv "$environment"
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$wheels" \
  'trainlint[probe]'
# PyTorch, and what comes with it, is that of the interpreter, also where this is an environment of its own.
"$python" -c 'import site; print(*site.getsitepackages(), site.getusersitepackages(), sep="\n")' > \
  "$("$environment/bin/python" -c 'import site; print(site.getsitepackages()[0])')/torch-of-the-interpreter.pth"

seconds=$((280 - (SECONDS - started)))
status=0
timeout --kill-after=5 "$((seconds + 10))" \
  "$environment/bin/python" -m tests.gpu "$result" --seconds "$seconds" || status=$?
if [[ -f $result ]]; then echo "the result is in $result"; fi
exit "$status"
