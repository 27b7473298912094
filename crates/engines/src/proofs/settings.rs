//! The section `prove` of a configuration: when a database is proved by itself, and how.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seawall_archive::Schedule;
use seawall_config::document::Value;
use seawall_config::{Fields, Location, Problem};
use seawall_core::Level;

/// How long all restores of a proof together may take unless something else is said.
const WITHIN: Duration = Duration::from_secs(6 * 3600);

/// How many moments one proof restores at most, beside the newest point.
pub const MOST_MOMENTS: u32 = 24;

/// When a database is proved, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proving {
    /// As it was written, and as it is for the name of the section. `H` in it depends on the database's name.
    schedule: Schedule,
    /// Whether this machine makes the proofs. Otherwise another one does, and this one reads what comes of them and tells when one is missing.
    pub here: bool,
    /// How thoroughly to check.
    pub level: Level,
    /// How long the restores of one proof together may take.
    pub within: Duration,
    /// The folder in which the scratch folder is made; `None` is the folder of the process for temporary files.
    pub scratch: Option<PathBuf>,
    /// How many moments of the timeline are restored beside the newest point.
    pub moments: u32,
    /// How long an object that was compared with its digest needn't be compared again; `None` compares all of them each time.
    pub fresh: Option<Duration>,
    /// Whether a server that is started for a proof must be kept from the files of our user, our environment and the network.
    pub isolated: bool,
    /// Whether the section itself named a level.
    level_is_named: bool,
}

impl Proving {
    /// Takes the section `prove` of a mapping, of a database called `name`; relative folders begin at `here`. The outer `None` is
    /// a mapping without the section. The inner one is a section that switches proofs off.
    ///
    /// # Errors
    /// When a key is unknown, or a value isn't one that its key takes.
    pub fn take(fields: &mut Fields, name: &str, here: &Path) -> Result<Option<Option<Self>>, Location> {
        let Some(node) = fields.take("prove") else { return Ok(None) };
        if let Value::Text(text) = &node.value {
            return match seawall_config::fields::parse_bool(text) {
                Some(false) => Ok(Some(None)),
                _ => {
                    let (key, found) = ("prove".to_owned(), format!("\"{text}\""));
                    let expected = "takes false, or a section with a schedule".to_owned();
                    Err(Problem::Value { key, expected, found }.at(node.line))
                }
            };
        }
        let mut section = Fields::new("prove", node)?;
        let missing = section.missing("schedule");
        let at = section.text("schedule")?.ok_or(missing)?;
        let schedule = Schedule::parse(&at.value, name).map_err(|cause| {
            let expected = "takes a cron expression, such as \"H 5 * * *\", with a time zone behind it if it isn't UTC";
            let found = format!("\"{}\": {cause}", at.value);
            Problem::Value { key: "schedule".into(), expected: expected.into(), found }.at(at.line)
        })?;
        let here_too = section.flag("here")?;
        let level = section.parsed("level", "bytes, structure, engine or content", Level::parse)?;
        let within = section.positive_duration("within")?;
        let scratch = section.text("scratch")?;
        let moments = section.parsed("moments", "a whole number from 0 to 24", |text| {
            text.parse().ok().filter(|moments| *moments <= MOST_MOMENTS)
        })?;
        let fresh = section.positive_duration("fresh")?;
        let isolated = section.flag("isolated")?;
        section.finish()?;
        Ok(Some(Some(Self {
            schedule,
            here: here_too.is_none_or(|at| at.value),
            level_is_named: level.is_some(),
            level: level.map_or(Level::Content, |at| at.value),
            within: within.map_or(WITHIN, |at| at.value),
            scratch: scratch.map(|at| seawall_config::absolute(Path::new(&at.value), here)),
            moments: moments.map_or(0, |at| at.value),
            fresh: fresh.map(|at| at.value),
            isolated: isolated.is_none_or(|at| at.value),
        })))
    }

