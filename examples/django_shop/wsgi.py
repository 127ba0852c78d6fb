"""For a WSGI server: ``gunicorn examples.django_shop.wsgi``."""

import os

from django.core.wsgi import get_wsgi_application

from checkback.django import announce

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.django_shop.settings")
application = get_wsgi_application()
announce()  # the check endpoint, from now on: what an earlier process has left in doubt need not wait for a message
