"""A shop in FastAPI, all of it in asyncio: ``uvicorn examples.fastapi_shop.web:app``."""
