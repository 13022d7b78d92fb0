"""The three conditions of an ablation, and the samples each is made of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from gpueval.diagnosis.ablation import Condition
from gpueval.errors import DataError
from gpueval.records import Passage, Sample


def with_true_documents(samples: Iterable[Sample], texts: Mapping[str, Passage], where: str) -> list[Sample]:
    """Return the samples that name relevant documents, with these as contexts and without an answer.

    Args:
        samples: The samples.
        texts: Documents by id.
        where: What the documents were looked for in, for errors.

    Raises:
        DataError: No sample names a relevant document, or a named one is not there.
    """
    found = []
    for sample in samples:
        if not sample.relevant_ids:
            continue
        lacking = [name for name in sample.relevant_ids if name not in texts]
        if lacking:
            raise DataError(
                f"sample '{sample.id}' names '{lacking[0]}', which is not there",
                file=where,
                field="relevant_ids",
                remedy="Give the corpus that holds it with --corpus.",
            )
        contexts = tuple(texts[name] for name in sample.relevant_ids)
        found.append(msgspec.structs.replace(sample, contexts=contexts, answer=None))
    if not found:
        raise DataError("no sample names its relevant documents", file=where, field="relevant_ids")
    return found


def without_documents(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples without contexts and without an answer."""
    return [msgspec.structs.replace(sample, contexts=(), answer=None) for sample in samples]


def together(conditions: Mapping[Condition, Sequence[Sample]]) -> Iterator[Sample]:
    """Yield the samples of all conditions as one set: the condition is the group, and stands in the id.

    The sample's own id and group are kept in ``extra`` (``ablation_id``, ``ablation_group``).
    """
    for condition, samples in conditions.items():
        for sample in samples:
            kept = {"ablation_id": sample.id, "ablation_group": sample.group}
            yield msgspec.structs.replace(
                sample, id=f"{condition}/{sample.id}", group=str(condition), extra={**sample.extra, **kept}
            )


def matched(full: Sequence[Sample], other: Sequence[Sample], file: str) -> list[Sample]:
    """Return the samples of a condition's own file, each with the reference and the group that the full one gives.

    Raises:
        DataError: A sample is not among the full ones, or asks another question.
    """
    known = {sample.id: sample for sample in full}
    found = []
    for sample in other:
        partner = known.get(sample.id)
        if partner is None:
            raise DataError(
                f"'{sample.id}' is not among the samples of the full system",
                file=file,
                field="id",
                remedy="Samples are matched by id: give the same question the same id in every file.",
            )
        if sample.question is not None and sample.question != partner.question:
            raise DataError(
                f"'{sample.id}' asks another question than the full system was asked", file=file, field="question"
            )
        given = {"question": partner.question, "reference": partner.reference, "group": partner.group}
        found.append(msgspec.structs.replace(sample, answerable=partner.answerable, **given))
    return found
