"""A FastAPI application that enqueues tasks: `uvicorn examples.tasks.fastapi_app:web`, beside the shop's worker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException

from examples.tasks.shop import Order, app, invoice, mail, pay


@asynccontextmanager
async def connections(_web: FastAPI) -> AsyncIterator[None]:
    """Close the connections of the app with the application."""
    async with app:
        yield


web = FastAPI(lifespan=connections)


@web.post("/welcome/{customer}", status_code=202)
async def welcome(customer: str) -> dict[str, str]:
    """Send a mail soon."""
    job = await mail.enqueue(customer, "welcome")
    return {"job": job.id}


@web.post("/orders", status_code=202)
async def order(given: Order) -> dict[str, str]:
    """Take an order: paid, then invoiced, whatever dies meanwhile."""
    job = await pay.bind(given).then(invoice, given).enqueue()
    return {"job": job.id}


@web.get("/jobs/{job_id:path}")
async def job(job_id: str) -> dict[str, str | None]:
    """What has become of a job."""
    found = await app.job(job_id)
    if found is None:
        raise HTTPException(404)
    return {"status": found.status, "error": found.error, "result": (found.result or b"").decode()}
