"""``path("checkback/", include("checkback.django.urls"))`` in the project's ``urls.py``: the check endpoint."""

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.urls import path

from checkback.django.configuration import APP, ASYNC_VIEW
from checkback.django.views import check
from checkback.greenlets import refuse_greenlets

if not apps.is_installed(APP):
    raise ImproperlyConfigured(f"Add {APP!r} to INSTALLED_APPS in settings.py, then run 'manage.py migrate'.")
refuse_greenlets(*ASYNC_VIEW)

app_name = "checkback"
urlpatterns = [path("", check, name="check")]
