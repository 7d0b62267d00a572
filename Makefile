# `make help` lists the targets. Everything happens in .venv; nothing else is touched.
SHELL := /bin/sh
PROFILE ?= quick
CHAPTER ?= suitability
PYTEST_ARGS ?=
PREDICTIONS ?=
NAME ?=
MARK ?=
SETTING ?=
WORKERS ?= 2
PYTHON ?= $(shell command -v python3.11 || command -v python3)

# Where this is set, as in some containers, hundreds of processes compile lib and the tests anew.
unexport PYTHONDONTWRITEBYTECODE

# What was given reaches programs as it stands, through the environment: make would else evaluate
# $(...) in it, and the shell `...`. Those that are words of a command are left: PYTEST_ARGS, PYTHON.
GIVEN := PROFILE CHAPTER PREDICTIONS NAME MARK SETTING WORKERS TORCH_INDEX MINUTES
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
.PHONY: help book test portable bench lint format record records rehearse cost slice report long proofs coverage mutants doctor \
	clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'
	@echo "  PROFILE=quick|standard|gpu chooses the parameters (now: $(PROFILE))"

# torch is looked up first in an environment that has it: see "PyTorch" in the README. Bytecode is
# made on all cores, where pip takes one for more than half a minute; some files are only templates.
$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v == (3, 11) else f"error: Python 3.11 is needed, {sys.executable} is {v[0]}.{v[1]}; set PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile $(if $(TORCH_INDEX),--index-url "$$TORCH_INDEX") torch==2.13.0
	$(BIN)/python -m pip install --quiet --no-compile -r requirements.txt
	$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null || true
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

book: $(READY)  ## execute what changed and build the site
	@COMPANION_PROFILE="$$PROFILE" COMPANION_JOBS="$${COMPANION_JOBS:-$$WORKERS}" \
		$(BIN)/python -m lib.book build

# Two workers with two threads each would spin against each other on two cores. Tests of speed come
# by themselves; PYTEST_ARGS may leave none (5), which is an error of the other stage only.
# Nothing else may run beside these.
ALONE := $(filter speed bench long,$(MARK))

test: $(READY)  ## run the whole test suite, or only the tests marked MARK, such as fast
ifeq ($(MARK),)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest \
		-n "$$WORKERS" --dist loadfile --no-loadscope-reorder -m "not speed and not bench and not long" $(PYTEST_ARGS)
	$(BIN)/python -m pytest -m speed $(PYTEST_ARGS) || test $$? = 5
else
	$(if $(ALONE),,OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1) $(BIN)/python -m pytest \
		$(if $(ALONE),,-n "$$WORKERS" --dist loadfile --no-loadscope-reorder) -m "$$MARK" $(PYTEST_ARGS)
endif

portable: $(READY)  ## formulas and pages as on other processors, or as SETTING: book/records/portable.json
	$(BIN)/python .ci/portable $(if $(SETTING),--setting "$$SETTING") --jobs "$$WORKERS" -- $(PYTEST_ARGS)

long: $(READY)  ## the tests that take many minutes: 50 random kills of each kind and the like
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -m long $(PYTEST_ARGS)

proofs: $(READY)  ## faults and malformed input, the long tests too: book/records/faults.json
	@mkdir -p .cache
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -m "" \
		--junitxml=.cache/faults.xml -o junit_family=xunit1 tests/faults tests/malformed $(PYTEST_ARGS); status=$$?; \
		$(BIN)/python -m lib.book.proofs .cache/faults.xml && exit $$status

# From nothing: code that a chapter or the site's build ran before would count as not reached.
coverage: $(READY)  ## what the tests reach of lib: book/records/coverage.json; below 95% an error
	rm -rf .cache/coverage .cache/book book/_build
	@mkdir -p .cache/coverage
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 \
		COVERAGE_FILE="$$PWD/.cache/coverage/data" $(BIN)/python -m pytest \
		-n "$$WORKERS" --dist loadfile --no-loadscope-reorder --cov=lib --cov-branch --cov-report= \
		-m "not speed and not bench and not long" $(PYTEST_ARGS)
	$(BIN)/python .ci/coverage

mutants: $(READY)  ## change lib in thousands of places and see which tests notice, for MINUTES
	$(BIN)/python .ci/mutants/run --minutes "$${MINUTES:-600}"

# One thread for both sides. Nothing is recorded unless every comparison ran and both sides agreed.
bench: $(READY)  ## compare with other software, and record it in book/records/benchmarks.json
	@mkdir -p .cache
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -m bench \
		--benchmark-enable --benchmark-json=.cache/benchmarks.json tests/benchmarks $(PYTEST_ARGS)
	$(BIN)/python -m lib.book.benchmarks .cache/benchmarks.json

# Spelling, and the words that this project does not use (.ci/words.txt), phrases of two among them.
TEXTS := book/*.py book/*.md book/*.yml book/*.bib *.md lib params
PHRASES := (?i)\b(?:(?:lower|upper) ends?|told propensities|mutation rate|shares? of|mind (?:that|what|the)|[a-z]+)\b

lint: $(READY)  ## check style, formatting, spelling and words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell $(TEXTS)
	$(BIN)/codespell --regex '$(PHRASES)' --dictionary .ci/words.txt $(TEXTS)

format: $(READY)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

record: $(READY)  ## execute CHAPTER under PROFILE and keep the result in book/records
	$(BIN)/python -m lib.book record --profile "$$PROFILE" -- "$$CHAPTER"

records: $(READY)  ## the same for all chapters, one after the other; resumes where it was stopped
	$(BIN)/python -m lib.book record --profile "$$PROFILE"

# P3's text experiment needs transformers.
rehearse: $(READY)  ## every parameter file of PROFILE, cut down, killed and resumed, on this CPU
	$(BIN)/python -m pip install --quiet --no-build-isolation -c requirements.txt -e '.[text]'
	OMP_NUM_THREADS=1 $(BIN)/python -m lib.book rehearse --profile "$$PROFILE"

cost: $(READY)  ## how long the trainings of PROFILE would take on this machine
	OMP_NUM_THREADS=1 $(BIN)/python -m lib.book cost --profile "$$PROFILE"

# Data from one folder beside the code: accelerators are often where the network is not.
slice: $(READY)  ## execute and record NAME of params/slices.yml, or go on where it was cut off
	COMPANION_OFFLINE=1 COMPANION_DATA="$${COMPANION_DATA:-$$PWD/data}" \
		$(BIN)/python -m lib.book slice -- "$$NAME"

report: $(READY)  ## every analysis that PREDICTIONS=my.npz allows: report.ipynb, report/
	$(BIN)/papermill book/your_model.py report.ipynb -r predictions "$$PREDICTIONS" -r out report

doctor:  ## name what this machine lacks
	@$(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) lib/book/doctor.py

clean:  ## remove the site and the cache of executed chapters
	rm -rf book/_build .cache
