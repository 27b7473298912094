"""Every golden file reads as its manifest says: `python3 -m unittest discover python/tests`."""

import hashlib
import json
import pathlib
import tempfile
import unittest

import seawall_ltx

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/ltx"
MANIFEST = json.loads((GOLDEN / "manifest.json").read_text())


class Golden(unittest.TestCase):
    def test_valid_files_read_as_recorded(self):
        self.assertGreater(len(MANIFEST["files"]), 100)
        generations = {"v1": "1", "v1lz4": "1 (compressed)", "v2": "2", "v3": None}
        for facts in MANIFEST["files"]:
            with self.subTest(facts["file"]):
                file = seawall_ltx.open(GOLDEN / facts["file"])
                header = file.header
                for name in ["page_size", "commit", "wal_offset", "wal_size", "node_id", "no_checksum"]:
                    self.assertEqual(getattr(header, name), facts[name], name)
                for name in ["min_txid", "max_txid", "pre_apply", "wal_salt1", "wal_salt2"]:
                    self.assertEqual(getattr(header, name), int(facts[name], 16), name)
                self.assertEqual(header.timestamp_ms, facts["timestamp"])
                self.assertEqual(header.is_snapshot, facts["snapshot"])
                self.assertEqual(file.generation, generations[facts["format"]])
                self.assertEqual(file.post_apply, int(facts["post_apply"], 16))
                self.assertEqual(file.file_checksum, int(facts["file_checksum"], 16))
                self.assertEqual(file.size, facts["size"])
                pages = list(file)
                self.assertEqual(len(file), len(pages))
                self.assertEqual([number for number, _ in pages], facts["pages"])
                content = hashlib.sha256(b"".join(data for _, data in pages)).hexdigest()
                self.assertEqual(content, facts["pages_sha256"])

    def test_a_chain_gives_the_recorded_databases(self):
        for chain in MANIFEST["chains"]:
            database = bytearray()
            for state in chain.get("after", []):
                file = seawall_ltx.open(str(GOLDEN / state["file"]))
                size = file.header.page_size
                database = database.ljust(file.header.commit * size, b"\0")[: file.header.commit * size]
                for number, data in file.pages():
                    database[(number - 1) * size : number * size] = data
                self.assertEqual(hashlib.sha256(database).hexdigest(), state["db_sha256"], state["file"])

    def test_defective_files_raise(self):
        for facts in MANIFEST["corrupted"]:
            with self.subTest(facts["file"]):
                path = GOLDEN / facts["file"]
                if facts["must_reject"]:
                    with self.assertRaises(seawall_ltx.LtxError) as raised:
                        seawall_ltx.open(path)
                    self.assertIn(path.name, str(raised.exception))
                elif facts["expect"] == "ok":
                    self.assertEqual(len(list(seawall_ltx.open(path))), len(seawall_ltx.open(path)))

    def test_the_pages_are_checked_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.ltx"
            path.write_bytes((GOLDEN / "snapshot/encode-db-4096.ltx").read_bytes())
            file = seawall_ltx.open(path)
            changed = bytearray(path.read_bytes())
            changed[-1] ^= 1
            path.write_bytes(changed)
            with self.assertRaises(seawall_ltx.LtxError):
                list(file)

    def test_a_missing_file_is_an_error_of_the_file_system(self):
        with self.assertRaises(FileNotFoundError) as raised:
            seawall_ltx.open("not-there.ltx")
        self.assertEqual(raised.exception.filename, "not-there.ltx")


if __name__ == "__main__":
    unittest.main()
