"""The same in Flask: a Flask application that answers checks itself.

``flask --app examples.flask_shop run``, beside a Kafka with Checkback's topics and a running job.
"""

import json
from http import HTTPStatus

from a2wsgi import ASGIMiddleware
from click import ClickException
from flask import Flask
from sqlalchemy import create_engine, text
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from checkback import CheckbackError, EndpointAnnouncer, Message, Rollback, Topics, TransactionProducer, check_app
from checkback.sql.transaction_log import SqlTransactionLog


def create_app(
    kafka: str = "localhost:9092",
    url: str = "http://localhost:5000",
    database: str = "sqlite:///flask-shop.db",
    topics: Topics | None = None,
) -> Flask:
    """Make the application: call it in each process that serves, after any fork."""
    app = Flask(__name__)
    engine = create_engine(database)
    log = SqlTransactionLog(engine)
    log.create_table()
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS paid (number INTEGER PRIMARY KEY)"))

    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/checkback": ASGIMiddleware(check_app(log, "flask-shop"))})  # type: ignore[arg-type,dict-item,method-assign]  # a2wsgi's types are narrower than ASGI; Flask documents the assignment

    try:
        producer = TransactionProducer(kafka, "flask-shop", topics=topics)
        announcer = EndpointAnnouncer(kafka, "flask-shop", f"{url}/checkback/", topics=topics)
    except CheckbackError as error:  # no Kafka at that address, say: ``flask run`` prints the sentence, and ends
        raise ClickException(str(error)) from error
    app.extensions["checkback"] = (announcer, producer)  # to be closed in this order when the process ends in order

    @app.post("/orders/<int:number>/pay")
    def pay(number: int) -> tuple[dict[str, int], int]:
        message = json.dumps({"order": number}).encode()
        with (
            producer.transaction(Message("points", message, b"order-%d" % number)) as half,
            engine.begin() as connection,
        ):
            log.record(connection, half.transaction_id)
            new = text("INSERT INTO paid VALUES (:number) ON CONFLICT DO NOTHING")
            if not connection.execute(new, {"number": number}).rowcount:
                raise Rollback("paid before")
            return {"order": number}, HTTPStatus.CREATED
        return {"order": number}, HTTPStatus.CONFLICT  # after a Rollback

    return app
