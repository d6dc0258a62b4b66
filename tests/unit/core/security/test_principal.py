"""Subjects of certificates become names as in Kafka, and nothing else becomes one."""

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import example, given
from hypothesis import strategies as st

from rookery.core.security.principal import (
    NAME_MAX,
    RULES_MAX,
    KafkaPrincipal,
    MappingRules,
    PrincipalError,
    certificate_subject,
    rfc2253,
)

# --- rules ------------------------------------------------------------------------------------------------------

RULES = MappingRules.parse(
    ", ".join(
        (
            r"RULE:^CN=(.*?),OU=Services.*$/$1/L",
            r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
            r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
            r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
            "DEFAULT",
        )
    )
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Ann,OU=Services,O=Org,C=DE", "ann"),
        ("CN=Ann,OU=Dev,O=Org,L=Ulm,ST=BW,C=DE", "ann@dev"),
        ("cn=ann,ou=dev,dc=org,dc=de", "ANN@DEV"),
        ("cN=ann,OU=Other,O=Org", "ANN"),
        ("OU=Other,O=Org,C=DE", "OU=Other,O=Org,C=DE"),
    ],
)
def test_the_first_rule_that_matches_the_whole_subject_gives_the_name(subject: str, name: str) -> None:
    assert RULES.name(subject) == name


def test_without_a_match_there_is_no_name() -> None:
    rules = MappingRules.parse("RULE:^CN=([a-z]+)$/$1/")

    assert rules.name("CN=ann") == "ann"
    for subject in ("CN=ann,O=x", "O=x,CN=ann", "CN=Ann", "", "CN=ann\n"):
        with pytest.raises(PrincipalError):
            rules.name(subject)
    with pytest.raises(PrincipalError):
        MappingRules.parse("").name("CN=ann")


def test_rules_hold_commas_and_escaped_slashes() -> None:
    rules = MappingRules.parse(
        r"  ,, RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/ ,, RULE:a\/b,DEFAULT/\/x\$1/U,DEFAULT ,"
    )

    assert [rule.pattern for rule in rules.rules] == [r"^CN=((\\, *|\w)+)(,.*|$)", r"a\/b,DEFAULT", None]
    assert rules.name(r"CN=Doe\, Ann,OU=Dev,DC=org") == r"Doe\, Ann"
    assert rules.name("a/b,DEFAULT") == "/X$1"


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("RULE:(a)(b)/$2$1$0/", "baab"),
        ("RULE:(a)(b)/$3/", "$3"),
        ("RULE:(a)(b)/$12/", "a2"),
        (r"RULE:(a)(b)/\$1\\/", "$1\\"),
        ("RULE:(a)b|(c)/$1$2x/", "ax"),
        ("RULE:.*/x/", "xx"),
        ("RULE:a.*?/x/", "xb"),
    ],
)
def test_replacements_mean_what_they_mean_in_java(rule: str, name: str) -> None:
    """In the last two Java replaces every match, as does Kafka, though one match has covered all."""
    assert MappingRules.parse(rule).name("ab") == name


@pytest.mark.parametrize(
    "text",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT DEFAULT",
        "RULE:CN=(.*?),OU=x.*/$1",
        "rule:^CN=(.*?)$/$1/",
        "RULE:^CN=(.*?)$/$1/L/U",
        "RULE:^CN=(.*?)$/L",
        "RULE:^CN=(.*?)$/$1/X",
        "RULE:(/$1/",
        "RULE:(?=a)a/x/",
        r"RULE:(a)\1/x/",
        "RULE:a{1000}{1000}/x/",
        "RULE:a/$1/",
        "RULE:(a)/$x/",
        "RULE:(a)/${1}/",
        "RULE:(a)/b$/",
        "RULE:a\\",
        "x" * (RULES_MAX + 1),
    ],
)
def test_rules_that_are_refused(text: str) -> None:
    with pytest.raises(PrincipalError):
        MappingRules.parse(text)


@pytest.mark.parametrize("replacement", ["", "*", r"a$1"])
def test_a_rule_makes_no_name_that_is_empty_or_stands_for_all(replacement: str) -> None:
    with pytest.raises(PrincipalError):
        MappingRules.parse(f"RULE:(?s)a(.*)/{replacement}/").name("a\n")


def test_a_pattern_that_backtracks_elsewhere_takes_no_time_here() -> None:
    rules = MappingRules.parse("RULE:(a*)*(a*)*(a|a)*b/x/")

    with pytest.raises(PrincipalError):
        rules.name("a" * NAME_MAX)
    with pytest.raises(PrincipalError):
        rules.name("a" * (NAME_MAX + 1))


_PIECES = [
    "RULE:",
    "DEFAULT",
    "/",
    "\\",
    ",",
    " ",
    "$1",
    "$",
    "(",
    ")",
    "a",
    "[",
    ".*",
    "L",
    "U",
    "\0",
    "ü",
    "\udcff",
]


