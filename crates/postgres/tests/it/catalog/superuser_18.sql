-- What only a superuser may make in version 18 beside: see `catalog_super.sql`.
CREATE SUBSCRIPTION newest CONNECTION 'dbname=nowhere' PUBLICATION chosen WITH (connect = false, slot_name = 'newest', run_as_owner, origin = none, password_required = false, failover, streaming = parallel);
CREATE EVENT TRIGGER logs_in ON login EXECUTE FUNCTION one.on_ddl(); GRANT MAINTAIN ON one.odd TO reader; CREATE TABLE one.parts_in_heap_2 (a int) PARTITION BY HASH (a) USING heap_2; ALTER DEFAULT PRIVILEGES GRANT SELECT ON LARGE OBJECTS TO reader;
