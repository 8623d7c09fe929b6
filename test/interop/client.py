#!/usr/bin/python3
"""A client of the plain protocol, written from docs/protocol.md alone. It shares nothing with berth.

    client.py contend URL NAME [--naming N-A-L] [--heartbeat 1] [--hold 0.5] [--delay 2] --records DIR
    client.py resize URL NAME SLOTS [--naming N-A-L]

contend holds one slot after the other, and works in it. Work is to write down, every few milliseconds, that it goes on,
as the prover reads it. What happens is told on standard output, a line each.
"""

import argparse
import json
import os
import random
import sys
import time

SIGN = 0.005  # seconds between two signs of life
VERIFY = 0.2  # between two verifications
PROBED = 5  # slots that are probed at once

ARGUMENTS = {"x-queue-type": "classic", "x-max-length": 0, "x-overflow": "drop-head"}


def now():
    """A clock that all processes of this host share."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def nanoseconds():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Record:
    """What one holder of a slot writes down: slot, term, and when it lived."""

    def __init__(self, directory, slot, term):
        client = "python-%d" % os.getpid()
        run = "%s.%d.%d" % (client, slot, term)
        at = nanoseconds()
        life = {"kind": "life", "client": client, "run": run, "pid": os.getpid(), "slot": slot, "term": term}
        life.update({"at": at, "until": at})
        self.file = open(os.path.join(directory, run), "w", buffering=1)
        self.file.write(json.dumps(life) + "\n")

    def sign(self):
        self.file.write("%d\n" % nanoseconds())


class Lost(Exception):
    """The slot is certainly not ours any more."""


class Client:
    def __init__(self, url, name, naming, heartbeat):
        import pika

        self.amqp = pika
        parameters = pika.URLParameters(url)
        parameters.heartbeat = heartbeat
        parameters.socket_timeout = parameters.blocked_connection_timeout = 5
        self.name, self.naming = name, naming
        self.connection = pika.BlockingConnection(parameters)
        self.lease = 2 * heartbeat
        self.side = None  # a channel for what the broker may refuse
        self.prober = self.connection.channel()
        self.prober.confirm_delivery()

    def close(self):
        try:
            self.connection.close()
        except self.amqp.exceptions.AMQPError:
            pass

    def queue(self, slot, letter):
        if self.naming == "N-A-L":
            return "%s-%s-%d" % (self.name, letter, slot)
        return "%s-%d-%s" % (self.name, slot, letter)

    # What is asked of the broker.

    def ask(self, do):
        """Does something on a channel that is open, and returns 0, or the code of the refusal and its reason."""
        if self.side is None or not self.side.is_open:
            self.side = self.connection.channel()
        try:
            do(self.side)
            return 0, ""
        except self.amqp.exceptions.ChannelClosedByBroker as refusal:
            return refusal.reply_code, refusal.reply_text

    def look(self, queue):
        """Returns "present", "absent", "taken" or "unknown"."""
        code, reason = self.ask(lambda channel: channel.queue_declare(queue, passive=True))
        if code == 404 and reason.startswith("NOT_FOUND - no queue '%s' in vhost " % queue):
            return "absent"
        return {0: "present", 405: "taken"}.get(code, "unknown")

    def claim(self, queue):
        code, reason = self.ask(lambda channel: channel.queue_declare(queue, exclusive=True, arguments=ARGUMENTS))
        if code not in (0, 405):
            raise RuntimeError("cannot claim %s: %s %s" % (queue, code, reason))
        return code == 0

    def delete(self, queue):
        code, reason = self.ask(lambda channel: channel.queue_delete(queue))
        if code not in (0, 405):
            raise RuntimeError("cannot delete %s: %s %s" % (queue, code, reason))

    def probe(self, queue):
        try:
            self.prober.basic_publish("", queue, b"", mandatory=True)
            return "present"
        except self.amqp.exceptions.UnroutableError:
            return "absent"
        except self.amqp.exceptions.NackError:
            return "unknown"

    # Acquire, wait, verify, release.

    def acquire(self):
        """Returns a slot whose B is ours, or None."""
        slot = 1
        free = []
        while self.probe(self.queue(slot, "A")) == "present":
            if self.probe(self.queue(slot, "B")) == "absent":
                free.append(slot)
            slot += 1
            if len(free) == PROBED:
                break
        random.shuffle(free)
        for slot in free:
            if not self.claim(self.queue(slot, "B")):
                continue
            if self.look(self.queue(slot, "A")) == "present" and self.look(self.queue(slot, "T")) == "absent":
                return slot
            self.delete(self.queue(slot, "B"))
        return None

    def verify(self, slot):
        """Returns since when the slot is proven to be held, or None where that is unknown."""
        since = now()
        a, b = self.look(self.queue(slot, "A")), self.look(self.queue(slot, "B"))
        if a == "absent" or b in ("absent", "taken"):
            raise Lost("A is %s, B is %s" % (a, b))
        return since if (a, b) == ("present", "present") else None

    def hold(self, slot, delay, seconds, records):
        """Waits for the handover delay, and works in the slot that was won."""
        self.connection.sleep(delay)
        proven = self.verify(slot)
        if proven is None:
            return
        record = Record(records, slot, time.time_ns() // 1000)
        print("holding", slot, flush=True)
        end, again = now() + seconds, now() + VERIFY
        while now() < min(end, proven + self.lease - 0.5):
            record.sign()
            self.connection.sleep(SIGN)
            if now() >= again:
                proven = self.verify(slot) or proven
                again = now() + VERIFY

    def contend(self, delay, seconds, records):
        slot = self.acquire()
        if slot is None:
            self.connection.sleep(random.uniform(0, 0.4))
            return
        try:
            self.hold(slot, delay, seconds * random.uniform(0.5, 1.5), records)
            print("released", slot, flush=True)
        except Lost as why:
            print("lost", slot, why, flush=True)
        self.delete(self.queue(slot, "B"))

    # Administration.

    def count(self):
        slot = 1
        while True:
            state = self.look(self.queue(slot, "A"))
            if state == "absent":
                return slot - 1
            if state != "present":
                raise RuntimeError("slot %d is %s" % (slot, state))
            slot += 1

    def create(self, queue):
        code, reason = self.ask(lambda channel: channel.queue_declare(queue, durable=True, arguments=ARGUMENTS))
        if code != 0 and not (code == 406 and "inequivalent arg" in reason):
            raise RuntimeError("cannot create %s: %s %s" % (queue, code, reason))

    def resize(self, wanted, sweep=16):
        while not self.claim(self.name):
            self.connection.sleep(random.uniform(0, 0.2))
        present = self.count()
        for slot in range(max(present, wanted) + sweep, wanted, -1):
            self.delete(self.queue(slot, "A"))
        for slot in range(present + 1, wanted + 1):
            self.create(self.queue(slot, "A"))
        self.delete(self.name)
        print("resized", present, wanted, flush=True)


def contend(given):
    import pika

    delay = 2 * given.heartbeat if given.delay is None else given.delay
    while True:
        try:
            client = Client(given.url, given.name, given.naming, given.heartbeat)
            while True:
                client.contend(delay, given.hold, given.records)
        except pika.exceptions.AMQPError as broken:
            print("connection", repr(broken), flush=True)
            time.sleep(random.uniform(0, 0.5))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("do", choices=["contend", "resize"])
    parser.add_argument("url", nargs="?")
    parser.add_argument("name", nargs="?")
    parser.add_argument("slots", nargs="?", type=int)
    parser.add_argument("--naming", choices=["N-L-A", "N-A-L"], default="N-L-A")
    parser.add_argument("--heartbeat", type=int, default=1)
    parser.add_argument("--hold", type=float, default=0.5)
    parser.add_argument("--delay", type=float)
    parser.add_argument("--records")
    given = parser.parse_args()
    if given.do == "contend":
        contend(given)
    else:
        client = Client(given.url, given.name, given.naming, given.heartbeat)
        client.resize(given.slots)
        client.close()


if __name__ == "__main__":
    sys.exit(main())
