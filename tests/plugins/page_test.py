# SPDX-License-Identifier: Apache-2.0
"""docs/guides/plugin.md: its code builds, passes `plugin check`, and computes what a model needs.

Where no BLAS is installed, a cblas.h of the test stands in for it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from builds import INCLUDE, ROOT

_CBLAS_H = """
enum { CblasRowMajor, CblasNoTrans, CblasTrans };
static void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
                        int ldb, float beta, float* c, int ldc) {
  (void)order, (void)ta, (void)tb, (void)beta;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int p = 0; p < k; ++p) {
        sum += a[i * lda + p] * b[j * ldb + p];
      }
      c[i * ldc + j] = alpha * sum;
    }
  }
}
"""
_USE = """
import sys
import straightline as sl, torch
sl.load_backend(sys.argv[1])
model = torch.nn.Sequential(torch.nn.Linear(64, 32, bias=False), torch.nn.ReLU(), torch.nn.Linear(32, 8, bias=False)).eval()
x = torch.randn(5, 64)
fn = sl.compile(model, (x,), routes={"linear": "blas"})
torch.testing.assert_close(fn(x), model(x))
rows = fn.explain()["statements"]
assert [row["backend"] for row in rows if "linear" in row["op"] and row["phase"] == "run"].count("blas") == 2, rows
"""


def test_the_code_of_the_page(tmp_path: Path) -> None:
    code = re.search(r"```c\n(.*?)```", (ROOT / "docs/guides/plugin.md").read_text(), re.DOTALL)
    assert code is not None
    assert 70 <= len(code[1].splitlines()) <= 100
    (tmp_path / "blas.c").write_text(code[1])
    installed = subprocess.run(
        ["gcc", "-E", "-include", "cblas.h", "-x", "c", "/dev/null"], capture_output=True, check=False
    )
    library = tmp_path / "libblas_backend.so"
    command = [
        "gcc",
        "-std=gnu11",
        "-O2",
        "-Wall",
        "-shared",
        "-fPIC",
        f"-I{INCLUDE}",
        str(tmp_path / "blas.c"),
        "-o",
        str(library),
    ]
    if installed.returncode == 0:
        command.append("-lcblas" if Path("/usr/lib/x86_64-linux-gnu/libcblas.so").exists() else "-lopenblas")
    else:
        (tmp_path / "cblas.h").write_text(_CBLAS_H)
        command.append(f"-I{tmp_path}")
    for run in (
        command,
        [sys.executable, "-m", "straightline", "plugin", "check", str(library)],
        [sys.executable, "-c", _USE, str(library)],
    ):
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
