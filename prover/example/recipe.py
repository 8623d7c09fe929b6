"""The semaphore of RabbitMQ's blog, for berth-prove hold: recipe.py URL LOCK. With SLOTS as well it makes the lock.

A queue has a token for each slot. Who has got a token, and does not acknowledge it, holds the slot; the broker puts it
back when the connection ends. Standard input and output are as docs/hold.md has it.
"""
import json, select, sys
import pika

PAUSE = 0.05  # seconds between two looks at the connection
parameters = pika.URLParameters(sys.argv[1])
parameters.heartbeat, parameters.socket_timeout, parameters.blocked_connection_timeout = 2, 5, 5
lock = sys.argv[2]


class Semaphore:
    def create(self, slots):
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare(lock, durable=True)
            for slot in range(1, slots + 1):
                channel.basic_publish("", lock, b"%d" % slot, pika.BasicProperties(delivery_mode=2))

    def acquire(self):
        self.connection = pika.BlockingConnection(parameters)
        self.channel = self.connection.channel()
        self.channel.basic_qos(prefetch_count=1)
        for self.token, _, slot in self.channel.consume(lock):
            return {"slot": int(slot)}
        raise pika.exceptions.AMQPError("the broker cancelled the consumer")

    def verify(self):
        self.channel.queue_declare(lock, passive=True)

    def beat(self):
        self.connection.process_data_events()

    def release(self):
        self.channel.basic_nack(self.token.delivery_tag)
        self.connection.close()


def speak(semaphore, holds=False):
    while True:
        request = {"do": "beat"}
        if not holds or select.select([sys.stdin], [], [], PAUSE)[0]:
            request = json.loads(sys.stdin.readline() or '{"do": "exit", "status": 1}')
        if request["do"] == "exit":
            sys.exit(request["status"])
        try:
            answer = {"is": "ok", **(getattr(semaphore, request["do"])() or {})}
        except pika.exceptions.AMQPError as error:
            print(request["do"], repr(error), file=sys.stderr)
            answer = {"is": "lost" if request["do"] == "beat" else "fail"}
        holds = answer["is"] == "ok" and request["do"] != "release"
        if request["do"] != "beat" or not holds:
            print(json.dumps(answer), flush=True)


Semaphore().create(int(sys.argv[3])) if sys.argv[3:] else speak(Semaphore())