@given(st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=3)), max_size=20), st.text(max_size=20))
@example(["RULE:", "\\"], "")
@example(["RULE:(ü)ü/$1/"], "üü")
def test_any_rules_and_subjects_give_a_name_or_are_refused(pieces: list[str], subject: str) -> None:
    try:
        name = MappingRules.parse("".join(pieces)).name(subject)
    except PrincipalError:
        return
    assert name not in ("", "*")


# --- subjects ---------------------------------------------------------------------------------------------------


def name_of(*attributes: tuple[x509.ObjectIdentifier, str]) -> bytes:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes]).public_bytes()


def test_the_last_part_comes_first_and_nine_attributes_have_names() -> None:
    subject = name_of(
        (NameOID.DOMAIN_COMPONENT, "org"),
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.STATE_OR_PROVINCE_NAME, "BW"),
        (NameOID.LOCALITY_NAME, "Ulm"),
        (NameOID.STREET_ADDRESS, "Weg 1"),
        (NameOID.ORGANIZATION_NAME, "Org"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "Dev"),
        (NameOID.USER_ID, "ann"),
        (NameOID.COMMON_NAME, "Änn"),
    )
    assert rfc2253(subject) == "CN=Änn,UID=ann,OU=Dev,O=Org,STREET=Weg 1,L=Ulm,ST=BW,C=DE,DC=org"


def test_other_attributes_are_hexadecimal_as_in_java() -> None:
    subject = name_of((NameOID.COMMON_NAME, "ann"), (NameOID.EMAIL_ADDRESS, "a@b.c"))

    assert rfc2253(subject) == "1.2.840.113549.1.9.1=#160561406" + "22e63,CN=ann"


def test_several_attributes_in_one_part_are_joined() -> None:
    part = x509.RelativeDistinguishedName(
        [x509.NameAttribute(NameOID.COMMON_NAME, "ann"), x509.NameAttribute(NameOID.USER_ID, "1")]
    )
    assert set(rfc2253(x509.Name([part]).public_bytes()).split("+")) == {"CN=ann", "UID=1"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a,O=root", r"a\,O\=root"),
        ('a+b"<>;\\', r"a\+b\"\<\>\;\\"),
        ("#a#", r"\#a\#"),
        ("  a b ", r"\ \ a b\ "),
        (" ", r"\ "),
        ("a\0b", r"a\00b"),
    ],
)
@pytest.mark.attack(36)
def test_special_characters_are_escaped_as_java_does(value: str, text: str) -> None:
    assert rfc2253(name_of((NameOID.COMMON_NAME, value))) == f"CN={text}"


@pytest.mark.attack(36)
def test_a_common_name_with_a_comma_or_a_line_is_no_second_name() -> None:
    rules = MappingRules.parse(r"RULE:^CN=(.*?),O=Org$/$1/,DEFAULT")
    attack = rfc2253(name_of((NameOID.ORGANIZATION_NAME, "Evil"), (NameOID.COMMON_NAME, "root,O=Org")))
    line = rfc2253(name_of((NameOID.COMMON_NAME, "a\nUser:root")))

    assert rules.name(attack) == r"CN=root\,O\=Org,O=Evil"
    with pytest.raises(PrincipalError):
        rules.name(line)


@given(st.binary(max_size=60))
@example(b"")
@example(b"\x30\x00")
@example(b"\x30\x84\xff\xff\xff\xff")
@example(b"\x30\x80\x00\x00")
@example(b"\x30\x0b\x31\x09\x30\x07\x06\x03\x55\x04\x83\x0c\x00")
def test_any_bytes_are_a_name_or_are_refused(data: bytes) -> None:
    try:
        rfc2253(data)
    except PrincipalError:
        return
    assert data[0] == 0x30


@given(st.integers(0, 60), st.integers(0, 255))
def test_a_changed_byte_is_a_name_or_is_refused(place: int, value: int) -> None:
    subject = bytearray(name_of((NameOID.COMMON_NAME, "ann"), (NameOID.EMAIL_ADDRESS, "a@b.c")))
    subject[place % len(subject)] = value
    try:
        rfc2253(bytes(subject))
    except PrincipalError:
        return


@given(st.binary(max_size=40))
def test_any_bytes_are_no_certificate(data: bytes) -> None:
    with pytest.raises(PrincipalError):
        certificate_subject(data)


# --- principals -------------------------------------------------------------------------------------------------


def test_principals_are_written_and_read() -> None:
    assert str(KafkaPrincipal("User", "ann")) == "User:ann"
    assert KafkaPrincipal.parse("User:CN=a:b") == KafkaPrincipal("User", "CN=a:b")
    for text in ("ann", ":ann", "User:", ""):
        with pytest.raises(PrincipalError):
            KafkaPrincipal.parse(text)