    /// How a database without the section is proved when a person asks for it.
    pub fn when_asked() -> Self {
        Self {
            schedule: Schedule::parse("0 0 * * *", "").expect("it is a schedule"),
            here: true,
            level: Level::Content,
            within: WITHIN,
            scratch: None,
            moments: 0,
            fresh: None,
            isolated: true,
            level_is_named: false,
        }
    }

    /// The key of this section that a database of a server can't have.
    pub fn not_of_servers(&self) -> Option<&'static str> {
        if self.level_is_named && self.level != Level::Content {
            return Some("prove.level");
        }
        self.fresh.map(|_| "prove.fresh")
    }

    /// When a database is to be proved.
    pub fn schedule(&self, name: &str) -> Schedule {
        // With a few expressions, the day that `H` means for one name never comes: the 30th of February.
        Schedule::parse(self.schedule.text(), name).unwrap_or_else(|_| self.schedule.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(text: &str) -> Result<Option<Option<Proving>>, String> {
        let tree = seawall_config::document::parse(text).expect("a document");
        let mut fields = Fields::new("databases", tree).expect("a mapping");
        let taken = Proving::take(&mut fields, "app", Path::new("/etc")).map_err(|error| error.problem.to_string())?;
        fields.finish().map_err(|error| error.problem.to_string())?;
        Ok(taken)
    }

    #[test]
    fn what_is_read() {
        assert_eq!(take("{}"), Ok(None));
        assert_eq!(take("prove: false"), Ok(Some(None)));
        let least = take("prove: { schedule: 0 5 * * * }").expect("read").expect("there").expect("on");
        assert_eq!((least.level, least.within, least.moments), (Level::Content, WITHIN, 0));
        assert_eq!((least.scratch.clone(), least.not_of_servers(), least.fresh), (None, None, None));
        let fresh = take("prove: { schedule: 0 5 * * *, fresh: 30d }").expect("read").expect("there").expect("on");
        assert_eq!(
            (fresh.fresh, fresh.not_of_servers()),
            (Some(Duration::from_secs(30 * 86_400)), Some("prove.fresh"))
        );
        let all = "prove: { schedule: 'H 5 * * *', level: engine, within: 2h, scratch: large, moments: 3 }";
        let all = take(all).expect("read").expect("there").expect("on");
        assert_eq!((all.level, all.within, all.moments), (Level::Engine, Duration::from_secs(7200), 3));
        assert_eq!(
            (all.scratch.as_deref(), all.not_of_servers()),
            (Some(Path::new("/etc/large")), Some("prove.level"))
        );
        let open = take("prove: { schedule: 0 5 * * *, isolated: false }").expect("read").expect("there").expect("on");
        assert_eq!((all.isolated, open.isolated), (true, false));
        let read = take("prove: { schedule: 0 5 * * *, here: false }").expect("read").expect("there").expect("on");
        assert_eq!((all.here, read.here), (true, false));
        assert_eq!(all.schedule("app").text(), "H 5 * * *");
        let next = |name: &str| all.schedule(name).after(Default::default());
        assert!((0..20).any(|number| next(&number.to_string()) != next("app")), "the name decides the minute");
    }

    #[test]
    fn a_section_that_says_little_is_as_one_that_is_not_there() {
        let least = take("prove: { schedule: 0 0 * * * }").expect("read").expect("there").expect("on");
        assert_eq!(least, Proving::when_asked());
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "prove: true",
            "prove: daily",
            "prove: { level: engine }",
            "prove: { schedule: 5 o'clock }",
            "prove: { schedule: 0 0 31 2 * }",
            "prove: { schedule: 0 5 * * *, level: all }",
            "prove: { schedule: 0 5 * * *, within: 0s }",
            "prove: { schedule: 0 5 * * *, moments: 25 }",
            "prove: { schedule: 0 5 * * *, fresh: 0s }",
            "prove: { schedule: 0 5 * * *, isolated: perhaps }",
            "prove: { schedule: 0 5 * * *, moments: -1 }",
            "prove: { schedule: 0 5 * * *, often: true }",
            "prove: [a]",
        ] {
            assert!(take(text).is_err(), "{text}");
        }
    }
}
