# SPDX-License-Identifier: Apache-2.0
"""The front end of JAX: a StableHLO module as one function of the `op` dialect. Needs jaxlib and numpy."""

from straightline.capture.jax import complex, control, elementwise, indexing, linear, reduction, shape
from straightline.capture.jax.graph import Argument, Imported, import_module
from straightline.capture.jax.load import LoadedProgram, load

#: The files of converters; importing them fills the table.
FAMILIES = (complex, control, elementwise, indexing, linear, reduction, shape)

__all__ = ["FAMILIES", "Argument", "Imported", "LoadedProgram", "import_module", "load"]
