"""From samples to requests. Pure: the same samples and settings give the same requests in the same order.

The first round asks for what is generated: the claims of a text (when a model extracts them) and the reverse questions.
The second asks every verdict and similarity; it builds on the claims alone, so that reverse questions may be written
at the same time and compared last. A cell of the support matrix is planned as the keys of its requests (one per window
of the passage), or as a verdict that needs no call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gpueval.fingerprint import digest, text_digest
from gpueval.judge import prompts
from gpueval.judge.claims import from_sentences
from gpueval.judge.evidence import Place, places
from gpueval.judge.injection import instructs, stripped
from gpueval.judge.sentences import sentences
from gpueval.judge.windows import SMALLEST_WINDOW_TOKENS, Reader, fits
from gpueval.metrics import Metric
from gpueval.metrics.abstention import abstains, says_nothing
from gpueval.metrics.base import has_context, is_blank, lacks
from gpueval.records import Ask, Claims, Need, Request, Sample, State, Verdict

CLAIM_BATCH_SENTENCES = 12
"""Sentences of an answer sent to one claim extraction; a long answer becomes several requests."""

_TEMPLATE_TOKENS = 64
"""Room kept for the chat template's own tokens and the reply."""

_UNSUPPORTED = Verdict(0.0)
_OVERFLOW = Verdict(None, State.CONTEXT_OVERFLOW, 0.0)

Slot = tuple[bytes, ...] | Verdict
"""A planned cell: the keys of its windows, or its verdict."""

_ANSWER_CLAIMS = frozenset({Need.ANSWER_BY_ALL, Need.ANSWER_BY_CHUNK, Need.ANSWER_BY_SOURCE, Need.ANSWER_BY_REFERENCE})
_REFERENCE_CLAIMS = frozenset({Need.REFERENCE_BY_ALL, Need.REFERENCE_BY_CHUNK, Need.REFERENCE_BY_ANSWER})


class Keys:
    """Content keys of requests: model, prompt version, kind and data; digests of repeated texts are remembered."""

    def __init__(self, judge: str, embedder: str, checker: str = "") -> None:
        self._judge = digest(judge.encode(), prompts.VERSION.encode())
        self._of_kind = dict.fromkeys(prompts.BY_EMBEDDER, digest(embedder.encode()))
        self._of_kind[prompts.CHECK.kind] = digest(checker.encode())
        self._texts: dict[str, bytes] = {}
        self._asks: dict[str, bytes] = {}

    def of(self, ask: Ask, parts: tuple[str, ...]) -> bytes:
        """Return the 16-byte key of a request."""
        texts = self._texts
        head = self._asks.get(ask.kind)
        if head is None:
            model = self._of_kind.get(ask.kind, self._judge)
            head = self._asks[ask.kind] = digest(model, ask.kind.encode(), ask.system.encode(), ask.schema.encode())
        found = [head]
        for part in parts:
            one = texts.get(part)
            if one is None:
                one = texts[part] = text_digest(part)
            found.append(one)
        return digest(b"".join(found))

    def forget(self) -> None:
        """Drop remembered digests; called between windows of samples so that memory stays bounded."""
        self._texts.clear()


def needs_of(sample: Sample, metrics: Sequence[Metric]) -> frozenset[Need]:
    """Return the judgments that the sample's metrics ask for: those whose fields are given and that are not decided
    by the sample alone.
    """
    found: set[Need] = set()
    for metric in metrics:
        if not metric.needs or any(lacks(sample, name) for name in metric.fields):
            continue
        if metric.decided is None or not metric.decided(sample):
            found.update(metric.needs)
    return frozenset(found)


@dataclass(slots=True)
class Draft:
    """One sample on its way through the rounds."""

    sample: Sample
    needs: frozenset[Need]
    guard: bool = False
    """Keep from the judge what speaks to it: such claims are not supported, such sentences of the answer not read."""
    claims: dict[str, Claims] = field(default_factory=dict)
    generated: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    """First-round keys: per side its claim extractions, ``"questions"`` its reverse questions."""
    sentences: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Per side the sentences sent to claim extraction."""
    questions: tuple[str, ...] = ()
    questions_state: State = State.OK
    extracted: dict[str, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    slots: dict[Need, list[Slot]] = field(default_factory=dict)
    entailed: dict[str, list[Slot]] = field(default_factory=dict)
    """Per side, for extracted claims: is the claim entailed by its own sentence?"""
    checks: dict[Need, list[bytes]] = field(default_factory=dict)
    """Per need over claims: the checker's key of every slot; empty bytes where nothing is checked."""
    places: list[Place] = field(default_factory=list)
    """Sentences of the chunks, where claims are held against them."""
    aligned: dict[str, list[bytes]] = field(default_factory=dict)
    """Per side, for evidence by tokens: a key per claim."""

    def read_answer(self) -> str:
        """The answer as the judge gets to read it."""
        answer = self.sample.answer or ""
        return stripped(answer) if self.guard else answer


