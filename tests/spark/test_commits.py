import pickle

from disque.spark.commits import Written, count, count_bad


def test_the_rows_of_all_partitions_that_were_written() -> None:
    assert count([pickle.loads(pickle.dumps(Written(3))), None, Written(6, 2)]) == 7


def test_the_rows_that_were_left_out() -> None:
    assert count_bad([Written(3), None, pickle.loads(pickle.dumps(Written(6, 2)))]) == 2
