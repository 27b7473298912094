//! `seawall ui`: the databases of a running process, or of a vault, on a terminal.
//!
//! - `model`: what the screens know, and what a key or an answer does to it; pure;
//! - `screens`: the model becomes a frame; pure;
//! - `source`: a process or a vault tells of the databases and does what is asked for, in a thread of its own;
//! - `terminal`: takes the terminal, reads keys, and gives it back.
//!
//! This file connects them: it waits for a key, an answer, a second that passed or a signal, and draws.

mod model;
mod screens;
mod source;
mod terminal;

use std::time::Duration;

use seawall_core::{Clock as _, Failure, Kind, SystemClock};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval};

use self::model::{Effect, Input, Model, Told};
use self::screens::{Theme, draw};
use self::source::{Desk, Source};
use self::terminal::{Screen, Typed};
use crate::arguments::UiArguments;
use crate::edge::{Edge, usage};
use crate::output::Output;
use crate::runtime;

/// How often the ages on the screen are drawn again.
const SECOND: Duration = Duration::from_secs(1);

/// Runs the command.
pub(crate) fn run(arguments: &UiArguments, edge: &Edge, json: bool) -> Result<Output, Failure> {
    if json {
        let next = "use `seawall status --json`, or `seawall fleet PREFIX --json`";
        return Err(usage("usage.arguments", "--json", "screens are no document", next));
    }
    terminal::check(edge)?;
    let source = Source::find(arguments, edge)?;
    // A passphrase is asked for here, before the screens take the terminal.
    let opener = edge.opener(runtime::working())?;
    let model = Model::new(source.kind(), source.place(), SystemClock.now());
    let no_color = edge.environment.get("NO_COLOR").is_some_and(|value| !value.is_empty());
    let (answers, told) = unbounded_channel();
    let (keys, typed) = unbounded_channel();
    let runtime = runtime::runtime(1)?;
    let ended = runtime.block_on(async {
        let stops = Stops::listen().map_err(|error| runtime::no_runtime(&error))?;
        let desk = Desk::open(source, opener, edge.clone(), answers)?;
        desk.spawn(async {
            if let Ok(Stops { mut ends, .. }) = Stops::listen() {
                Stops::end(&mut ends).await;
                terminal::insist().await;
            }
        });
        let screen = Screen::take()?;
        terminal::read(keys)?;
        let mut ui = Ui { model, theme: Theme { colours: !no_color }, desk, screen };
        ui.run(stops, typed, told).await
    });
    runtime::end(runtime);
    ended.map(|()| Output::printed())
}

/// The signals that concern a terminal.
struct Stops {
    ends: [Signal; 3],
    stop: Signal,
    resize: Signal,
}

impl Stops {
    fn listen() -> std::io::Result<Self> {
        // The number of SIGTSTP, which tokio has no name for.
        let stop = SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw());
        Ok(Self {
            ends: [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?],
            stop: signal(stop)?,
            resize: signal(SignalKind::window_change())?,
        })
    }

    /// Waits for a signal that ends the process.
    async fn end(ends: &mut [Signal; 3]) {
        let [interrupt, terminate, hang_up] = ends;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}

/// Everything together.
struct Ui {
    model: Model,
    theme: Theme,
    desk: Desk,
    screen: Screen,
}

impl Ui {
    /// Shows the screens until a person or a signal ends them.
    async fn run(
        &mut self,
        Stops { mut ends, mut stop, mut resize }: Stops,
        mut typed: UnboundedReceiver<Typed>,
        mut told: UnboundedReceiver<Told>,
    ) -> Result<(), Failure> {
        let mut seconds = interval(SECOND);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.draw()?;
            let input = tokio::select! {
                biased;
                () = Stops::end(&mut ends) => return Err(stopped()),
                key = typed.recv() => match key {
                    Some(Typed::Input(input)) => Some(input),
                    Some(Typed::Gone) | None => return Err(stopped()),
                },
                answer = told.recv() => answer.map(Input::Told),
                _ = stop.recv() => {
                    self.screen.suspend()?;
                    None
                }
                _ = resize.recv() => {
                    // A window that shrank and grew again since the last look has its old size, and not what was drawn in it.
                    self.screen.forget()?;
                    None
                }
                _ = seconds.tick() => None,
            };
            self.model.take(Input::Clock(SystemClock.now()));
            let Some(input) = input else { continue };
            for effect in self.model.take(input) {
                match effect {
                    Effect::Quit => return Ok(()),
                    Effect::Suspend => self.screen.suspend()?,
                    Effect::Redraw => self.screen.forget()?,
                    effect => self.desk.take(effect),
                }
            }
        }
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let (model, theme, mut most) = (&self.model, self.theme, 0);
        self.screen.draw(|frame| most = draw(model, theme, frame))?;
        self.model.can_scroll(most);
        Ok(())
    }
}

fn stopped() -> Failure {
    Failure::new(
        Kind::Interrupted,
        "command.interrupted",
        "seawall ui",
        "stopped by a signal, or its terminal is gone",
        "start it again: what protects the databases goes on without it",
    )
}
