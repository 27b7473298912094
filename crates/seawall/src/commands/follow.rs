//! `seawall restore --follow`: a warm standby.

use std::time::Duration;

use seawall_agent::config::SWEEP_INTERVAL;
use seawall_agent::{Level, LogFormat, Signals, ask};
use seawall_core::{Failure, FollowRequest, Followed, RestoreRequest, Shutdown, When};

use crate::arguments::Common;
use crate::edge::Edge;
use crate::output::Output;
use crate::progress::progress;
use crate::source::Source;
use crate::{runtime, table};

/// Runs the command until a signal.
pub(crate) fn run(
    source: &Source,
    request: RestoreRequest,
    interval: Duration,
    common: &Common,
    edge: &Edge,
) -> Result<Output, Failure> {
    super::log(common, Level::Info, if common.json { LogFormat::Json } else { LogFormat::Text });
    let RestoreRequest { output, force, integrity, .. } = request;
    let request = FollowRequest { output, force, integrity, interval, position_file: false };
    let runtime = runtime::lasting(runtime::PROTECTING)?;
    let followed = runtime.block_on(follow(source, &request, common, edge));
    runtime::end(runtime);
    let followed = followed?;
    Ok(Output::done(render(&followed), &followed))
}

async fn follow(source: &Source, request: &FollowRequest, common: &Common, edge: &Edge) -> Result<Followed, Failure> {
    let shutdown = Shutdown::new();
    let signals = Signals::listen().map_err(|error| runtime::no_runtime(&error))?;
    let forwarding = tokio::spawn(signals.forward(shutdown.clone(), false));
    let mut opener = edge.opener(runtime::working())?;
    opener.watch(SWEEP_INTERVAL);
    let (source, told) = source.clone().newest(&opener, &When::Latest).await?;
    told.lines().for_each(|line| tracing::info!("{line}"));
    let engine = source.open(&opener).await?;
    let standby = ask::standby(&*engine, &request.output)?;
    let followed = standby.follow(request, &shutdown, progress(edge, common.json)).await;
    forwarding.abort();
    followed
}

fn render(followed: &Followed) -> String {
    let Followed { point, output, steps } = followed;
    let steps = table::count(usize::try_from(*steps).unwrap_or(usize::MAX), "step");
    format!("{}: followed to {} in {steps}\n", output.display(), table::point(point))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_core::{Moment, Point};

    #[test]
    fn for_people() {
        let point = Point { position: "000000000000000a".into(), moment: Moment::from_millis(0) };
        let followed = Followed { point, output: "/x/standby.db".into(), steps: 1 };
        assert_eq!(
            render(&followed),
            "/x/standby.db: followed to 1970-01-01T00:00:00.000Z (000000000000000a) in 1 step\n"
        );
    }
}
