from disque.taskiq.marks import PLACE, marked, with_own_id

ID = "D-80b5c460-Vr3WFsmz5lhcQcL2Vtzh1RKD-ffff"


def test_each_job_puts_its_own_id_in_the_place() -> None:
    body = marked(b'{"task_id": "%b"}' % PLACE.encode())
    assert with_own_id(body, ID) == b'{"task_id": "%b"}' % ID.encode()
    assert len(PLACE) == len(ID)


def test_other_messages_are_left_as_they_are() -> None:
    message = b'{"task_id": "%b"}' % PLACE.encode()
    assert with_own_id(message, ID) is message
