"""Without pytest's fixtures."""

import unittest

from rookery.testing import Cluster, ClusterTestCase


class Orders(ClusterTestCase):
    cluster_options = {"nodes": 1}

    def test_a_fault_1(self):
        self.cluster.create_topic("orders")
        self.assertEqual(self.cluster.leader("orders"), 1)
        self.cluster.kill(1)

    def test_a_fault_2(self):
        self.assertTrue(self.cluster.nodes.is_up(1), "faults are undone after each test")


class OrdersByHand(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster(nodes=1))

    def test_a_topic(self):
        self.cluster.create_topic("orders")
        self.assertEqual(self.cluster.leader("orders"), 1)
