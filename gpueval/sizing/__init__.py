"""Sizing: will it fit, how fast, what instead - before anything is loaded.

``hardware`` (what the machine has) and ``model`` (what the model is) feed the pure modules ``memory``,
``throughput`` and ``plan``; ``estimate`` joins them into the answer of ``gpueval size``; ``actuals`` keeps what
engines really got.
"""
