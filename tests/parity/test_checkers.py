"""Encoder checkers against the ways their makers publish to ask them, on tiny models with random weights."""

from __future__ import annotations

import json
import shutil

import pytest

from gpueval.errors import PrerequisiteError, UsageError
from gpueval.judge.prompts import CHECK
from gpueval.judge.sentences import sentences
from gpueval.records import Request, State

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'gpueval[transformers]'")
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("default")]

DOCUMENT = "The ferry leaves at seven. Bicycles travel free of charge. Dogs pay half the fare."
CLAIMS = ("Bicycles travel free.", "The ferry leaves at nine in the morning.", "Dogs pay.")


@pytest.fixture
def make(models, tmp_path):
    """Write a tiny classifier with the demo embedder's tokenizer; return its folder."""

    def written(name: str, id2label: dict[int, str], longest: int = 128):
        from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

        torch.manual_seed(len(name))
        folder = tmp_path / name
        config = BertConfig(
            vocab_size=30522,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=longest,
            num_labels=len(id2label),
            id2label=id2label,
            initializer_range=0.5,
        )
        BertForSequenceClassification(config).eval().save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(models[1])
        tokenizer.model_max_length = 512
        tokenizer.save_pretrained(folder)
        return folder

    return written


def started(folder, **options):
    from gpueval.engines.encoder_checker import EncoderChecker

    return EncoderChecker(folder, sentences=sentences, device="cpu", **options)


def asked(checker, claims, *chunks) -> list[float]:
    requests = [Request(bytes([i]) * 16, CHECK, (claim, *chunks)) for i, claim in enumerate(claims)]
    found = {completion.key: completion for completion in checker.run(requests)}
    for request in requests:
        assert sum(found[request.key].labels) == pytest.approx(1.0)
    return [found[request.key].labels[0] for request in requests]


def logits_of(folder, *texts, **options):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(**tokenizer(*texts, return_tensors="pt", **options)).logits[0]


@pytest.mark.parametrize(
    ("id2label", "index"),
    [
        ({0: "contradiction", 1: "entailment", 2: "neutral"}, 1),
        ({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}, 2),
        ({0: "entailment", 1: "not_entailment"}, 0),
    ],
)
def test_inference_models_answer_with_their_entailment(make, id2label, index) -> None:
    folder = make("nli", id2label)
    expected = [float(torch.softmax(logits_of(folder, DOCUMENT, claim), -1)[index]) for claim in CLAIMS]
    assert asked(started(folder), CLAIMS, DOCUMENT) == pytest.approx(expected, abs=1e-5)
    assert len(set(expected)) == 3


def test_one_output_is_read_through_a_sigmoid(make) -> None:
    folder = make("consistency", {0: "LABEL_0"})
    expected = [float(torch.sigmoid(logits_of(folder, DOCUMENT, claim))[0]) for claim in CLAIMS]
    assert asked(started(folder), CLAIMS, DOCUMENT) == pytest.approx(expected, abs=1e-5)


def test_minicheck_reads_one_text_joined_by_the_end_token(make) -> None:
    folder = make("minicheck-tiny", {0: "0", 1: "1"})
    expected = [float(torch.softmax(logits_of(folder, f"{DOCUMENT}[SEP]{claim}"), -1)[1]) for claim in CLAIMS]
    assert asked(started(folder), CLAIMS, DOCUMENT) == pytest.approx(expected, abs=1e-5)


def test_factcg_reads_its_question(make) -> None:
    folder = make("factcg-tiny", {0: "LABEL_0", 1: "LABEL_1"})
    expected = []
    for claim in CLAIMS:
        text = (
            f"{DOCUMENT}\n\nChoose your answer: based on the paragraph above can we conclude that "
            f'"{claim}"?\n\nOPTIONS:\n- Yes\n- No\nI think the answer is '
        )
        expected.append(float(torch.softmax(logits_of(folder, text), -1)[1]))
    assert asked(started(folder), CLAIMS, DOCUMENT) == pytest.approx(expected, abs=1e-5)


