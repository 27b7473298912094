//! Which messages is a channel owed? A pure function of what it was told before, the alarms that there are, and the time.

use std::collections::BTreeMap;
use std::time::Duration;

use seawall_core::{Alarm, Moment};
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::message::Event;

/// A database of the process, with its alarms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The database's name.
    pub database: String,
    /// Its alarms; `None` while nobody judged it yet.
    pub alarms: Option<Vec<Alarm>>,
}

/// A database's name and the code of an alarm: what makes two alarms the same.
pub(crate) type Key = (String, String);

/// Alarms of something that happened once, at the moment that they are active since. Another one of the same code is told, too.
const OF_EVENTS: [&str; 1] = ["alarm.hole"];

/// What a channel was told.
pub(crate) type Records = BTreeMap<Key, Record>;

/// What a channel was told of one alarm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The database.
    pub(crate) database: String,
    /// The alarm as it was told last.
    pub(crate) alarm: Alarm,
    /// When it was told last that it is there.
    pub(crate) told_at: Moment,
    /// Whether it was told that it is over.
    pub(crate) over: bool,
    /// Whether a person silenced it after it was told.
    pub(crate) silenced: bool,
}

/// Alarms that something happened to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) event: Event,
    /// By database.
    pub(crate) alarms: Vec<(String, Alarm)>,
}

impl Notice {
    /// Notes in `records` that the channel was told.
    pub(crate) fn note(&self, records: &mut Records, now: Moment) {
        for (database, alarm) in &self.alarms {
            let key = (database.clone(), alarm.code.clone());
            match self.event {
                Event::Raised | Event::Reminder => {
                    let (database, alarm) = (database.clone(), alarm.clone());
                    let record = Record { database, alarm, told_at: now, over: false, silenced: false };
                    records.insert(key, record);
                }
                Event::Recovered | Event::Unwatched => {
                    if let Some(record) = records.get_mut(&key) {
                        record.over = true;
                    }
                }
                Event::Test => {}
            }
        }
    }
}

/// What is due.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Due {
    /// The messages, recoveries last.
    pub(crate) notices: Vec<Notice>,
    /// What was told, without what is of no use any more.
    pub(crate) records: Records,
    /// When to decide again even if no alarm changes.
    pub(crate) wake: Option<Moment>,
}

/// Decides for one channel.
///
/// A new alarm is told once, and once more if it gets graver. When it is over, that is told once. If it comes back within
/// the channel's interval, it is told when the interval ends, if it is still there then: so a flapping alarm makes two messages in an
/// interval. A silenced alarm is not told; one that is still there when the silence ends, is.
pub(crate) fn due(channel: &Channel, told: &Records, watched: &[Watched], now: Moment) -> Due {
    let mut due = Due::default();
    let mut events: BTreeMap<Event, Vec<(String, Alarm)>> = BTreeMap::new();
    // A clock that was set back must not keep a channel quiet.
    let kept = |record: &Record| Record { told_at: record.told_at.min(now), ..record.clone() };
    due.records = told.iter().map(|(key, record)| (key.clone(), kept(record))).collect();
    let standing = standing(watched);

    for (key, alarm) in &standing {
        if !channel.concerns(&key.0) || alarm.severity < channel.severity {
            continue;
        }
        let record = due.records.get_mut(key);
        if let Some(end) = alarm.silenced_until.filter(|end| *end > now) {
            due.wake = earlier(due.wake, Some(end));
            if let Some(record) = record.filter(|record| !record.over) {
                record.silenced = true;
            }
            continue;
        }
        match event_of(channel, alarm, record.as_deref(), now) {
            Next::Tell(event) => events.entry(event).or_default().push((key.0.clone(), (*alarm).clone())),
            Next::At(wake) => due.wake = earlier(due.wake, wake),
        }
    }

    due.records.retain(|key, record| {
        // A channel that isn't told of an alarm any more hears no end of it either.
        if !channel.concerns(&key.0) {
            return false;
        }
        let ended = match standing.get(key) {
            Some(alarm) if alarm.severity >= record.alarm.severity => return alarm.severity >= channel.severity,
            Some(alarm) if alarm.severity >= channel.severity => return true,
            Some(_) => Event::Recovered,
            None => match watched.iter().find(|watched| watched.database == key.0) {
                Some(Watched { alarms: None, .. }) => return true,
                Some(_) => Event::Recovered,
                None => Event::Unwatched,
            },
        };
        if record.over {
            return now.since(record.told_at) < channel.interval;
        }
        events.entry(ended).or_default().push((key.0.clone(), record.alarm.clone()));
        true
    });
    due.notices = events.into_iter().map(|(event, alarms)| Notice { event, alarms }).collect();
    due
}

