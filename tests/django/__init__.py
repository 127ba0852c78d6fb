"""A Django project for these tests: its settings, with a database that each test puts in its place."""

from django.conf import settings

if not settings.configured:
    settings.configure(
        SECRET_KEY="tests",  # noqa: S106  (of these tests only)
        INSTALLED_APPS=["checkback.django", "examples.django_shop"],
        ROOT_URLCONF="examples.django_shop.urls",
        MIDDLEWARE=["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"],
        ALLOWED_HOSTS=["*"],
        USE_TZ=True,
        DATABASES={
            name: {"ENGINE": "django.db.backends.sqlite3", "NAME": f"/nowhere/{name}.db"}
            for name in ("default", "other")
        },
        CHECKBACK={"BOOTSTRAP_SERVERS": "unused:9092", "GROUP": "shop"},
    )
    import django

    django.setup()
