"""The file around a page: Jinja template, style sheet, scripts and data in one, and a policy that keeps it inert.

The content security policy allows this file's own style sheet and script by their SHA-256 and nothing else: no request,
no frame, no form, no event handler in the markup. Data lie in blocks of another type than script; texts become part of
the page as text only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gpueval.report.page.packing import pack

SCRIPTS = ("dom.js", "text.js", "payload.js", "filter.js", "list.js", "claims.js", "sample.js", "main.js")
"""In the order in which they are joined."""

_HIDDEN = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ufff9-\\ufffb\\U000e0000-\\U000e007f]"
)


def render(template: str, content: Mapping[str, Any], index: Any = None, blocks: Sequence[str] = ()) -> str:
    """Return a page as one HTML document.

    Args:
        template: Name of the Jinja template.
        content: Its variables; texts are escaped.
        index: What the script needs at once; None for a page without samples.
        blocks: Packed rows.
    """
    environment = Environment(
        loader=PackageLoader("gpueval.report.page", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_spelled,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = _asset("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(map(_asset, SCRIPTS)) + "\n})();\n"
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    return environment.get_template(template).render(
        **content,
        style=Markup(style),
        script=Markup(script),
        security_policy=policy,
        index=None if index is None else pack(index),
        blocks=blocks,
    )


def filter_of(**chosen: Any) -> str:
    """Return what the page's script filters by, for a ``data-filter`` attribute."""
    return json.dumps(chosen, separators=(",", ":"))


def _spelled(value: Any) -> Any:
    """Name the characters of a text that cannot be seen or would turn the line around; as text.js does."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return _HIDDEN.sub(lambda match: f"U+{ord(match[0]):04X}", value)


def _asset(name: str) -> str:
    return (files("gpueval.report.page") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
