//! The place of a vault: a folder, or a prefix of a bucket. One test runs on both.

use std::path::{Path, PathBuf};

use crate::S3Server;

/// A transaction id of LTX.
pub type Txid = u64;

/// The name of the object that holds transactions `min` to `max`.
pub fn file_name(min: Txid, max: Txid) -> String {
    format!("{min:016x}-{max:016x}.ltx")
}

/// The golden files in this repository, made by the peers' own programs.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/ltx")
}

/// A place for a vault.
#[derive(Debug)]
pub enum Place {
    /// A folder.
    Folder(PathBuf),
    /// A prefix in the bucket of a server.
    Bucket(Box<S3Server>, String),
}

impl Place {
    /// The vault's URL for `seawall`.
    pub fn url(&self) -> String {
        match self {
            Place::Folder(path) => path.to_str().unwrap().to_owned(),
            Place::Bucket(server, prefix) => {
                format!("s3://{}/{prefix}?endpoint={}&region=us-east-1", S3Server::BUCKET, server.endpoint())
            }
        }
    }

    /// How a `litestream.yml` names it: the keys of `replica:`, indented by `indent` blanks.
    pub fn yaml(&self, indent: usize) -> String {
        let pad = " ".repeat(indent);
        match self {
            Place::Folder(path) => format!("{pad}type: file\n{pad}path: {}\n", path.display()),
            Place::Bucket(server, prefix) => format!(
                "{pad}type: s3\n{pad}bucket: {}\n{pad}path: {prefix}\n{pad}endpoint: {}\n{pad}region: us-east-1\n\
                 {pad}force-path-style: true\n{pad}access-key-id: {}\n{pad}secret-access-key: {}\n",
                S3Server::BUCKET,
                server.endpoint(),
                S3Server::ACCESS_KEY,
                S3Server::SECRET_KEY,
            ),
        }
    }

    /// The folder in which a level's objects are files.
    pub fn level(&self, level: u8) -> PathBuf {
        match self {
            Place::Folder(path) => path.join(format!("ltx/{level}")),
            Place::Bucket(server, prefix) => server.objects().join(format!("{prefix}/{level:04x}")),
        }
    }

    /// The folder in which all objects are files.
    pub fn root(&self) -> PathBuf {
        match self {
            Place::Folder(path) => path.clone(),
            Place::Bucket(server, prefix) => server.objects().join(prefix),
        }
    }

    /// Removes objects that were merged by chance, for tests of single captures.
    pub fn remove_merged(&self) {
        for level in 1..=8 {
            match std::fs::remove_dir_all(self.level(level)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("level {level}: {error}"),
                _ => {}
            }
        }
    }

    /// The transactions that a level's objects hold, oldest first.
    pub fn files(&self, level: u8) -> Vec<(Txid, Txid)> {
        let Ok(dir) = std::fs::read_dir(self.level(level)) else { return Vec::new() };
        let mut files: Vec<_> = dir
            .filter_map(|entry| {
                let name = entry.ok()?.file_name().into_string().ok()?;
                let (min, max) = name.strip_suffix(".ltx")?.split_once('-')?;
                Some((Txid::from_str_radix(min, 16).ok()?, Txid::from_str_radix(max, 16).ok()?))
            })
            .collect();
        files.sort_unstable();
        files
    }

    /// The newest transaction in level 0; 0 when there is none.
    pub fn newest(&self) -> Txid {
        self.files(0).last().map_or(0, |(_, max)| *max)
    }

    /// Insists that level 0 has one object for each transaction from its first to its last, and returns both.
    #[track_caller]
    pub fn unbroken(&self) -> (Txid, Txid) {
        let files = self.files(0);
        let (Some(first), Some(last)) = (files.first(), files.last()) else { panic!("level 0 is empty") };
        let expected: Vec<_> = (first.0..=last.1).map(|txid| (txid, txid)).collect();
        assert_eq!(files, expected, "level 0 has a break");
        (first.0, last.1)
    }

    /// An object's URL for `seawall ltx`.
    pub fn object_url(&self, level: u8, min: Txid, max: Txid) -> String {
        match self {
            Place::Folder(_) => self.object(level, min, max).to_str().unwrap().to_owned(),
            Place::Bucket(..) => self.url().replacen('?', &format!("/{level:04x}/{}?", file_name(min, max)), 1),
        }
    }

    /// The file of an object.
    pub fn object(&self, level: u8, min: Txid, max: Txid) -> PathBuf {
        self.level(level).join(file_name(min, max))
    }
}
