"""Content hashes: what identifies a model folder, a data set and a request.

All are BLAKE2b with 16-byte digests: collisions are not expected below 2^64 items.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

DIGEST_BYTES = 16
_SAMPLED_BLOCKS = 16
_BLOCK_BYTES = 65536
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt", ".onnx")


def digest(*parts: bytes) -> bytes:
    """Hash parts so that their borders count: ``(b"ab", b"c")`` and ``(b"a", b"bc")`` differ."""
    state = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


def text_digest(text: str) -> bytes:
    """Hash one text (UTF-8; lone surrogates are kept apart from other text)."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def model_digest(folder: Path) -> str:
    """Identify a local model folder without reading all of its weights.

    Configuration and tokenizer files count in full. A weight file counts with its name, its size and 16 blocks of
    64 KiB spread over it (the first holds the tensor table of a safetensors file), so a 140 GB model is identified
    in milliseconds. A change of a single weight outside those blocks is not seen; a quantised, fine-tuned or
    converted model is.

    Returns:
        32 hexadecimal digits.
    """
    parts: list[bytes] = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name.startswith("."):
            continue
        size = path.stat().st_size
        parts += [str(path.relative_to(folder)).encode(), str(size).encode()]
        if path.suffix in _WEIGHTS:
            with path.open("rb") as file:
                for block in range(_SAMPLED_BLOCKS):
                    file.seek(max(0, size - _BLOCK_BYTES) * block // (_SAMPLED_BLOCKS - 1))
                    parts.append(file.read(_BLOCK_BYTES))
        elif path.suffix in (".json", ".txt", ".model", ".jinja"):
            parts.append(path.read_bytes())
    return digest(*parts).hex()
