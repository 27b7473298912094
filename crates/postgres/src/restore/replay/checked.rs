//! A file that another program left, read to its end without a server: is it a dump that could be restored?

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use seawall_core::{Failure, Kind};
use seawall_dumps::{Form, Pieces};

use crate::restore::replay::origin;
use crate::restore::replay::outside::{OLDEST, contents, major};
use crate::restore::replay::pipe::{feed, output};
use crate::restore::replay::player::Input;
use crate::schema::diagnose::shown;
use crate::schema::script::{self, Refusal, Rows, Scanner};
use crate::schema::written::{Judge, Meant};
use crate::{Error, Limits, World, tools};

/// What a dump has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Content {
    /// Statements of SQL.
    pub statements: u64,
    /// Rows of tables.
    pub rows: u64,
}

/// Reads a dump to its end. `pg_restore` makes a script of an archive, and must be installed for that.
///
/// # Errors
/// The file isn't whole, or has something that `pg_dump` doesn't write.
pub async fn check_file(mut pieces: Pieces, form: &Form, limits: &Limits, world: &World) -> Result<Content, Error> {
    let object = pieces.object().to_owned();
    let wrong = |failure: Failure| Error::File(Box::new(failure));
    if *form != Form::Archive {
        let mut input = Input::new(pieces.stream().map_err(wrong).boxed());
        return read(&mut input, &object).await;
    }
    let versions = contents(&mut pieces).await?.map(|toc| toc.versions).unwrap_or_default();
    let least = major(&versions.1).unwrap_or(OLDEST).max(OLDEST);
    let tool = tools::find("pg_restore", least, limits, &world.environment).await?;
    let (stdin, mut running) = tool.filter(&["--format=custom".to_owned(), "--file=-".to_owned()])?;
    let mut script = Input::new(Box::pin(output(&mut running)));
    let content = pieces.stream().map_err(wrong).boxed();
    let (all, read) = tokio::try_join!(feed(stdin, content), read(&mut script, &object))?;
    drop(script);
    running.finish().await?;
    match all {
        true => Ok(read),
        false => Err(damaged(&object, "pg_restore took its beginning for all of it".to_owned())),
    }
}

fn damaged(object: &str, cause: String) -> Error {
    let next = "take another copy of the backup, or another backup";
    Error::File(Box::new(Failure::new(Kind::Corrupt, "dump.damaged", object, cause, next)))
}

/// Reads a script.
async fn read<S: Stream<Item = Result<Vec<u8>, Error>> + Unpin>(
    input: &mut Input<S>,
    object: &str,
) -> Result<Content, Error> {
    let refused = |refusal| match refusal {
        Refusal::Wrong(line, cause) => damaged(object, format!("line {line} of its script: {cause}")),
        Refusal::Command(line) => Error::Refused {
            code: "postgres.psql-command",
            object: object.to_owned(),
            cause: format!("line {line} of its script is a command for psql, and none is followed"),
            next: "don't give it to psql; look at that line".to_owned(),
        },
    };
    let (mut scanner, mut found) = (Scanner::with_connect(true), Content::default());
    let mut judge = Judge::default();
    let mut ended = false;
    loop {
        while let Some(statement) = scanner.statement().map_err(refused)? {
            scanner.names();
            let meant = judge.judge(&statement);
            match meant {
                Meant::Refused(why) => {
                    let about = format!("line {} of {object}: {}", scanner.number(), shown(&statement));
                    return Err(super::player::refused(about, why));
                }
                Meant::Connects(_) => return Err(refused(Refusal::Command(scanner.number()))),
                Meant::Run | Meant::Rows | Meant::OfDatabase | Meant::MakesDatabase(_) => {}
            }
            if meant == Meant::Rows {
                scanner.rows_follow().map_err(refused)?;
                let rows = rows(input).await?.ok_or_else(|| {
                    damaged(object, format!("line {} of its script: it ends within rows", scanner.number()))
                })?;
                found.rows += rows;
                scanner.passed(rows + 1);
            }
        }
        if ended {
            break;
        }
        if !input.rest().is_empty() {
            input.at += scanner.feed(input.rest());
        } else if !input.more().await? {
            scanner.end();
            ended = true;
        }
    }
    found.statements = judge.statements;
    found.rows += judge.inserted;
    match scanner.is_between() {
        true if found.statements == 0 => Err(origin::empty(object)),
        true if judge.in_transaction => Err(damaged(object, format!("its script is cut off: {}", super::player::OPEN))),
        true => Ok(found),
        false => Err(damaged(object, "its script ends within a statement".to_owned())),
    }
}

/// Reads over rows; `None` where they have no end.
async fn rows<S: Stream<Item = Result<Vec<u8>, Error>> + Unpin>(input: &mut Input<S>) -> Result<Option<u64>, Error> {
    let (mut fresh, mut count) = (true, 0);
    loop {
        let rest = input.rest();
        let (size, next) = match script::rows(rest, fresh) {
            Rows::End(size, next) => (size, Some(next)),
            Rows::Go(size) => (size, None),
        };
        let part = &rest[..size];
        count += part.iter().filter(|byte| **byte == b'\n').count() as u64;
        fresh = part.last().map_or(fresh, |byte| *byte == b'\n');
        input.at += next.unwrap_or(size);
        if next.is_some() {
            return Ok(Some(count));
        }
        if !input.more().await? {
            return Ok(None);
        }
    }
}
