"""A cluster is what TF_CONFIG says, when it says one thing; its tasks find one another, or say who is missing."""

import json
import re
import socket
import time
from threading import Thread

import pytest

from common.errors import UserError
from tf_impl import cluster
from tf_impl.cluster import Cluster

JOBS = ("chief", "worker", "ps")


def tf_config(addresses, job="worker", index=0):
    return json.dumps({"cluster": addresses, "task": {"type": job, "index": index}})


def test_a_well_formed_tf_config_names_every_task_and_this_one(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", tf_config({"worker": ["one:1", "two:2"], "ps": ["one:3"]}, "ps"))
    found = cluster.from_tf_config(JOBS)
    assert found == Cluster({"worker": ["one:1", "two:2"], "ps": ["one:3"]}, "ps", 0)
    assert found.address == "one:3"
    assert found.all_addresses("ps", "chief", "worker") == ["one:3", "one:1", "two:2"]
    assert found.neighbours("worker", "ps") == ["one:1", "one:3"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "isn't JSON"),
        ("[]", "doesn't have the form"),
        ('{"cluster": {"worker": ["a:1"]}}', "doesn't have the form"),
        ('{"cluster": ["a:1"], "task": {"type": "worker", "index": 0}}', "doesn't have the form"),
        (tf_config({"worker": ["a:1"], "evaluator": ["a:2"]}), "names the job 'evaluator'"),
        (tf_config({"worker": ["a"]}), "names the address 'a', which isn't host:port"),
        (tf_config({"worker": ["a:70000"]}), "names the address 'a:70000'"),
        (tf_config({"worker": [5]}), "names the address 5"),
        (tf_config({"worker": ["a:1"], "ps": ["a:1"]}), "gives a:1 to several tasks"),
        (tf_config({"worker": ["a:1"]}, "chief"), "this is a 'chief', but its cluster has no such job"),
        (tf_config({"worker": ["a:1"]}, index=1), "this is worker 1, and the cluster has 1, counted from 0"),
        (tf_config({"worker": ["a:1"]}, index=-1), "this is worker -1"),
        (tf_config({"worker": ["a:1"]}, index="0"), "this is worker 0"),
        (tf_config({"worker": ["a:1"]}, index=True), "this is worker True"),
    ],
)
def test_a_malformed_or_contradictory_tf_config_is_refused_in_one_sentence(text, words, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UserError, match=re.escape(words)) as error:
        cluster.from_tf_config(JOBS)
    assert "unset it" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_port_that_is_taken_is_refused(monkeypatch):
    # It would end the tests.
    monkeypatch.setattr(cluster, "end_at_deadline", lambda seconds: None)
    monkeypatch.setattr(cluster, "drop_proxies", lambda: None)
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"Port {port} of worker 0 is taken"):
            cluster.meet(Cluster({"worker": [f"127.0.0.1:{port}"]}, "worker", 0), 30)


def test_a_server_stays_while_its_coordinator_listens_and_leaves_with_it():
    with socket.create_server(("127.0.0.1", 0)) as meeting:
        host, port = meeting.getsockname()
        server = Thread(target=cluster.serve_until_gone, args=(f"{host}:{port}",), daemon=True)
        server.start()
        time.sleep(1.5)
    # The coordinator has freed the port after all had met, and its server doesn't listen yet.
    time.sleep(1.5)
    assert server.is_alive()
    with socket.create_server((host, port)) as coordinator:
        coordinator.settimeout(20)
        for _ in range(2):
            connection, _ = coordinator.accept()
            connection.sendall(b"a frame of HTTP/2")
        assert server.is_alive()
    server.join(20)
    assert not server.is_alive()
