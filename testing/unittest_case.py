"""A cluster for the tests of a class of unittest."""

import unittest
from collections.abc import Mapping
from typing import Any, ClassVar

from rookery.testing.cluster import Cluster


class ClusterTestCase(unittest.TestCase):
    """`self.cluster` serves all tests of the class; `cluster_options` are the arguments of `Cluster`. Faults are undone
    after each test, and a test that fails shows the timeline."""

    cluster_options: ClassVar[Mapping[str, Any]] = {}
    cluster: ClassVar[Cluster]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.cluster = cls.enterClassContext(Cluster(**cls.cluster_options))

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        if not hasattr(self, "cluster"):  # the class is skipped: nothing was set up
            return super().run(result)
        self.addCleanup(self.cluster.undo_all)
        began = self.cluster.timeline.now_s
        before = list(map(len, _reports(result)))
        done = super().run(result)
        for reports, count in zip(_reports(result), before, strict=True):
            for place in range(count, len(reports)):
                test, text = reports[place]
                reports[place] = (test, f"{text}\n{self.cluster.story(began)}\n")
        return done


def _reports(result: unittest.TestResult | None) -> list[list[tuple[unittest.TestCase, str]]]:
    """Where unittest keeps the texts of failed tests. pytest keeps them elsewhere, and its plugin adds the timeline."""
    return [result.failures, result.errors] if isinstance(result, unittest.TestResult) else []
