//! Proofs of sets in which something was changed by hand, so that every checksum is right: what no server keeps as the set has it,
//! is found.

use std::sync::Arc;

use futures::TryStreamExt as _;
use seawall_archive::server::Prove as _;
use seawall_archive::{Budget, Catalog, Codec, Content, Facts, Record, SetId, SetWriter};
use seawall_core::{NoProgress, When};
use seawall_mysql::{Dumped, Prover, World};
use seawall_vault::memory::MemoryStore;

use crate::restoring::{backup, environment, limits};
use crate::server::Server;
use crate::support::{Set, vault};

/// Writes a set with other content into another vault.
async fn written_anew(
    from: &MemoryStore,
    dumped: &Dumped,
    to: &MemoryStore,
    change: impl Fn(&str, Vec<u8>) -> Vec<u8>,
) {
    let world = World::real(environment());
    let set = Set::of(from, dumped).await;
    let budget = Budget::new(32 << 20, 1).expect("a budget");
    let id = SetId::new(world.clock.now(), world.nonce);
    let writer = SetWriter::begin(vault(to), id, Codec::default(), budget, Arc::new(NoProgress));
    for (number, item) in (0..).zip(&set.reader.index().items) {
        let frames: Vec<Vec<u8>> = set.reader.content(number).try_collect().await.expect("content");
        let content = change(&item.name, frames.concat());
        if item.content == Content::Lines {
            let rows = content.iter().filter(|byte| **byte == b'\n').count() as u64;
            let number = writer.item(item.name.clone(), Content::Lines, item.detail.clone());
            let mut lane = writer.lane();
            lane.begin(number, content.len() as u64).await.expect("begun");
            let mut buffer = lane.buffer().await.expect("a buffer");
            buffer.extend_from_slice(&content);
            lane.push(number, rows, buffer).await.expect("pushed");
            lane.finish().await.expect("finished");
        } else {
            let document: serde_json::Value = serde_json::from_slice(&content).expect("a document");
            writer.document(&item.name, item.detail.clone(), &document).await.expect("written");
        }
    }
    let manifest = &dumped.manifest;
    let facts = Facts {
        engine: "mysql",
        identity: manifest.identity.clone(),
        tool: manifest.tool.clone(),
        point: manifest.point,
        artefact: None,
        sample: None,
        schedule: None,
        detail: manifest.detail.clone(),
    };
    let manifest = writer.finish(facts, &*world.clock).await.expect("finished");
    let mut catalog = Catalog::read(&vault(to)).await.expect("a catalog");
    catalog.add(Record::Set(Box::new(manifest))).await.expect("it counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_finds_what_no_server_keeps_as_the_set_has_it() {
    let server = Server::start();
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.numbers (id int PRIMARY KEY, f float, n int DEFAULT 5); INSERT INTO d.numbers VALUES (1, 0.5, 1), (2, 1, 2); \
         CREATE SEQUENCE d.s START WITH 10; CREATE VIEW d.v AS SELECT id FROM d.numbers; CREATE TABLE d.same (a int); INSERT INTO d.same VALUES (1)",
    );
    let store = MemoryStore::default();
    let dumped = backup(&server.url("d"), &vault(&store)).await.expect("a backup");
    let text = |content: Vec<u8>| String::from_utf8(content).expect("text");
    let cases: [(&str, &str, &str, &[&str]); 5] = [
        ("nothing", "", "", &[]),
        // The nearest number of this type is another one.
        ("d.numbers", "1\t0.5\t", "1\t0.3\t", &["numbers"]),
        ("schema.json", "DEFAULT 5", "DEFAULT '5'", &["table numbers"]),
        ("schema.json", "select `numbers`", "SELECT `numbers`", &["view d.v"]),
        ("schema.json", "`id` int(11) NOT NULL", "`id` int(11) NOT NULL DEFAULT 05", &["table numbers"]),
    ];
    for (item, from, with, expected) in cases {
        let other = MemoryStore::default();
        written_anew(&store, &dumped, &other, |name, content| match name == item {
            true => {
                let content = text(content);
                assert!(content.contains(from), "{from:?} isn't in {content}");
                content.replacen(from, with, 1).into_bytes()
            }
            false => content,
        })
        .await;
        let prover = Prover { to: None, world: World::real(environment()) };
        let proved =
            prover.prove(&vault(&other), &When::Latest, &limits(), Arc::new(NoProgress)).await.expect("a proof");
        let found: Vec<&str> = proved.findings.iter().map(|finding| finding.object.as_str()).collect();
        assert_eq!(found, expected, "{with}: {:?}", proved.findings);
    }
}
