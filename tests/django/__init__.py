"""A Django project for these tests: its settings, with a database that each test puts in its place."""

from importlib.util import find_spec

from django.conf import settings

MYSQL_DRIVER = "mysqldb" if find_spec("MySQLdb") else "pymysql"
"""mysqlclient, which Django asks for, where it is installed; else PyMySQL stands in for it."""
if MYSQL_DRIVER == "pymysql":
    import pymysql

    pymysql.install_as_MySQLdb()

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
