use seawall_core::{
    Alarm, Description, Failure, Hole, Kind as FailureKind, LastError, LevelSummary, Moment, Phase, Point, Proof,
    Severity, Span, Status, Timeline, Underway,
};

use super::order::word_of;
use super::*;

/// The time of the tests.
pub(in crate::ui) fn now() -> Moment {
    "2026-11-21T10:00:00Z".parse().expect("a moment")
}

pub(in crate::ui) fn point(position: &str, seconds_ago: i64) -> Point {
    Point { position: position.into(), moment: Moment::from_millis(now().as_millis() - seconds_ago * 1000) }
}

fn status(name: &str, engine: &'static str, phase: Phase) -> Status {
    let source = Some(format!("/data/{name}.db"));
    let vault = format!("s3://bucket/{name}");
    Status::new(Description { name: name.into(), engine, source, vault }, phase, now())
}

/// A database that is well, one that makes its base, one that fails, and one with a hostile name.
pub(in crate::ui) fn databases() -> Vec<Entry> {
    let proof = Proof {
        database: "app".into(),
        engine: "sqlite".into(),
        at: point("", 3 * 86_400).moment,
        point: Some(point("00000000000000a0", 3 * 86_400)),
        restore_ms: 1500,
        restored_bytes: 3 << 20,
        host: "db1".into(),
        ..Proof::default()
    };
    let app = Status {
        protected: Some(point("00000000000000af", 2)),
        source_bytes: Some(3 << 20),
        proof: Some(proof),
        ..status("app", "sqlite", Phase::Protecting)
    };
    let underway = Underway { stage: "base".into(), done_bytes: 45 << 20, total_bytes: Some(100 << 20) };
    let big =
        Status { progress: Some(underway), lag_bytes: 5 << 20, lag_ms: 61_000, ..status("big", "sqlite", Phase::Base) };
    let failure =
        Failure::new(FailureKind::Unavailable, "vault.unavailable", "s3://bucket/orders", "it is away", "wait");
    let alarm = Alarm {
        code: "alarm.lag".into(),
        severity: Severity::Critical,
        cause: "changes wait for longer than 5 min".into(),
        next: "see why the vault doesn't answer".into(),
        since: point("", 600).moment,
        silenced_until: None,
    };
    let orders = Status {
        protected: Some(point("0000000000000003", 7200)),
        lag_bytes: 2048,
        lag_ms: 7_200_000,
        error: Some(LastError { count: 12, ..LastError::new(&failure, point("", 5).moment) }),
        alarms: vec![alarm],
        ..status("orders", "sqlite", Phase::Failing)
    };
    let hostile = status("evil\u{1b}[2J\n\u{202e}name", "lmdb", Phase::Waiting);
    [app, big, orders, hostile].map(Entry::from).to_vec()
}

/// The timeline of `app`.
pub(in crate::ui) fn timeline() -> Timeline {
    Timeline {
        spans: vec![
            Span { from: point("0000000000000001", 90_000), to: point("0000000000000060", 86_400), points: 96 },
            Span { from: point("0000000000000070", 80_000), to: point("00000000000000af", 2), points: 64 },
        ],
        holes: vec![Hole {
            from: Some(point("0000000000000060", 86_400)),
            to: point("0000000000000070", 80_000),
            reason: "the WAL was replaced while no process protected the database".into(),
            restored: false,
        }],
        levels: vec![LevelSummary { level: "0".into(), objects: 160, bytes: 5 << 20 }],
        pins: vec!["0000000000000060".into()],
        ..Timeline::default()
    }
}

/// A model that looks at these databases.
pub(in crate::ui) fn model() -> Model {
    let mut model = Model::new(Kind::Process, "/run/seawall.sock".into(), now());
    model.take(Input::Told(Told::Databases(Ok(databases()))));
    model
}

/// Presses keys: a character, or the name of a key in angles.
pub(in crate::ui) fn press(model: &mut Model, keys: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    let mut rest = keys;
    while let Some(c) = rest.chars().next() {
        let (key, length) = match rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
            Some((name, _)) => {
                let key = match name {
                    "enter" => Key::Enter,
                    "esc" => Key::Escape,
                    "tab" => Key::Tab,
                    "down" => Key::Down,
                    "up" => Key::Up,
                    "back" => Key::Backspace,
                    "clear" => Key::Clear,
                    "home" => Key::Home,
                    "end" => Key::End,
                    "c-c" => Key::Interrupt,
                    "c-z" => Key::Suspend,
                    "c-l" => Key::Redraw,
                    other => panic!("no key {other}"),
                };
                (key, name.len() + 2)
            }
            None => (Key::Char(c), c.len_utf8()),
        };
        effects.extend(model.take(Input::Key(key)));
        rest = &rest[length..];
    }
    effects
}

