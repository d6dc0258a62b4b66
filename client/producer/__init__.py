"""The producer.

| module | what it is |
|---|---|
| `producer`, `transaction_calls`, `transaction` | the classes that users have |
| `options` | its options, and which contradict each other |
| `encoding`, `batch` | records in columns, encoded when a batch is sent; pure |
| `partition_queue` | the order and the sequence numbers of one partition; pure |
| `accumulator` | which batch goes to whom and when, and what answers mean; pure |
| `partitioners` | the partition of a record; pure |
| `routes` | the partitions of each topic |
| `bulk` | many records of one call |
| `transaction_state` | which call of a transaction is allowed; pure |
| `sender`, `transactions`, `delivery` | requests, and waiting for them |
"""

from rookery.client.producer.delivery import Deliveries, Delivery
from rookery.client.producer.partitioners import Choice, PartitionInfo
from rookery.client.producer.producer import Producer
from rookery.client.producer.transaction import Transaction

__all__ = ["Choice", "Deliveries", "Delivery", "PartitionInfo", "Producer", "Transaction"]
