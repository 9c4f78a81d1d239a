PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
REGRESSION := $(VENV)/.regression
DATA ?= data

.DEFAULT_GOAL := help
.PHONY: help install test slow lint docs dist compare baselines paper uci benchmark attack licences clean

help:  ## Show the targets.
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

install: $(INSTALLED)  ## Create .venv and install everything into it.

$(INSTALLED): pyproject.toml constraints.txt
	@echo "Creating $(VENV) and installing (two minutes or so)..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --quiet --constraint constraints.txt --editable ".[dev]"
	@touch $@

# laplace-torch brings torchvision, which nothing uses and which breaks it if it is of another build than torch.
$(REGRESSION): $(INSTALLED)
	@echo "Installing the regression and plants extras..."
	@$(BIN)/python -m pip install --quiet --quiet --constraint constraints.txt --editable ".[regression,plants]"
	@$(BIN)/python -m pip uninstall --quiet --quiet --yes torchvision
	@touch $@

lint: $(INSTALLED)  ## Run ruff and mypy.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint $(REGRESSION)  ## Set up, then run ruff, mypy and the tests.
	$(BIN)/pytest --numprocesses auto

slow: $(REGRESSION)  ## Run the tests that take more than a minute; CI runs them too.
	$(BIN)/pytest --numprocesses auto -m slow

docs: $(INSTALLED)  ## Build the documentation into site/; open site/index.html. Fails on warnings and stale tables.
	$(BIN)/python scripts/tables.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Wheel and sdist are built alone, and the wheel is tried in an empty environment of every Python here that may run it.
dist: $(INSTALLED)  ## Build wheel and sdist into dist/, check them, and install the wheel elsewhere.
	$(BIN)/python -m pip install --quiet --quiet --constraint constraints.txt --editable ".[release]"
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/python scripts/try_wheel.py dist/*.whl

compare: $(INSTALLED)  ## Set up, then run the main comparison and leave curves and a report; two to three minutes on two cores, estimated.
	$(BIN)/python scripts/compare.py --agents habnn habnn-scripted habnn-paper noop random hold oracle a2c td3 sac --setpoints 100 --runs 10 --steps 300 --seed 9400 --out results/compare

PAPER_AGENTS := habnn habnn-paper noop random hold oracle a2c td3 sac ppo a2c-tuned td3-tuned sac-tuned ppo-tuned

paper: $(INSTALLED)  ## The paper's figure with 100 runs, then runs of 1000 steps; half an hour to an hour on two cores, estimated.
	$(BIN)/python scripts/compare.py --agents $(PAPER_AGENTS) --setpoints 100 --runs 100 --steps 60 --seed 1000 --out results/paper-60
	$(BIN)/python scripts/compare.py --agents $(PAPER_AGENTS) --setpoints 100 --runs 10 --steps 1000 --seed 1000 --out results/paper-1000
	$(BIN)/python scripts/compare.py --agents habnn noop hold --setpoints 100 --runs 100 --steps 1000 --seed 1000 --out results/habnn-1000

uci: $(REGRESSION)  ## The paper's regression study, 20 runs; one to two hours on one core, estimated. Downloads six data sets unless DATA=folder has them.
	$(BIN)/python scripts/uci.py --data-dir "$(wildcard $(DATA))" --runs 20 --seed 3000 --out results/uci

baselines: $(INSTALLED)  ## Learning curves of model-free agents up to ten million steps; one to two hours on two cores, estimated; resumable.
	$(BIN)/python scripts/baselines.py --seed 2000 --out results/baselines

benchmark: $(INSTALLED)  ## Measure speed as ratios in one run.
	$(BIN)/python scripts/benchmark.py --json results/benchmark.json

attack: $(INSTALLED)  ## Attack the network, files, studies and the plant; two minutes measured, under 15 on a busy machine.
	$(BIN)/python scripts/attack.py --out results/attack

licences: $(INSTALLED)  ## List the licences of all installed distributions.
	$(BIN)/python scripts/licences.py

clean:  ## Remove the virtual environment and caches; results/ and runs/ stay.
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
