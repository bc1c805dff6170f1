from ipaddress import IPv4Address, IPv6Address

from pydantic import (
    UUID4,
    AnyHttpUrl,
    AwareDatetime,
    DirectoryPath,
    FilePath,
    FiniteFloat,
    FutureDate,
    NaiveDatetime,
    NegativeInt,
    NonPositiveFloat,
    PastDatetime,
    SecretStr,
    condecimal,
    conlist,
    conset,
)


def f(
    a: SecretStr,
    b: UUID4,
    c: AnyHttpUrl,
    d: AwareDatetime,
    e: FilePath,
    f: FiniteFloat,
    g: FutureDate,
    h: NegativeInt,
    i: NonPositiveFloat,
    j: PastDatetime,
    k: IPv4Address,
    l: IPv6Address,
    m: condecimal(gt=0),
    n: DirectoryPath,
    o: NaiveDatetime,
    p: conlist(int, min_length=1, max_length=3),
    q: conset(str, max_length=2),
) -> None:
    """Do it.

    Args:
        a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q: One of them.
    """
