"""Checks the authorization settings while ACLs are not supported."""

from rookery.core.config import node
from rookery.core.config.options import ConfigError, Settings

KNOWN = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)


def check_authorizer(settings: Settings) -> tuple[str, ...]:
    """Notes for the operator; raises ConfigError if the settings need ACLs."""
    name = settings[node.AUTHORIZER_CLASS_NAME]
    if not name:
        return ()
    if name not in KNOWN:
        raise ConfigError(node.AUTHORIZER_CLASS_NAME.name, name, f"one of {', '.join(KNOWN)} is needed")
    if not settings[node.ALLOW_EVERYONE_IF_NO_ACL_FOUND]:
        raise ConfigError(
            node.ALLOW_EVERYONE_IF_NO_ACL_FOUND.name,
            "false",
            f"{node.AUTHORIZER_CLASS_NAME.name} needs ACLs, and they are not supported yet. Set it to true to "
            "allow everybody, or remove the authorizer",
        )
    return (
        f"{node.AUTHORIZER_CLASS_NAME.name} is accepted, but everybody may do everything: ACLs are not supported "
        f"yet, and {node.ALLOW_EVERYONE_IF_NO_ACL_FOUND.name} is true",
    )
