"""What is read of RocketMQ's figures."""

from bench.rocketmq.against import best_rate


def test_the_best_at_full_speed_and_of_that_size_counts() -> None:
    text = "mode,B,P,N,all_tps\nfull,256,32,20000,9000\nfull,1024,32,20000,9900\nfull,256,32,100000,9273\n"
    assert best_rate(text + "gentle,256,8,200,99999\n", 256) == 9273
