"""The history of one GPU or MIG instance: episodes of constant behaviour, and what has added up by any moment."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from exporter.tools.simulator.behaviour import ZERO, Behaviour, Channel, Rates

_KEPT = 16
"""Episodes kept for looking back; further back the history is computed again from its beginning."""

_POINTS = 128
"""Moments remembered: one pass asks many channels about the same few."""


class Step(NamedTuple):
    """What begins at some moment and how long it lasts."""

    behaviour: Behaviour
    end: float


class Episode(NamedTuple):
    start: float
    end: float
    behaviour: Behaviour
    totals: Rates
    """At its start."""
    active: float
    """The wave's integral at its start."""

    def total(self, channel: int, time: float, active: float) -> float:
        """`active` is the wave's integral at `time`."""
        idle = self.behaviour.idle[channel]
        busy = self.behaviour.active[channel] - idle
        return self.totals[channel] + idle * (time - self.start) + busy * (active - self.active)


class Track:
    """Totals by channel, as a function of the time since the start. Safe to ask from several threads."""

    def __init__(self, step: Callable[[float], Step]) -> None:
        self._step = step
        self._episodes: tuple[Episode, ...] = (self._episode(0.0, ZERO),)
        self._points: dict[float, tuple[Episode, float]] = {}

    def episode(self, time: float) -> Episode:
        """The episode at `time`; a time before the start counts as the start."""
        time = max(time, 0.0)
        episodes = self._episodes
        if episodes[-1].start <= time < episodes[-1].end:
            return episodes[-1]
        if time < episodes[0].start:
            episodes = (self._episode(0.0, ZERO),)
        while episodes[-1].end <= time:
            last = episodes[-1]
            active = last.behaviour.wave.active(last.end)
            totals = tuple(last.total(channel, last.end, active) for channel in Channel)
            episodes = (*episodes[-_KEPT:], self._episode(last.end, totals))
        self._episodes = episodes
        return next(episode for episode in reversed(episodes) if episode.start <= time)

    def total(self, channel: Channel, time: float) -> float:
        time = max(time, 0.0)
        point = self._points.get(time)
        if point is None:
            episode = self.episode(time)
            point = (episode, episode.behaviour.wave.active(time))
            if len(self._points) >= _POINTS:
                self._points = {}
            self._points[time] = point
        episode, active = point
        return episode.total(channel, time, active)

    def _episode(self, start: float, totals: Rates) -> Episode:
        behaviour, end = self._step(start)
        if not end > start:
            end = math.inf
        return Episode(start, end, behaviour, totals, behaviour.wave.active(start))
