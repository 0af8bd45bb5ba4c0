"""Waits that programs report of themselves; a checkpoint also shows by what the program writes."""

from __future__ import annotations

from exporter.ledger.states.host_waits import (
    BLOCKED,
    HOT_THREAD,
    PRESSURE_FLOOR,
    WAIT_COVER,
    cpu_claim,
    main_thread_works,
    reported_part,
    storage_claim,
)
from exporter.ledger.states.state import AMOUNT, Certainty, Evidence, Limits, State, Threshold, at_least, is_below

WRITE_RATE = Threshold(
    "write_bytes_per_second",
    1e6,
    "Bytes per second a program writes above which its waiting is a wait for a checkpoint.",
    maximum=AMOUNT,
)

_MIN_WRITTEN_PER_READ = 2.0
"""Ranks and loaders that pass on by pipes what they read write about as much as they read."""


def checkpoint_claim(evidence: Evidence, limits: Limits) -> float:
    """Return the reported part, or 1 where it mostly writes, and waits for storage or copies what it writes."""
    return reported_part(evidence, "checkpoint") or float(
        _is_writing(evidence, limits) and (bool(storage_claim(evidence, limits)) or _is_copying(evidence, limits))
    )


def _is_writing(evidence: Evidence, limits: Limits) -> bool:
    """Decide by what it moves now; where that is little, as in `fsync`, by what it did lately."""
    own, host = evidence.own, evidence.host
    if own.io_bytes_per_second is None:
        return _mostly_writes(host.read_bytes_per_second, host.written_bytes_per_second, limits)
    reading, writing = own.reading_bytes_per_second, own.writing_bytes_per_second
    if (reading or 0.0) + (writing or 0.0) >= limits[WRITE_RATE]:
        return _mostly_writes(reading, writing, limits)
    return _mostly_writes(own.read_bytes_per_second, own.written_bytes_per_second, limits)


def _mostly_writes(read: float | None, written: float | None, limits: Limits) -> bool:
    return (written or 0.0) > _MIN_WRITTEN_PER_READ * (read or 0.0) and at_least(written, limits[WRITE_RATE])


def _is_copying(evidence: Evidence, limits: Limits) -> bool:
    """Return whether it is full, and writes all the time: a checkpoint that has ended keeps no thread full.

    Where the main thread is full, that thread has to write: another one may write behind it.
    """
    own = evidence.own
    writing = own.writing_bytes_per_second
    if main_thread_works(evidence, limits) and own.main_writing_bytes_per_second is not None:
        writing = own.main_writing_bytes_per_second
    return not is_below(writing, limits[WRITE_RATE]) and bool(cpu_claim(evidence, limits))


WAIT_DATA = State(
    name="wait_data",
    title="Waits for data",
    step="More loader workers, prefetch",
    colour="#4810B8",
    audience="owner",
    certainty=Certainty.LIKELY,
    meaning="The GPU has nothing to run while its program waits for its data, as the program itself reports.",
    signature="The program reports the phase `data`",
    advice=(
        "More loader workers, pinned memory and prefetch; cache the data near, preprocess offline or on the GPU."
        " The pressure of CPU, storage and network beside it says which of them is short."
    ),
    of_time="waiting",
    needs=(("reported_phases",),),
    claim=lambda evidence, _: reported_part(evidence, "data"),
)

WAIT_EVALUATION = State(
    name="wait_evaluation",
    title="Evaluates",
    step="Evaluate less often, or apart",
    colour="#600018",
    audience="owner",
    certainty=Certainty.LIKELY,
    meaning="The GPU has nothing to run while its program evaluates, as the program itself reports.",
    signature="The program reports the phase `evaluation`",
    advice="Evaluate less often, on fewer samples, in larger batches, or in a job of its own beside the training.",
    of_time="waiting",
    needs=(("reported_phases",),),
    claim=lambda evidence, _: reported_part(evidence, "evaluation"),
)

WAIT_CHECKPOINT = State(
    name="wait_checkpoint",
    title="Writes a checkpoint",
    step="Write checkpoints in background",
    colour="#EFAD47",
    audience="owner",
    certainty=Certainty.LIKELY,
    meaning="The GPU has nothing to run while its program writes: a checkpoint.",
    signature=(
        "The program reports the phase `checkpoint`; or it mostly writes, and waits for storage (as below) or is"
        " full copying"
    ),
    advice="Write checkpoints in the background (asynchronous, sharded, to local disk first), or less often.",
    of_time="waiting",
    needs=(("written_bytes_per_second",), ("reported_phases",)),
    thresholds=(WRITE_RATE, BLOCKED, WAIT_COVER, PRESSURE_FLOOR, HOT_THREAD),
    claim=checkpoint_claim,
)
