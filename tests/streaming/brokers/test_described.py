"""What a real broker says of several topics with one request: the same as of each with its own."""

from streaming.brokers.directory import NO_SUCH_TOPIC, Brokers, TopicDirectory
from tests.place import Place


def test_one_request_says_of_several_topics_what_a_request_for_each_says(place: Place) -> None:
    topics = [place.real_topic, place.topics.half, f"{place.topics.prefix}missing", "not a name"]
    brokers = Brokers({"bootstrap.servers": place.bootstrap_servers})
    singly = {topic: brokers.describe(topic) for topic in topics}
    together = brokers.describe_several(topics)
    assert together.keys() == singly.keys()
    for topic, one in singly.items():
        assert together[topic].replicas == one.replicas
        codes = [None if found.error is None else found.error.code() for found in (one, together[topic])]
        assert codes[0] == codes[1]
    missing = [f"{place.topics.prefix}{number}" for number in range(2_500)]
    found = TopicDirectory(brokers).look([*missing, place.real_topic])
    assert found.pop(place.real_topic).partitions == 4
    assert {standing.refusal for standing in found.values()} == {NO_SUCH_TOPIC}
