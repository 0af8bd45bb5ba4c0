"""`make year`: a year of 100 nodes whose GPUs fail and are repaired: no false drain, no missed fault.

`python -m tests.year.simulate [--nodes 100] [--seed N]`. The clock is injected; the seed is printed. Status 1 where a
verdict is wrong. A fault is false if its GPU is healthy, and was not repaired within the last minute. It is missed if
there is none a minute after the event.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from exporter.core.clock import UnixTime
from exporter.faults import state_file
from exporter.faults.findings import REPAIRS
from exporter.faults.latch import advance_faults
from exporter.faults.model import FaultState, Observation, ObservedGpu
from exporter.faults.rule import Verdict

DAY, YEAR = 86_400.0, 365 * 86_400.0
EVERY, WATCHED = 5.0, 60.0
"""Seconds between observations, and after an event in which each is checked."""
EVENTS = 60
"""On each node."""
WATTS = 300.0
NEW_FIELDS = {"width", "generation", "low_generation", "last_boot"}
"""Of a GPU in the state file, which earlier versions do not write."""
BEGIN = 1_700_000_000.0


@dataclass
class Node:
    """`epochs` are the times at which the counters of each GPU began; `faulty` is the truth, by UUID."""

    name: str
    random: random.Random
    folder: Path
    now: float = BEGIN
    boot: int = 1
    made: int = 0
    state: FaultState = field(default_factory=FaultState)
    gpus: dict[str, ObservedGpu] = field(default_factory=dict)
    epochs: dict[str, float] = field(default_factory=dict)
    faulty: dict[str, float] = field(default_factory=dict)
    repaired: dict[str, float] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    event: str = "start"

    def __post_init__(self) -> None:
        for index in range(8):
            self.add(index, f"0000:{index + 16:02x}:00.0")
        self.observe(WATCHED)

    def add(self, index: int, bus: str) -> str:
        """Install a new card."""
        self.made += 1
        uuid = f"{self.name}-GPU-{self.made}"
        card = ObservedGpu(uuid, index, f"S{self.made}", bus, up=True, uncorrected=0.0, model="H100")
        self.gpus[uuid] = replace(card, links=18, width=16, generation=5, loaded=True)
        self.epochs[uuid] = self.now - DAY
        return uuid

    def change(self, uuid: str, **values: object) -> None:
        self.gpus[uuid] = replace(self.gpus[uuid], **values)  # type: ignore[arg-type]

    def pick(self) -> str:
        return self.random.choice([uuid for uuid in self.gpus if uuid not in self.faulty] or list(self.gpus))

    def observe(self, seconds: float) -> None:
        """Observe for so long, and compare with the truth each time."""
        began = self.now
        while self.now < began + seconds:
            self.now += EVERY
            shown = tuple(
                replace(seen, joules=WATTS * (self.now - self.epochs[uuid]))
                for uuid, seen in self.gpus.items()
                if uuid not in self.hidden
            )
            seen = Observation(UnixTime(self.now), f"boot-{self.boot}", driver=bool(shown), gpus=shown)
            self.state = advance_faults(self.state, seen)
            self._compare()

    def _compare(self) -> None:
        failed = {f.uuid for f in self.state.faults if REPAIRS[f.action.value][0] is Verdict.FAILED}
        healthy = {uuid for uuid in failed if self.now - self.repaired.get(uuid, 0.0) > WATCHED} - self.faulty.keys()
        for uuid in healthy:
            self.wrong.append(f"{self.name} {self.event}: false fault of {uuid}")
        for uuid, since in self.faulty.items():
            if uuid not in failed and self.now - since >= WATCHED:
                self.wrong.append(f"{self.name} {self.event}: missed fault of {uuid}")

    def restart_exporter(self) -> None:
        """Write the state and read it again, as another process does."""
        file = self.folder / f"{self.name}.json"
        state_file.write_state(file, self.state)
        if self.random.random() < 0.5:  # an earlier version wrote it
            content = json.loads(file.read_text())
            content["devices"] = {
                uuid: {name: value for name, value in record.items() if name not in NEW_FIELDS}
                for uuid, record in content["devices"].items()
            }
            file.write_text(json.dumps(content))
        found = state_file.read_state(file)
        if found.cause:
            self.wrong.append(f"{self.name} {self.event}: state not understood: {found.reason}")
        self.state = found.state

    def reset(self, *uuids: str) -> None:
        """Reset GPUs: counters begin anew, and what a reset repairs is over."""
        for uuid in uuids:
            self.epochs[uuid] = self.repaired[uuid] = self.now
            self.faulty.pop(uuid, None)
            self.change(uuid, up=True, failure="", uncorrected=0.0, xids={}, remap_failed=False, sram_exceeded=False)


def xid(node: Node) -> None:
    uuid = node.pick()
    node.change(uuid, xids={node.random.choice((46, 62, 95, 109, 119, 120, 140)): UnixTime(node.now)})
    node.faulty[uuid] = node.now


def fall_off(node: Node) -> None:
    uuid = node.pick()
    node.change(uuid, up=False, failure="GPU_IS_LOST", xids={79: UnixTime(node.now)})
    node.faulty[uuid] = node.now


def memory_error(node: Node) -> None:
    uuid = node.pick()
    node.change(uuid, uncorrected=node.random.randint(1, 9) * 1.0, xids={48: UnixTime(node.now)})
    node.faulty[uuid] = node.now


def remap_fails(node: Node) -> None:
    uuid = node.pick()
    node.change(uuid, remap_failed=True, xids={63: UnixTime(node.now), 94: UnixTime(node.now)})
    node.faulty[uuid] = node.now


def program_fails(node: Node) -> None:
    node.change(node.pick(), xids={node.random.choice((13, 31, 43, 45)): UnixTime(node.now)})


def away_for_seconds(node: Node) -> None:
    """A reset between jobs: away for 4 s."""
    uuid = node.pick()
    node.hidden.add(uuid)
    node.observe(EVERY)
    node.hidden.clear()
    node.epochs[uuid] = node.now
    node.change(uuid, xids={})


def late_call(node: Node) -> None:
    uuid = node.pick()
    node.change(uuid, up=False, failure="HUNG")
    node.observe(15.0)
    node.change(uuid, up=True, failure="")


def repair_by_reset(node: Node) -> None:
    node.reset(*[uuid for uuid in node.faulty if not node.gpus[uuid].remap_failed])
    node.observe(WATCHED)


def replace_card(node: Node) -> None:
    """RMA: another card, at the same bus id or at another, after a start of the node."""
    old = node.random.choice(list(node.faulty) or list(node.gpus))
    gone = node.gpus.pop(old)
    node.repaired[old] = node.now
    node.faulty.pop(old, None)
    node.add(gone.index, node.random.choice((gone.bus, f"0000:{128 + node.made % 100:02x}:00.0")))
    reboot(node)


def reboot(node: Node) -> None:
    """Start the node anew; in every other one the BIOS gives other bus ids and the driver other indices."""
    node.boot += 1
    lasting = {uuid: since for uuid, since in node.faulty.items() if node.gpus[uuid].remap_failed}
    failed = {uuid: node.gpus[uuid].remap_failed for uuid in node.gpus}
    node.reset(*node.gpus)
    for uuid in lasting:
        node.change(uuid, remap_failed=failed[uuid])
        node.faulty[uuid] = node.now
    if node.random.random() < 0.5:
        buses = [seen.bus for seen in node.gpus.values()]
        node.random.shuffle(buses)
        for index, (uuid, bus) in enumerate(zip(list(node.gpus), sorted(buses), strict=True)):
            node.change(uuid, index=index, bus=bus)
    node.observe(WATCHED)


def upgrade_exporter(node: Node) -> None:
    node.restart_exporter()


def reload_driver(node: Node) -> None:
    """The driver is away for minutes, and every counter begins anew."""
    node.hidden |= set(node.gpus)
    node.observe(180.0)
    node.hidden.clear()
    node.reset(*[uuid for uuid in node.gpus if not node.gpus[uuid].remap_failed])
    node.observe(WATCHED)


def clock_set_back(node: Node) -> None:
    node.now -= 600.0
    node.epochs = {uuid: began - 600.0 for uuid, began in node.epochs.items()}
    node.faulty = {uuid: since - 600.0 for uuid, since in node.faulty.items()}


HAPPENINGS: tuple[tuple[float, Callable[[Node], None]], ...] = (
    (2, xid), (1, fall_off), (1, memory_error), (0.5, remap_fails), (6, program_fails), (6, away_for_seconds),
    (3, late_call), (5, repair_by_reset), (1.5, replace_card), (2, reboot), (4, upgrade_exporter), (1, reload_driver),
    (0.5, clock_set_back),
)  # fmt: skip


def year(name: str, seed: int, folder: Path) -> tuple[list[str], Counter[str]]:
    """Return what was wrong on one node, and how often each event happened."""
    chance = random.Random(f"{seed} {name}")  # noqa: S311 - a seed that is printed
    node, happened = Node(name, chance, folder), Counter[str]()
    weights, events = [weight for weight, _ in HAPPENINGS], [event for _, event in HAPPENINGS]
    for _ in range(EVENTS):
        (event,) = chance.choices(events, weights)
        node.event = event.__name__
        happened[node.event] += 1
        event(node)
        node.observe(2 * WATCHED)
        node.now += chance.uniform(0.1, 2.0) * YEAR / EVENTS
        node.event = f"days after {event.__name__}"
        node.observe(WATCHED)
    return node.wrong, happened


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000)
    arguments = parser.parse_args()
    wrong: list[str] = []
    happened: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.nodes):
            found, events = year(f"n{number}", arguments.seed, Path(folder))
            wrong += found
            happened += events
    print(f"seed {arguments.seed}: {arguments.nodes} nodes, a year, {dict(happened.most_common())}")  # noqa: T201
    for line in dict.fromkeys(wrong):
        print(line)  # noqa: T201
    kinds = Counter("false" if "false" in line else "missed" if "missed" in line else "other" for line in set(wrong))
    print(f"{kinds['false']} false drains, {kinds['missed']} missed, {kinds['other']} others")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
