-- For each catalog a statement that writes each of its rows as a line: the catalog, and its columns as JSON, in which identities
-- stand where the catalog has numbers of objects. What the columns refer to the server says itself.
WITH refs AS (
  SELECT fktable, fkcols[1] AS col, pktable, is_array FROM pg_get_catalog_foreign_keys()
  WHERE cardinality(fkcols) = 1 AND pkcols = '{oid}'
), pairs AS (
  SELECT * FROM (VALUES ('objid', 'classid', 'objsubid'), ('refobjid', 'refclassid', 'refobjsubid'), ('objoid', 'classoid', 'objsubid')) p(col, class, sub)
), cols AS (
  SELECT c.oid AS catalog, c.relname, a.attname, a.attnum, quote_ident(a.attname) AS name, a.atttypid::regtype::text AS type,
         r.pktable, r.is_array, p.class, EXISTS (SELECT FROM pg_attribute s WHERE s.attrelid = c.oid AND s.attname = p.sub) AS sub_there, p.sub,
         coalesce((SELECT quote_ident(x.col) FROM refs x JOIN pg_attribute xa ON xa.attrelid = c.oid AND xa.attname = x.col
                   WHERE x.fktable = c.oid AND x.pktable = 'pg_class'::regclass AND NOT x.is_array AND x.col ~ 'relid$' AND x.col <> 'indexrelid' ORDER BY xa.attnum LIMIT 1),
                  CASE WHEN c.relname = 'pg_class' THEN 'oid' ELSE '0' END) AS relation
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN refs r ON r.fktable = c.oid AND r.col = a.attname
  LEFT JOIN pairs p ON p.col = a.attname AND EXISTS (SELECT FROM pg_attribute o WHERE o.attrelid = c.oid AND o.attname = p.class)
  WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind = 'r'
), exprs AS (
  SELECT *, CASE
    WHEN attname = 'oid' AND relname IN ('pg_enum', 'pg_init_privs', 'pg_auth_members', 'pg_parameter_acl', 'pg_largeobject_metadata') THEN CASE relname WHEN 'pg_largeobject_metadata' THEN 'oid::text' ELSE '''''' END
    WHEN attname = 'oid' THEN format('coalesce((pg_identify_object(%s, oid, 0)).identity, ''?'')', catalog)
    WHEN relname = 'pg_rewrite' AND attname = 'ev_action' THEN 'pg_get_ruledef(oid)'
    WHEN relname = 'pg_rewrite' AND attname = 'ev_qual' THEN '(ev_qual::text = ''<>'')::text'
    WHEN relname = 'pg_trigger' AND attname = 'tgqual' THEN 'CASE WHEN tgqual IS NOT NULL THEN pg_get_triggerdef(oid) END'
    WHEN relname = 'pg_proc' AND attname = 'prosqlbody' THEN 'pg_get_function_sqlbody(oid)'
    WHEN relname = 'pg_largeobject' AND attname = 'loid' THEN 'loid::text'
    WHEN relname = 'pg_largeobject' AND attname = 'data' THEN 'md5(data)'
    WHEN type = 'pg_node_tree' THEN format('pg_get_expr(%s, %s)', name, relation)
    WHEN type = 'aclitem[]' THEN format('(SELECT string_agg(x::text, '' '' ORDER BY x::text) FROM unnest(%s) x)', name)
    WHEN pktable IS NOT NULL AND is_array THEN format('(SELECT string_agg(CASE o WHEN 0 THEN ''0'' ELSE coalesce((pg_identify_object(%s, o, 0)).identity, ''?'') END, '' '' ORDER BY n) FROM unnest(%s::oid[]) WITH ORDINALITY u(o, n))', pktable::oid, name)
    WHEN pktable IS NOT NULL THEN format('CASE WHEN %2$s::oid = 0 THEN ''0'' ELSE coalesce((pg_identify_object(%1$s, %2$s::oid, 0)).identity, ''?'') END', pktable::oid, name)
    WHEN class IS NOT NULL THEN format('CASE WHEN %1$s = 0 THEN ''0'' WHEN %2$s IN (''pg_enum''::regclass, ''pg_largeobject''::regclass) THEN CASE %2$s WHEN ''pg_enum''::regclass THEN ''a label'' ELSE %1$s::text END ELSE coalesce((pg_identify_object(%2$s, %1$s, %3$s)).identity, ''?'') END', name, class, CASE WHEN sub_there THEN sub ELSE '0' END)
    ELSE format('%s::text', name) END AS expr
  FROM cols
)
SELECT format('SELECT %L || jsonb_object(ARRAY[%s]::text[])::text FROM pg_catalog.%I x%s', relname || ' ',
              string_agg(format('%L, %s', attname, expr), ', ' ORDER BY attnum), relname,
              CASE WHEN relname = 'pg_shdepend' THEN ' WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())'
                   WHEN relname = 'pg_shdescription' THEN ' WHERE classoid = ''pg_database''::regclass AND objoid = (SELECT oid FROM pg_database WHERE datname = current_database())'
                   WHEN relname = 'pg_database' THEN ' WHERE datname = current_database()'
                   WHEN relname = 'pg_db_role_setting' THEN ' WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())'
                   -- A member of an extension needs the transforms that were there before it: which ones is a matter of the order alone.
                   WHEN relname = 'pg_depend' THEN ' WHERE NOT (refclassid = ''pg_transform''::regclass AND EXISTS (SELECT FROM pg_depend e WHERE e.classid = x.classid AND e.objid = x.objid AND e.deptype = ''e''))'
                   WHEN relname = 'pg_subscription' THEN ' WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())'
                   ELSE '' END)
FROM exprs WHERE relname <> ALL ('{pg_largeobject,pg_statistic,pg_statistic_ext_data,pg_authid,pg_auth_members,pg_tablespace,pg_parameter_acl,pg_replication_origin,pg_shseclabel}') GROUP BY relname ORDER BY relname
\gexec
SELECT 'toast ' || jsonb_build_object(oid::text, oid::regclass::text)::text FROM pg_class WHERE reltoastrelid <> 0
