# SPDX-License-Identifier: Apache-2.0
# The commands of a working day. `make demo` and `make test` do everything on a bare Debian 12; each step leaves a stamp, so that
# repeating takes seconds.
# `make wheel PYTHON=3.12` makes a wheel for that Python in dist/.
#   PRESET=dev|release|asan|tsan   build folder and flags (CMakePresets.json)      JOBS=n   parallel compilations
PRESET ?= release
JOBS ?= $(shell nproc)
PY := .venv/bin/python
STAMPS := .cache/setup
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build
.PHONY: setup frameworks build demo test test-whole sanitize lint tidy bench docs example-plugins tour conformance conformance-onnx conformance-torch coverage other-torch every-float wheel runtime-wheel clean

SYSTEM := $(STAMPS)/system
VENV_BUILD := $(STAMPS)/venv-build
VENV_TEST := $(STAMPS)/venv-test
VENV_DEMO := $(STAMPS)/venv-demo
VENV_BENCH := $(STAMPS)/venv-bench
VENV_DOCS := $(STAMPS)/venv-docs
VENV_TOUR := $(STAMPS)/venv-tour
VENV_TIDY := $(STAMPS)/venv-tidy
VENV_JAX := $(STAMPS)/venv-jax
VENV_TRITON := $(STAMPS)/venv-triton
VENV_PADDLE := $(STAMPS)/venv-paddle

$(SYSTEM): tools/setup/apt_packages.txt tools/setup/system_packages.sh cmake/llvm_version.txt
	tools/setup/system_packages.sh
	@mkdir -p $(STAMPS) && touch $@

# One environment; each stamp adds what its requirements name. They run one after the other: pip does not share.
$(VENV_BUILD): requirements/build.txt tools/setup/python_environment.sh | $(SYSTEM)
	tools/setup/python_environment.sh build
	@mkdir -p $(STAMPS) && touch $@

$(VENV_TEST): requirements/test.txt $(VENV_BUILD)
	tools/setup/python_environment.sh build test
	@touch $@

$(VENV_DEMO): requirements/demo.txt $(VENV_BUILD)
	tools/setup/python_environment.sh build demo
	@touch $@

$(VENV_BENCH): requirements/bench.txt $(VENV_TEST)
	tools/setup/python_environment.sh build test bench
	@touch $@

$(VENV_DOCS): requirements/docs.txt $(VENV_TEST)
	tools/setup/python_environment.sh build test docs
	@touch $@

$(VENV_TOUR): requirements/tour.txt tools/setup/layered_environment.sh $(VENV_TEST)
	tools/setup/layered_environment.sh tour
	@touch $@

$(VENV_JAX): requirements/jax.txt tools/setup/layered_environment.sh $(VENV_TEST)
	tools/setup/layered_environment.sh jax
	@touch $@

$(VENV_TRITON): requirements/triton.txt requirements/triton_without_dependencies.txt tools/setup/layered_environment.sh $(VENV_TEST)
	tools/setup/layered_environment.sh triton
	@touch $@

$(VENV_PADDLE): requirements/paddle.txt tools/setup/layered_environment.sh $(VENV_TEST)
	tools/setup/layered_environment.sh paddle
	@touch $@

$(VENV_TIDY): requirements/tidy.txt $(VENV_TEST)
	tools/setup/python_environment.sh build test tidy
	@touch $@

# A stamp counts for nothing when what it stands for is gone.
ifeq ($(wildcard .venv/bin/python),)
$(shell rm -f $(VENV_BUILD) $(VENV_TEST) $(VENV_DEMO) $(VENV_BENCH) $(VENV_DOCS) $(VENV_TOUR) $(VENV_TIDY) $(VENV_JAX) $(VENV_TRITON) $(VENV_PADDLE))
endif
ifeq ($(wildcard .venv-jax/bin/python),)
$(shell rm -f $(VENV_JAX))
endif
ifeq ($(wildcard .venv-triton/bin/python),)
$(shell rm -f $(VENV_TRITON))
endif
ifeq ($(wildcard .venv-paddle/bin/python),)
$(shell rm -f $(VENV_PADDLE))
endif

setup: $(SYSTEM) $(VENV_TEST) $(VENV_DEMO) $(VENV_DOCS) frameworks

# Environments of the other frameworks whose programs are compiled, each over .venv: tests/frameworks runs in them.
frameworks: $(VENV_JAX) $(VENV_PADDLE) $(VENV_TRITON)

build: $(SYSTEM) $(VENV_BUILD)
	tools/setup/build.sh $(PRESET) $(JOBS)

demo: $(VENV_DEMO) build
	$(PY) -m straightline.demo

test: $(SYSTEM) $(VENV_TEST) $(VENV_DOCS) frameworks
	@tools/setup/test.sh $(PRESET) $(JOBS)

# Every case of every test, where `make test` takes a third of many cases of one kind (tests/conftest.py).
test-whole: $(SYSTEM) $(VENV_TEST) $(VENV_DOCS) frameworks
	@tools/setup/test.sh $(PRESET) $(JOBS) whole

# The C++ tests of runtime and kernels under AddressSanitizer and UBSan; SANITIZE=tsan: under ThreadSanitizer.
SANITIZE ?= asan
sanitize: $(SYSTEM) $(VENV_BUILD)
	tools/setup/build.sh $(SANITIZE) $(JOBS)
	ctest --test-dir build/$(SANITIZE) --output-on-failure --no-tests=error --parallel $(JOBS)