def test_flan_t5_answers_with_its_first_token(tmp_path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    pieces = ["<pad>", "</s>", "<unk>", "▁", *map(chr, range(97, 123)), *"ABCDT.,:"]
    pieces += [f"<extra_{i}>" for i in range(209 - len(pieces))] + ["▁1", "▁the", "▁ferry", "▁dogs"]
    inner = Tokenizer(models.Unigram([(piece, -float(i) / 50) for i, piece in enumerate(pieces)], unk_id=2))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    inner.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="</s>", pad_token="<pad>", unk_token="<unk>", model_max_length=2048
    )
    assert tokenizer.convert_tokens_to_ids("▁1") == 209
    folder = tmp_path / "flan"
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    config = T5Config(vocab_size=len(pieces), d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2)
    config.decoder_start_token_id = 0
    model = T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        model.shared.weight.normal_(0, 1)
    model.save_pretrained(folder)
    expected = []
    for claim in CLAIMS:
        ids = tokenizer(f"predict: {DOCUMENT}</s>{claim}", return_tensors="pt")
        with torch.inference_mode():
            logits = model(
                input_ids=ids["input_ids"],
                attention_mask=ids["attention_mask"],
                decoder_input_ids=torch.zeros(1, 1).long(),
            ).logits[0, 0]
        expected.append(float(torch.softmax(logits[[3, 209]], -1)[1]))
    checker = started(folder)
    assert checker.facts()["format"] == "minicheck-t5"
    assert asked(checker, CLAIMS, DOCUMENT) == pytest.approx(expected, abs=1e-4)


def test_a_long_document_is_read_in_windows_of_whole_sentences_and_the_best_counts(make) -> None:
    folder = make("nli", {0: "contradiction", 1: "entailment", 2: "neutral"}, longest=64)
    parts = [f"Sentence number {i} tells of harbour {i} and of its ships." for i in range(12)]
    checker = started(folder)
    windows = checker._windows(CLAIMS[0], [" ".join(parts)])
    assert len(windows) > 2
    assert all(len(ids) <= 64 for ids in windows)
    texts = [checker._tokenizer.decode(ids, skip_special_tokens=True) for ids in windows]
    for part in parts:
        assert any(checker._tokenizer.decode(checker._tokenizer(part)["input_ids"][1:-1]) in text for text in texts)
    alone = [float(torch.softmax(_logits(checker, ids), -1)[1]) for ids in windows]
    assert asked(checker, CLAIMS[:1], " ".join(parts)) == pytest.approx([max(alone)], abs=1e-5)
    (short,) = checker.run([Request(b"x" * 16, CHECK, ("word " * 80, DOCUMENT))])
    assert short.failure == State.CONTEXT_OVERFLOW


def _logits(checker, ids):
    with torch.inference_mode():
        return checker._model(**checker._typed(torch.tensor([ids]), torch.ones(1, len(ids)).long(), [ids])).logits[0]


def test_neighbours_in_a_batch_change_nothing(make) -> None:
    checker = started(make("nli", {0: "contradiction", 1: "entailment", 2: "neutral"}))
    together = asked(checker, (*CLAIMS, "word " * 40), DOCUMENT)
    assert [asked(checker, [claim], DOCUMENT)[0] for claim in CLAIMS] == pytest.approx(together[:3], abs=1e-5)


def test_outputs_without_names_are_not_guessed(make) -> None:
    folder = make("nameless", {0: "LABEL_0", 1: "LABEL_1"})
    with pytest.raises(UsageError, match="LABEL_0, LABEL_1") as raised:
        started(folder)
    assert "--checker-format: pair, minicheck, minicheck-t5, factcg" in raised.value.remedy
    assert started(folder, form="factcg").facts()["format"] == "factcg"


def test_code_in_a_model_folder_is_not_run(make, tmp_path) -> None:
    folder = make("own-code", {0: "LABEL_0"})
    shutil.copytree(folder, tmp_path / "odd")
    config = json.loads((tmp_path / "odd" / "config.json").read_text())
    config |= {"model_type": "odd", "auto_map": {"AutoConfig": "odd.Odd", "AutoModel": "odd.Model"}}
    (tmp_path / "odd" / "config.json").write_text(json.dumps(config))
    (tmp_path / "odd" / "odd.py").write_text("raise SystemExit('ran')")
    with pytest.raises(PrerequisiteError, match="without running code"):
        started(tmp_path / "odd")
