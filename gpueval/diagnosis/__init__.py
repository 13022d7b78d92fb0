"""Why scores are what they are: causes per sample and per run, kinds and clusters of failing claims, what changed."""
