//! What a visitor who logged in does on the page, and what others can't.

use seawall_tests::{App, Process, Random, Stand, ask_host, model, wait};

const TOKEN: &str = "a-token-of-some-length";

/// A page with a login.
struct Page {
    address: String,
    /// The header of the login.
    cookie: String,
}

/// `seawall replicate` with a page for the stand's database; `web` is added to the section.
fn start(stand: &Stand, web: &str) -> (Process, Page) {
    let vault = stand.place.url();
    let text = format!(
        "web: {{ listen: '127.0.0.1:0', token: {TOKEN}{web} }}\nsocket: {{ path: s.sock }}\nlogging: {{ type: json }}\n\
         databases:\n  - path: app.db\n    vault: {vault}\n"
    );
    start_with(stand, &text)
}

/// The same, with a whole configuration.
fn start_with(stand: &Stand, text: &str) -> (Process, Page) {
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
    let mut process = Process::spawn("seawall", stand.command().arg("replicate"));
    let address = wait::until("the page to listen", wait::SOON, || {
        let log = process.stderr();
        let line = log.lines().find(|line| line.contains("page: listening"))?;
        let port = line.split("127.0.0.1:").nth(1)?.chars().take_while(char::is_ascii_digit).collect::<String>();
        Some(format!("127.0.0.1:{port}"))
    });
    let login = format!("token={TOKEN}");
    let (status, head, _) = ask_host((&address, "localhost"), "POST", "/login", "", &login);
    assert_eq!(status, 303, "{head}");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = format!("cookie: {}\r\n", cookie.split(';').next().unwrap());
    (process, Page { address, cookie })
}

impl Page {
    fn get(&self, target: &str) -> (u16, String) {
        let (status, _, body) = ask_host((&self.address, "localhost"), "GET", target, &self.cookie, "");
        (status, body)
    }

    /// The hidden field of the form for an action.
    fn form(&self, deed: &str) -> String {
        let (status, body) = self.get(&format!("/confirm?do={deed}&name=app"));
        assert_eq!(status, 200, "{body}");
        between(&body, "name=\"form\" value=\"", "\"").to_owned()
    }

    fn post(&self, headers: &str, body: &str) -> (u16, String, String) {
        ask_host((&self.address, "localhost"), "POST", "/do", headers, body)
    }

    /// Does an action as a browser would, and returns what the page says of it once it is over.
    fn act(&self, deed: &str, more: &str) -> String {
        let form = self.form(deed);
        let own = format!("{}origin: http://localhost\r\n", self.cookie);
        let (status, head, body) = self.post(&own, &format!("form={form}&do={deed}&name=app&typed=app{more}"));
        assert_eq!(status, 303, "{deed}: {head}{body}");
        let place = head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
        wait::until(&format!("the end of {deed}"), wait::SOON * 2, || {
            let (status, body) = self.get(place);
            assert_eq!(status, 200, "{body}");
            let asked = between(&body, "<div id=\"asked\"", "<h2>Now").to_owned();
            (!asked.contains("It is under way")).then_some(asked)
        })
    }
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let found = text.split_once(from).and_then(|(_, rest)| rest.split_once(to)).map(|(found, _)| found);
    found.unwrap_or_else(|| panic!("no {from} in {text}"))
}

#[test]
fn each_action_of_the_page_is_done_and_listed() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(3);
    let (mut seawall, page) = start(&stand, ", actions: true");
    stand.until_protected(&mut seawall);
    let then = format!("{:016x}", stand.place.newest());

    app.commit(4);
    let told = page.act("sync", "");
    assert!(told.contains("is in the vault"), "{told}");
    let newest = format!("{:016x}", stand.place.newest());
    assert_ne!(newest, then);

    // The state of the moment that was asked for, beside the original, which goes on.
    let told = page.act("restore", &format!("&at={then}"));
    assert!(told.contains("app-restored.db") && told.contains(&then), "{told}");
    assert_eq!(model::check(&stand.path("app-restored.db"), stand.seed), 3);
    let told = page.act("restore", "&at=latest");
    assert!(told.contains("It failed") && told.contains("Next:") && told.contains("sqlite.target-exists"), "{told}");
    assert_eq!(model::check(&stand.path("app-restored.db"), stand.seed), 3, "what is there stays");
    // The check has opened it, which leaves a WAL beside it.
    for file in ["app-restored.db", "app-restored.db-wal", "app-restored.db-shm"] {
        std::fs::remove_file(stand.path(file)).unwrap();
    }
    page.act("restore", "&at=latest");
    assert_eq!(model::check(&stand.path("app-restored.db"), stand.seed), 7);

    assert!(page.get("/proofs").1.contains("no proof is known"));
    let told = page.act("prove", "");
    assert!(told.contains("was restored") && told.contains("level "), "{told}");
    // Visits within a moment share one look.
    wait::until("the proof to be shown", wait::SOON, || {
        let proofs = page.get("/proofs").1;
        (!proofs.contains("no proof is known") && proofs.contains("restored 2")).then_some(())
    });
    let timeline = stand.seawall(&["timeline", "app", "--json"]).ok().json();
    assert_eq!(timeline["proofs"].as_array().unwrap().len(), 1, "{timeline}");

    let told = page.act("pin", &format!("&at={then}"));
    assert!(told.contains(&then), "{told}");
    let pins = || stand.seawall(&["timeline", "app", "--json"]).ok().json()["pins"].clone();
    assert_eq!(pins(), serde_json::json!([then]));
    page.act("unpin", &format!("&at={then}"));
    assert_eq!(pins(), serde_json::json!([]));

    page.act("silence", "&for=2h");
    assert!(stand.status()["silenced_until"].is_string());
    page.act("end-silence", "");
    assert!(stand.status()["silenced_until"].is_null());

    page.act("stop", "");
    assert_eq!(stand.status()["phase"], "stopped");
    let told = page.act("sync", "");
    assert!(told.contains("agent.not-running") && told.contains("Next:"), "{told}");
    page.act("start", "");
    app.commit(1);
    stand.until_protected(&mut seawall);
    let told = page.act("backup", "");
    assert!(told.contains("usage.server"), "{told}");

    let (_, activity) = page.get("/activity");
    for what in ["sync", "restore", "proof", "pin", "unpin", "silence", "stop", "start"] {
        assert!(activity.contains(&format!("rowheader\">{what}<")), "{what} is missing in {activity}");
    }
    // What the control socket is asked for stands there, too.
    stand.seawall(&["stop", "app"]).ok();
    let (_, after) = page.get("/activity");
    assert_eq!(after.matches("rowheader\">stop<").count(), 2, "{after}");
    seawall.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), 8);
}

