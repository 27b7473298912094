//! The fuzz target's entry point on bytes that are nearly right. A longer run is `cargo fuzz run mysql_parsers`.

/// What the parsers read: statements of sets, URLs, option files, packets of a login, rows.
const CORPUS: [&[u8]; 12] = [
    b"CREATE TABLE `t` (\n  `id` int(11) NOT NULL AUTO_INCREMENT,\n  `a``b` enum('x','it''s') DEFAULT 'x' COMMENT 'a\\'(',\n  PRIMARY KEY (`id`),\n  KEY `k` (`a``b`(3)),\n  CONSTRAINT `f` FOREIGN KEY (`id`) REFERENCES `u` (`id`) ON DELETE CASCADE\n) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4",
    b"CREATE TABLE `p` (`id` int DEFAULT nextval(`a`.`s`), `g` int GENERATED ALWAYS AS (`id` + 1) VIRTUAL, CHECK (`id` > 0)) /*!50100 PARTITION BY HASH (`id`) PARTITIONS 3 */",
    b"CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v` AS select 1 AS `1` WITH CASCADED CHECK OPTION",
    b"CREATE DEFINER=`a`@`%` TRIGGER `t` BEFORE INSERT ON `x` FOR EACH ROW SET NEW.a = 'DEFINER=`b`@`c`'",
    b"CREATE DEFINER=`a`@`%` EVENT `e` ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00' ON COMPLETION NOT PRESERVE ENABLE COMMENT 'x' DO BEGIN END",
    b"CREATE DEFINER=`r` PACKAGE BODY `p` AS FUNCTION f RETURN int AS BEGIN RETURN 1; END; END",
    b"mysql://user:pass%40word@[::1]:3306/data%20base?ssl-mode=VERIFY_CA&ssl-ca=/ca.pem&socket=/tmp/s.sock",
    b"[client]\nuser = 'a b'\npassword=\"x\\\\y\"\n!include /etc/x\n# comment\nssl-mode\n",
    b"\x0a8.0.36\0\x05\0\0\0abcdefgh\0\xff\xf7\xff\x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0caching_sha2_password\0",
    b"\xff\x15\x04#28000Access denied",
    b"\x00\x01\x00\x02\x00\x03\x00",
    b"\x01a\xfb\xfc\x03\x00x\ty",
];

/// Bytes that mean something to one of them.
const MARKS: &[u8] = b"`'\"\\(),;/*!-# \n\t\0\xfb\xfe\xff";

#[test]
fn nothing_that_is_nearly_right_panics() {
    let mut random = fastrand::Rng::with_seed(seawall_testing::seed());
    for bytes in CORPUS {
        seawall_mysql::fuzzing::parse(bytes);
    }
    for _ in 0..20_000 {
        let mut bytes = CORPUS[random.usize(..CORPUS.len())].to_vec();
        for _ in 0..random.usize(1..6) {
            let place = random.usize(..=bytes.len());
            match random.u8(0..5) {
                0 => bytes.truncate(place),
                1 => bytes.insert(place, random.u8(..)),
                2 => bytes.insert(place, MARKS[random.usize(..MARKS.len())]),
                3 => {
                    let other = CORPUS[random.usize(..CORPUS.len())];
                    let (from, to) = (random.usize(..other.len()), random.usize(..other.len()));
                    bytes.splice(place..place, other[from.min(to)..from.max(to)].iter().copied());
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(place) {
                        *byte ^= 1 << random.u8(0..8);
                    }
                }
            }
        }
        seawall_mysql::fuzzing::parse(&bytes);
    }
}
