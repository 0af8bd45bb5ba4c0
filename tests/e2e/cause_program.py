"""A program that keeps its GPU waiting for one reason, until it is killed. Prints `ready` when it does so.

cause_program.py burn            one thread full
cause_program.py sleep           nothing at all
cause_program.py read PATH       reads PATH past the page cache, over and over
cause_program.py blocked         sits in D state (waits for a child that shares nothing, by CLONE_VFORK)
cause_program.py follow PORT     is connected to PORT, and waits for its sibling's word on standard input
cause_program.py write PATH      writes PATH past the page cache and has it on disk, over and over
cause_program.py serve PORT      listens on PORT, and a thread looks again and again whether there is work
cause_program.py receive PORT    sits in a receive from a server on PORT that says nothing
cause_program.py loader          sleeps while its child, which loads its data, is full
cause_program.py crowd NUMBER    sleeps, and so do NUMBER children of it
cause_program.py poll PORT       answers requests on PORT, and polls its sockets without a pause
cause_program.py lead PORT       accepts one rank on PORT, and sends it one byte after each step of 0.3 s
cause_program.py rank PORT       receives from the leader on PORT, and answers
cause_program.py blinks          sits in D state for half of the time
cause_program.py saves           computes, then sits in D state, in turns of a quarter of a second
cause_program.py compile CODE    runs CODE in one child after the other, and computes a little between
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE_VFORK = 0x4000
_PR_SET_PDEATHSIG = 1


def ready() -> None:
    print("ready", flush=True)  # noqa: T201 - the parent waits for it


def load() -> None:
    while True:
        sum(range(1000))


def burn() -> None:
    ready()
    load()


def sleep() -> None:
    ready()
    time.sleep(600)


def read(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, 256 * 1024)  # O_DIRECT wants an aligned buffer
    size = os.fstat(descriptor).st_size
    ready()
    place = 0
    while True:
        os.preadv(descriptor, [buffer], place)
        place = (place + len(buffer)) % size


def blocked() -> None:
    ready()
    block()


def block(seconds: float = 600.0) -> None:
    """Sit in D state until a child that shares nothing ends."""
    parent = os.getpid()
    until = time.monotonic() + seconds
    child = ctypes.CDLL(None).syscall(_CLONE[platform.machine()], _CLONE_VFORK | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        while os.getppid() == parent and time.monotonic() < until:  # the parent sits in D state until this one ends
            time.sleep(min(0.2, seconds))
        os._exit(0)
    os.waitpid(child, 0)


def blinks() -> None:
    ready()
    while True:
        block(0.2)
        time.sleep(0.2)


def saves() -> None:
    ready()
    while True:
        work(0.25)
        block(0.25)


def compile_(code: str) -> None:
    work(0.01)
    ready()
    while True:
        subprocess.run([sys.executable, "-S", "-c", code], check=True)
        work(0.05)


def work(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        bytes(1 << 20)


def follow(port: str) -> None:
    with socket.create_connection(("127.0.0.1", int(port))):
        ready()
        sys.stdin.readline()


def write(path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    buffer = mmap.mmap(-1, 1 << 20)
    ready()
    while True:
        os.pwritev(descriptor, [buffer], 0)
        os.fsync(descriptor)


def accept(server: socket.socket) -> None:
    connected: list[object] = []
    while True:
        connected.append(server.accept())


def serve(port: str) -> None:
    with socket.create_server(("127.0.0.1", int(port))) as server:
        threading.Thread(target=accept, args=(server,), daemon=True).start()
        burn()


def receive(port: str) -> None:
    with socket.create_connection(("127.0.0.1", int(port))) as connection:
        ready()
        connection.recv(1)


def poll(port: str) -> None:
    with socket.create_server(("127.0.0.1", int(port))) as server:
        ready()
        clients: list[socket.socket] = []
        while True:
            readable, _, _ = select.select([server, *clients], [], [], 0)
            for each in readable:
                if each is server:
                    clients.append(server.accept()[0])
                elif request := each.recv(4096):
                    each.sendall(request)
                else:
                    clients.remove(each)


def lead(port: str) -> None:
    with socket.create_server(("127.0.0.1", int(port))) as server:
        ready()
        other, _ = server.accept()
        while True:
            time.sleep(0.3)
            other.sendall(b"1")
            other.recv(1)


def rank(port: str) -> None:
    with socket.create_connection(("127.0.0.1", int(port))) as leader:
        ready()
        while leader.recv(1):
            leader.sendall(b"1")


def child(does: Callable[[], None]) -> None:
    """Start a child that does something until this process ends."""
    parent = os.getpid()
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            does()
        os._exit(0)


def rest() -> None:
    time.sleep(600)


def loader() -> None:
    child(load)
    sleep()


def crowd(number: str) -> None:
    for _ in range(int(number)):
        child(rest)
    sleep()


if __name__ == "__main__":
    programs = (
        burn, sleep, read, blocked, follow, write, serve, receive, loader, crowd, poll, lead, rank, blinks, saves,
        compile_,
    )  # fmt: skip
    {program.__name__.rstrip("_"): program for program in programs}[sys.argv[1]](*sys.argv[2:])
