//! A database engine for tests of this crate that does nothing but what it is told.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use seawall_core::{
    Contents, Description, Digests, Engine, Failure, Files, History, Kind, Maintain, Moment, Phase, Pins, Point,
    Progress, Protect, RestoreRequest, Restored, Rollback, Shutdown, Standby, Status, Timeline, Verification, When,
};
use seawall_vault::VaultUrl;

use crate::config::{DatabaseConfig, DirectoryConfig, Pattern, Registering, Services};
use crate::fleet::Databases;
use crate::process::Also;
use crate::process::logging::{Level, LogFormat};
use crate::process::protect::Job;

/// What the engine does when it runs or takes a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Works until a graceful stop.
    Work,
    /// Gives up at once.
    Fail,
    /// Panics.
    Panic,
    /// Ignores a graceful stop.
    Stubborn,
    /// Works, and a restore of it never ends.
    Slow,
}

/// The engine.
#[derive(Debug)]
pub(crate) struct Stub {
    name: String,
    act: Act,
}

impl Stub {
    pub(crate) fn new(name: &str, act: Act) -> Self {
        Self { name: name.into(), act }
    }

    fn failed<T>(&self) -> Result<T, Failure> {
        Err(Failure::new(Kind::Unavailable, "stub.failed", &self.name, "it was told to", "nothing"))
    }

    fn point(&self) -> Point {
        Point { position: "0000000000000001".into(), moment: Moment::from_millis(1) }
    }
}

#[async_trait]
impl Engine for Stub {
    fn describe(&self) -> Description {
        Description { name: self.name.clone(), engine: "stub", source: Some("nothing".into()), vault: "memory:".into() }
    }

    async fn status(&self) -> Result<Status, Failure> {
        let phase = if matches!(self.act, Act::Work | Act::Slow) { Phase::Protecting } else { Phase::Failing };
        let protected = Some(self.point());
        Ok(Status { protected, ..Status::new(self.describe(), phase, Moment::from_millis(1)) })
    }

    fn protection(&self) -> Option<&dyn Protect> {
        Some(self)
    }

    fn history(&self) -> &dyn History {
        self
    }

    fn files(&self) -> Option<&dyn Files> {
        Some(self)
    }
}

#[async_trait]
impl Protect for Stub {
    async fn run(&self, shutdown: &Shutdown) -> Result<(), Failure> {
        match self.act {
            Act::Work | Act::Slow => shutdown.graceful().await,
            Act::Fail => return self.failed(),
            Act::Panic => panic!("it was told to"),
            Act::Stubborn => std::future::pending().await,
        }
        Ok(())
    }

    async fn take_point(&self, _shutdown: &Shutdown) -> Result<Point, Failure> {
        assert!(self.act != Act::Panic, "it was told to");
        if self.act == Act::Work { Ok(self.point()) } else { self.failed() }
    }

    async fn sync(&self) -> Result<Point, Failure> {
        if self.act == Act::Work { Ok(self.point()) } else { self.failed() }
    }
}

#[async_trait]
impl History for Stub {
    async fn timeline(&self) -> Result<Timeline, Failure> {
        Ok(Timeline::default())
    }

    async fn contents(&self, _when: &When) -> Result<Contents, Failure> {
        self.failed()
    }

    async fn verify(&self, _progress: Arc<dyn Progress>) -> Result<Verification, Failure> {
        self.failed()
    }

    fn digests(&self) -> Option<&dyn Digests> {
        None
    }

    fn maintenance(&self) -> Option<&dyn Maintain> {
        None
    }

    fn pins(&self) -> Option<&dyn Pins> {
        None
    }
}

#[async_trait]
impl Files for Stub {
    async fn restore(&self, request: &RestoreRequest, _progress: Arc<dyn Progress>) -> Result<Restored, Failure> {
        match self.act {
            Act::Fail => return self.failed(),
            Act::Slow => std::future::pending().await,
            _ => {}
        }
        Ok(Restored {
            point: self.point(),
            output: request.output.clone(),
            bytes: 0,
            objects: Vec::new(),
            duration_ms: 0,
            dry_run: request.dry_run,
            doubts: Vec::new(),
        })
    }

    fn rollback(&self) -> Option<&dyn Rollback> {
        None
    }

    fn standby(&self) -> Option<&dyn Standby> {
        None
    }
}

/// Opens stubs that do what their names begin with: `work`, `fail`, `panic`, `stubborn`, `slow`; `unopened` can't be opened.
#[derive(Debug, Default)]
pub(crate) struct Stubs;

/// The configuration of a stub.
pub(crate) fn database(name: &str) -> DatabaseConfig {
    let vault = VaultUrl::parse(&format!("/vault/{name}")).expect("a place");
    DatabaseConfig::new(name.to_owned(), format!("/nowhere/at/all/{name}").into(), vault)
}

/// A job with stubs of these names.
pub(crate) fn job(names: &[&str]) -> Job {
    let bound = Duration::from_secs(5);
    Job {
        databases: names.iter().map(|name| database(name)).collect(),
        directories: Vec::new(),
        once: false,
        also: Also::default(),
        exec: None,
        bound,
        sweep: Duration::from_secs(60),
        services: Services::default(),
        registering: Registering::plain("/".as_ref(), bound),
        registry: None,
        told: None,
        version: "0",
        configuration: None,
        upload_limit: None,
        log: (Level::Info, LogFormat::Text),
        threads: 0,
        supervised: false,
    }
}

#[async_trait]
impl Databases for Stubs {
    async fn lasting(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure> {
        let act = match database.name.split('-').next() {
            Some("work") => Act::Work,
            Some("fail") => Act::Fail,
            Some("panic") => Act::Panic,
            Some("stubborn") => Act::Stubborn,
            Some("slow") => Act::Slow,
            _ => return Err(Failure::new(Kind::Denied, "stub.unopened", &database.name, "it was told to", "nothing")),
        };
        Ok(Arc::new(Stub::new(&database.name, act)))
    }

    async fn fleeting(&self, database: &DatabaseConfig) -> Result<Arc<dyn Engine>, Failure> {
        self.lasting(database).await
    }
}

/// A folder of databases.
pub(crate) fn folder(dir: &Path, watch: bool) -> DirectoryConfig {
    DirectoryConfig {
        dir: dir.to_owned(),
        pattern: Pattern::parse("*.db").expect("a pattern"),
        recursive: false,
        watch,
        prefix: Some("work-".into()),
        state: None,
        template: DatabaseConfig::new("work-".into(), dir.to_owned(), VaultUrl::parse("/vault/f").expect("a place")),
    }
}
