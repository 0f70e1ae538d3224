# SPDX-License-Identifier: Apache-2.0
"""What torch's own samples of its ops get from the compiler (`python -m bench.conformance`)."""