#[test]
fn nothing_is_done_for_anyone_else() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(2);
    let (mut seawall, page) = start(&stand, ", actions: true");
    stand.until_protected(&mut seawall);
    let form = page.form("stop");
    let (cookie, own) = (page.cookie.as_str(), "origin: http://localhost\r\n");
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    let login = |head: &str| format!("{head}{own}");
    let body = |form: &str, name: &str, typed: &str| format!("form={form}&do=stop&name={name}&typed={typed}");
    let good = body(&form, "app", "app");
    let forged = login("cookie: seawall=9999999999999.AAAA\r\n");
    for (what, headers, body, status) in [
        ("no login", own.to_owned(), good.clone(), 401),
        ("a forged login", forged, good.clone(), 401),
        ("a token in a header", login(&bearer), good.clone(), 401),
        ("a wrong token", login("authorization: Bearer wrong-token-of-length\r\n"), good.clone(), 401),
        ("no origin", cookie.to_owned(), good.clone(), 403),
        ("a foreign origin", format!("{cookie}origin: https://evil.example\r\n"), good.clone(), 403),
        ("a hidden origin", format!("{cookie}origin: null\r\n"), good.clone(), 403),
        ("a foreign site", format!("{cookie}{own}sec-fetch-site: cross-site\r\n"), good.clone(), 403),
        ("no form", login(cookie), body("", "app", "app"), 403),
        ("another form", login(cookie), body("AAAA", "app", "app"), 403),
        ("a wrong name", login(cookie), body(&form, "app", "App"), 400),
        ("no name typed", login(cookie), body(&form, "app", ""), 400),
        ("another database", login(cookie), body(&form, "shop", "shop"), 404),
        ("another action", login(cookie), format!("form={form}&do=delete&name=app&typed=app"), 400),
        ("nothing", login(cookie), String::new(), 403),
    ] {
        let (found, _, answer) = page.post(&headers, &body);
        assert_eq!(found, status, "{what}: {answer}");
        assert!(![400, 404].contains(&status) || answer.contains("Next:"), "{what}: {answer}");
        let is_another_name = ["a wrong name", "no name typed"].contains(&what);
        assert!(!is_another_name || answer.contains("agent.not-confirmed"), "{what}: {answer}");
    }
    // A form of an earlier login isn't one of this login.
    wait::pass(std::time::Duration::from_millis(5));
    let (_, head, _) = ask_host((&page.address, "localhost"), "POST", "/login", "", &format!("token={TOKEN}"));
    let second = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap().split(';').next().unwrap();
    let (found, _, answer) = page.post(&login(&format!("cookie: {second}\r\n")), &good);
    assert!(found == 403 && answer.contains("agent.page-form"), "{answer}");
    let (_, activity) = page.get("/activity");
    assert!(!activity.contains("rowheader\">stop<"), "{activity}");
    assert_eq!(stand.status()["phase"], "protecting");
    let log = seawall.stderr();
    assert!(!log.contains(TOKEN) && !log.contains(&form), "a secret is in the log");
    seawall.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), 2);
}