pub(in crate::ui) fn preview() -> Preview {
    let words = ["seawall", "restore", "s3://bucket/app", "-o", "/data/app-restored.db", "--at", "00000000000000af"];
    let words = words.map(str::to_owned).to_vec();
    Preview {
        command: seawall_agent::restoring::in_shell(&words),
        words,
        point: Some(point("00000000000000af", 2)),
        read: Some((12, 4096)),
        notes: Vec::new(),
        is_offered: true,
    }
}

fn failure() -> Failure {
    Failure::new(FailureKind::NotFound, "agent.no-process", "/run/seawall.sock", "no process answers", "start one")
}

#[test]
fn keys_move_between_screens() {
    for (keys, screen, chosen) in [
        ("", Screen::Fleet, "app"),
        ("<down>", Screen::Fleet, "big"),
        ("jjjjjjj", Screen::Fleet, "evil\u{1b}[2J\n\u{202e}name"),
        ("Gg", Screen::Fleet, "app"),
        ("<up>", Screen::Fleet, "app"),
        ("<enter>", Screen::Database, "app"),
        ("<enter><esc>", Screen::Fleet, "app"),
        ("j<enter>t", Screen::Timeline, "big"),
        ("j<enter>tq", Screen::Database, "big"),
        ("?", Screen::Help, "app"),
        ("?l", Screen::Log, "app"),
        ("?lqq", Screen::Fleet, "app"),
        ("r", Screen::Order, "app"),
        ("r<esc>", Screen::Fleet, "app"),
        // In a line that is typed, letters are letters.
        ("rq?l", Screen::Order, "app"),
        ("/ord<enter>", Screen::Fleet, "orders"),
        ("/ord<enter><esc>", Screen::Fleet, "orders"),
        ("/FAIL<enter>", Screen::Fleet, "orders"),
        ("/q<back>big<enter><enter>", Screen::Database, "big"),
    ] {
        let mut model = model();
        press(&mut model, keys);
        let name = model.entry().map(|entry| entry.name.clone());
        assert_eq!((model.screen(), name.as_deref()), (screen, Some(chosen)), "{keys}");
    }
}

#[test]
fn a_filter_shows_some() {
    let mut model = model();
    press(&mut model, "/sqlite");
    assert_eq!((model.shown().len(), model.is_filtering), (3, true));
    press(&mut model, "<clear>nothing<enter>");
    assert_eq!((model.shown().len(), model.entry()), (0, None));
    assert_eq!(press(&mut model, "<enter>trbp"), []);
    press(&mut model, "<esc>");
    assert_eq!((model.shown().len(), model.entry().map(|entry| &*entry.name)), (4, Some("app")));
}

#[test]
fn keys_that_ask_for_something_outside() {
    for (keys, expected) in
        [("q", Effect::Quit), ("<c-c>", Effect::Quit), ("<c-z>", Effect::Suspend), ("<c-l>", Effect::Redraw)]
    {
        assert_eq!(press(&mut model(), keys), [expected], "{keys}");
    }
    // A vault is asked only by a person.
    let mut vault = Model { kind: Kind::Vault, ..model() };
    assert_eq!(press(&mut vault, "bp"), []);
    assert_eq!(press(&mut vault, "u"), [Effect::Refresh]);
    assert_eq!(press(&mut vault, "u"), [], "it is being asked");
    assert_eq!(press(&mut model(), "u"), []);
}

