"""The application behind the job's port: ``/metrics``, the pages, the API."""

from functools import cached_property, partial
from sqlite3 import OperationalError

from anyio import CapacityLimiter, to_thread
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from checkback.operations.lanes import KafkaLanes
from checkback.operations.operator_ops import OperatorOps
from conf import Settings
from conf.secrets_file import own_key
from status_page.api.routes import Api
from status_page.facts import JobView
from status_page.http.server import Guard
from status_page.http.signing_in import SigningIn
from status_page.pages.acting import Acting
from status_page.pages.forms import FormError
from status_page.pages.rendering import Pages
from status_page.pages.routes import Showing
from status_page.site import Site
from status_page.transactions.deciding import Deciding
from status_page.transactions.lookup import Transactions
from status_page.transactions.transaction_story import KafkaReceipts, Story


def status_app(
    settings: Settings,
    view: JobView,
    transactions: Transactions,
    registry: CollectorRegistry,
    story: Story | None = None,
) -> Starlette:
    """All of it. Nothing that it does raises an exception into whoever serves it."""
    kafka, receipts = settings.kafka, KafkaReceipts(settings)
    servers, topics, options = kafka.bootstrap_servers, kafka.topics, kafka.python_client
    deciding = Deciding(
        transactions.index,
        partial(OperatorOps, servers, topics, options, own_key(settings.access)),
        look=KafkaLanes(servers, topics, options, kafka.sink_client),
        kept=receipts.kept,
        read_rejected=receipts.read_rejected,
    )
    signing_in = SigningIn(settings.http.token.get_secret_value())
    return site_app(Site(settings, view, transactions, registry, deciding, signing_in, story))


def site_app(site: Site) -> Starlette:
    """The same, of its parts."""
    pages = Pages(site)
    showing, acting, api = Showing(site, pages), Acting(site, pages), Api(site)
    programs = _Programs(site)

    def refused(request: Request, error: Exception) -> Response:
        return (api if request.url.path.startswith("/api/") else acting).refused(request, error)

    def given_up(request: Request, error: Exception) -> Response:
        if "interrupted" not in str(error):
            raise error
        return refused(request, FormError(503, "This question takes too long: ask for less.", 1))

    routes = [
        Route("/metrics", programs.scraped),
        Route("/healthz", programs.healthy),
        Route("/", showing.overview),
        Route("/transactions", showing.transactions),
        Route("/transactions/{named:path}/story", showing.story),
        Route("/transactions/{named:path}", showing.transaction),
        Route("/parked", showing.parked),
        Route("/groups", showing.groups),
        Route("/style.css", showing.style),
        Route("/icon.svg", showing.icon),
        Route("/sign-in", acting.sign_in, methods=["GET", "POST"]),
        Route("/sign-out", acting.sign_out, methods=["POST"]),
        Route("/decide", acting.confirm, methods=["GET"]),
        Route("/decide", acting.decide, methods=["POST"]),
        Route("/decided/{receipt}", acting.decided),
        *api.routes(),
        Route("/{rest:path}", showing.nothing),
    ]
    names = (site.settings.http.host, *site.settings.http.names)
    middleware = [Middleware(Guard, names=names)]
    return Starlette(
        routes=routes, middleware=middleware, exception_handlers={FormError: refused, OperationalError: given_up}
    )


class _Programs:
    """What programs ask every few seconds."""

    def __init__(self, site: Site) -> None:
        self._site = site

    @cached_property
    def _threads(self) -> CapacityLimiter:
        """Of their own, because slow pages may take all others."""
        return CapacityLimiter(2)

    @cached_property
    def _of_probes(self) -> CapacityLimiter:
        """Of their own, because large metrics may take those."""
        return CapacityLimiter(2)

    async def scraped(self, request: Request) -> Response:
        """All metrics, or those named (``name[]``), in the format that is accepted."""
        return await to_thread.run_sync(self._scraped, request, limiter=self._threads)

    async def healthy(self, _: Request) -> Response:
        """200 as long as the job can be asked how it stands. Whether it stalls, the metrics say."""
        facts = await to_thread.run_sync(self._site.view.facts, limiter=self._of_probes)
        return JSONResponse({"job": facts.job, "version": facts.version, "batch": facts.batch and facts.batch.number})

    def _scraped(self, request: Request) -> Response:
        encoder, content_type = choose_encoder(request.headers.get("accept", ""))
        wanted = request.query_params.getlist("name[]")
        registry = self._site.registry.restricted_registry(wanted) if wanted else self._site.registry
        return Response(encoder(registry), headers={"content-type": content_type})