def first_round(draft: Draft, keys: Keys, reader: Reader, *, extract: bool) -> list[Request]:
    """Settle what needs no model and return the generation requests.

    Args:
        draft: Filled in place with claims or with the keys of their extraction.
        keys: Makes content keys.
        reader: The judge's limits.
        extract: Let the judge extract atomic claims; else every sentence that says something is a claim.
    """
    sample, requests = draft.sample, list[Request]()
    sides = {"answer": sample.answer, "reference": sample.reference}
    wanted = {"answer": _ANSWER_CLAIMS, "reference": _REFERENCE_CLAIMS}
    for side, text in sides.items():
        parts = sentences(text) if text else ()
        if abstains(parts):
            draft.claims[side] = Claims(abstains=True)
            continue
        telling = tuple(part for part in parts if not says_nothing(part))
        if not extract or not telling or not draft.needs & wanted[side]:
            draft.claims[side] = Claims(from_sentences(parts))
            continue
        draft.sentences[side] = telling
        made = [
            _generation(prompts.CLAIMS, (prompts.question(sample.question), prompts.claims_tail(batch)), keys)
            for batch in batches(telling)
        ]
        if all(_readable(request, reader) for request in made):
            requests += made
            draft.generated[side] = tuple(request.key for request in made)
        else:
            draft.claims[side] = Claims((), State.CONTEXT_OVERFLOW)
    answer = sample.answer
    if (
        Need.SIMILAR_QUESTIONS in draft.needs
        and answer is not None
        and not is_blank(answer)
        and not draft.claims.get("answer", Claims()).abstains
    ):
        told = prompts.questions_tail(draft.read_answer())
        request = _generation(prompts.QUESTIONS, (told,), keys, max_tokens=192)
        if _readable(request, reader):
            requests.append(request)
            draft.generated["questions"] = (request.key,)
        else:
            draft.questions_state = State.CONTEXT_OVERFLOW
    return requests


def batches(parts: Sequence[str]) -> list[Sequence[str]]:
    """Cut the sentences of an answer into the pieces that are sent to one extraction each."""
    return [parts[i : i + CLAIM_BATCH_SENTENCES] for i in range(0, len(parts), CLAIM_BATCH_SENTENCES)]


