# SPDX-License-Identifier: Apache-2.0
"""What every model's process needs, imported once by the process that they are forked from."""

from bench.tour.models import declare_torchvision_ops

declare_torchvision_ops()

import timm  # noqa: E402
import torchvision  # noqa: E402
import transformers  # noqa: E402

import bench.tour.examine  # noqa: E402

PACKAGES = (timm, torchvision, transformers, bench.tour.examine)
