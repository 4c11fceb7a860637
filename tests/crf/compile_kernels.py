"""Compiles every Triton kernel for a GPU that need not be there. Run as a program, without TRITON_INTERPRET.

The interpreter takes Python that the compiler refuses; this finds it on machines without a GPU.
"""

from __future__ import annotations

from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from nestree.crf.kernels.triton_kernels import gradients, normalization, sums, trees

HOPPER = GPUTarget("cuda", 90, 32)


def types(wide: bool, slopes: bool) -> dict[str, str]:
    number = "*fp64" if wide else "*fp32"
    pointers = {"lengths": "*i64", "codes": "*i16", "places": "*i32", "nodes": "*i64"}
    pointers |= dict.fromkeys(["chart", "charts"], "*i64")
    pointers |= dict.fromkeys(["scores", "direction", "value", "out", "gradient", "normal"], "*fp32")
    pointers |= dict.fromkeys(["results", "expectation", "weights", "best", "uniforms", "scales"], "*fp64")
    whole = {"log_rejected": "i64", "log_other": "i64", "epsilon": "i64"}
    whole |= {f"{t}_{axis}": "i64" for t in ("scores", "gradient", "normal", "out") for axis in range(4)}
    return pointers | whole | {"marginals": number}


def compile_kernel(kernel: Any, wide: bool = False, slopes: bool = False, **constants: Any) -> None:
    known = {"STARTS": 64, "STEPS": 16, "WORDS": 64, "LABELS": 8, "SPANS": 256, "WIDE": wide, "SLOPES": slopes}
    known |= {"direction": None, "expectation": None} if not slopes else {}
    known = {name: value for name, value in (known | constants).items() if name in kernel.arg_names}
    kinds = types(wide, slopes)
    signature = {name: "constexpr" if name in known else kinds.get(name, "i32") for name in kernel.arg_names}
    places = {(kernel.arg_names.index(name),): value for name, value in known.items()}
    compiled = triton.compile(ASTSource(kernel, signature, places), target=HOPPER, options={"num_warps": 8})
    assert compiled.asm["cubin"]
    print(kernel.__name__)


def main() -> None:
    for wide, slopes in ((False, False), (True, False), (True, True)):
        for codes in (False, True):
            mask = {"HAS_CODES": codes} | ({} if codes else {"codes": None})
            difference = {"DIFFERENCE": codes and not slopes}
            compile_kernel(sums.charts_kernel, wide, slopes, MARGINALS=True, **difference, **mask)
            compile_kernel(sums.charts_kernel, wide, slopes, MARGINALS=False, marginals=None, **difference, **mask)
            more = {"CHARTS": 2, "SIGN": 1} if codes else {"CHARTS": 1, "SIGN": -1, "value": None, "weights": None}
            more |= {"DIFFERENCE": codes}
            compile_kernel(gradients.gradient_kernel, wide, slopes, **mask, **more)
        if not slopes:
            compile_kernel(trees.sample_kernel, wide)
    compile_kernel(trees.best_tree_kernel)
    compile_kernel(normalization.normalize_kernel)
    compile_kernel(normalization.normalize_backward_kernel)


if __name__ == "__main__":
    main()
