#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: the kernels' tests compiled, where a skipped test is a failed one, then one table of
# their times beside torch (and FAISS, where its GPU build is installed).
#
#   scripts/gpu_check.sh [FILE]      FILE: where the table's rows are appended as JSON, one per line
#
# Needs torch, Triton, NumPy, SciPy and pytest (PYTHON names the interpreter), nothing of gpueval's other packages and
# no network. Exit code 1 where a test failed or two calls differed; the table is printed all the same.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
export PYTHONPATH="$PWD/kernels${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
unset TRITON_INTERPRET GPUEVAL_KERNELS
failed=0

"$python" - <<'PY' || exit 1
try:
    import torch, triton
except ModuleNotFoundError as error:
    raise SystemExit(f"{error.name} is not installed here: PYTHON=.venv/bin/python scripts/gpu_check.sh")
if not torch.cuda.is_available():
    raise SystemExit("torch sees no GPU here")
print(f"{torch.cuda.get_device_name()}, sm_{''.join(map(str, torch.cuda.get_device_capability()))}, "
      f"torch {torch.__version__}, Triton {triton.__version__}")
PY

GPUEVAL_GPU_CHECK=1 "$python" -m pytest tests/ops --confcutdir=tests/ops -p no:cacheprovider -W default || failed=1
"$python" benchmarks/kernel_speed.py --device cuda ${1:+--out "$1"} || failed=1
exit $failed
