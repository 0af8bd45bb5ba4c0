"""The rules asked, in this order, about the time in which the GPU had nothing to run."""

from __future__ import annotations

from exporter.ledger import claims
from exporter.ledger.rule import Certainty, Group, Rule

WAITING_RULES: tuple[Rule, ...] = (
    Rule(
        state="held_unused",
        group=Group.WAITING,
        audience="owner",
        certainty=Certainty.CERTAIN,
        meaning="A process of the workload is on the GPU, and it never ran a kernel, or none for long.",
        signature="No kernel of the owner for long, while its other GPUs run or nothing keeps it from running",
        advice="Ask for as many GPUs as it uses, start a rank on each, or release it.",
        claim=claims.unused,
        thresholds=("unused_never", "unused_after", "wait_cover"),
        needs=(("busy",),),
    ),
    Rule(
        state="wait_data",
        group=Group.WAITING,
        audience="owner",
        certainty=Certainty.LIKELY,
        meaning="The GPU has nothing to run while its program waits for its data, as the program itself reports.",
        signature="The program reports the phase `data`",
        advice=(
            "More loader workers, pinned memory and prefetch; cache the data near, preprocess offline or on the GPU."
            " The pressure of CPU, storage and network beside it says which of them is short."
        ),
        claim=claims.data,
        needs=(("reported_phases",),),
    ),
    Rule(
        state="wait_evaluation",
        group=Group.WAITING,
        audience="owner",
        certainty=Certainty.LIKELY,
        meaning="The GPU has nothing to run while its program evaluates, as the program itself reports.",
        signature="The program reports the phase `evaluation`",
        advice="Evaluate less often, on fewer samples, in larger batches, or in a job of its own beside the training.",
        claim=claims.evaluation,
        needs=(("reported_phases",),),
    ),
    Rule(
        state="wait_checkpoint",
        group=Group.WAITING,
        audience="owner",
        certainty=Certainty.LIKELY,
        meaning="The GPU has nothing to run while its program writes: a checkpoint.",
        signature=(
            "The program reports the phase `checkpoint`; or it mostly writes, and waits for storage (as below) or is"
            " full copying"
        ),
        advice="Write checkpoints in the background (asynchronous, sharded, to local disk first), or less often.",
        claim=claims.checkpoint,
        thresholds=("write_rate", "blocked", "wait_cover", "pressure_floor", "hot_thread"),
        needs=(("written_bytes_per_second",), ("reported_phases",)),
    ),
    Rule(
        state="wait_storage",
        group=Group.WAITING,
        audience="owner",
        certainty=Certainty.LIKELY,
        meaning="The GPU has nothing to run while its program waits for storage.",
        signature="Its processes sit in D state, or IO pressure covers the wait and they did IO themselves",
        advice="Cache the data on local disk, read ahead, and pack small files (WebDataset, TFRecord, HDF5).",
        claim=claims.storage,
        thresholds=("wait_cover", "pressure_floor", "blocked"),
        needs=(("io_pressure",), ("blocked_threads",)),
    ),
    Rule(
        state="wait_cpu",
        group=Group.WAITING,
        audience="owner",
        certainty=Certainty.LIKELY,
        meaning="The GPU has nothing to run while its owner is short of CPU.",
        signature="A thread is full and does not poll, or the owner is at its limit, or CPU pressure covers the wait",
        advice=(
            "Use more loader workers and CPUs, pinned memory and prefetch; preprocess offline or on the GPU (DALI);"
            " CUDA graphs or torch.compile where Python itself is the full thread."
        ),
        claim=claims.cpu,
        thresholds=("hot_thread", "polls_after", "cpu_of_limit", "wait_cover", "pressure_floor"),
        needs=(("hottest_thread",), ("cpu_of_limit",), ("cpu_pressure",)),
    ),
    Rule(
        state="wait_peer",
        group=Group.WAITING,
        audience="owner",
        certainty=Certainty.LIKELY,
        meaning="The GPU has nothing to run while another GPU of the same owner computes, or comes late to a barrier.",
        signature=(
            "Another GPU of the owner computes longer by at least half of the wait and this one ran a kernel lately; or"
            " it sits in a receive while data, storage, a checkpoint or CPU keeps another one here; or the program"
            " reports the phase `communication`"
        ),
        advice="Balance the pipeline stages or shards, look for a straggler, overlap communication with compute.",
        claim=claims.peer,
        thresholds=("wait_cover", "pressure_floor", "unused_after", "blocked", "network_rate"),
        needs=(("busy",),),
    ),
    Rule(
        state="wait_network",
        group=Group.WAITING,
        audience="owner",
        certainty=Certainty.LIKELY,
        meaning="The GPU has nothing to run while its program waits for the network.",
        signature=(
            "Its processes sit in a receive, its own network carries much, or the job has other nodes and the port"
            " nearest to the GPU is down, slow or counts errors; not for services"
        ),
        advice="Fetch data ahead or keep it near (local cache, same zone); look at the node's network ports and links.",
        claim=claims.network,
        thresholds=("blocked", "network_rate"),
        needs=(("receiving_threads",), ("network_bytes_per_second",)),
    ),
    Rule(
        state="wait_requests",
        group=Group.WAITING,
        audience="owner",
        certainty=Certainty.POSSIBLE,
        meaning="A service has no request to work on.",
        signature="The workload is a service, and none of the above",
        advice="Scale down, share the GPU with other services, or give it a MIG slice; batch where requests queue.",
        claim=claims.requests,
        thresholds=("hot_thread", "polls_after"),
        needs=(("busy",),),
    ),
    Rule(
        state="wait_user",
        group=Group.WAITING,
        audience="owner",
        certainty=Certainty.POSSIBLE,
        meaning="An interactive session runs nothing: its user thinks, or has gone.",
        signature="The workload is interactive, none of its threads is full, and none of the above",
        advice="Cull sessions nobody uses, share the GPU between them, or give each a MIG slice.",
        claim=claims.user,
        thresholds=("hot_thread",),
        needs=(("busy",),),
    ),
    Rule(
        state="wait_other",
        group=Group.WAITING,
        audience="owner",
        certainty=Certainty.POSSIBLE,
        meaning="The GPU has nothing to run and none of the signals says why.",
        signature="Processes on the GPU, none running a kernel, none of the above",
        advice="A lock, a remote service, a sleep: look at what the program waits for (py-spy dump, its logs).",
        claim=claims.rest,
        needs=(("busy",),),
    ),
)