lint: $(VENV_TEST)
	@tools/lint/run.sh && echo "lint: clean"

# clang-tidy on the C++ sources that differ from main; TIDY=--all: on all of them. A file of MLIR takes 9 s of a core.
tidy: $(VENV_TIDY) build
	@tools/lint/tidy.sh $(TIDY) && echo "tidy: clean"

# BENCH="--quick --only mlp" passes options on (docs/performance/benchmark.md).
bench: $(VENV_BENCH) build
	@mkdir -p build/bench
	$(PY) -m straightline bench --cases bench/cases --json build/bench/result.json --plot build/bench/overhead.png $(BENCH)

# The site, in build/site. A warning is an error. (The variable: Material's notice about its successor is none of ours.)
docs: $(VENV_DOCS) build
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=build/$(PRESET)/python $(PY) -m mkdocs build -q && echo "docs: build/site/index.html"

# Models of transformers, timm and torchvision (python -m bench.tour --help). TOUR="--only bert --device cuda" passes options on.
tour: $(VENV_TOUR) build
	@mkdir -p build/tour
	PYTHONPATH=build/$(PRESET)/python .venv-tour/bin/python -m bench.tour --json build/tour/tour.json --markdown build/tour/tour.md $(TOUR)

# Torch's own samples of its ops (python -m bench.conformance --help), two of each of 680 entries, and onnx's suites: four minutes.
# CONFORMANCE="--dtype int64" passes options on to the first.
conformance: conformance-torch conformance-onnx

conformance-onnx: $(VENV_TEST) build
	status=0; for kind in node simple pytorch-operator pytorch-converted; do \
	  PYTHONPATH=build/$(PRESET)/python $(PY) -m straightline.onnx_coverage --kind $$kind || status=1; done; exit $$status

conformance-torch: $(VENV_TEST) build
	@mkdir -p build/conformance
	PYTHONPATH=build/$(PRESET)/python $(PY) -m bench.conformance --json build/conformance/records.json --markdown build/conformance/table.md $(CONFORMANCE)

# The conformance slice with another torch, of an environment over .venv: make other-torch TORCH=2.10.0 TESTS=tests/torch_compile
TESTS ?= tests/conformance
other-torch: $(VENV_TEST) build
	tools/setup/layered_environment.sh torch-$(TORCH) torch==$(TORCH)
	PYTHONPATH=build/$(PRESET)/python .venv-torch-$(TORCH)/bin/python -m pytest -n $(JOBS) --dist loadfile $(TESTS)

# The pages of docs/coverage: samples of six dtypes, calls made from the schemas of ops that these do not reach, and layers (20 minutes).
coverage: $(VENV_TEST) build
	@mkdir -p build/conformance
	cd build/conformance && rm -f *.json
	for dtype in float32 float64 bfloat16 complex64 int64 bool; do \
	  PYTHONPATH=build/$(PRESET)/python $(PY) -m bench.conformance --dtype $$dtype --json build/conformance/$$dtype.json || exit 1; done
	PYTHONPATH=build/$(PRESET)/python $(PY) -m bench.conformance --beyond build/conformance/*.json --json build/conformance/made.json
	cd build/conformance && PYTHONPATH=../$(PRESET)/python:../.. ../../$(PY) -m bench.conformance.report float32.json float64.json bfloat16.json complex64.json int64.json bool.json > ../../docs/coverage/index.md
	cd build/conformance && PYTHONPATH=../$(PRESET)/python:../.. ../../$(PY) -m bench.conformance.report --ops float32.json float64.json bfloat16.json complex64.json int64.json bool.json made.json > ../../docs/coverage/torch.md
	for way in export compile jit; do PYTHONPATH=build/$(PRESET)/python $(PY) -m bench.conformance --modules --samples 8 --way $$way --json build/conformance/layers_$$way.json || exit 1; done
	cd build/conformance && PYTHONPATH=../$(PRESET)/python:../.. ../../$(PY) -m bench.conformance.report --layers layers_export.json layers_compile.json layers_jit.json > ../../docs/coverage/layers.md

# The one-argument functions over all 2^32 float32 inputs, in C++ and as compiled: half an hour. Tests take every 61st.
every-float: $(VENV_TEST) build
	cmake --build build/$(PRESET) --target kernels_every_float_native_test kernels_every_float_x86-64-v3_test
	STRAIGHTLINE_EVERY_FLOAT=1 build/$(PRESET)/codegen/kernels/kernels_every_float_native_test
	STRAIGHTLINE_EVERY_FLOAT=1 build/$(PRESET)/codegen/kernels/kernels_every_float_x86-64-v3_test
	STRAIGHTLINE_EVERY_FLOAT=1 PYTHONPATH=build/$(PRESET)/python $(PY) -m pytest tests/run/every_float_test.py

# The plug-ins of examples/ and of the guide, each built against an installed package, tried and compared with our kernels (part of `make test`).
example-plugins: $(VENV_TEST) build
	PYTHONPATH=build/$(PRESET)/python $(PY) -m pytest -q tests/plugins/xnnpack_test.py tests/plugins/device_test.py tests/plugins/page_test.py

# For another Python than the build's: the version, or the path of an interpreter.
runtime-wheel: build
	tools/setup/runtime_wheel.sh $(PRESET)

wheel: build
	tools/setup/wheel.sh $(or $(PYTHON),$$($(PY) -c 'import sys; print("%d.%d" % sys.version_info[:2])')) $(PRESET)

clean:
	rm -rf build
