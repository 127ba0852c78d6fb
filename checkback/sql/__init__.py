"""Transactions in a database: the log of those that committed, and the inbox. Needs the extra ``sql``."""
