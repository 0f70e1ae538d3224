# SPDX-License-Identifier: Apache-2.0
"""What `straightline bench` measures: cases/ declares it, floor/ is C++ by hand. `cuda_slice` checks a CUDA device."""
