"""Fuzz one target: `make fuzz`, or `python -m tests.fuzz TARGET [OPTIONS OF LIBFUZZER]`; needs `atheris`."""

import sys

import atheris  # type: ignore[import-untyped, unused-ignore]  # in an environment of its own

with atheris.instrument_imports(include=["clew"]):
    from tests.fuzz.targets import TARGETS, strike

if __name__ == "__main__":
    target, *words = sys.argv[1:]
    assert target in TARGETS, f"targets are {', '.join(TARGETS)}"
    atheris.Setup([sys.argv[0], *words], lambda data: strike(target, data))
    atheris.Fuzz()
