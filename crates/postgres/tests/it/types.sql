-- A table for each of PostgreSQL's own types that can be a column's, with an array of it; all are NULL but in `of_all`.
SELECT format('CREATE TABLE of_%s (v %s, a %s[]); INSERT INTO of_%1$s VALUES (NULL, ARRAY[NULL]::%2$s[])',
  CASE typname WHEN 'char' THEN 'one_char' ELSE typname END, oid::regtype, oid::regtype)
FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype IN ('b', 'r', 'm') AND typarray <> 0 AND typsend <> 0
  AND typreceive <> 0 ORDER BY typname \gexec
CREATE TABLE of_all (id int PRIMARY KEY, bo bool, by bytea, ch "char", na name, i8 int8, i2 int2, te text, oi oid, ti tid, xi xid, ci cid, js json,
  po point, ls lseg, pa path, bx box, pg polygon, li line, cr cidr, f4 float4, f8 float8, ce circle, m8 macaddr8, mo money, ma macaddr,
  ie inet, bc char(5), vc varchar(9), da date, tm time(3), ts timestamp, tz timestamptz, iv interval, tt timetz, bi bit(5), vb varbit(9),
  nu numeric, n2 numeric(9,3), uu uuid, tx txid_snapshot, ln pg_lsn, tv tsvector, tq tsquery, jb jsonb, r4 int4range, rn numrange, rt tsrange,
  rz tstzrange, rd daterange, r8 int8range, jp jsonpath, m4 int4multirange, mz tstzmultirange, sn pg_snapshot, x8 xid8, rc refcursor,
  ta text[], ba bytea[], na2 numeric[], ra int4range[], va varchar(9)[], two int[][], jba jsonb[], tza timestamptz[]);
INSERT INTO of_all VALUES (1, true, '\x00ff0a5c09', 'x', 'a name', -9223372036854775808, -32768, E'a\tb\\N\n\u00e9', 4294967295, '(7,9)', '4294967295', '3',
  '{"b": 1,  "a": [1.50]}', '(1e300,-0)', '[(1,2),(3,4)]', '[(1,2),(3,4)]', '(1,2),(3,4)', '((1,2),(3,4),(0,0))', '{1,2,3}', '10.1.0.0/16',
  'NaN', '-Infinity', '<(1,2),3>', '08:00:2b:01:02:03:04:05', '-12.34', '08:00:2b:01:02:03', '::1/64', 'ab', 'varchar', '4713-01-01 BC', '24:00',
  'infinity', '2024-02-29 12:00:00.123456+02', '-1 year 2 mons -3 days 04:05:06.789', '23:59:59.999999+15:59', '10101', '101', 'NaN', '123456.789',
  'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '10:20:10,14,15', 'FFFFFFFF/FFFFFFFF', '''it''s'':1A,3B cat:2', '(fat | rat) & !cat:AB', '{"b": [1.50, null], "a": "x"}',
  '[1,5)', '(,1.50]', 'empty', '[2024-01-01 00:00+00,)', '[2024-01-01,2024-02-01]', '(,)', '$.a[*] ? (@ > 1)', '{[1,3),[5,9)}', '{}',
  '1:9223372036854775807:', '18446744073709551615', 'a cursor', '[3:5]={a,NULL,"NULL"}', '{"\\x00ff",""}', '{NaN,1.50,-Infinity,1e-300}', '{empty,"[1,2)"}', '{a,b}',
  '{{1,2},{3,NULL}}', '{"{\"a\": 1}"}', '{infinity,-infinity}');
INSERT INTO of_all (id, nu, te, by) VALUES (2, repeat('9', 9000)::numeric / 7, '', ''), (3, 0.000, repeat('long ', 100000), decode(repeat('00', 70000), 'hex')), (4, -0.0, NULL, NULL);
INSERT INTO of_all (id, f8, nu) SELECT i, random() * 10 ^ (i % 600 - 300), (random() * 10 ^ (i % 40))::numeric / 3 FROM generate_series(5, 4000) i;
-- An array that had a NULL remembers it, and one that never had doesn't: the two are equal.
CREATE TABLE had_null (i int, a int[]); INSERT INTO had_null SELECT i, '{1,NULL}' FROM generate_series(1, 100) i; UPDATE had_null SET a[2] = i;
CREATE TYPE st AS ENUM ('new', 'it''s'); CREATE DOMAIN pos AS int CHECK (VALUE > 0); CREATE DOMAIN code AS text; CREATE DOMAIN list AS int[];
CREATE TYPE span AS RANGE (subtype = float8, multirange_type_name = spans); CREATE TYPE stages AS RANGE (subtype = st); CREATE TYPE pair AS (a int, b text);
CREATE TABLE of_users (s st, p pos, c code, l list, r span, m spans, e stages);
INSERT INTO of_users VALUES ('it''s', 7, 'x', '{1,NULL}', '[1,2)', '{[1,2),[3,4)}', '[new,"it''s"]'), (NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE of_enums (a st[]); INSERT INTO of_enums VALUES ('{new,NULL}'); CREATE TABLE of_domains (a pos[]); INSERT INTO of_domains VALUES ('{1}');
CREATE TABLE of_pairs (a pair); INSERT INTO of_pairs VALUES ('(1,x)'); CREATE TABLE of_rows (a of_users); CREATE TABLE of_nothing ();
INSERT INTO of_nothing DEFAULT VALUES; CREATE TABLE empty (a int, b text); CREATE TABLE gone (a int, b text, c int GENERATED ALWAYS AS (1) STORED);
INSERT INTO gone VALUES (1, 'x'); ALTER TABLE gone DROP COLUMN a; CREATE TABLE inside (a information_schema.sql_identifier); INSERT INTO inside VALUES ('x');
