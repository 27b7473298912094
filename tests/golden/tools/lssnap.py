"""Independent codec for Lightning Stream snapshots + LMDB dump helpers (pure Python, for tests)."""
import gzip, struct

FLAGS = dict(reverse_key=0x02, dupsort=0x04, integerkey=0x08, dupfixed=0x10, integerdup=0x20)

def uv(n):
    o = bytearray()
    while True:
        b = n & 0x7F; n >>= 7
        if n: o.append(b | 0x80)
        else: o.append(b); return bytes(o)

def tag(f, wt): return uv(f << 3 | wt)
def ld(f, b): return tag(f, 2) + uv(len(b)) + b
def vi(f, n): return tag(f, 0) + uv(n)
def f64(f, n): return tag(f, 1) + struct.pack("<Q", n)

def enc_kv(k, v, ts=0, flags=0, extra=b""):
    b = b""
    if k: b += ld(1, k)
    if v: b += ld(2, v)
    if flags: b += vi(4, flags)
    if ts: b += f64(3, ts)
    return b + extra

def enc_dbi(name, entries, flags=0, transform="", extra=b"", extra_first=b""):
    b = extra_first
    if name: b += ld(1, name.encode() if isinstance(name, str) else name)
    if flags: b += vi(3, flags)
    if transform: b += ld(4, transform.encode())
    for e in entries: b += ld(2, e if isinstance(e, bytes) else enc_kv(*e))
    return b + extra

def enc_meta(**m):
    b = b""
    for f, k in ((1, "generationID"), (2, "instanceID"), (3, "hostname"), (7, "databaseName")):
        if m.get(k): b += ld(f, m[k].encode())
    if m.get("lmdbTxnID"): b += vi(4, m["lmdbTxnID"])
    if m.get("timestampNano"): b += f64(5, m["timestampNano"])
    if m.get("fromLmdbTxnID"): b += vi(8, m["fromLmdbTxnID"])
    return b + m.get("extra", b"")

def enc_snapshot(dbis, fmt=3, compat=1, meta=b"", extra=b""):
    b = b""
    if fmt: b += vi(1, fmt)
    if compat: b += vi(4, compat)
    if meta: b += ld(2, meta)
    for d in dbis: b += ld(3, d)
    return b + extra

def gz(b): return gzip.compress(b, 1, mtime=0)

def fields(b):
    i = 0
    def rd():
        nonlocal i
        n = s = 0
        while True:
            c = b[i]; i += 1; n |= (c & 0x7F) << s; s += 7
            if c < 0x80: return n
    while i < len(b):
        t = rd(); f, wt = t >> 3, t & 7
        if wt == 0: yield f, wt, rd()
        elif wt == 1: yield f, wt, struct.unpack_from("<Q", b, i)[0]; i += 8
        elif wt == 2: n = rd(); yield f, wt, b[i:i + n]; i += n
        elif wt == 5: yield f, wt, struct.unpack_from("<I", b, i)[0]; i += 4
        else: raise ValueError("wire type %d" % wt)

def decode(gzdata):
    s = dict(formatVersion=0, compatVersion=0, meta={}, databases=[])
    names = {1: "generationID", 2: "instanceID", 3: "hostname", 4: "lmdbTxnID", 5: "timestampNano", 7: "databaseName", 8: "fromLmdbTxnID"}
    for f, wt, v in fields(gzip.decompress(gzdata)):
        if f == 1: s["formatVersion"] = v
        elif f == 4: s["compatVersion"] = v
        elif f == 2: s["meta"] = {names.get(g, str(g)): (x.decode() if isinstance(x, bytes) else x) for g, _, x in fields(v)}
        elif f == 3:
            d = dict(name="", flags=0, transform="", entries=[])
            for g, _, x in fields(v):
                if g == 1: d["name"] = x.decode("utf-8", "surrogateescape")
                elif g == 3: d["flags"] = x
                elif g == 4: d["transform"] = x.decode()
                elif g == 2:
                    e = dict(key="", value="", ts=0, flags=0)
                    for h, _, y in fields(x):
                        if h == 1: e["key"] = y.hex()
                        elif h == 2: e["value"] = y.hex()
                        elif h == 3: e["ts"] = y
                        elif h == 4: e["flags"] = y
                    d["entries"].append(e)
            s["databases"].append(d)
    return s

def hdr(ts, flags=0, txn=1, version=0, reserved=0, extra=b""):
    return struct.pack(">QQBBIH", ts, txn, version, flags, reserved, len(extra) // 8) + extra

def parse_hdr(v):
    if len(v) < 24 or v[16] != 0: return None
    ts, txn, ver, fl, res, n = struct.unpack(">QQBBIH", v[:24])
    return dict(ts=ts, txn=txn, flags=fl, reserved=res, num_extra=n, app=v[24 + 8 * n:].hex())

def dump(path, subdir=True):
    """All DBIs of an LMDB as JSON-able data: keys and values in hex, in LMDB order."""
    import lmdb
    env = lmdb.open(path, subdir=subdir, readonly=True, lock=False, max_dbs=128)
    out = {}
    with env.begin() as t:
        names = [bytes(k) for k, _ in t.cursor()]
        for n in names:
            db = env.open_db(n, txn=t, create=False)
            fl = sum(FLAGS[k] for k, v in db.flags(t).items() if v and k in FLAGS)
            out[n.decode("utf-8", "surrogateescape")] = dict(flags=fl, entries=[[bytes(k).hex(), bytes(v).hex()] for k, v in t.cursor(db)])
    env.close()
    return out
