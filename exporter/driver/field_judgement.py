"""How the answers to one batch of fields are looked at: each number by itself."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.core.clock import MonotonicTime
from exporter.driver.interface import Call, UnsupportedError
from exporter.driver.judgement import FIELD, Reader, judged
from exporter.driver.plausibility import FIELDS

Answers = tuple[float | None, ...]
"""In the order of the fields; None where the device has none."""


class FieldBatch:
    """The call for a batch of fields of one device. What was believed and is answered once more is not looked at again.

    A batch that is refused as a whole refuses each of its fields: collectors ask for several.
    """

    def __init__(self, reader: Reader, call: Call, wanted: Sequence[tuple[int, int]]) -> None:
        self._reader = reader
        self._call = call
        self._histories = [reader.history((FIELD, field, scope), FIELDS.get(field)) for field, scope in wanted]
        self._good: Answers | None = None
        """The last answers, where each of their numbers was believed."""
        self._judged: Answers = ()
        self._repeated: MonotonicTime | None = None
        """When they were last answered again."""

    def ask(self) -> Answers:
        try:
            answers: Answers = self._call()
        except UnsupportedError:
            for history in self._histories:
                self._reader.refuse(history)
            raise
        if answers == self._good and not self._reader.refused:
            self._repeated = self._reader.now
            return self._judged
        if self._repeated is not None:
            for history in self._histories:
                history.rule.repeated(self._repeated)
        return self._look_at(answers)

    def _look_at(self, answers: Answers) -> Answers:
        reader = self._reader
        found, all_believed = list(answers), True
        for place, history in enumerate(self._histories):
            number = found[place]
            if number is None:
                reader.refuse(history)
                continue
            found[place] = judged(reader, history, number)
            all_believed = all_believed and found[place] is not None
        self._good, self._judged, self._repeated = answers if all_believed else None, tuple(found), None
        return self._judged
