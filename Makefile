# `make demo` trains a network on real digits; `make test` runs every check.  Each makes its own virtual environment.
PYTHON ?= python3

.PHONY: demo test lint clean

demo: .venv-demo/ready
	.venv-demo/bin/python examples/digits.py --picture digits.png

test: .venv-test/ready
	.venv-test/bin/ruff check .
	.venv-test/bin/mypy
	PYTHONSAFEPATH=1 .venv-test/bin/pytest -n 2  # the installed package, not the sources beside us

.venv-%/ready: pyproject.toml meson.build $(shell find flambeau -name '*.py*' -o -name '*.c' -o -name '*.h' -o -name 'meson.build' | grep -v __pycache__)
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet --upgrade ".[$*]"
	touch $@

clean:
	rm -rf .venv-demo .venv-test build digits.png
