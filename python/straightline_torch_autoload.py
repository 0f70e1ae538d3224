# SPDX-License-Identifier: Apache-2.0
"""What `import torch` calls (an entry point of the group `torch.backends`).

It stands beside the package, so that a process that imports torch and not straightline does not get it.
"""

from __future__ import annotations

import os


def autoload() -> None:
    """Makes torch's device "sl" where STRAIGHTLINE_DEVICE names a plug-in; else nothing."""
    if os.environ.get("STRAIGHTLINE_DEVICE"):
        import straightline.torch_device  # noqa: F401
