import pickle

from disque.spark.commits import Written, count


def test_the_rows_of_all_partitions_that_were_written() -> None:
    assert count([pickle.loads(pickle.dumps(Written(3))), None, Written(4)]) == 7
