"""What a sleeping task sleeps in, by the kernel's name of the function (/proc/PID/wchan)."""

from __future__ import annotations

RECEIVING = frozenset(
    {
        "wait_woken",
        "sk_wait_data",
        "tcp_recvmsg",
        "tcp_recvmsg_locked",
        "inet_recvmsg",
        "inet6_recvmsg",
        "__skb_wait_for_more_packets",
    }
)
"""A blocking receive from a TCP or UDP socket. `accept`, and a wait for any of several files (`poll`), are others."""


def receives(wait_channel: str) -> bool:
    return wait_channel.partition(".")[0] in RECEIVING
