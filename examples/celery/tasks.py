"""A report that is due every minute: beat sends it as a task, and a worker makes it."""

import os
import time

from celery import Celery

app = Celery("tasks", broker=os.environ["AMQP_URL"])
app.conf.beat_schedule = {
    "report": {
        "task": "tasks.report",
        "schedule": float(os.environ.get("EVERY", "60")),
        "args": [os.environ.get("BERTH_TERM")],  # which holding of the lock has sent it
    },
}


@app.task
def report(term):
    print(f"report of term {term} begins", flush=True)
    time.sleep(float(os.environ.get("WORK", "1")))  # put your work here
    print(f"report of term {term} ends", flush=True)
