"""The shop's view, and the check endpoint."""

from django.urls import include, path

from examples.django_shop.views import pay

urlpatterns = [
    path("orders/<int:number>/pay", pay),
    path("checkback/", include("checkback.django.urls")),
]