def second_round(draft: Draft, keys: Keys, reader: Reader, *, align: bool, check: bool) -> list[Request]:
    """Plan every verdict and similarity of a sample whose claims are known.

    Args:
        draft: ``claims`` are set; ``slots`` is filled in place.
        keys: Makes content keys.
        reader: The judge's limits.
        align: Let the embedding model find the evidence of claims.
        check: Ask a checker, too, whether claims are supported.
    """
    sample, needs = draft.sample, draft.needs
    out: list[Request] = []
    ask_question = prompts.question(sample.question)
    read_answer = draft.read_answer()

    def verdicts(ask: Ask, passages: Sequence[tuple[str, ...]], middle: str, tails: Sequence[str]) -> list[Slot]:
        return _verdicts(ask, passages, middle, tails, keys, reader, out)

    for side, extracted in draft.extracted.items():
        source = draft.sentences[side]
        draft.entailed[side] = [
            verdicts(prompts.SUPPORT, [(source[i],)], ask_question, [prompts.support_tail(claim)])[0]
            for i, claim in extracted
        ]
    chunks = tuple(passage.text for passage in sample.contexts or ())
    grounded = has_context(sample)
    together = tuple(text for text in chunks if text.strip())
    passages: dict[Need, Callable[[], list[tuple[str, ...]]]] = {
        Need.ANSWER_BY_ALL: lambda: [together],
        Need.ANSWER_BY_CHUNK: lambda: [(text,) for text in chunks],
        Need.ANSWER_BY_SOURCE: lambda: _by_source(sample),
        Need.ANSWER_BY_REFERENCE: lambda: [(sample.reference or "",)],
        Need.REFERENCE_BY_ALL: lambda: [together],
        Need.REFERENCE_BY_CHUNK: lambda: [(text,) for text in chunks],
        Need.REFERENCE_BY_ANSWER: lambda: [(read_answer,)],
    }
    for side, group in (("answer", _ANSWER_CLAIMS), ("reference", _REFERENCE_CLAIMS)):
        asked = [need for need in passages if need in needs and need in group]
        claims = draft.claims[side].texts if asked else ()
        barred = [draft.guard and instructs(claim) for claim in claims]
        tails = ["" if bar else prompts.support_tail(claim) for claim, bar in zip(claims, barred, strict=True)]
        for need in asked:
            of_text = need in (Need.ANSWER_BY_REFERENCE, Need.REFERENCE_BY_ANSWER)
            declined = need is Need.REFERENCE_BY_ANSWER and draft.claims["answer"].abstains
            if tails and (grounded or of_text) and not declined:
                texts = passages[need]()
                draft.slots[need] = verdicts(prompts.SUPPORT, texts, ask_question, tails)
                if check:
                    draft.checks[need] = _checks(texts, claims, barred, keys, out)
            else:
                draft.slots[need] = []
    if draft.slots.get(Need.ANSWER_BY_ALL) or draft.slots.get(Need.REFERENCE_BY_ALL):
        draft.places = places(sample)
        if align:
            out += _alignments(draft, keys)
    if grounded:
        singles = [(text,) for text in chunks]
        for need, text in (
            (Need.USEFUL_FOR_REFERENCE, sample.reference),
            (Need.USEFUL_FOR_ANSWER, read_answer if sample.answer is not None else None),
        ):
            declined = need is Need.USEFUL_FOR_ANSWER and draft.claims["answer"].abstains
            if need in needs and text is not None and not is_blank(text) and not declined:
                draft.slots[need] = verdicts(prompts.USEFUL, singles, ask_question, [prompts.useful_tail(text)])
        if Need.RELEVANT_CHUNK in needs:
            draft.slots[Need.RELEVANT_CHUNK] = _relevance(chunks, ask_question, keys, reader, out)
        if Need.RELEVANT_SENTENCE in needs:
            parts = [part for text in chunks for part in sentences(text)]
            draft.slots[Need.RELEVANT_SENTENCE] = _relevance(parts, ask_question, keys, reader, out)
    if not is_blank(sample.answer) and not draft.claims["answer"].abstains and Need.RESPONDS in needs:
        request = _verdict(prompts.RESPONDS, (ask_question, prompts.responds_tail(read_answer)), keys)
        draft.slots[Need.RESPONDS] = [_slot(request, reader, out)]
    if not is_blank(sample.answer) and not is_blank(sample.reference):
        for need, ask in ((Need.SIMILAR_REFERENCE, prompts.SIMILAR), (Need.TOKENS_REFERENCE, prompts.TOKENS)):
            if need in needs:
                request = _verdict(ask, (sample.answer or "", sample.reference or ""), keys)
                out.append(request)
                draft.slots[need] = [(request.key,)]
    return out


def similar_questions(draft: Draft, keys: Keys) -> list[Request]:
    """Plan the similarities of a sample's question with its reverse questions, which are known."""
    sample, state, out = draft.sample, draft.questions_state, list[Request]()
    if Need.SIMILAR_QUESTIONS not in draft.needs or sample.question is None:
        return out
    if is_blank(sample.answer) or draft.claims["answer"].abstains:
        return out
    missing = Verdict(None, State.PARSE_FAILED if state in (State.OK, State.PARTIAL) else state, 0.0)
    slots: list[Slot] = []
    for text in draft.questions:
        request = _verdict(prompts.SIMILAR, (sample.question, text), keys)
        out.append(request)
        slots.append((request.key,))
    draft.slots[Need.SIMILAR_QUESTIONS] = slots + [missing] * (prompts.N_QUESTIONS - len(slots))
    return out


def ordered(requests: Iterable[Request]) -> list[Request]:
    """Drop duplicates and bring requests that share a kind and a first part (the passage) together, in order of
    first appearance, so that a prefix cache pays. O(n).
    """
    unique: dict[bytes, Request] = {request.key: request for request in requests}
    groups: dict[tuple[str, str], list[Request]] = {}
    for request in unique.values():
        groups.setdefault((request.ask.kind, request.parts[0]), []).append(request)
    return [request for group in groups.values() for request in group]


