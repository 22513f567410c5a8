# make demo      set up, build, and train a small GPT on real text over two processes
# make test      set up, build, and run the tests (a sample of each matrix)
# make test-all  the same with the full matrices
# make build     set up and build;   make clean  remove what was built (not .venv)
SHELL := /bin/bash
JOBS ?= 2
BUILD := build
export CCACHE_SLOPPINESS := pch_defines,time_macros,include_file_mtime,include_file_ctime

.PHONY: demo test test-all build configure setup data clean

setup:
	@scripts/setup.sh

configure: setup
	@[ -e $(BUILD)/build.ninja ] || cmake --preset dev

build: configure
	@cmake --build $(BUILD) -j $(JOBS)

data: build
	@scripts/demo_data.sh

demo: build data
	@scripts/demo.sh

test: build
	@cd $(BUILD) && ctest --output-on-failure --label-exclude full -j $(JOBS)

test-all: build
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS)

clean:
	rm -rf build build-* data runs
