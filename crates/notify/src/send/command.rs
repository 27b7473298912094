//! Hands a message to a program: as JSON on its standard input, and what matters most as variables.

use std::time::Duration;

use seawall_host::{Run, Unsuccessful, run_program};

use super::{Again, Trouble};
use crate::message::Message;

/// Letters of the text, at most.
const LONGEST: usize = 4000;

/// Runs the program once.
pub(crate) async fn send(words: &[String], message: &Message, limit: Duration) -> Result<(), Trouble> {
    let input = message.to_json();
    let environment = environment(message);
    let run = Run { words, environment: &environment, input: input.as_bytes(), limit };
    run_program(run).await.map_err(|failed| {
        let (next, again) = match &failed {
            Unsuccessful::NotStarted(_) => ("name a program that exists and may be executed", Again::Later),
            Unsuccessful::Ended(_) => ("look into what the program wrote to standard error", Again::Soon),
            Unsuccessful::TooLong(_) => ("make the program faster, or raise timeout", Again::Soon),
        };
        Trouble::new(failed.to_string(), next, again)
    })
}

/// The variables; docs/configuration.md lists them.
fn environment(message: &Message) -> [(&'static str, String); 8] {
    let only = match message.alarms.as_slice() {
        [one] if message.more == 0 => Some(one),
        _ => None,
    };
    [
        ("SEAWALL_EVENT", message.event.name().to_owned()),
        ("SEAWALL_SEVERITY", message.severity.name().to_owned()),
        ("SEAWALL_HOST", message.host.clone()),
        ("SEAWALL_TITLE", message.title.clone()),
        ("SEAWALL_TEXT", message.lines(LONGEST).join("\n")),
        ("SEAWALL_ALARMS", (message.alarms.len() + message.more).to_string()),
        ("SEAWALL_DATABASE", only.map(|one| one.database.clone()).unwrap_or_default()),
        ("SEAWALL_CODE", only.map(|one| one.code.clone()).unwrap_or_default()),
    ]
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "this test reads what a program wrote")]
mod tests {
    use super::*;
    use crate::message::Event;
    use crate::message::tests::message;

    #[tokio::test]
    async fn a_program_gets_the_message() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("out").display().to_string();
        let script =
            "printf '%s|%s|%s|' \"$SEAWALL_EVENT\" \"$SEAWALL_DATABASE\" \"$SEAWALL_CODE\" > \"$0\"; cat >> \"$0\"";
        let words = ["sh", "-c", script, &file].map(str::to_owned);
        let message = message(Event::Raised, &["$(touch /x); a"]);
        send(&words, &message, Duration::from_secs(60)).await.expect("sent");
        let out = std::fs::read_to_string(&file).expect("written");
        assert_eq!(out, format!("raised|$(touch /x); a|alarm.lag|{}", message.to_json()));
        for (script, again) in [("exit 4", Again::Soon), ("sleep 600", Again::Soon)] {
            let words = ["sh", "-c", script].map(str::to_owned);
            let failed = send(&words, &message, Duration::from_millis(500)).await.expect_err(script);
            assert_eq!(failed.again, again, "{failed:?}");
        }
        let missing = ["/nowhere/at-all".to_owned()];
        let failed = send(&missing, &message, Duration::from_secs(60)).await.expect_err("no program");
        assert_eq!(failed.again, Again::Later, "{failed:?}");
    }
}
