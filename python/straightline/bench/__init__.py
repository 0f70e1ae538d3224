# SPDX-License-Identifier: Apache-2.0
"""`straightline bench`: what a call costs here and with everything else that a CPU user could pick.

`case` says what is measured, `contender` and `contenders` by whom, `worker` is the process of one contender and
`worker_client` the parent's end of it, `session` runs one case, `report` and `plot` show it. The method is described in
docs/performance/benchmark.md.
"""
