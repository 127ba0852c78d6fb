"""The access policy in the job: read, fixed with each batch, told to its tasks."""
