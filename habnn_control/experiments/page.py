"""Parts of a self-contained HTML page: its shell, figures, tables and the settings of a results folder."""

import base64
import json
import re
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from habnn_control.support.files import read_json

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 72rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2rem; }
figure { margin: 1rem 0; } figure img { width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption, .caption { font-size: .9rem; margin: 1.5rem 0 .3rem; } figcaption { margin-top: .3rem; }
.scroll { overflow-x: auto; background:  /* a shadow at the right edge while columns are hidden there */
  linear-gradient(to left, Canvas 50%, transparent) right / 3rem 100% no-repeat local,
  linear-gradient(to left, #8887, transparent) right / 1rem 100% no-repeat; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
thead th { vertical-align: bottom; } th:first-child, td:first-child { text-align: left; white-space: nowrap;
  position: sticky; left: 0; background: Canvas; }
@media (max-width: 600px) { th, td { padding: .25rem .4rem; } }
pre { background: var(--soft); padding: .7rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }
"""


def shell(title: str, body: str) -> str:
    """Return a whole page; `body` is HTML."""
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{_STYLE}</style></head>
<body><main>
<h1>{escape(title)}</h1>
{body}
</main></body></html>
"""


def figure(wide: bytes, narrow: bytes, text: str) -> str:
    """Return a figure that shows its narrow form on a narrow screen, where the wide form would be too small."""
    return (
        f'<figure><picture><source media="(max-width: 600px)" srcset="{_data_uri(narrow)}">'
        f'<img src="{_data_uri(wide)}" alt="{escape(text)}"></picture><figcaption>{escape(text)}</figcaption></figure>'
    )


def _data_uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def table(values: pd.DataFrame, caption: str) -> str:
    """Return a table of a data frame, which scrolls where it is too wide."""
    head = "".join(f'<th scope="col">{_breakable(str(name))}</th>' for name in values.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_breakable(str(value))}</td>" for value in row) + "</tr>"
        for row in values.itertuples(index=False)
    )
    return (
        f'<p class="caption">{escape(caption)}</p><div class="scroll" tabindex="0"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _breakable(text: str) -> str:
    """Escape the text of a cell so that a narrow column breaks it after _ and /, but within no interval or window."""
    text = escape(text).replace("_", "_<wbr>").replace("/", "/<wbr>").replace(", ", ",&nbsp;")
    return re.sub(r"(\d-)(?=\d)", r"\1&NoBreak;", text)


def settings(folder: Path) -> str:
    """Return command, study, versions and machine of a results folder."""
    config = (folder / "config.json").read_text()
    try:
        meta: dict[str, Any] = read_json(folder / "meta.json")
        call = f"<p>Command</p><pre>{escape(str(meta['command']))}</pre>"
    except (OSError, ValueError, TypeError, LookupError):  # none, or a damaged one: results do not depend on it
        meta, call = {}, ""
    return (
        f"<h3>{escape(str(folder))}</h3>{call}<details><summary>Study, versions and machine</summary>"
        f"<pre>{escape(config)}</pre><pre>{escape(json.dumps(meta, indent=2))}</pre></details>"
    )
