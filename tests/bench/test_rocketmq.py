"""What is read of RocketMQ's figures."""

from bench.rocketmq.against import best_run

TEXT = """\
mode,B,P,N,all_tps,e2e_p50,e2e_p99
full,256,32,20000,9000,2,30
full,1024,32,20000,9900,2,30
full,256,32,100000,9273,1.9,28.5
gentle,256,8,200,99999,1,2
"""


def test_the_best_at_full_speed_and_of_that_size_counts() -> None:
    assert best_run(TEXT, 256) == (9273, 1.9, 28.5)
