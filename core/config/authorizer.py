"""What settings about authorization mean while there are no access control lists."""

from rookery.core.config import node
from rookery.core.config.options import ConfigError, Settings

KNOWN = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)


def check_authorizer(settings: Settings) -> tuple[str, ...]:
    """Notes for the operator; raises ConfigError where the settings ask for protection that is not there."""
    name = settings[node.AUTHORIZER_CLASS_NAME]
    if not name:
        return ()
    if name not in KNOWN:
        raise ConfigError(node.AUTHORIZER_CLASS_NAME.name, name, f"one of {', '.join(KNOWN)} is needed")
    if not settings[node.ALLOW_EVERYONE_IF_NO_ACL_FOUND]:
        raise ConfigError(
            node.ALLOW_EVERYONE_IF_NO_ACL_FOUND.name,
            "false",
            f"{node.AUTHORIZER_CLASS_NAME.name} asks for access control lists, and there are none yet: nobody could "
            "be let in, or everybody would be. Set it to true to let everybody in, or leave the authorizer out",
        )
    return (
        f"{node.AUTHORIZER_CLASS_NAME.name} is accepted, and everybody may do everything: there are no access control "
        f"lists yet, and {node.ALLOW_EVERYONE_IF_NO_ACL_FOUND.name} is true",
    )