/// What to do about an alarm that is there and not silenced.
enum Next {
    Tell(Event),
    /// Nothing before this moment, if there is one.
    At(Option<Moment>),
}

fn event_of(channel: &Channel, alarm: &Alarm, record: Option<&Record>, now: Moment) -> Next {
    let Some(record) = record else { return Next::Tell(Event::Raised) };
    let is_another = OF_EVENTS.contains(&&*alarm.code) && alarm.since > record.alarm.since;
    if alarm.severity > record.alarm.severity || is_another {
        return Next::Tell(Event::Raised);
    }
    let after = |wait: Duration, event| match record.told_at.after(wait) {
        at if at <= now => Next::Tell(event),
        at => Next::At(Some(at)),
    };
    if record.over {
        return after(channel.interval, Event::Raised);
    }
    if record.silenced {
        return Next::Tell(Event::Reminder);
    }
    channel.remind.map_or(Next::At(None), |remind| after(remind, Event::Reminder))
}

/// All alarms that there are; of two of one code in one database the graver.
fn standing(watched: &[Watched]) -> BTreeMap<Key, &Alarm> {
    let mut standing: BTreeMap<Key, &Alarm> = BTreeMap::new();
    for (database, alarm) in
        watched.iter().flat_map(|one| one.alarms.iter().flatten().map(|alarm| (&one.database, alarm)))
    {
        let key = (database.clone(), alarm.code.clone());
        standing.entry(key).and_modify(|known| *known = graver(known, alarm)).or_insert(alarm);
    }
    standing
}

fn graver<'a>(first: &'a Alarm, second: &'a Alarm) -> &'a Alarm {
    if second.severity > first.severity { second } else { first }
}

