"""What the thread that runs a batch lets the batch's tasks know."""

from pyspark import SparkContext, TaskContext


class BatchWord:
    """A text under a name of its own. Spark gives it to all tasks of the jobs which the thread starts afterwards."""

    def __init__(self, name: str) -> None:
        self._name = name

    def tell(self, context: SparkContext, text: str) -> None:
        """On the driver, in the thread that is about to run the batch. It holds until the thread tells another."""
        context.setLocalProperty(self._name, text)

    def told(self) -> str:
        """In a task; empty where nothing was told, and outside of tasks."""
        context = TaskContext.get()
        return (context.getLocalProperty(self._name) if context else None) or ""
