"""The Kafka wire protocol as a library without IO: frames, headers, messages, records."""