fn earlier(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use seawall_config::pattern::Pattern;
    use seawall_core::Severity;
    use seawall_core::Severity::{Critical, Warning};

    use super::*;
    use crate::channel::{Held, Way};
    use crate::message::tests::alarm;

    fn channel(severity: Severity, databases: &[&str], remind: Option<u64>) -> Channel {
        Channel {
            name: "ops".to_owned(),
            severity,
            databases: databases.iter().map(|text| Pattern::parse(text).expect("a pattern")).collect(),
            interval: Duration::from_secs(600),
            remind: remind.map(Duration::from_secs),
            timeout: Duration::from_secs(10),
            way: Way::Slack(Held::In("/x".into())),
        }
    }

    /// The alarms of databases at a second of the test, as `app=warning`, `app=critical~700` (silenced until second 700), `app=`
    /// (none) and `app?` (not judged).
    fn watched(text: &str) -> Vec<Watched> {
        let mut all: Vec<Watched> = Vec::new();
        for word in text.split_whitespace() {
            let Some((database, state)) = word.split_once('=') else {
                all.push(Watched { database: word.trim_end_matches('?').to_owned(), alarms: None });
                continue;
            };
            let (severity, silenced) = state.split_once('~').unwrap_or((state, ""));
            let severity = match severity {
                "" => None,
                "warning" => Some(Warning),
                _ => Some(Critical),
            };
            let silenced_until = silenced.parse().ok().map(at);
            let alarm = severity.map(|severity| Alarm { silenced_until, ..alarm("alarm.lag", severity) });
            all.push(Watched { database: database.to_owned(), alarms: Some(alarm.into_iter().collect()) });
        }
        all
    }

    fn at(second: u64) -> Moment {
        Moment::from_millis(1_800_000_000_000).after(Duration::from_secs(second))
    }

    /// What a channel is told at each step, and when it is asked to look again.
    fn story(channel: &Channel, steps: &[(u64, &str)]) -> Vec<String> {
        let mut records = Records::new();
        let step = |(second, text): &(u64, &str)| {
            let due = due(channel, &records, &watched(text), at(*second));
            records = due.records;
            let mut words: Vec<String> = Vec::new();
            for notice in &due.notices {
                notice.note(&mut records, at(*second));
                let names: Vec<&str> = notice.alarms.iter().map(|(name, _)| name.as_str()).collect();
                words.push(format!("{} {}", notice.event.name(), names.join(",")));
            }
            if let Some(wake) = due.wake {
                words.push(format!("@{}", wake.since(at(0)).as_secs()));
            }
            words.join(" ")
        };
        steps.iter().map(step).collect()
    }

    #[test]
    fn a_second_hole_is_told_while_the_first_one_is_active() {
        let channel = channel(Warning, &[], None);
        let mut records = Records::new();
        let mut told = |code: &str, second: u64| {
            let alarm = Alarm { since: at(second), ..alarm(code, Warning) };
            let watched = [Watched { database: "app".into(), alarms: Some(vec![alarm]) }];
            let due = due(&channel, &records, &watched, at(second));
            records = due.records;
            due.notices.iter().for_each(|notice| notice.note(&mut records, at(second)));
            due.notices.iter().map(|notice| notice.event.name()).collect::<Vec<_>>()
        };
        assert_eq!(told("alarm.hole", 1), ["raised"]);
        assert_eq!(told("alarm.hole", 1), [""; 0]);
        assert_eq!(told("alarm.hole", 9), ["raised"]);
        assert_eq!(told("alarm.hole", 9), [""; 0]);
        assert_eq!(told("alarm.lag", 11).len(), 2, "a new one, and the end of the hole");
        assert_eq!(told("alarm.lag", 12), [""; 0], "a lag is one alarm while it lasts");
    }

    #[test]
    fn what_is_told_and_when() {
        let plain = channel(Warning, &[], None);
        let reminding = channel(Warning, &[], Some(3600));
        let pager = channel(Critical, &[], None);
        let shops = channel(Warning, &["shop*"], None);
        for (what, channel, steps) in [
            (
                "told once, and that it is over",
                &plain,
                vec![
                    (0, "app=", ""),
                    (1, "app=warning", "raised app"),
                    (2, "app=warning", ""),
                    (90_000, "app=warning", ""),
                    (90_001, "app=", "recovered app"),
                    (90_002, "app=", ""),
                ],
            ),
            (
                "several databases share a message",
                &plain,
                vec![
                    (0, "app=warning shop=critical web=", "raised app,shop"),
                    (9, "app= shop= web=warning", "raised web recovered app,shop"),
                ],
            ),
            (
                "graver is told, milder isn't",
                &plain,
                vec![
                    (0, "app=warning", "raised app"),
                    (1, "app=critical", "raised app"),
                    (2, "app=warning", ""),
                    (3, "app=critical", ""),
                    (4, "app=", "recovered app"),
                ],
            ),
            (
                "a flapping alarm makes two messages in an interval",
                &plain,
                vec![
                    (0, "app=warning", "raised app"),
                    (1, "app=", "recovered app"),
                    (2, "app=warning", "@600"),
                    (3, "app=", ""),
                    (4, "app=warning", "@600"),
                    (600, "app=warning", "raised app"),
                    (601, "app=", "recovered app"),
                    (602, "app=warning", "@1200"),
                    (1300, "app=", ""),
                    (1301, "app=warning", "raised app"),
                ],
            ),
            (
                "a graver one doesn't wait for the interval",
                &plain,
                vec![(0, "app=warning", "raised app"), (1, "app=", "recovered app"), (2, "app=critical", "raised app")],
            ),
            (
                "reminders",
                &reminding,
                vec![
                    (0, "app=warning", "raised app"),
                    (1, "app=warning", "@3600"),
                    (3600, "app=warning", "reminder app"),
                    (3601, "app=warning", "@7200"),
                ],
            ),
            (
                "silenced before it was told",
                &plain,
                vec![
                    (0, "app=warning~700", "@700"),
                    (300, "app=", ""),
                    (400, "app=warning~700", "@700"),
                    (700, "app=warning~700", "raised app"),
                ],
            ),
            (
                "silenced after it was told",
                &reminding,
                vec![
                    (0, "app=warning", "raised app"),
                    (1, "app=warning~7000", "@7000"),
                    (7000, "app=warning", "reminder app"),
                    (7001, "app=warning~9000", "@9000"),
                    (8000, "app=", "recovered app"),
                ],
            ),
            (
                "only what is grave",
                &pager,
                vec![(0, "app=warning", ""), (1, "app=critical", "raised app"), (2, "app=warning", "recovered app")],
            ),
            ("only some databases", &shops, vec![(0, "app=critical shop-1=warning", "raised shop-1")]),
            (
                "not judged yet is no recovery",
                &plain,
                vec![(0, "app=warning", "raised app"), (1, "app?", ""), (2, "app=", "recovered app")],
            ),
            (
                "gone is no recovery",
                &plain,
                vec![(0, "app=warning shop=", "raised app"), (1, "shop=", "unwatched app"), (2, "shop=", "")],
            ),
            (
                "a clock that was set back",
                &plain,
                vec![
                    (90_000, "app=warning", "raised app"),
                    (90_001, "app=", "recovered app"),
                    (10, "app=warning", "@610"),
                    (610, "app=warning", "raised app"),
                ],
            ),
        ] {
            let asked: Vec<(u64, &str)> = steps.iter().map(|(second, text, _)| (*second, *text)).collect();
            let expected: Vec<&str> = steps.iter().map(|(_, _, told)| *told).collect();
            assert_eq!(story(channel, &asked), expected, "{what}");
        }
    }

    /// A channel that isn't told of an alarm any more would take a recovery for the truth.
    #[test]
    fn other_filters_are_no_recovery() {
        let mut records = Records::new();
        let alarms = watched("app=warning");
        let first = due(&channel(Warning, &[], None), &records, &alarms, at(0));
        first.notices[0].note(&mut records, at(0));
        for now in [channel(Critical, &[], None), channel(Warning, &["shop"], None)] {
            assert_eq!(due(&now, &records, &alarms, at(1)), Due::default());
        }
    }

    #[test]
    fn what_is_of_no_use_is_forgotten() {
        let channel = channel(Warning, &[], None);
        let mut records = Records::new();
        for (second, text, left) in [(0, "app=warning", 1), (1, "app=", 1), (2, "app=", 1), (600, "app=", 0)] {
            let now = due(&channel, &records, &watched(text), at(second));
            records = now.records;
            now.notices.iter().for_each(|notice| notice.note(&mut records, at(second)));
            assert_eq!(records.len(), left, "{second}");
        }
    }

    #[test]
    fn of_two_alarms_of_one_code_the_graver_counts() {
        let both = |severities: [Severity; 2]| Watched {
            database: "app".to_owned(),
            alarms: Some(severities.map(|severity| alarm("alarm.lag", severity)).to_vec()),
        };
        for severities in [[Warning, Critical], [Critical, Warning]] {
            let due = due(&channel(Warning, &[], None), &Records::new(), &[both(severities)], at(0));
            assert_eq!(due.notices[0].alarms.len(), 1);
            assert_eq!(due.notices[0].alarms[0].1.severity, Critical);
        }
    }
}
