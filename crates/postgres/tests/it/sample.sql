-- A shop whose tables refer to each other in every way there is. Nothing is random, so that a failure can be looked at again.

CREATE SCHEMA "my ""shop""";

CREATE TABLE countries (code char(2) PRIMARY KEY, name text);
INSERT INTO countries SELECT chr(65 + i / 10) || chr(65 + i % 10), 'country ' || i FROM generate_series(0, 49) i;

CREATE TYPE colour AS ENUM ('red', 'green', 'blue');
CREATE TABLE colours (colour colour PRIMARY KEY);
INSERT INTO colours VALUES ('red'), ('green'), ('blue');

-- Two tables that refer to each other, one of them to itself as well; and the key is wider than what refers to it.
CREATE TABLE customers (
  id bigint PRIMARY KEY, country varchar(10) REFERENCES countries, referred_by int, favourite text, filler text);
CREATE TABLE "my ""shop""".products (
  sku text COLLATE "C" PRIMARY KEY, colour colour REFERENCES colours, suggested_by bigint REFERENCES customers);
INSERT INTO customers (id, country, filler) SELECT i, (SELECT code FROM countries ORDER BY code OFFSET i % 50 LIMIT 1), repeat('x', i % 300)
  FROM generate_series(1, 6000) i;
INSERT INTO "my ""shop""".products SELECT 'p' || i, (enum_range(NULL::colour))[1 + i % 3], (i * 7919) % 6000 + 1 FROM generate_series(1, 3000) i;
UPDATE customers SET referred_by = id / 2, favourite = 'p' || (id * 31) % 3000 + 1 WHERE id > 1 AND id % 5 <> 0;
ALTER TABLE customers ADD FOREIGN KEY (referred_by) REFERENCES customers;
ALTER TABLE customers ALTER favourite TYPE text COLLATE "POSIX",
  ADD FOREIGN KEY (favourite) REFERENCES "my ""shop""".products DEFERRABLE INITIALLY DEFERRED;

-- Partitions on both sides, keys over several columns, a partition whose columns stand in another order, and one of two levels.
CREATE TABLE orders (at date, id int, customer bigint REFERENCES customers, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE orders_2024 PARTITION OF orders FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE orders_2025 (id int NOT NULL, gone int, customer bigint, at date NOT NULL);
ALTER TABLE orders_2025 DROP COLUMN gone;
ALTER TABLE orders ATTACH PARTITION orders_2025 FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
CREATE TABLE orders_2026 PARTITION OF orders FOR VALUES FROM ('2026-01-01') TO ('2027-01-01') PARTITION BY HASH (id);
CREATE TABLE orders_2026_0 PARTITION OF orders_2026 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE orders_2026_1 PARTITION OF orders_2026 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO orders SELECT '2024-01-01'::date + i % 1096, i, (i * 13) % 6000 + 1 FROM generate_series(1, 9000) i;

CREATE TABLE lines (
  order_id int, number int, at date, product text REFERENCES "my ""shop""".products, price numeric(10, 2),
  FOREIGN KEY (at, order_id) REFERENCES orders (at, id)) PARTITION BY LIST (number);
CREATE TABLE lines_first PARTITION OF lines FOR VALUES IN (1);
CREATE TABLE lines_other PARTITION OF lines DEFAULT;
INSERT INTO lines SELECT id, n, at, 'p' || (id * n) % 3000 + 1, id / 100.0 FROM orders, generate_series(1, 3) n WHERE id % 3 > 0 OR n = 1;

-- Many small partitions are one large table.
CREATE TABLE days (day int, visits int) PARTITION BY LIST (day);
SELECT format('CREATE TABLE days_%s PARTITION OF days FOR VALUES IN (%s)', i, i) FROM generate_series(1, 20) i \gexec
INSERT INTO days SELECT 1 + i % 20, i FROM generate_series(1, 4000) i;

-- A key to a unique index, without a primary key; half and wholly empty references.
CREATE TABLE pairs (a int, b text, payload text);
CREATE UNIQUE INDEX ON pairs (b, a);
INSERT INTO pairs SELECT i, 'b' || i % 7, repeat('y', 50) FROM generate_series(1, 4000) i;
INSERT INTO pairs VALUES (NULL, 'b1', 'nobody'), (5000, NULL, 'nobody');
CREATE TABLE simple (a int, b text, FOREIGN KEY (a, b) REFERENCES pairs (a, b) MATCH SIMPLE);
INSERT INTO simple SELECT CASE WHEN i % 4 > 0 THEN i END, CASE WHEN i % 3 > 0 THEN 'b' || i % 7 END FROM generate_series(1, 4000) i;
CREATE TABLE complete (a int, b text, FOREIGN KEY (a, b) REFERENCES pairs (a, b) MATCH FULL);
INSERT INTO complete SELECT CASE WHEN i % 4 > 0 THEN i END, CASE WHEN i % 4 > 0 THEN 'b' || i % 7 END FROM generate_series(1, 4000) i;

-- A key that some rows contradict.
CREATE TABLE unsure (a bigint);
INSERT INTO unsure SELECT i FROM generate_series(1, 12000) i;
ALTER TABLE unsure ADD FOREIGN KEY (a) REFERENCES customers NOT VALID;

-- Keys aren't inherited, neither from the one who refers nor from the one who is referred to.
CREATE TABLE events (id int PRIMARY KEY, customer bigint REFERENCES customers);
CREATE TABLE special_events (extra text) INHERITS (events);
INSERT INTO events SELECT i, i FROM generate_series(1, 2000) i;
INSERT INTO special_events SELECT i, -i, 'extra' FROM generate_series(1000, 3000) i;
CREATE TABLE visitors (event int REFERENCES events, name text);
INSERT INTO visitors SELECT i % 2000 + 1, 'visitor ' || i FROM generate_series(1, 3000) i;

-- A generated column refers.
CREATE TABLE labels (id int, product text GENERATED ALWAYS AS ('p' || id % 3000 + 1) STORED REFERENCES "my ""shop""".products);
INSERT INTO labels SELECT i FROM generate_series(1, 3000) i;

-- Nobody refers to these, and one has no columns at all.
CREATE TABLE log (line text);
INSERT INTO log SELECT repeat(md5(i::text), 20) FROM generate_series(1, 5000) i;
CREATE TABLE nothing ();
INSERT INTO nothing DEFAULT VALUES;
CREATE TABLE empty (id int PRIMARY KEY);

CREATE SEQUENCE tickets;
SELECT nextval('tickets') FROM generate_series(1, 17);
CREATE MATERIALIZED VIEW by_country AS SELECT country, count(*) FROM customers GROUP BY country;
SELECT lo_from_bytea(0, repeat('large', 1000)::bytea);

-- A type whose operators nobody finds by their names alone, and which takes different texts for the same.
CREATE EXTENSION citext SCHEMA "my ""shop""";
CREATE TABLE brands (name "my ""shop""".citext PRIMARY KEY);
INSERT INTO brands SELECT 'Brand ' || i FROM generate_series(1, 2000) i;
CREATE TABLE models (brand "my ""shop""".citext REFERENCES brands, name text);
INSERT INTO models SELECT 'BRAND ' || i % 2000 + 1, 'model ' || i FROM generate_series(1, 3000) i;
