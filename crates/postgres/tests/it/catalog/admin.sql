-- What a role with CREATEDB and CREATEROLE makes beside what an owner may: owners among the roles that it is a member of,
-- defaults for those, and extensions that are trusted.
DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO app', current_database()); END $$;
CREATE SCHEMA of_app AUTHORIZATION app; GRANT USAGE ON SCHEMA one TO app;
CREATE EXTENSION hstore; CREATE EXTENSION citext SCHEMA two; CREATE TABLE one.of_extensions (h hstore, c two.citext); INSERT INTO one.of_extensions VALUES ('a=>1', 'C');
SET ROLE app; CREATE TABLE of_app.mine (a int PRIMARY KEY); INSERT INTO of_app.mine VALUES (1); CREATE VIEW of_app.seen AS SELECT * FROM of_app.mine; GRANT SELECT ON of_app.mine TO reader; CREATE TYPE of_app.mood AS ENUM ('a'); CREATE FUNCTION of_app.f() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE SEQUENCE of_app.s; CREATE MATERIALIZED VIEW of_app.m AS SELECT * FROM of_app.mine; CREATE DOMAIN of_app.d AS int; RESET ROLE;
ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON TABLES TO reader; ALTER DEFAULT PRIVILEGES FOR ROLE app IN SCHEMA of_app GRANT EXECUTE ON FUNCTIONS TO reader;
