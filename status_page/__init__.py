"""The status page on the driver's port, its JSON API and ``/metrics``; knows nothing of Spark.

What a job calls::

    transactions = Transactions(settings)            # status_page/transactions/lookup.py: what is in doubt, and parked
    transactions.start()                             # returns at once; rides out a Kafka that is away
    app = status_app(settings, view, transactions, registry)      # status_page/app.py; view: facts.JobView
    server = StatusServer(settings.http, app)        # status_page/http/server.py
    server.start()                                   # False: the port is in use. True: served, or http.port is 0
    server.url                                       # "http://host:port"
    server.stop()
    transactions.stop()

``status_app(..., story=...)`` takes what reads stories from Kafka: ``status_page/transactions/transaction_story.py``.
``start`` and ``stop`` of all of them may be called more than once, and again after a stop.
"""
