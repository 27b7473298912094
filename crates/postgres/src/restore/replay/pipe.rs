//! An artefact as a script: as it is, or as `pg_restore` makes one of it.

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use seawall_core::Progress;
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;

use crate::Error;
use crate::catalog::rights::is_superuser;
use crate::client::Connection;
use crate::restore::replay::Told;
use crate::restore::replay::artefact::Artefact;
use crate::restore::replay::player::{Input, Player, Stopped};
use crate::schema::script::{Refusal, Scanner};
use crate::schema::written::Judge;
use crate::tools::Running;

/// How much of the output of `pg_restore` is read at once.
const PIECE: usize = 1 << 20;

impl Artefact<'_> {
    /// Runs the artefact's script, and returns the statements that the end of the restore runs.
    pub(super) async fn replay(
        &self,
        connection: &mut Connection,
        progress: &dyn Progress,
        told: &mut Told,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let counted = |raw: Vec<u8>| {
            progress.advance(raw.len() as u64);
            raw
        };
        let content = self.content().await?.map_ok(counted);
        if self.in_public {
            connection.execute("SET search_path = public").await?;
            let last = self.play(connection, content, told).await?;
            // As all of ours has it. A statement of the script may have changed it as well.
            connection.execute("SELECT pg_catalog.set_config('search_path', '', false)").await?;
            return Ok(last);
        }
        let Some(tool) = &self.pg_restore else { return self.play(connection, content, told).await };
        let mut arguments = vec!["--format=custom".to_owned(), "--file=-".to_owned()];
        if !self.options.owners {
            arguments.extend(["--no-owner".to_owned(), "--no-privileges".to_owned()]);
        }
        let (input, mut running) = tool.filter(&arguments)?;
        let script = Box::pin(output(&mut running));
        let (all, last) = tokio::try_join!(feed(input, content), self.play(connection, script, told))?;
        running.finish().await?;
        match all {
            true => Ok(last),
            false => Err(self.origin.corrupt("pg_restore took its beginning for all of it")),
        }
    }

    async fn play<S>(&self, connection: &mut Connection, input: S, told: &mut Told) -> Result<Vec<Vec<u8>>, Error>
    where
        S: Stream<Item = Result<Vec<u8>, Error>> + Unpin,
    {
        let superuser = is_powerful(connection).await?;
        let input = Input::new(input);
        let is_file = self.origin.is_file();
        let mut player = Player {
            connection,
            input,
            scanner: Scanner::with_connect(is_file),
            account: &mut told.account,
            refused: &mut told.refused,
            superuser,
            owners: self.options.owners,
            rows: &mut told.rows,
            last: Vec::new(),
            judge: is_file.then(Judge::default),
            passed_over: &mut told.passed_over,
        };
        let played = player.play().await;
        if played.is_ok() && player.judge.as_ref().is_some_and(|judge| judge.statements == 0) {
            return Err(self.origin.empty());
        }
        let played = played.map_err(|stopped| match stopped {
            Stopped::Error(error) => error,
            Stopped::Refused(Refusal::Wrong(line, cause)) => {
                self.origin.corrupt(format!("line {line} of its script: {cause}"))
            }
            Stopped::Refused(Refusal::Command(line)) => Error::Refused {
                code: "postgres.psql-command",
                object: self.origin.object(),
                cause: format!("line {line} of its script is a command for psql, and none is followed"),
                next: self.origin.look_at_the_line().to_owned(),
            },
        });
        played.map(|()| player.last)
    }
}

/// Whether the session's role is a superuser, or a superuser's session is beside it in a proof.
pub(crate) async fn is_powerful(connection: &mut Connection) -> Result<bool, Error> {
    Ok(connection.guard.is_some() || is_superuser(connection).await?)
}

/// Writes everything to a tool; false if the tool stopped reading before the end.
pub(super) async fn feed<S>(mut input: ChildStdin, mut content: S) -> Result<bool, Error>
where
    S: Stream<Item = Result<Vec<u8>, Error>> + Unpin,
{
    while let Some(raw) = content.next().await.transpose()? {
        // The tool's exit status and messages tell why.
        if input.write_all(&raw).await.is_err() {
            return Ok(false);
        }
    }
    Ok(input.shutdown().await.is_ok())
}

/// The output of a tool, in pieces.
pub(super) fn output(running: &mut Running) -> impl Stream<Item = Result<Vec<u8>, Error>> {
    stream::try_unfold(Some(running), |running| async {
        let Some(running) = running else { return Ok(None) };
        let mut piece = Vec::with_capacity(PIECE);
        let more = running.read(&mut piece).await?;
        Ok(Some((piece, more.then_some(running))))
    })
}
