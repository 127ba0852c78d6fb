"""The demo: a shop that crashes, and the proof that nothing was lost or invented."""

from checkback.demo.proof import Proof, prove
from checkback.demo.shop import Fate, Order, Shop, make_orders

__all__ = ["Fate", "Order", "Proof", "Shop", "make_orders", "prove"]
