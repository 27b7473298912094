//! Which schemas are journals of restores? What is of a user has other things in it.

/// Whether a schema `n` is the journal of a restore: a condition of SQL. A user's schema of this name has other things in it.
pub(crate) const IS_OURS: &str = "(n.nspname ~ '^seawall_restore(_[0-9a-f]{8})?$' \
     AND EXISTS (SELECT FROM pg_catalog.pg_class j WHERE j.relnamespace = n.oid AND j.relname = 'journal' AND j.relkind = 'r' \
       AND ARRAY['step:25'] = (SELECT pg_catalog.array_agg(a.attname || ':' || a.atttypid) FROM pg_catalog.pg_attribute a \
                               WHERE a.attrelid = j.oid AND a.attnum > 0 AND NOT a.attisdropped)) \
     AND NOT EXISTS (SELECT FROM pg_catalog.pg_class other WHERE other.relnamespace = n.oid AND other.relkind <> 'i' \
       AND (other.relkind <> 'r' OR other.relname !~ '^(journal|loaded|uncrashed|pages_[0-9]+)$')) \
     AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc f WHERE f.pronamespace = n.oid) \
     AND NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.typnamespace = n.oid AND t.typrelid = 0 AND t.typelem = 0))";
