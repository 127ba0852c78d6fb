"""What a job holds, and what that costs it: many open transactions, and hours of work."""
