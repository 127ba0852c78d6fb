"""One view: an order is paid, and whoever gives points hears of it. Both, or neither."""

import json

from django.db import IntegrityError, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from checkback import Message
from checkback.django import Rollback, transactional
from examples.django_shop.models import PaidOrder


@csrf_exempt  # an API, for curl
@require_POST
def pay(_request: HttpRequest, number: int) -> JsonResponse:
    """Pay an order, once."""
    body = json.dumps({"order": number}).encode()
    with transactional(Message("points", body, key=b"order-%d" % number)):
        try:
            with transaction.atomic():  # a savepoint: after a failed statement PostgreSQL wants one
                PaidOrder.objects.create(number=number)
        except IntegrityError:
            raise Rollback("paid before") from None
        return JsonResponse({"order": number}, status=201)
    return JsonResponse({"order": number}, status=409)  # after a Rollback
