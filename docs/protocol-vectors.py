#!/usr/bin/env python3
"""Makes docs/protocol-vectors.json: examples of everything that docs/protocol.md and, of
peers, docs/peers.md lay down.

Uses the standard library only and shares no code with fedbo, so that the two can contradict each other. Ed25519 is
written out below (RFC 8032, section 5.1): good for test vectors, not for keys that protect anything.

    python3 docs/protocol-vectors.py           writes protocol-vectors.json beside this file
    python3 docs/protocol-vectors.py --check   exit status 1 if that file says something else
"""

import base64
import hashlib
import json
import pathlib
import struct
import sys

# Ed25519: the curve -x^2 + y^2 = 1 + d x^2 y^2 over the integers modulo P, base point of order L. Points are (x, y).

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def add(p, q):
    (x1, y1), (x2, y2) = p, q
    k = D * x1 * x2 * y1 * y2 % P
    return (
        (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P,
        (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P,
    )


def times(n, p):
    result = (0, 1)
    while n:
        if n & 1:
            result = add(result, p)
        p, n = add(p, p), n >> 1
    return result


def x_of(y, odd):
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square:
        raise ValueError("not a point of the curve")
    return x if x & 1 == odd else P - x


BASE = (x_of(4 * pow(5, -1, P) % P, 0), 4 * pow(5, -1, P) % P)


def encode(point):
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def decode(data):
    n = int.from_bytes(data, "little")
    y = n & (1 << 255) - 1
    return (x_of(y, n >> 255), y)


def sha512_int(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


def expand(seed):
    h = hashlib.sha512(seed).digest()
    a = int.from_bytes(h[:32], "little")
    return a & (1 << 254) - 8 | 1 << 254, h[32:]


def public(seed):
    return encode(times(expand(seed)[0], BASE))


def ed25519_sign(seed, message):
    a, prefix = expand(seed)
    key = encode(times(a, BASE))
    r = sha512_int(prefix, message) % L
    point = encode(times(r, BASE))
    s = (r + sha512_int(point, key, message) * a) % L
    return point + s.to_bytes(32, "little")


def ed25519_verify(key, message, signature):
    point, s = signature[:32], int.from_bytes(signature[32:], "little")
    k = sha512_int(point, key, message) % L
    return s < L and times(s, BASE) == add(decode(point), times(k, decode(key)))


# RFC 8032, section 7.1, tests 1 and 3: that the above is Ed25519.
for seed, key, message, signature in [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]:
    seed, key, message, signature = map(bytes.fromhex, (seed, key, message, signature))
    assert public(seed) == key and ed25519_sign(seed, message) == signature
    assert ed25519_verify(key, message, signature)
    assert not ed25519_verify(key, message + b"x", signature)


# What is signed and hashed.


def framed(purpose, parts):
    return b"".join(struct.pack("<Q", len(p)) + p for p in [purpose.encode(), *parts])


def digest(purpose, *parts):
    return hashlib.sha256(framed(purpose, parts)).digest()


def sign(seed, purpose, *parts):
    return ed25519_sign(seed, framed(purpose, parts))


# Messages.


def upload(slot, round_, config, map_, weights, magic=b"FBUP", version=1, zero=0, count=None):
    count = len(weights) // 8 if count is None else count
    head = struct.pack("<4sHHIIQ", magic, version, zero, slot, count, round_)
    return head + config + map_ + weights


def message(sender, round_, weights, count=None):
    count = len(weights) // 8 if count is None else count
    return struct.pack("<IQQ", sender, round_, count) + weights


def messages(items, stragglers, n_items=None, n_stragglers=None):
    n_items = len(items) if n_items is None else n_items
    n_stragglers = len(stragglers) if n_stragglers is None else n_stragglers
    slots = b"".join(struct.pack("<I", slot) for slot in stragglers)
    return struct.pack("<Q", n_items) + b"".join(items) + struct.pack("<Q", n_stragglers) + slots


def entry(seq, round_, event, release, n_event=None, n_release=None):
    n_event = len(event) if n_event is None else n_event
    n_release = len(release) if n_release is None else n_release
    head = struct.pack("<QQQ", seq, round_, n_event)
    return head + event + struct.pack("<Q", n_release) + release


def releases(items, n=None):
    return struct.pack("<Q", len(items) if n is None else n) + b"".join(items)


def helper_entry(head, seq, round_, event, release, leader_share):
    """An entry of the helper's ledger, and the head after it."""
    head = after(head, seq, round_, event, release)
    proof = sign(HELPER, "fedbo helper entry, version 1", CONFIG, struct.pack("<Q", seq), head[1], leader_share)
    return head, entry(seq, round_, event, release) + leader_share + proof, proof


def sealed_upload(slot, n_features, round_, nonce, parts, magic=b"FBSU", version=1, zero=0):
    head = struct.pack("<4sHHIIQ", magic, version, zero, slot, n_features, round_)
    return head + CONFIG + MAP + nonce + b"".join(parts)


def card(seed, seal, agree):
    content = public(seed) + seal + agree + sign(seed, "fedbo server card, version 1", seal, agree)
    check = hashlib.sha256(content).digest()[:4]
    return "fbs1_" + base64.urlsafe_b64encode(content + check).decode().rstrip("=")


def round_key(round_, key, config=None):
    """The helper's key of a round, and its signature."""
    return sign(HELPER, "fedbo helper round key, version 1", config or CONFIG, struct.pack("<Q", round_), key)


def observation(value, unit, succeeded=None):
    succeeded = value is not None if succeeded is None else succeeded
    return struct.pack("<B", succeeded) + weights(value or 0.0) + unit


def report(sender, round_, last, federation, dim, observations, magic=b"FBRP", version=1, count=None):
    count = len(observations) if count is None else count
    head = struct.pack("<4sHHIIQ", magic, version, last, sender, dim, round_)
    return head + federation + struct.pack("<I", count) + b"".join(observations)


def signed_report(data):
    return data + sign(AGENT, "fedbo report, version 1", data)


NO_HEAD = (0, bytes(32))


def unsigned_handout(kind, collects, round_, config, head, content, magic=b"FBHO", version=1):
    start = struct.pack("<4sHBBQ", magic, version, kind, collects, round_)
    return start + config + struct.pack("<Q", head[0]) + head[1] + content


def signed(seed, data):
    return data + sign(seed, "fedbo handout, version 1", data)


def after(head, seq, round_, event, release):
    assert seq == head[0] + 1
    numbers = struct.pack("<Q", seq), struct.pack("<Q", round_)
    parts = (numbers[0], head[1], numbers[1], event, release)
    return (seq, digest("fedbo ledger entry, version 1", *parts))


def token(secret, coordinator, config):
    content = secret + coordinator + config
    check = hashlib.sha256(content).digest()[:4]
    return "fbt2_" + base64.urlsafe_b64encode(content + check).decode().rstrip("=")


# The examples. Every byte that is free is derived from a name.


def some(name, n):
    return hashlib.shake_256(name.encode()).digest(n)


AGENT, NEW_AGENT, COORDINATOR = (some(name, 32) for name in ("agent", "new agent", "coordinator"))
COORDINATOR_KEY = public(COORDINATOR)
HELPER = some("helper", 32)
CONFIG_TEXT = '[study]\nname = "wine"\nrounds = 40 # größer\n'.encode()
CONFIG = digest("fedbo config, version 1", CONFIG_TEXT)
MAP = some("map", 32)
U64_MAX = 2**64 - 1


def weights(*numbers):
    return b"".join(struct.pack("<d", number) for number in numbers)


# Not a number with bits of its own, minus zero, the smallest number above zero, infinity: kept bit for bit.
ODD_WEIGHTS = bytes.fromhex("efbeadde0000f0ff") + weights(-0.0, 5e-324, float("inf"))
LIMITS = {"n_features": 2, "n_slots": 4, "release_bytes_max": "64"}


def good():
    yield "signing_keys", [
        {
            "seed": seed.hex(),
            "public": public(seed).hex(),
            "file_text": f"fedbo-secret-key-1 {seed.hex()}\n",
        }
        for seed in (AGENT, NEW_AGENT, COORDINATOR, bytes(32))
    ]

    cases = [("", []), ("a", [b"b"]), ("ab", [b""]), ("a", [b"b", b""]), ("fedbo test", [bytes(300), b"\xff", b""])]
    yield "framing", [
        {
            "purpose": purpose,
            "parts": [part.hex() for part in parts],
            "digest": digest(purpose, *parts).hex(),
            "seed": AGENT.hex(),
            "signature": sign(AGENT, purpose, *parts).hex(),
        }
        for purpose, parts in cases
    ]

    requests = []
    for method, target, body, time, counter in [
        ("GET", "/v1/studies/wine", b"", 1_700_000_000_000, 0),
        ("GET", "/v1/studies/wine/handouts?after=3&entries=2&wait=60&delivered=3", b"", 1_700_000_000_001, 17),
        ("PUT", "/v1/studies/w%C3%A4in/rounds/3/slots/1", upload(1, 3, CONFIG, MAP, weights(0.5, -2.0)), 0, 2**63 - 1),
        ("POST", "/v1/enrol", b'{"token":""}', U64_MAX, 0),
    ]:
        stamp = (str(time).encode(), str(counter).encode())
        parts = (COORDINATOR_KEY, method.encode(), target.encode(), *stamp, hashlib.sha256(body).digest())
        requests.append(
            {
                "seed": AGENT.hex(),
                "coordinator": COORDINATOR_KEY.hex(),
                "method": method,
                "target": target,
                "body": body.hex(),
                "fedbo-key": public(AGENT).hex(),
                "fedbo-time": str(time),
                "fedbo-counter": str(counter),
                "fedbo-signature": sign(AGENT, "fedbo request, version 3", *parts).hex(),
            }
        )
    yield "requests", requests

    yield "configs", [
        {
            "seed": COORDINATOR.hex(),
            "text": text.hex(),
            "digest": digest("fedbo config, version 1", text).hex(),
            "signature": sign(COORDINATOR, "fedbo config, version 1", text).hex(),
        }
        for text in (CONFIG_TEXT, b"")
    ]

    yield "tokens", [
        {
            "secret": secret.hex(),
            "coordinator": COORDINATOR_KEY.hex(),
            "config": CONFIG.hex(),
            "text": token(secret, COORDINATOR_KEY, CONFIG),
            "key": public(digest("fedbo enrolment token, version 2", secret)).hex(),
            "agent_seed": AGENT.hex(),
            "proof": sign(
                digest("fedbo enrolment token, version 2", secret),
                "fedbo enrolment, version 2",
                public(AGENT),
                COORDINATOR_KEY,
                CONFIG,
            ).hex(),
        }
        for secret in (some("token", 20), bytes(20), b"\xff" * 20)
    ]

    yield "coordinators", [
        {
            "seed": COORDINATOR.hex(),
            "challenge": challenge.hex(),
            "proof": sign(COORDINATOR, "fedbo coordinator, version 1", challenge).hex(),
        }
        for challenge in (some("challenge", 32), bytes(32))
    ]

    rotations = []
    for study, slot in (("wine", 3), ("größer", 2**32 - 1)):
        parts = (study.encode(), struct.pack("<I", slot), public(AGENT))
        rotations.append(
            {
                "new_seed": NEW_AGENT.hex(),
                "study": study,
                "slot": slot,
                "old": public(AGENT).hex(),
                "key": public(NEW_AGENT).hex(),
                "proof": sign(NEW_AGENT, "fedbo key rotation, version 1", *parts).hex(),
            }
        )
    yield "rotations", rotations

    accounts = []
    for studies in [
        [],
        [
            ("wine", CONFIG, 3, 17, "0100", "default", [[0, 3], [5, 5]], [[4, 4]]),
            ("wäin", bytes(32), 0, 0, "", "", [], []),
        ],
    ]:
        parts = [public(AGENT), (1_700_000_000_000).to_bytes(8, "little")]
        for study, config, slot, counter, event, mode, delivered, unrecorded in studies:
            rows = [b"".join(n.to_bytes(8, "little") for row in rounds for n in row) for rounds in (delivered, unrecorded)]
            parts += [study.encode(), config, slot.to_bytes(4, "little"), counter.to_bytes(8, "little"), event.encode(), mode.encode(), *rows]
        names = ("study", "config", "slot", "counter", "event", "mode", "delivered", "unrecorded")
        shown = [dict(zip(names, (study[0], study[1].hex(), *study[2:]))) for study in studies]
        proof = sign(COORDINATOR, "fedbo account, version 1", *parts).hex()
        account = {"key": public(AGENT).hex(), "time_ms": 1_700_000_000_000, "studies": shown, "proof": proof}
        accounts.append({"seed": COORDINATOR.hex(), "account": account})
    yield "accounts", accounts

    yield "uploads", [
        {
            "slot": slot,
            "round": str(round_),
            "config": config.hex(),
            "map": map_.hex(),
            "weights": w.hex(),
            "bytes": upload(slot, round_, config, map_, w).hex(),
        }
        for slot, round_, config, map_, w in [
            (1, 3, CONFIG, MAP, weights(0.5, -2.0)),
            (2**32 - 1, U64_MAX, b"\xff" * 32, bytes(32), ODD_WEIGHTS),
            (0, 0, CONFIG, MAP, b""),
        ]
    ]

    charter = {"name": "wine", "config": CONFIG_TEXT, "epsilon": 4.0, "delta": 1e-5, "mode": "default", "accountant": "pld"}
    numbers = weights(charter["epsilon"]), weights(charter["delta"])
    genesis = digest("fedbo ledger charter, version 1", b"wine", CONFIG_TEXT, *numbers, b"default", b"pld")
    entries = [(1, 0, b"event", some("first", 40)), (2, 5, b"event", b""), (3, 6, b"", some("third", 64))]
    heads = [(0, genesis)]
    for e in entries:
        heads.append(after(heads[-1], *e))
    yield "ledgers", [
        {
            "charter": {**charter, "config": CONFIG_TEXT.hex()},
            "entries": [shown_entry(*e) for e in entries],
            "heads": [shown_head(head) for head in heads],
        }
    ]

    handouts = []
    relayed = [(0, 0, weights(1.0, 2.0)), (3, 2**40, ODD_WEIGHTS[:16])]
    for round_, collects, items, stragglers in [(1, True, relayed, [1, 2]), (U64_MAX, False, [], []), (9, True, relayed[:1], [])]:
        content = messages([message(*item) for item in items], stragglers)
        data = unsigned_handout(1, collects, round_, CONFIG, NO_HEAD, content)
        shown = [{"sender": s, "round": str(r), "weights": w.hex()} for s, r, w in items]
        handouts.append(shown_handout(round_, collects, NO_HEAD, {"messages": shown, "stragglers": stragglers}, data))
    for round_, collects, head, items in [(7, True, heads[3], entries), (7, False, heads[3], entries[1:]), (1, True, heads[0], [])]:
        data = unsigned_handout(2, collects, round_, CONFIG, head, releases([entry(*e) for e in items]))
        content = {"releases": [shown_entry(*e) for e in items]}
        handouts.append(shown_handout(round_, collects, head, content, data))
    helper_head, of_helper, shown_of_helper = heads[0], [], []
    for seq, round_, event, release in [(1, 0, b"event", some("helper's first", 40)), (2, 5, b"event", b"")]:
        share = digest("fedbo share of a release, version 1", some("leader's share", 40)) if round_ else bytes(32)
        helper_head, data, proof = helper_entry(helper_head, seq, round_, event, release, share)
        of_helper.append(data)
        shown_of_helper.append({**shown_entry(seq, round_, event, release), "leader_share": share.hex(), "proof": proof.hex()})
    for head, items, n in [(heads[3], entries, 2), (heads[3], entries[2:], 0), (heads[0], [], 1)]:
        content = releases([entry(*e) for e in items]) + releases(of_helper[:n])
        data = unsigned_handout(3, True, 7, CONFIG, head, content)
        shown = {"releases": [shown_entry(*e) for e in items], "helper": shown_of_helper[:n]}
        handouts.append(shown_handout(7, True, head, shown, data))
    key = some("round key", 32)
    content = releases([entry(*e) for e in entries]) + releases(of_helper[:1]) + key + round_key(7, key)
    shown = {
        "releases": [shown_entry(*e) for e in entries],
        "helper": shown_of_helper[:1],
        "key": (struct.pack("<Q", 7) + key + round_key(7, key)).hex(),
    }
    handouts.append(shown_handout(7, True, heads[3], shown, unsigned_handout(4, True, 7, CONFIG, heads[3], content)))
    yield "handouts", handouts

    yield "round_keys", [
        {
            "seed": HELPER.hex(),
            "config": CONFIG.hex(),
            "round": str(round_),
            "key": key.hex(),
            "text": (struct.pack("<Q", round_) + key + round_key(round_, key)).hex(),
        }
        for round_, key in [(0, some("round key", 32)), (U64_MAX, bytes(32))]
    ]

    yield "sealed_uploads", [
        {
            "slot": slot,
            "round": str(round_),
            "config": CONFIG.hex(),
            "map": MAP.hex(),
            "n_features": n_features,
            "nonce": some("nonce", 16).hex(),
            "parts": [part.hex() for part in parts],
            "bytes": sealed_upload(slot, n_features, round_, some("nonce", 16), parts).hex(),
        }
        for slot, n_features, round_, parts in [
            (1, 2, 3, [some("public", 64), some("for the leader", 100), some("for the helper", 112)]),
            (2**32 - 1, 2**32 - 1, U64_MAX, [b"", some("for the leader", 64), some("for the helper", 80)]),
        ]
    ]

    yield "cards", [
        {"seed": seed.hex(), "seal": seal.hex(), "agree": agree.hex(), "text": card(seed, seal, agree)}
        for seed, seal, agree in [(HELPER, some("seal", 32), some("agree", 32)), (COORDINATOR, bytes(32), b"\xff" * 32)]
    ]

    reports = []
    for sender, round_, last, dim, observations in [
        (3, 7, 0, 2, [(0.5, weights(0.0, 1.0))]),
        (0, 0, 0, 2, [(-1.25, weights(0.25, 0.75)), (None, ODD_WEIGHTS[:16]), (1e300, weights(1.0, 0.5))]),
        (2**32 - 1, U64_MAX, 1, 1, []),
    ]:
        data = report(sender, round_, last, MAP, dim, [observation(*each) for each in observations])
        shown = [{"value": value, "unit": unit.hex()} for value, unit in observations]
        about = {"sender": sender, "round": str(round_), "last": last == 1, "federation": MAP.hex(), "dim": dim}
        signed_by = {"seed": AGENT.hex(), "bytes": signed_report(data).hex()}
        reports.append({**about, "observations": shown, **signed_by})
    yield "reports", reports

    yield "receipts", [
        {
            "seed": AGENT.hex(),
            "federation": MAP.hex(),
            "sender": sender,
            "received_from": str(received),
            "proof": sign(
                AGENT, "fedbo receipt, version 1", MAP, struct.pack("<I", sender), struct.pack("<Q", received)
            ).hex(),
        }
        for sender, received in [(0, 0), (2**32 - 1, U64_MAX)]
    ]

    challenge = some("challenge", 32)
    yield "identities", [
        {
            "seed": AGENT.hex(),
            "challenge": challenge.hex(),
            "name": name,
            "slot": slot,
            "federation": MAP.hex(),
            "proof": sign(
                AGENT, "fedbo peer, version 1", challenge, name.encode(), struct.pack("<I", slot), MAP
            ).hex(),
        }
        for name, slot in [("east", 1), ("größer", 2**32 - 1)]
    ]


def shown_entry(seq, round_, event, release):
    return {"seq": str(seq), "round": str(round_), "event": event.hex(), "release": release.hex()}


def shown_head(head):
    return {"seq": str(head[0]), "hash": head[1].hex()}


def shown_handout(round_, collects, head, content, data):
    return {
        "seed": COORDINATOR.hex(),
        "limits": LIMITS,
        "config": CONFIG.hex(),
        "round": str(round_),
        "collects": collects,
        "head": shown_head(head),
        **content,
        "bytes": signed(COORDINATOR, data).hex(),
    }


def bad():
    text = f"fedbo-secret-key-1 {AGENT.hex()}\n"
    yield "signing_keys", [
        {"file_text": t, "error": error}
        for t, error in [
            ("", "other-kind"),
            (AGENT.hex(), "other-kind"),
            (" " + text, "other-kind"),
            (text.replace("key-1", "key-2"), "other-kind"),
            (text[:-2], "damaged"),
            (text + "\n", "damaged"),
            (text[:19] + text[19:].upper(), "damaged"),
            (text[:-2] + "g\n", "damaged"),
        ]
    ]

    target, time, counter, body = "/v1/studies/wine", 1_700_000_000_000, 17, b"{}"
    stamp = (str(time).encode(), str(counter).encode())
    parts = (COORDINATOR_KEY, b"GET", target.encode(), *stamp, hashlib.sha256(body).digest())
    signature = sign(AGENT, "fedbo request, version 3", *parts)
    right = {"coordinator": COORDINATOR_KEY.hex(), "method": "GET", "target": target, "body": body.hex(), "fedbo-key": public(AGENT).hex()}
    right |= {"fedbo-time": str(time), "fedbo-counter": str(counter), "fedbo-signature": signature.hex()}
    assert ed25519_verify(public(AGENT), framed("fedbo request, version 3", parts), signature)
    s_plus_order = int.from_bytes(signature[32:], "little") + L
    malleable = signature[:32] + s_plus_order.to_bytes(32, "little")
    other_purpose = sign(AGENT, "fedbo request, version 2", *parts)
    yield "requests", [
        {**right, **change, "error": error}
        for change, error in [
            ({"coordinator": public(NEW_AGENT).hex()}, "signature"),
            ({"method": "PUT"}, "signature"),
            ({"target": target + "?wait=60"}, "signature"),
            ({"body": b"{} ".hex()}, "signature"),
            ({"fedbo-time": str(time + 1)}, "signature"),
            ({"fedbo-counter": str(counter + 1)}, "signature"),
            ({"fedbo-key": public(NEW_AGENT).hex()}, "signature"),
            ({"fedbo-key": "ff" * 32}, "signature"),
            ({"fedbo-signature": malleable.hex()}, "signature"),
            ({"fedbo-signature": other_purpose.hex()}, "signature"),
            ({"fedbo-signature": "00" * 64}, "signature"),
            ({"fedbo-time": "0" + str(time)}, "time"),
            ({"fedbo-time": "+" + str(time)}, "time"),
            ({"fedbo-time": str(2**64)}, "time"),
            ({"fedbo-time": ""}, "time"),
            ({"fedbo-counter": "0" + str(counter)}, "counter"),
            ({"fedbo-counter": "-1"}, "counter"),
            ({"fedbo-counter": str(2**63)}, "counter"),
            ({"fedbo-counter": ""}, "counter"),
            ({"fedbo-key": right["fedbo-key"][1:]}, "hex"),
            ({"fedbo-key": right["fedbo-key"].upper()}, "hex"),
            ({"fedbo-signature": signature.hex() + "00"}, "hex"),
            ({"fedbo-key": None}, "missing"),
            ({"fedbo-time": None}, "missing"),
            ({"fedbo-counter": None}, "missing"),
            ({"fedbo-signature": None}, "missing"),
        ]
    ]

    text = token(some("token", 20), COORDINATOR_KEY, CONFIG)
    other = "A" if text[40] != "A" else "B"
    swapped = text[:40] + text[41] + text[40] + text[42:]
    assert swapped != text
    # 88 bytes leave four bits of the last character unused: they are zero.
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    unused = text[:-1] + alphabet[alphabet.index(text[-1]) + 1]
    yield "tokens", [
        {"text": t, "error": error}
        for t, error in [
            ("", "other-kind"),
            ("fbt3_" + text[5:], "other-kind"),
            ("fbt1_" + text[5:], "earlier"),
            ("fbt1_", "earlier"),
            (text[5:], "other-kind"),
            (COORDINATOR_KEY.hex(), "other-kind"),
            ("fbt2_", "cut-off"),
            ("fbt", "cut-off"),
            (text[:-1], "cut-off"),
            (text + "=", "too-long"),
            (text + " " + text, "too-long"),
            (text[:40] + other + text[41:], "mistyped"),
            (swapped, "mistyped"),
            (text[:40] + "+" + text[41:], "mistyped"),
            (unused, "mistyped"),
        ]
    ]

    w = weights(0.5, -2.0)
    right = upload(1, 3, CONFIG, MAP, w)
    yield "uploads", [
        {"n_features": 2, "bytes": data.hex(), "error": error}
        for data, error in [
            (b"", "other-kind"),
            (right[:3], "other-kind"),
            (upload(1, 3, CONFIG, MAP, w, magic=b"FBHO"), "other-kind"),
            (right[:4], "size"),
            (right[:23], "size"),
            (right[:-1], "size"),
            (right + b"\0", "size"),
            (upload(1, 3, CONFIG, MAP, w + w, count=2), "size"),
            (upload(1, 3, CONFIG, MAP, w, version=0), "version"),
            (upload(1, 3, CONFIG, MAP, w, version=2), "version"),
            (upload(1, 3, CONFIG, MAP, w, zero=1), "reserved"),
            (upload(1, 3, CONFIG, MAP, w + w), "features"),
            (upload(1, 3, CONFIG, MAP, w, count=1), "features"),
            (upload(1, 3, CONFIG, MAP, w, count=2**32 - 1), "features"),
        ]
    ]

    def relay(content, **changes):
        fields = {"kind": 1, "collects": 1, "round_": 4, "config": CONFIG, "head": NO_HEAD}
        return unsigned_handout(**{**fields, **changes}, content=content)

    def release(content, **changes):
        return relay(content, **{"kind": 2, "head": (9, MAP), **changes})

    m = [message(slot, 3, w) for slot in range(5)]
    e = [entry(seq, seq, b"event", b"release") for seq in range(12)]
    sound = signed(COORDINATOR, relay(messages(m[:2], [2])))
    flipped = bytearray(sound)
    flipped[70] ^= 1
    by_coordinator = [
        (relay(messages(m[:2], [2]), kind=0), "field"),
        (relay(messages(m[:2], [2]), kind=5), "field"),
        (relay(messages(m[:2], [2]), collects=2), "field"),
        (relay(messages(m[:2], [2]), head=(1, bytes(32))), "field"),
        (relay(messages(m[:2], [2]), head=(0, MAP)), "field"),
        (relay(messages(m[:2], [2]) + b"\0"), "trailing"),
        (relay(messages([m[1], m[0]], [])), "order"),
        (relay(messages([m[1], m[1]], [])), "order"),
        (relay(messages([], [2, 1])), "order"),
        (relay(messages([], [2, 2])), "order"),
        (relay(messages([m[4]], [])), "too-large"),
        (relay(messages([], [4])), "too-large"),
        (relay(messages(m, [])), "too-large"),
        (relay(messages([], [0, 1, 2, 3, 3])), "too-large"),
        (relay(messages(m[:2], [], n_items=U64_MAX)), "too-large"),
        (relay(messages(m[:2], [], n_stragglers=U64_MAX)), "too-large"),
        (relay(messages([message(0, 3, weights(1.0))], [])), "features"),
        (relay(messages([message(0, 3, w + w)], [])), "features"),
        (relay(messages([message(0, 3, w, count=2**61 + 2)], [])), "features"),
        (relay(messages(m[:2], [], n_stragglers=1)), "cut-off"),
        (relay(messages(m[:1], [])[:-16]), "cut-off"),
        (relay(b""), "cut-off"),
        (relay(b"")[:12], "cut-off"),
        (release(b""), "cut-off"),
        (release(releases(e[1:3], n=3)), "cut-off"),
        (release(releases(e[1:3], n=U64_MAX)), "cut-off"),
        (release(releases(e[1:3], n=2**59)), "cut-off"),
        (release(releases(e[1:3], n=1)), "trailing"),
        (release(releases([e[1], e[3]])), "order"),
        (release(releases([e[2], e[1]])), "order"),
        (release(releases([e[1], e[1]])), "order"),
        (release(releases([e[1], entry(2, 1, b"", b"")])), "order"),
        (release(releases([entry(U64_MAX, 1, b"", b""), entry(0, 2, b"", b"")])), "order"),
        (release(releases([entry(1, 1, b"", bytes(65))])), "too-large"),
        (release(releases([entry(1, 1, b"", b"", n_release=U64_MAX)])), "too-large"),
        (release(releases([entry(1, 1, bytes(1025), b"")])), "too-large"),
        (release(releases([entry(1, 1, b"", b"", n_event=U64_MAX)])), "too-large"),
        (release(releases([entry(1, 1, b"", bytes(7), n_release=8)])), "cut-off"),
        (release(releases([entry(1, 1, b"", bytes(7), n_event=1024)])), "cut-off"),
    ]
    h, head = [], (0, MAP)
    for seq in range(1, 4):
        head, data, _ = helper_entry(head, seq, seq, b"event", b"release", MAP)
        h.append(data)

    def shares(leader, helper, **changes):
        return release(leader + helper, **{"kind": 3, **changes})

    by_coordinator += [
        (shares(releases(e[1:3]), b""), "cut-off"),
        (shares(releases(e[1:3]), releases(h[:2], n=3)), "cut-off"),
        (shares(releases(e[1:3]), releases(h[:2], n=U64_MAX)), "cut-off"),
        (shares(releases(e[1:3]), releases(h[:2])[:-1]), "cut-off"),
        (shares(releases(e[1:3]), releases(h[:2], n=1)), "trailing"),
        (shares(releases(e[1:3]), releases([h[1], h[0]])), "order"),
        (shares(releases(e[1:3]), releases([h[0], h[2]])), "order"),
        (shares(releases([e[2], e[1]]), releases(h[:2])), "order"),
        (shares(releases([entry(1, 1, b"", bytes(65))]), releases([])), "too-large"),
        (shares(releases(e[1:3]), releases(h[:2]), kind=4), "cut-off"),
        (shares(releases(e[1:3]), releases(h[:2]) + bytes(95), kind=4), "cut-off"),
        (shares(releases(e[1:3]), releases(h[:2]) + bytes(97), kind=4), "trailing"),
        (shares(releases(e[1:3]), releases(h[:2]) + bytes(96)), "trailing"),
    ]
    cases = [(signed(COORDINATOR, data), error) for data, error in by_coordinator]
    cases += [
        (b"", "other-kind"),
        (sound[:3], "other-kind"),
        (signed(COORDINATOR, relay(messages([], []), magic=b"FBUP")), "other-kind"),
        (sound[:5], "cut-off"),
        (sound[:63], "cut-off"),
        (sound[:69], "signature"),
        (signed(COORDINATOR, relay(messages([], []), version=2)), "version"),
        (signed(AGENT, relay(messages(m[:2], [2]))), "signature"),
        (relay(messages(m[:2], [2])) + sign(COORDINATOR, "fedbo config, version 1", relay(messages(m[:2], [2]))), "signature"),
        (bytes(flipped), "signature"),
        (sound[:-1], "signature"),
        (sound + b"\0", "signature"),
    ]
    yield "handouts", [
        {"signer": COORDINATOR_KEY.hex(), "limits": LIMITS, "bytes": data.hex(), "error": error} for data, error in cases
    ]

    two = [observation(0.5, weights(0.0, 1.0)), observation(None, weights(0.5, 0.5))]
    sound = signed_report(report(3, 7, 0, MAP, 2, two))
    flipped = bytearray(sound)
    flipped[70] ^= 1
    yield "reports", [
        {"signer": public(AGENT).hex(), "dim": 2, "bytes": data.hex(), "error": error}
        for data, error in [
            (b"", "other-kind"),
            (b"FBR", "other-kind"),
            (signed_report(report(3, 7, 0, MAP, 2, two, magic=b"FBUP")), "other-kind"),
            (signed_report(report(3, 7, 0, MAP, 2, two, version=2)), "version"),
            (signed_report(report(3, 7, 2, MAP, 2, two)), "field"),
            (signed_report(report(3, 7, 0, MAP, 2, [observation(0.5, weights(0.0, 1.0), succeeded=0)])), "field"),
            (signed_report(report(3, 7, 0, MAP, 2, [observation(0.5, weights(0.0, 1.0), succeeded=2)])), "field"),
            (signed_report(report(3, 7, 0, MAP, 3, two)), "dim"),
            (signed_report(report(3, 7, 0, MAP, 2, two, count=1)), "size"),
            (signed_report(report(3, 7, 0, MAP, 2, two, count=2**32 - 1)), "size"),
            (sound[:-1], "size"),
            (sound[:59], "size"),
            (sound + b"\0", "size"),
            (bytes(flipped), "signature"),
            (report(3, 7, 0, MAP, 2, two) + sign(COORDINATOR, "fedbo report, version 1", sound[:-64]), "signature"),
            (report(3, 7, 0, MAP, 2, two) + sign(AGENT, "fedbo handout, version 1", sound[:-64]), "signature"),
        ]
    ]


ABOUT = (
    "Examples for docs/protocol.md and docs/peers.md, made by docs/protocol-vectors.py. Bytes are hexadecimal; numbers of 64 bits are "
    "decimal texts; weights are the bytes of IEEE 754 binary64, little end first. What is under 'good' is made and read; "
    "what is under 'bad' is refused, for the reason that 'error' names."
)

vectors = {"about": ABOUT, "protocol": 3, "good": dict(good()), "bad": dict(bad())}
text = json.dumps(vectors, indent=1, ensure_ascii=False) + "\n"
path = pathlib.Path(__file__).with_suffix(".json")
if sys.argv[1:] == ["--check"]:
    if path.read_text(encoding="utf-8") != text:
        sys.exit(f"{path} differs from what this script makes: run it without --check")
elif sys.argv[1:]:
    sys.exit(__doc__)
else:
    path.write_text(text, encoding="utf-8")
