"""common/launching/hosts/link.py: a link is measured from one end to the other."""


def test_two_agents_measure_the_link_between_them(agent):
    server = agent("link-serve", address="127.0.0.1", seconds=0.2)
    sender = agent("link-send", address="127.0.0.1", port=server.answer()["port"], seconds=0.2)
    assert 0 < sender.answer()["round_trip_seconds"] < 1
    assert server.answer()["bytes_per_second"] > 1e6
    assert (sender.wait(30), server.wait(30)) == (0, 0)
