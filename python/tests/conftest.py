"""What must be set before any test imports numpy."""

import os

# On processors with AVX-512 numpy has an exponential function of its own, whose last bit differs from the C library's.
os.environ["NPY_DISABLE_CPU_FEATURES"] = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
