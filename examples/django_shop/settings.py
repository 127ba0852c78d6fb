"""The settings: ``CHECKBACK`` and the app are all that is Checkback's."""

import os

SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "for this example only")
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "examples.django_shop.urls"
WSGI_APPLICATION = "examples.django_shop.wsgi.application"
USE_TZ = True

INSTALLED_APPS = ["checkback.django", "examples.django_shop"]
MIDDLEWARE = ["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"]

DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DATABASE", "django-shop.db")}
}

CHECKBACK = {
    "BOOTSTRAP_SERVERS": os.environ.get("SHOP_KAFKA", "localhost:9092"),
    "GROUP": "django-shop",
    "URL": os.environ.get("SHOP_URL", "http://localhost:8000") + "/checkback/",
    "KEY": os.environ.get("SHOP_KEY"),  # the same is in checks.keys of the job; None: checks are not signed
}
