# make demo   set up, fetch the demo models, score the shipped example (JUDGE=folder or URL takes another judge)
# make test   set up, fetch the demo models, lint, type-check and run all tests, a real vLLM run among them
VENV ?= .venv
JUDGE ?=
BIN := $(VENV)/bin

.PHONY: setup models demo test lint unit clean

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

test: models lint
	$(BIN)/python -m pytest

clean:
	rm -rf $(VENV) build dist *.egg-info
