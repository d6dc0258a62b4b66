"""Apache Kafka itself, from Maven: its dump tool and its broker, to be compared with."""
