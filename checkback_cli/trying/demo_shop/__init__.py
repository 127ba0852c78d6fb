"""The demo: a shop that crashes, and the proof that nothing was lost or invented."""

from checkback_cli.trying.demo_shop.proof import Proof, prove
from checkback_cli.trying.demo_shop.shop import Fate, Shop, ShopOrder, make_orders

__all__ = ["Fate", "Proof", "Shop", "ShopOrder", "make_orders", "prove"]
