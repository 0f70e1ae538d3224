# SPDX-License-Identifier: Apache-2.0
"""`make docs` builds the site without a warning, and what it makes of headers and definitions is what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

sys.path.insert(0, str(ROOT / "tools" / "docs"))
import header_pages  # noqa: E402

_HEADER = """// SPDX-License-Identifier: Apache-2.0
// What it is for.
#define MACRO(x) \\
  x

extern "C" {
typedef struct sl_thing sl_thing;  ///< handed out
/// Adds; "text with {braces}" in a comment.
SL_API int32_t sl_add(int32_t a, void (*release)(void*),
                      int32_t b);
}
namespace detail {
class Hidden {};
}
namespace straightline {
/// A class.
class Shown : public Base {
 public:
  explicit Shown(int value) : value_{value}, other_(2) {}
  /// How much.
  int value() const { return value_; }
  void operator()(const std::string& text) const { run(text); }
  int plain = 3;

 private:
  int secret() const { return 1; }
  int value_;
};
/// One of two.
enum class Kind { a, b };
inline int twice(int x) { return 2 * x; }
int last();
}
"""


def test_a_header_page_has_what_the_header_declares(tmp_path: Path) -> None:
    path = tmp_path / "thing.hpp"
    path.write_text(_HEADER, encoding="utf-8")
    page = header_pages.header_page("C++", "Intro.", "cpp", [("straightline/thing.hpp", path)])
    names = [line[5:-1] for line in page.splitlines() if line.startswith("### ")]
    assert names == ["sl_thing", "sl_add", "Shown", "Kind", "twice", "last"]
    assert 'Adds; "text with {braces}" in a comment.\n\n```cpp\nSL_API int32_t sl_add(' in page
    assert "  explicit Shown(int value);\n  /// How much.\n  int value() const;\n" in page
    assert "  void operator()(const std::string& text) const;\n  int plain = 3;\n};" in page
    assert "inline int twice(int x);\n" in page and "What it is for." in page
    assert "secret" not in page and "Hidden" not in page and "value_" not in page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    return folder


@pytest.mark.parametrize(
    ("page", "parts"),
    [
        ("architecture.html", ["execution contract", "E20"]),
        ("reference/python.html", ["straightline.compile", "dynamic_shapes", "GuardError"]),
        ("reference/cpp.html", ["beginRegion", "TensorInfo"]),
        ("reference/c.html", ["sl_program_create", "sl_kernel_desc", "sl_compile_options"]),
        ("reference/op_dialect.html", ["op.linear", "linear_c1"]),
        ("reference/kernel_dialect.html", ["kernel.launch"]),
        ("reference/ops.html", ["scaled_dot_product_attention", "aten.add.Tensor"]),
        ("reference/passes.html", ["fold-pad", "plan-memory"]),
    ],
)
def test_the_site_has_a_reference_of_everything(site: Path, page: str, parts: list[str]) -> None:
    text = (site / page).read_text(encoding="utf-8")
    for part in parts:
        assert part in text


def test_pages_need_nothing_of_another_server(site: Path) -> None:
    """No font, script or style of a page comes from elsewhere, so that the site works without a network."""
    for page in site.rglob("*.html"):
        for word in ('src="http', 'rel="stylesheet" href="http', "fonts.googleapis"):
            assert word not in page.read_text(encoding="utf-8"), f"{page.name} loads {word}"


def test_links_out_of_the_site(site: Path) -> None:
    """To a page at the top of the repository a link leads to its copy in the site."""
    text = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="architecture.html"' in text and "ARCHITECTURE.md" not in text
