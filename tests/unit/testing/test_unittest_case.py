"""Clusters for classes of unittest."""

import io
import unittest
from typing import Any, ClassVar

import pytest

from rookery.testing import ClusterTestCase


class Sample(ClusterTestCase):
    """Not run by pytest, which has a different result."""

    __test__ = False
    cluster_options: ClassVar[dict[str, Any]] = {"nodes": 1}

    def test_1_breaks(self) -> None:
        self.cluster.kill(1)
        self.fail("on purpose")

    def test_2_is_whole(self) -> None:
        assert self.cluster.nodes.is_up(1)


@unittest.skip("on purpose")
class Skipped(ClusterTestCase):
    __test__ = False

    def test_it(self) -> None:
        raise AssertionError("not reached")


@pytest.mark.parametrize(("case", "failures", "skipped"), [(Sample, 1, 0), (Skipped, 0, 1)])
def test_faults_are_undone_and_a_failure_has_the_timeline(
    case: type[ClusterTestCase], failures: int, skipped: int
) -> None:
    output = io.StringIO()
    result = unittest.TextTestRunner(output).run(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    assert (len(result.failures), len(result.errors), len(result.skipped)) == (failures, 0, skipped)
    if failures:
        assert "on purpose" in output.getvalue()
        assert "kill node 1" in output.getvalue()