#[test]
fn a_restore_needs_the_name_of_the_database() {
    let mut model = model();
    assert_eq!(press(&mut model, "r"), []);
    let effects = press(&mut model, "<clear>10 minutes ago<tab>/tmp/x.db<enter>");
    let [Effect::Plan(id, wish, entry)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((&*wish.at, &*wish.into, &*entry.name), ("10 minutes ago", "/tmp/x.db", "app"));
    let (id, words) = (*id, preview().words);
    model.take(Input::Told(Told::Preview(id + 1, Err(failure()))));
    assert_eq!(model.order.as_ref().map(|order| &order.step), Some(&Step::Planning), "an answer to something else");
    model.take(Input::Told(Told::Preview(id, Ok(preview()))));
    assert_eq!(press(&mut model, "<enter>ap<enter>ps<enter>"), [], "another word");
    model.take(Input::Paste("<clear>app\n".into()));
    assert_eq!(press(&mut model, "<enter>"), [], "a confirmation isn't pasted");
    let effects = press(&mut model, "<back><enter>");
    let [Effect::Carry(work, Verb::Restore, carried, _)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(carried, &words, "what was shown is what is done");
    let work = *work;
    assert_eq!(press(&mut model, "<enter><enter>"), [], "it is done once");
    // Others can be looked at meanwhile, and no second work is begun.
    press(&mut model, "<esc>jr");
    let name = |model: &Model| model.order.as_ref().map(|order| (order.name.clone(), model.screen()));
    assert_eq!(name(&model), Some(("app".into(), Screen::Order)));
    press(&mut model, "<esc>");
    assert_eq!(press(&mut model, "q"), [], "work is under way");
    assert!(model.is_leaving);
    press(&mut model, "jw");
    assert!(!model.is_leaving);
    let underway = Some(Underway { stage: "restore".into(), done_bytes: 1, total_bytes: Some(2) });
    model.take(Input::Told(Told::Underway(work, underway.clone())));
    let Some(Step::Running { underway: told, .. }) = model.order.as_ref().map(|order| order.step.clone()) else {
        panic!("{:?}", model.order)
    };
    assert_eq!(told, underway);
    model.take(Input::Told(Told::Ended(work, Ok(vec!["restored".into()]))));
    let lines: Vec<&str> = model.journal.lines().map(|said| &*said.text).collect();
    assert!(lines.iter().any(|line| line.starts_with("asked for: restore of app: seawall restore ")), "{lines:?}");
    assert_eq!(lines.last(), Some(&"restore of app: restored"));
    press(&mut model, "<enter>");
    assert_eq!((model.order.is_none(), model.screen()), (true, Screen::Fleet));
    assert_eq!(press(&mut model, "q"), [Effect::Quit]);
}

#[test]
fn work_is_given_up() {
    let mut model = model();
    let effects = press(&mut model, "p");
    let [Effect::Plan(id, ..)] = effects[..] else { panic!("{effects:?}") };
    assert_eq!(press(&mut model, "<esc>"), [Effect::GiveUp(id)], "no answer is waited for");
    let effects = press(&mut model, "p");
    let [Effect::Plan(id, ..)] = effects[..] else { panic!("{effects:?}") };
    model.take(Input::Told(Told::Preview(id, Ok(preview()))));
    let effects = press(&mut model, "app<enter>");
    let [Effect::Carry(id, Verb::Prove, ..)] = effects[..] else { panic!("{effects:?}") };
    assert_eq!(press(&mut model, "x"), [Effect::GiveUp(id)]);
    // An answer that was on its way changes nothing.
    model.take(Input::Told(Told::Ended(id, Err(failure()))));
    let step = model.order.as_ref().map(|order| order.step.clone());
    assert!(matches!(step, Some(Step::Ended(Ok(_)))), "{step:?}");
}

#[test]
fn what_cannot_be_done_here_is_not_confirmed() {
    let mut model = model();
    let effects = press(&mut model, "r<enter>");
    let [Effect::Plan(id, ..)] = effects[..] else { panic!("{effects:?}") };
    model.take(Input::Told(Told::Preview(id, Ok(Preview { is_offered: false, ..preview() }))));
    assert_eq!(press(&mut model, "app<enter>"), []);
}

#[test]
fn what_confirms() {
    for (name, expected) in [
        ("app", "app"),
        ("eu/a b.db", "eu/a b.db"),
        ("", "restore"),
        (" app", "restore"),
        ("evil\u{1b}[2J", "restore"),
        ("a\u{a0}b", "restore"),
        ("0123456789012345678901234567890123456789x", "restore"),
    ] {
        assert_eq!(word_of(name, Verb::Restore), expected, "{name}");
    }
}

#[test]
fn a_row_of_the_timeline_is_restored() {
    for (keys, at) in [("", "00000000000000af"), ("<up>", "0000000000000060"), ("<home>", "0000000000000060")] {
        let mut model = model();
        let effects = press(&mut model, "t");
        let [Effect::Timeline(id, _)] = effects[..] else { panic!("{effects:?}") };
        assert_eq!(press(&mut model, "<enter>"), [], "there is no answer yet");
        model.take(Input::Told(Told::Timeline(id, Ok(timeline()))));
        press(&mut model, keys);
        let effects = press(&mut model, "<enter><enter>");
        let [Effect::Plan(_, Wish { at: asked, .. }, _)] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!(asked, at, "{keys}");
    }
}

#[test]
fn a_process_that_goes_and_comes_is_told_once() {
    let mut model = model();
    for _ in 0..3 {
        model.take(Input::Told(Told::Databases(Err(failure()))));
    }
    assert!(matches!(model.contact, Contact::Lost(..)));
    assert_eq!(model.databases.len(), 4, "what was known stays on the screen");
    model.take(Input::Told(Told::Databases(Ok(databases()))));
    let lines: Vec<&str> = model.journal.lines().map(|said| &*said.text).collect();
    assert_eq!(
        lines,
        [
            "/run/seawall.sock answers",
            "/run/seawall.sock: no process answers [agent.no-process]",
            "/run/seawall.sock answers again, after 2026-11-21T10:00:00.000Z",
        ]
    );
}

#[test]
fn what_changed_is_told() {
    let mut model = model();
    let mut next = databases();
    next[1].phase = Some(Phase::Protecting);
    next[2].alarms.clear();
    next[0].alarms = databases()[2].alarms.clone();
    next.pop();
    model.take(Input::Told(Told::Databases(Ok(next))));
    let lines: Vec<&str> = model.journal.lines().map(|said| &*said.text).skip(1).collect();
    assert_eq!(
        lines,
        [
            "app: critical[alarm.lag]: changes wait for longer than 5 min",
            "big: protecting now, base before",
            "orders: alarm.lag is over",
            "evil\u{1b}[2J\n\u{202e}name: isn't there any more",
        ]
    );
}
