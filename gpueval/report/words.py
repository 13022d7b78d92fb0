"""What metrics and states mean, in a sentence each, for reports that are read without the documentation."""

from __future__ import annotations

from gpueval.records import State

METRIC_WORDS = {
    "faithfulness": "Share of the answer's claims that the retrieved documents support.",
    "answer_relevancy": "How closely the answer meets the question; 0 where it evades it.",
    "context_precision": "Whether the useful documents stand at the top of the list.",
    "context_precision_answer": "Whether the documents useful for the answer stand at the top of the list.",
    "context_recall": "Share of the reference's claims that the retrieved documents hold.",
    "context_relevance": "Share of the retrieved sentences that help to answer.",
    "context_relevance_chunk": "Share of the retrieved documents that help to answer.",
    "answer_correctness": "Whether the answer says what the reference says, by claims and by meaning.",
    "semantic_similarity": "Cosine of the answer's and the reference's embeddings.",
    "hallucination": "Share of the answer's claims that neither the documents nor the reference support.",
    "noise_sensitivity": "Share of the answer's claims that are wrong and come from a retrieved document.",
    "noise_sensitivity_relevant": "The part of the noise that comes from a useful document.",
    "noise_sensitivity_irrelevant": "The part of the noise that comes from a useless document.",
    "context_utilization": "Of the reference's claims that were retrieved, the share that the answer states.",
    "self_knowledge": "Share of the answer's claims that are right but in no retrieved document.",
    "blending": "Share of the answer's claims that mix what different documents say of different things.",
    "exact_match": "Answer and reference are the same text, but for case, punctuation and articles.",
    "token_f1": "Words that answer and reference share.",
    "bleu": "Runs of words that answer and reference share (sentence BLEU).",
    "rouge_l": "Longest common run of words of answer and reference.",
    "bertscore": "Token by token closeness of answer and reference.",
}
"""By metric; every metric has one."""

STATE_WORDS = {
    State.OK: "Scored, with every verdict there.",
    State.PARTIAL: "Scored, but some verdicts are missing: the value is the lower end, the bounds say how far it goes.",
    State.NO_CLAIMS: "The text states nothing that could be true or false.",
    State.NO_CONTEXT: "No document was retrieved, so nothing can support the answer.",
    State.ABSTAINED: "The text declines to answer.",
    State.NOT_APPLICABLE: "The sample lacks a field that this metric needs.",
    State.PARSE_FAILED: "The judge's reply could not be read, twice.",
    State.TRUNCATED: "The judge's reply ended before it was complete.",
    State.INVALID_VERDICT: "The judge gave its labels too little probability to mean something.",
    State.CONTEXT_OVERFLOW: "The text is longer than the judge can read.",
    State.NOT_SAMPLED: "Left out: the samples drawn before it were enough for the interval asked for.",
    State.TIMEOUT: "The engine took too long.",
    State.ENGINE_ERROR: "The engine failed on this request.",
}
"""By state; every state has one."""
