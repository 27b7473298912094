//! A server that is reached as in production: by TCP, with TLS and passwords.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use seawall_core::{Failure, NoProgress, When};
use seawall_postgres::{
    DumpOptions, Dumped, Limits, ProveOptions, Proved, RestoreOptions, Restored, Target, World, dump, prove, restore,
};
use seawall_vault::{Environment, Vault};

use crate::server::{Server, is_root};
use crate::support::options;

/// The password of every role. It has all characters that need care in a file, in a URL or in SQL.
pub(crate) const PASSWORD: &str = "s3cret:with\\quote'and space";

/// The password as it is written in a URL, and as it is written in a line of `.pgpass`.
pub(crate) const IN_URL: &str = "s3cret%3Awith%5Cquote%27and%20space";
pub(crate) const IN_FILE: &str = "s3cret\\:with\\\\quote'and space";

/// Parts of the password that no argument and no log may contain.
pub(crate) const SECRETS: [&str; 2] = ["s3cret", "quote'and"];

/// The rules for logins. `app` has SCRAM and `old` MD5; `tls` must use TLS and `plain` must not.
const HBA: &str = "
local     all postgres     trust
local     all old          md5
local     all all          scram-sha-256
hostnossl all tls      all reject
hostssl   all plain    all reject
host      all old      all md5
host      all all      all scram-sha-256
";

/// The server, and the files that its clients need.
pub(crate) struct Secured {
    pub(crate) server: Server,
    /// The clients' files, and programs that record how they are started.
    client: tempfile::TempDir,
    pub(crate) has_ipv6: bool,
}

fn authority(name: &str) -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().expect("a key");
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(DnType::CommonName, name);
    let pem = parameters.self_signed(&key).expect("signed").pem();
    (pem, Issuer::new(parameters, key))
}

/// Writes a file that belongs to the server's user.
fn write_private(file: &Path, text: &str) {
    std::fs::write(file, text).expect("written");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).expect("private");
    if is_root() {
        assert!(Command::new("chown").arg("nobody:nogroup").arg(file).status().expect("chown").success());
    }
}

impl Secured {
    /// Starts a server with a database `shop` of a few rows. Its certificate is for `localhost` and `::1`. The version
    /// 18 of the tests is built without TLS.
    pub(crate) fn start(major: u32) -> Self {
        let client = tempfile::tempdir().expect("a folder");
        let (pem, issuer) = authority("an authority");
        std::fs::write(client.path().join("ca.pem"), pem).expect("written");
        std::fs::write(client.path().join("stranger.pem"), authority("a stranger").0).expect("written");
        let key = KeyPair::generate().expect("a key");
        let names = ["localhost", "::1"].map(str::to_owned);
        let certificate = CertificateParams::new(names).expect("names").signed_by(&key, &issuer).expect("signed").pem();
        let has_ipv6 = TcpListener::bind("[::1]:0").is_ok();
        let addresses = if has_ipv6 { "127.0.0.1,::1" } else { "127.0.0.1" };
        let prepare = |folder: &Path| {
            write_private(&folder.join("data/server.crt"), &certificate);
            write_private(&folder.join("data/server.key"), &key.serialize_pem());
            write_private(&folder.join("data/pg_hba.conf"), HBA);
            format!("listen_addresses = '{addresses}'\nssl = {}", if major == 15 { "on" } else { "off" })
        };
        // Between the question for a free port and the start somebody else may take it.
        let free = || TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("bound").port();
        let mut started = Err(String::new());
        for _ in 0..10 {
            started = started.or_else(|_| Server::start_on(major, free(), prepare));
        }
        let server = started.expect("the server starts");
        let password = PASSWORD.replace('\'', "''");
        for (role, form) in
            [("app", "scram-sha-256"), ("tls", "scram-sha-256"), ("plain", "scram-sha-256"), ("old", "md5")]
        {
            let sql =
                format!("SET password_encryption = '{form}'; CREATE ROLE {role} LOGIN SUPERUSER PASSWORD '{password}'");
            server.sql("postgres", &sql);
        }
        server.sql("postgres", "CREATE DATABASE shop");
        server.sql("shop", "CREATE TABLE t AS SELECT i, md5(i::text) AS x FROM generate_series(1, 1000) i");
        let secured = Self { server, client, has_ipv6 };
        for tool in ["pg_dump", "pg_restore", "psql"] {
            secured.wrap(tool, "");
        }
        secured
    }