def _verdicts(
    ask: Ask,
    passages: Sequence[tuple[str, ...]],
    middle: str,
    tails: Sequence[str],
    keys: Keys,
    reader: Reader,
    out: list[Request],
) -> list[Slot]:
    room = reader.max_prompt_tokens - _TEMPLATE_TOKENS - _upper_tokens(ask.system + middle, reader)
    sizes = [_upper_tokens(tail, reader) for tail in tails]
    budget = room - max((size for size in sizes if room - size >= SMALLEST_WINDOW_TOKENS), default=room)
    slots: list[Slot] = []
    for texts in passages:
        if not any(text.strip() for text in texts):
            slots += [_UNSUPPORTED] * len(tails)
            continue
        heads = reader.windows(texts, budget)
        for tail, size in zip(tails, sizes, strict=True):
            if not tail:
                slots.append(_UNSUPPORTED)
                continue
            if not heads or size > room - budget:
                slots.append(_OVERFLOW)
                continue
            made = [Request(keys.of(ask, (head, middle, tail)), ask, (head, middle, tail)) for head in heads]
            out += made
            slots.append(tuple(request.key for request in made))
    return slots


def _checks(
    passages: Sequence[tuple[str, ...]],
    claims: Sequence[str],
    barred: Sequence[bool],
    keys: Keys,
    out: list[Request],
) -> list[bytes]:
    found: list[bytes] = []
    for texts in passages:
        kept = tuple(text for text in texts if text.strip())
        for claim, bar in zip(claims, barred, strict=True):
            if not kept or bar:
                found.append(b"")
                continue
            request = _verdict(prompts.CHECK, (claim, *kept), keys)
            out.append(request)
            found.append(request.key)
    return found


def _relevance(texts: Sequence[str], ask_question: str, keys: Keys, reader: Reader, out: list[Request]) -> list[Slot]:
    slots: list[Slot] = []
    for text in texts:
        if not text.strip():
            slots.append(_UNSUPPORTED)
            continue
        request = _verdict(prompts.RELEVANT, (ask_question, prompts.relevant_tail(text)), keys)
        slots.append(_slot(request, reader, out))
    return slots


def _alignments(draft: Draft, keys: Keys) -> list[Request]:
    texts = tuple(text for _, text in draft.places)
    requests = []
    for side, need in (("answer", Need.ANSWER_BY_ALL), ("reference", Need.REFERENCE_BY_ALL)):
        if draft.slots.get(need):
            made = [_verdict(prompts.EVIDENCE, (claim, *texts), keys) for claim in draft.claims[side].texts]
            draft.aligned[side] = [request.key for request in made]
            requests += made
    return requests


def _by_source(sample: Sample) -> list[tuple[str, ...]]:
    """Chunks of each source document with at least two non-blank chunks; a single chunk is judged alone anyway."""
    found: dict[str, list[str]] = {}
    for passage in sample.contexts or ():
        if passage.source is not None and passage.text.strip():
            found.setdefault(passage.source, []).append(passage.text)
    return [tuple(texts) for texts in found.values() if len(texts) > 1]


def _generation(ask: Ask, parts: tuple[str, ...], keys: Keys, max_tokens: int = 0) -> Request:
    size = sum(len(part.encode("utf-8", "surrogatepass")) for part in parts)
    return Request(keys.of(ask, parts), ask, parts, max_tokens or 128 + size)


def _verdict(ask: Ask, parts: tuple[str, ...], keys: Keys) -> Request:
    return Request(keys.of(ask, parts), ask, parts)


def _slot(request: Request, reader: Reader, out: list[Request]) -> Slot:
    if not _readable(request, reader):
        return _OVERFLOW
    out.append(request)
    return (request.key,)


def _readable(request: Request, reader: Reader) -> bool:
    room = reader.max_prompt_tokens - _TEMPLATE_TOKENS - (request.max_tokens if request.ask.schema else 1)
    text = request.ask.system + "".join(request.parts)
    return room > 0 and fits(text, room, reader)


def _upper_tokens(text: str, reader: Reader) -> int:
    """Bound a text's tokens from above: by its bytes while they are few, else by counting."""
    size = len(text.encode("utf-8", "surrogatepass"))
    return size if size * 4 <= reader.max_prompt_tokens else reader.count_tokens(text)