/// A reverse proxy passes the path on or takes its prefix away; the browser's links, forms and cookie have it in both cases.
#[test]
fn behind_a_proxy_an_action_leads_to_the_public_path() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(1);
    let (mut seawall, page) = start(&stand, ", actions: true, prefix: /sea, hosts: [ seawall.example ]");
    stand.until_protected(&mut seawall);
    let form = page.form("silence");
    let (_, confirm) = page.get("/sea/confirm?do=silence&name=app");
    assert!(confirm.contains("action=\"/sea/do\"") && !confirm.contains("=\"/do\""), "{confirm}");
    for path in ["/sea/do", "/do"] {
        let body = format!("form={form}&do=silence&name=app&typed=app&for=2h");
        let headers = format!("{}origin: https://seawall.example\r\n", page.cookie);
        let (status, head, body) = ask_host((&page.address, "seawall.example"), "POST", path, &headers, &body);
        assert_eq!(status, 303, "{head}{body}");
        assert!(head.contains("location: /sea/activity?asked="), "{head}");
    }
    // A proxy that passes its own name on, or the public one without its port: the origin is still the public one.
    for (host, origin, expected) in [
        ("localhost", "https://seawall.example", 303),
        ("seawall.example", "https://seawall.example:8443", 303),
        ("localhost", "https://seawall.example.evil", 403),
        ("localhost", "https://evil.example", 403),
        ("seawall.example", "null", 403),
    ] {
        let (headers, body) = (
            format!("{}origin: {origin}\r\n", page.cookie),
            format!("form={form}&do=silence&name=app&typed=app&for=2h"),
        );
        let (status, head, body) = ask_host((&page.address, host), "POST", "/do", &headers, &body);
        assert_eq!(status, expected, "{host} {origin}: {head}{body}");
        assert_eq!(status == 403, body.contains("web.hosts"), "{body}");
    }
    assert!(stand.status()["silenced_until"].is_string());
    assert_eq!(stand.status()["phase"], "protecting");
    seawall.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), 1);
}

/// The form shows such a name with its hidden characters written out, and takes what it shows.
#[test]
fn a_hostile_name_is_text_and_can_be_confirmed() {
    let stand = Stand::folder(Random::from_env().seed());
    let name = "<img src=x onerror=alert(1)>\u{202e}\"'&%41";
    let mut app = App::start(&stand.path(&format!("{name}.db")), stand.seed);
    app.commit(2);
    let vault = stand.path("vaults").display().to_string();
    let text = format!(
        "web: {{ listen: '127.0.0.1:0', token: {TOKEN}, actions: true }}\nsocket: {{ path: s.sock }}\nlogging: {{ type: json }}\n\
         databases:\n  - dir: .\n    pattern: '*.db'\n    vault: {vault}\n"
    );
    let (mut seawall, page) = start_with(&stand, &text);
    let (link, confirm) = wait::until("the database to be found", wait::SOON, || {
        let (_, fleet) = page.get("/");
        let link = fleet.split_once("href=\"/database?name=")?.1.split('"').next()?.to_owned();
        let (status, confirm) = page.get(&format!("/confirm?do=silence&name={link}"));
        assert_eq!(status, 200, "{confirm}");
        Some((link, confirm))
    });
    let (_, database) = page.get(&format!("/database?name={link}"));
    for html in [&confirm, &database] {
        assert!(!html.contains("<img") && !html.contains('\u{202e}') && html.contains("&lt;img src=x"), "{html}");
    }
    let form = between(&confirm, "name=\"form\" value=\"", "\"");
    let hidden = between(&confirm, "name=\"name\" value=\"", "\"").replace('%', "%25");
    let shown = between(&confirm, "type the name: <strong><bdi>", "</bdi>");
    let shown = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")]
        .iter()
        .fold(shown.to_owned(), |text, (from, to)| text.replace(from, to));
    assert!(shown.contains("\\u{202e}"), "{shown}");
    let typed: String = shown.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let own = format!("{}origin: http://localhost\r\n", page.cookie);
    let (status, head, body) = page.post(&own, &format!("form={form}&do=silence&name={hidden}&typed={typed}&for=2h"));
    assert_eq!(status, 303, "{head}{body}");
    let place = head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
    let (_, told) = page.get(place);
    assert!(told.contains("Its alarms are silenced until") && !told.contains("<img"), "{told}");
    seawall.stop().ok();
}

#[test]
fn a_page_without_actions_does_nothing() {
    let stand = Stand::folder(0);
    let mut app = App::start(&stand.db(), 0);
    app.commit(1);
    let (mut seawall, page) = start(&stand, "");
    stand.until_protected(&mut seawall);
    let (status, _) = page.get("/confirm?do=stop&name=app");
    assert_eq!(status, 404);
    let (_, body) = page.get("/database?name=app");
    assert!(!body.contains("/confirm") && body.contains("Nothing can be changed here."), "{body}");
    let own = format!("{}origin: http://localhost\r\n", page.cookie);
    assert_eq!(page.post(&own, "form=&do=stop&name=app&typed=app").0, 405);
    assert_eq!(stand.status()["phase"], "protecting");
    seawall.stop().ok();
    // Without a token there is no page with actions at all.
    let text = "web: { listen: '127.0.0.1:0', actions: true }\ndatabases:\n  - path: app.db\n    vault: v\n";
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
    let output = stand.seawall(&["config", "check"]).exits(2);
    assert!(output.stderr.contains("config.unsafe") && output.stderr.contains("web.token"), "{output}");
}
