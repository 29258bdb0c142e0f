"""A Flask application that enqueues tasks: `flask --app examples.tasks.flask_app run`, beside the shop's worker."""

from flask import Flask

from examples.tasks.shop import Order, invoice, mail, pay

web = Flask(__name__)


@web.post("/welcome/<customer>")
def welcome(customer: str) -> tuple[dict[str, str], int]:
    """Send a mail soon."""
    return {"job": mail.enqueue_sync(customer, "welcome").id}, 202


@web.post("/orders/<int:number>/<customer>/<int:cents>")
def order(number: int, customer: str, cents: int) -> tuple[dict[str, str], int]:
    """Take an order, and wait for its invoice: that takes as long as it takes."""
    given = Order(number, customer, cents)
    job = pay.bind(given).then(invoice, given).enqueue_sync()
    return {"job": job.id, "invoice": job.result(timeout=30)}, 201
