"""Builds the CPU kernels. Everything else about the package stands in pyproject.toml.

The kernels are a plain shared library that ctypes loads: no Python header is needed to build it, and one build serves
every Python version. Without a C++ compiler the package installs all the same and uses its plain torch backend.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

NATIVE = Path("src/nestree/crf/kernels/native")

# Loops must vectorise (-O3, -fopenmp-simd) but infinities and NaN keep their meaning: no -ffast-math.
UNIX_FLAGS = [
    *("-std=c++17", "-O3", "-g0", "-fvisibility=hidden", "-pthread"),
    *("-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"),
]
WINDOWS_FLAGS = ["/std:c++17", "/O2", "/EHsc", "/openmp:experimental"]


class BuildKernels(build_ext):
    """Compiles with the right flags for the compiler at hand; the library exports C functions, not a Python module."""

    def build_extensions(self) -> None:
        """Adds the flags, then builds."""
        windows = self.compiler.compiler_type == "msvc"
        for extension in self.extensions:
            extension.extra_compile_args = WINDOWS_FLAGS if windows else UNIX_FLAGS
            extension.extra_link_args = [] if windows else ["-pthread"]
        super().build_extensions()

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """No PyInit function: the source says what is exported."""
        return []


class AnyPythonWheel(bdist_wheel):
    """Tags the wheel for any Python 3: on this platform with the kernels, anywhere without them."""

    def get_tag(self) -> tuple[str, str, str]:
        """Like "py3-none-linux_x86_64"."""
        _, _, platform = super().get_tag()
        built = any(Path(self.get_finalized_command("build").build_lib).rglob("_native*"))
        return "py3", "none", platform if built else "any"


setup(
    ext_modules=[
        Extension(
            "nestree.crf.kernels._native",
            sources=[str(NATIVE / "nestree_crf.cpp")],
            depends=[str(path) for path in sorted(NATIVE.glob("*.h"))],
            language="c++",
            optional=True,
            py_limited_api=True,
        )
    ],
    cmdclass={"build_ext": BuildKernels, "bdist_wheel": AnyPythonWheel},
)
