# `make help` lists the targets. Everything happens in .venv; nothing else is touched.
SHELL := /bin/sh
PROFILE ?= quick
CHAPTER ?=
PYTEST_ARGS ?=
PREDICTIONS ?=
MARK ?=
WORKERS ?= 2
PYTHON ?= $(shell command -v python3.11 || command -v python3)

# Where this is set, as in some containers, hundreds of processes compile lib and the tests anew.
unexport PYTHONDONTWRITEBYTECODE

# What was given reaches programs as it stands, through the environment: make would else evaluate
# $(...) in it, and the shell `...`. Those that are words of a command are left: PYTEST_ARGS, PYTHON.
GIVEN := PROFILE CHAPTER PREDICTIONS MARK WORKERS TORCH_INDEX
$(foreach name,$(GIVEN),$(eval override $(name) := $$(value $(name))))
export $(GIVEN)

# One word, of these.
ifneq ($(words $(PROFILE)) $(filter quick standard gpu,$(PROFILE)),1 $(PROFILE))
$(error PROFILE=$(PROFILE) is not allowed: it must be quick, standard or gpu)
endif

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help book test coverage portable bench lint format record report clean

help:
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'
	@echo "  PROFILE=quick|standard|gpu chooses the parameters (now: $(PROFILE))"

# Programs of a checkout that was moved name the old place, and a Python that is gone leaves dangling
# links: such an environment is made anew. A link to one elsewhere is its owner's.
SOUND := $(shell $(BIN)/python -c '' 2>/dev/null && { test -L $(VENV) || \
	grep -qsF "$$(pwd -P)/$(BIN)/python" $(BIN)/pip; } && echo yes)
ifneq ($(SOUND),yes)
.PHONY: $(READY)
endif

# torch is looked up first in an environment that has it (TORCH_INDEX, see the README). Bytecode is
# made on all cores, where pip takes one for more than half a minute; some files are only templates.
$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v == (3, 11) else f"error: Python 3.11 is needed, {sys.executable} is {v[0]}.{v[1]}; set PYTHON=/path/to/python3.11")'
	test "$(SOUND)" = yes || { rm -rf $(VENV) && $(PYTHON) -m venv $(VENV); }
	$(BIN)/python -m pip install --quiet --no-compile $(if $(TORCH_INDEX),--index-url "$$TORCH_INDEX") torch==2.13.0
	$(BIN)/python -m pip install --quiet --no-compile -r requirements.txt
	$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null || true
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

book: $(READY)  ## execute what changed and build the site
	@COMPANION_CHECK_FIGURES="$${COMPANION_CHECK_FIGURES-$${CI:+1}}" \
		COMPANION_PROFILE="$$PROFILE" COMPANION_JOBS="$${COMPANION_JOBS:-$$WORKERS}" \
		$(BIN)/python -m lib.book build

# Two workers with two threads each would spin against each other on two cores. MARK=long are the tests
# that take many minutes, such as 50 random kills of each kind; nothing else may run beside these.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
ORDINARY := not bench and not long
TOGETHER := -n "$$WORKERS" --dist loadfile --no-loadscope-reorder
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest $(if $(filter long,$(MARK)),,$(TOGETHER))

test: $(READY)  ## run the test suite but for MARK=long, or only what is marked MARK: fast, data, browser, long
	$(PYTEST) -m "$${MARK:-$(ORDINARY)}" $(PYTEST_ARGS)

FORMULAS := selective suitability audit counterfactual privacy
coverage: $(READY)  ## which lines of the formulas the test suite reaches; below 90% is an error
	$(PYTEST) -m "$(ORDINARY)" $(FORMULAS:%=--cov=lib.%) --cov-fail-under=90 $(PYTEST_ARGS)

portable: $(READY)  ## run the tests of formulas and pages as other processors would
	.ci/portable $(PYTEST_ARGS)

# One thread for both sides, but where the promise is one of all cores. Nothing is recorded unless
# every comparison ran, both sides agreed, and what was promised of speed holds.
bench: $(READY)  ## compare with other software, and record it in book/records/benchmarks.json
	@mkdir -p .cache
	$(ONE_THREAD) $(BIN)/python -m pytest -m bench --ignore=benchmarks/test_speed.py \
		--benchmark-enable --benchmark-json=.cache/benchmarks.json benchmarks $(PYTEST_ARGS)
	$(BIN)/python -m pytest -m bench benchmarks/test_speed.py
	$(BIN)/python -m lib.book.benchmarks .cache/benchmarks.json

# Spelling. The words that this project does not use are a test's: tests/book/test_prose.py.
TEXTS := book/*.py book/*/*.py book/*.md book/*.yml book/*.bib *.md lib params

lint: $(READY)  ## check style, formatting and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell $(TEXTS)

format: $(READY)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

record: $(READY)  ## execute CHAPTER, or all, under PROFILE and keep the result; resumes
	$(BIN)/python -m lib.book record --profile "$$PROFILE" $(if $(CHAPTER),-- "$$CHAPTER")

report: $(READY)  ## every analysis that PREDICTIONS=my.npz allows: report.ipynb, report/
	$(BIN)/papermill book/your_model.py report.ipynb -r predictions "$$PREDICTIONS" -r out report

clean:  ## remove the site and the cache of executed chapters
	rm -rf book/_build .cache
