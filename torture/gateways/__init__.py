"""Fault runs in which producers work through two gateways."""
