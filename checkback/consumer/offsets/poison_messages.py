"""Finding the message that kills its reader, without a note for each message. No Kafka, no clock.

Each reader of a partition stores that it runs, and when it leaves in order, that it has left. The next one that finds
*runs* knows that the one before has ended without a word: it was killed, or the listener killed it. Again and again at
one message, and the partition would stand still for ever.

So the reader after one such ending hands out messages by the chunk, and the next chunk only when the one before is done
and stored; after each further ending the chunks are smaller. When they are of one message, it stores that before it
hands it out: whoever dies then has died of this message, or with it. After ``max_deaths`` times it is a dead letter.

A reader takes all of this back when what may have killed the one before is done. How long it lives proves nothing: a
message may take its time to kill. After one ending that is what listeners have had in hand after a while; after
several, so many messages as the reader before had handed out at once.
"""

from checkback.consumer.offsets.metadata import Endings

CALM_SECONDS = 20.0
"""By then a reader has handed out what the one before had in hand."""

_CHUNKS = (None, 1_024, 64, 1)


def begun(before: Endings) -> Endings:
    """What a new reader stores when it begins, given what was stored."""
    return before._replace(running=True, without_a_word=before.without_a_word + before.running)


def chunk(endings: Endings) -> int | None:
    """How many messages may be handed out before the next must wait for all of them; None: any number."""
    return _CHUNKS[min(endings.without_a_word, len(_CHUNKS) - 1)]


def suspected(before: Endings) -> int | None:
    """Among how many messages, from the stored offset on, the one is that has killed the reader before.

    None: nobody knows, since that one handed out any number at once.
    """
    endings = begun(before)
    if before.alone:
        return 1
    return _CHUNKS[min(endings.without_a_word, len(_CHUNKS) - 1) - 1] if endings.without_a_word else None


def kills(endings: Endings, max_deaths: int) -> bool:
    """Whether the message at the stored offset is one that is not to be handed out any more."""
    return 0 < max_deaths <= endings.alone
