"""The TreeCRF in Triton: kernels only; ``gpu.py`` launches them.

| module             | holds                                                                      |
|--------------------|----------------------------------------------------------------------------|
| `numbers.py`       | real numbers of unlimited range: a mantissa and a whole exponent           |
| `spans.py`         | from labelled scores and span codes to one weight per span                 |
| `sums.py`          | inside and outside, and the same along a direction                         |
| `gradients.py`     | from the probabilities of spans to those of their labels                   |
| `trees.py`         | the best tree, and trees drawn at random                                   |
| `normalization.py` | potential normalisation                                                    |

A chart is stored by width: cell ``(i, i + width)`` stands at ``row(width) + i``. The children of neighbouring spans of
one width are then neighbours too, and so are their parents: every load of a tile is contiguous along ``i``.

Memory that one step of a kernel writes and the next one reads belongs to one program, and a barrier stands between.
"""
