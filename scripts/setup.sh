#!/usr/bin/env bash
# Make a virtual environment with everything gpueval needs, at exact versions.
#
#   scripts/setup.sh [FOLDER]      default .venv
#
# With an NVIDIA driver it installs vLLM's CUDA build, else the CPU build. PYTHON chooses the interpreter (3.11 to 3.13;
# the CPU versions are resolved for 3.11). TORCH_INDEX_URL names a package index with PyTorch's CPU wheels; without it
# a machine without GPU may get PyTorch's CUDA build, which works but is several GB larger.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-.venv}
python=${PYTHON:-$(command -v python3.11 || command -v python3)}

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }

if command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1; then
    echo "NVIDIA driver found: installing the CUDA build of vLLM" >&2
    pip install --quiet --constraint scripts/constraints-cuda.txt setuptools wheel
    pip install --quiet --constraint scripts/constraints-cuda.txt \
        --editable '.[vllm,transformers,embed,retrieve,diagnose,documents,server,ray,parquet,baselines,dev]' gguf accelerate
else
    echo "no NVIDIA driver: installing the CPU build of vLLM" >&2
    pip install --quiet torch==2.13.0 ${TORCH_INDEX_URL:+--extra-index-url "$TORCH_INDEX_URL"}
    pip install --quiet --no-deps --requirement scripts/constraints-cpu.txt
    pip install --quiet --no-deps --no-build-isolation --editable .
fi
touch "$venv/.ready"
