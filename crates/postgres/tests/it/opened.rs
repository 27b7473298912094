//! `verify` without a server opens sets as a restore does: a set that no restore can open is a finding.

use std::sync::Arc;

use seawall_archive::{Catalog, Record, Sets};
use seawall_core::abilities::*;
use seawall_core::{NoProgress, SystemClock, When};
use seawall_postgres::{Format, Postgres};
use seawall_vault::memory::MemoryStore;

use crate::server::Server;
use crate::support::{backup, backup_in, options, recover, vault};

#[tokio::test]
async fn a_set_that_no_restore_can_open_is_found_without_a_server() {
    let server = Server::start(15);
    server.sql("postgres", "CREATE DATABASE shop");
    server.sql("shop", "CREATE TABLE t AS SELECT 1 AS a");
    let damages: [(&str, Option<serde_json::Value>); 3] =
        [("encoding", None), ("encoding", Some("KLINGON".into())), ("server_version", Some("new".into()))];
    for (format, database) in [(Format::Native, "shop"), (Format::Custom, "shop"), (Format::Native, "")] {
        for (key, value) in &damages {
            let vault = vault(&MemoryStore::new());
            match format {
                Format::Native => backup(&server, &server.url(database), &vault).await.expect("backed up"),
                format => backup_in(format, &server, &server.url(database), &vault).await.expect("backed up"),
            };
            let sets = Sets::new(vault.clone(), None, Arc::new(SystemClock), 0, 2).opened_by(vec![Arc::new(Postgres)]);
            let verified = sets.verify(Arc::new(NoProgress)).await.expect("verified");
            assert_eq!((verified.findings, verified.newest.is_some()), (vec![], true), "{format:?} {database}");
            let mut catalog = Catalog::read(&vault).await.expect("read");
            let mut manifest = catalog.find(&When::Latest).expect("a set").clone();
            let detail = manifest.detail.as_object_mut().expect("an object");
            let was = match value {
                Some(value) => detail.insert((*key).to_owned(), value.clone()),
                None => detail.remove(*key),
            };
            if was.is_none() || database.is_empty() && *key == "encoding" {
                // Of a whole server each database has its own.
                continue;
            }
            catalog.add(Record::Set(Box::new(manifest))).await.expect("added");
            let verified = sets.verify(Arc::new(NoProgress)).await.expect("verified");
            let codes: Vec<&str> = verified.findings.iter().map(|finding| finding.code).collect();
            assert_eq!(codes, ["postgres.different"], "{format:?} {database} {key}: {verified:?}");
            let failure =
                recover(&vault, &server.url("copy"), &options(&server)).await.expect_err("it can't be opened");
            assert_eq!(failure.code, "postgres.different", "{failure:?}");
        }
    }
}
