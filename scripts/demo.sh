#!/usr/bin/env bash
# Score the shipped example with a real judge and show the result.
#
#   scripts/demo.sh [--judge FOLDER_OR_URL] [further options of gpueval run]
#
# Without --judge: SmolLM2-135M-Instruct, which shows that everything works but is too small to judge well.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
models=$("$venv/bin/python" scripts/demo_models.py)
exec "$venv/bin/gpueval" run gpueval/example/handbook.jsonl \
    --judge "$models/smollm2-135m-instruct" --embedder "$models/all-minilm-l6-v2" --out runs/demo "$@"
