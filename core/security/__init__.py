"""Authentication and authorization, without sockets, clocks and random numbers.

| module | what it is |
|---|---|
| `sasl` | what every SASL mechanism gives and takes; PLAIN |
| `scram` | SCRAM-SHA-256 and -512: credentials, server, client |
| `oauthbearer` | OAUTHBEARER: messages, signed tokens, the keys they are checked with |
| `jaas` | login modules of Kafka, as text in options and files |
| `principal` | names of users, and how a certificate's subject becomes one |
| `authorizer` | who may do what, by the ACLs of the image |

A mechanism takes what the peer sent and returns what to send, who the peer is, or why it is refused. Nonces,
the time and the look-up of credentials come from outside. What a broker allows before a client has
authenticated stands in `broker/server/authentication.py`.

No value here shows a secret in `repr`, `str` or an error. The reason of a refusal is for the broker's log: it
never holds a password, a token, a salt or a key, and the peer does not get it.
"""