    /// The path of one of the client's files.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.client.path().join(name)
    }

    /// Makes a program that records how it was started, runs `before`, and then becomes PostgreSQL's program.
    pub(crate) fn wrap(&self, tool: &str, before: &str) {
        let program = self.file(tool);
        let (log, real) = (self.file("calls").display().to_string(), self.server.bin().join(tool));
        let script = format!(
            "#!/bin/sh\n{{ echo \"call {tool} $*\"; env | sed 's/^/with /'; }} >>'{log}'\n{before}\nexec '{}' \"$@\"\n",
            real.display()
        );
        std::fs::write(&program, script).expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a program");
    }

    /// How programs were started since the last call: for each a line with its arguments, and its variables after that.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.file("calls")).unwrap_or_default();
        let _ = std::fs::remove_file(self.file("calls"));
        text.lines().map(str::to_owned).collect()
    }

    /// A URL with a TCP address.
    pub(crate) fn url(&self, user: &str, host: &str, rest: &str) -> String {
        format!("postgresql://{user}@{host}:{}/{rest}", self.server.port)
    }

    /// A URL with the socket.
    pub(crate) fn socket(&self, user: &str, database: &str) -> String {
        self.server.url_as(user, database)
    }

    /// A file with a password in the form of `.pgpass`, in a home folder of its own.
    pub(crate) fn home_with_password(&self, line: &str) -> String {
        let home = tempfile::Builder::new().prefix("home").tempdir_in(self.client.path()).expect("a folder").keep();
        let file = home.join(".pgpass");
        std::fs::write(&file, format!("# a comment\n{line}:{IN_FILE}\n")).expect("written");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("private");
        home.display().to_string()
    }

    fn limits(&self) -> Limits {
        Limits { jobs: 2, memory: 32 << 20, bindir: Some(self.client.path().to_owned()), ..Limits::default() }
    }

    /// Backs up the database at a URL, as a process with only these variables.
    pub(crate) async fn backup(&self, url: &str, variables: &[(&str, &str)], vault: &Vault) -> Result<Dumped, Failure> {
        let environment = environment(variables);
        let options = DumpOptions { limits: self.limits(), ..DumpOptions::default() };
        let target = Target::parse(url, &environment)?;
        Ok(dump(&target, vault, &options, &World::real(environment), Arc::new(NoProgress)).await?)
    }

    /// Restores the newest set, as a process with only these variables.
    pub(crate) async fn recover(
        &self,
        vault: &Vault,
        url: &str,
        variables: &[(&str, &str)],
    ) -> Result<Restored, Failure> {
        let environment = environment(variables);
        let options = RestoreOptions { limits: self.limits(), ..options(&self.server) };
        let target = Target::parse(url, &environment)?;
        Ok(restore(vault, &target, &options, &World::real(environment), Arc::new(NoProgress)).await?)
    }

    /// Proves the newest set on the server that a URL names.
    pub(crate) async fn prove(&self, vault: &Vault, url: &str, variables: &[(&str, &str)]) -> Result<Proved, Failure> {
        let environment = environment(variables);
        let to = Some(Target::parse(url, &environment)?);
        let options = ProveOptions { when: When::Latest, to, limits: self.limits() };
        Ok(prove(vault, &options, &World::real(environment), Arc::new(NoProgress)).await?)
    }
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}
