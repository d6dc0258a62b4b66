"""Fails on purpose, as failing.py, with unittest and with pytest."""

from rookery.testing import ClusterTestCase


class Orders(ClusterTestCase):
    cluster_options = {"nodes": 1}

    def test_it(self):
        self.cluster.restart(1)
        self.fail("on purpose")
