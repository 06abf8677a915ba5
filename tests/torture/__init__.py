"""Breaking kstore on purpose: interrupts, kills, damage, full disks, mutated bytes.

Every part has a short form for ``make test`` and a long one for ``make torture``
(``KSTORE_TORTURE=1``). A random part prints its seed and takes ``SEED=``.
"""
