# make demo   set up, fetch the demo models, score the shipped example (JUDGE=folder or URL takes another judge)
# make test   set up, fetch the demo models, lint, type-check and run all tests, a real vLLM run among them
VENV ?= .venv
JUDGE ?=
BIN := $(VENV)/bin

.PHONY: setup models demo test lint unit kernels clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml scripts/setup.sh scripts/constraints-cpu.txt scripts/constraints-cuda.txt
	scripts/setup.sh $(VENV)

models: setup
	@$(BIN)/python scripts/demo_models.py

demo: setup
	VENV=$(VENV) scripts/demo.sh $(if $(JUDGE),--judge $(JUDGE))

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: setup
	$(BIN)/python -m pytest tests/unit tests/property tests/golden

kernels: setup  # Triton's interpreter must be chosen before Triton is imported: a process of its own
	TRITON_INTERPRET=1 $(BIN)/python -m pytest tests/ops

test: models lint kernels
	$(BIN)/python -m pytest --ignore=tests/ops

clean:
	rm -rf $(VENV) build dist *.egg-info
