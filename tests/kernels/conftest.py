"""Kernels run in Triton's interpreter here: on the CPU, with the numbers that a GPU gives."""

import os

# Read by Triton when a kernel is defined, so it must be there before the first import of one.
os.environ["TRITON_INTERPRET"] = "1"
