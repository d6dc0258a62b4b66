"""Without pytest's fixtures."""

import unittest

from rookery.testing import Cluster


class Orders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(nodes=1).start()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()

    def test_a_topic(self):
        self.cluster.create_topic("orders")
        self.assertEqual(self.cluster.leader("orders"), 1)
