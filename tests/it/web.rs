//! The page of a running process, as a browser without a script sees it, and what comes over its live connection.

use std::io::Read as _;
use std::process::Command;

use seawall_tests::{App, Process, Random, Stand, ask_host, listen_to, model, run, wait};

const TOKEN: &str = "a-token-of-some-length";

/// `seawall replicate` with a page, for the stand's database; `web` is the value of the key.
fn configured(stand: &Stand, web: &str) -> Process {
    let text = format!(
        "web: {web}\nsocket: {{ path: s.sock }}\nlogging: {{ type: json }}\ndatabases:\n  - path: app.db\n    vault: {}\n",
        stand.place.url()
    );
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
    Process::spawn("seawall", stand.command().arg("replicate"))
}

/// The address of the page, from the log.
pub(crate) fn address(process: &mut Process) -> String {
    wait::until("the page to listen", wait::SOON, || {
        let log = process.stderr();
        let line = log.lines().find(|line| line.contains("page: listening"))?;
        let port = line.split("127.0.0.1:").nth(1)?.chars().take_while(char::is_ascii_digit).collect::<String>();
        Some(format!("127.0.0.1:{port}"))
    })
}

/// A page, which must be there.
pub(crate) fn page(address: &str, target: &str) -> String {
    let (status, head, body) = ask_host((address, "localhost"), "GET", target, "", "");
    assert_eq!(status, 200, "{target}: {body}");
    let head = head.to_lowercase();
    for header in [
        "content-security-policy: default-src 'none';",
        "x-content-type-options: nosniff",
        "referrer-policy: same-origin",
    ] {
        assert!(head.contains(header), "{header} is missing in {head}");
    }
    body
}

/// The text of HTML.
pub(crate) fn unescaped(html: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")]
        .iter()
        .fold(html.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// What stands between two texts for the first time.
pub(crate) fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let found = text.split_once(from).and_then(|(_, rest)| rest.split_once(to)).map(|(found, _)| found);
    found.unwrap_or_else(|| panic!("no {from} in {text}"))
}

#[test]
fn a_restore_is_planned_on_the_page_and_done() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    let mut seawall = configured(&stand, "127.0.0.1:0");
    let address = address(&mut seawall);
    app.commit(5);
    stand.seawall(&["sync", "app", "--wait"]).ok();
    let wanted = format!("{:016x}", stand.place.newest());
    app.commit(7);
    stand.seawall(&["sync", "app", "--wait"]).ok();
    let newest = format!("{:016x}", stand.place.newest());

    let fleet = page(&address, "/");
    assert!(
        fleet.contains("1 database: 1 protected without an alarm") && fleet.contains("Databases 1 to 1 of 1."),
        "{fleet}"
    );
    for target in ["/?q=nobody", "/?show=critical"] {
        assert!(page(&address, target).contains("No database is like that."));
    }
    let database = page(&address, "/database?name=app");
    assert!(database.contains("<svg role=\"img\"") && database.contains(&newest), "{database}");
    assert!(page(&address, "/proofs").contains("no proof is known"));
    assert!(page(&address, "/vaults").contains(&stand.place.url()));
    let settings = page(&address, "/settings");
    assert!(
        settings.contains("seawall.yml") && settings.contains("app.db") && settings.contains("s.sock"),
        "{settings}"
    );

    // The command is pasted into a shell, in the folder of nobody.
    let plan = page(&address, &format!("/database?name=app&at={wanted}"));
    assert!(plan.contains(&format!("<code>{wanted}</code>")), "{plan}");
    let command = unescaped(between(&plan, "<pre tabindex=\"0\"><code>", "</code></pre>"));
    let restored = stand.path("app-restored.db");
    let expected = format!(
        "seawall restore --config {} app -o {} --at {wanted}",
        stand.path("seawall.yml").display(),
        restored.display()
    );
    assert_eq!(command, expected);
    assert!(!restored.exists(), "a plan restores nothing");
    let told = stand.seawall(&["restore", "app", "-o", "x.db", "--at", &wanted, "--dry-run", "--json"]).ok().json();
    let objects = told["objects"].as_array().unwrap().len();
    assert!(plan.contains(&format!("{objects} objects, ")), "{plan}");
    carry_out(&stand, "sh", &plan);
    assert_eq!(model::check(&restored, stand.seed), 5);

    for (at, code) in [("yesterday", "usage.when"), ("00000000ffffffff", "sqlite.")] {
        let refused = page(&address, &format!("/database?name=app&at={at}"));
        assert!(refused.contains("There is no such restore") && refused.contains(code), "{refused}");
    }
    // Plans are no restores, whatever came of them.
    assert!(
        page(&address, "/database?name=app").contains(
            "Restores</th><td role=\"cell\" data-l=\"Done\">0</td><td role=\"cell\" data-l=\"In vain\">0</td>"
        )
    );
    seawall.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), 12);
}

#[test]
fn a_commit_arrives_on_a_page_that_is_open() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(1);
    let mut seawall = configured(&stand, "127.0.0.1:0");
    let address = address(&mut seawall);
    stand.until_protected(&mut seawall);
    let database = page(&address, "/database?name=app");
    let live = unescaped(between(&database, "data-live=\"", "\""));
    let mut events = listen_to(&address, &live);
    app.commit(1);
    stand.seawall(&["sync", "app", "--wait"]).ok();
    let position = format!("{:016x}", stand.place.newest());
    let mut heard = String::new();
    let mut part = [0; 4096];
    wait::until("the commit on the page", wait::SOON, || {
        let length = events.read(&mut part).unwrap();
        assert!(length > 0, "the connection ended: {heard}");
        heard.push_str(&String::from_utf8_lossy(&part[..length]));
        heard.contains(&position).then_some(())
    });
    assert!(heard.contains("text/event-stream") && heard.contains("data: [[\"facts\",\"<dl"), "{heard}");
    assert!(page(&address, "/database?name=app").contains(&position));
    seawall.stop().ok();
    assert_eq!(model::check(&stand.restore(), stand.seed), 2);
}

#[test]
fn who_may_look_at_the_page() {
    let stand = Stand::folder(Random::from_env().seed());
    let mut app = stand.app();
    app.commit(1);
    let web = format!("{{ listen: '127.0.0.1:0', token: {TOKEN}, prefix: /sea, hosts: [ seawall.example ] }}");
    let mut seawall = configured(&stand, &web);
    let address = address(&mut seawall);
    let ask = |host: &str, method: &str, target: &str, headers: &str, body: &str| {
        ask_host((&address, host), method, target, headers, body)
    };
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    for (host, target, headers, status) in [
        ("localhost", "/", "", 401),
        ("localhost", "/live?screen=fleet", "", 401),
        ("localhost", "/", "authorization: Bearer wrong-token-of-length\r\n", 401),
        ("localhost", "/", &*bearer, 200),
        ("seawall.example", "/sea/", &bearer, 200),
        ("seawall.example", "/proofs", &bearer, 200),
        ("evil.example", "/", &bearer, 421),
        ("localhost", "/nothing", &bearer, 404),
    ] {
        let (found, _, body) = ask(host, "GET", target, headers, "");
        assert_eq!(found, status, "{host} {target} {headers}");
        assert!(status == 200 || !body.contains("app.db"), "{body}");
    }
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(ask("localhost", method, "/", &bearer, "").0, 405, "{method}");
    }
    let (status, head, _) =
        ask("seawall.example", "POST", "/sea/login", "origin: https://seawall.example\r\n", &format!("token={TOKEN}"));
    assert_eq!(status, 303, "{head}");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("Path=/sea/; HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = format!("cookie: {}\r\n", cookie.split(';').next().unwrap());
    let (status, _, body) = ask("seawall.example", "GET", "/sea/", &cookie, "");
    assert!(status == 200 && body.contains("href=\"/sea/database?name=app\""), "{body}");
    for _ in 0..12 {
        ask("localhost", "POST", "/login", "", "token=wrong-token-of-length");
    }
    assert_eq!(ask("localhost", "POST", "/login", "", &format!("token={TOKEN}")).0, 429);
    assert_eq!(ask("localhost", "GET", "/", &cookie, "").0, 200);
    let log = seawall.stderr();
    assert!(!log.contains(TOKEN), "the token is in the log");
    let check = stand.seawall(&["config", "check"]).ok();
    assert!(check.stdout.contains("page: 127.0.0.1:0") && !check.stdout.contains(TOKEN), "{check}");
    seawall.stop().ok();
}

#[test]
fn a_page_for_everyone_needs_a_token() {
    let stand = Stand::folder(0);
    let output = configured(&stand, "0.0.0.0:0").wait(wait::SOON).exits(2);
    assert!(output.stderr.contains("config.unsafe") && output.stderr.contains("web.token"), "{output}");
    let vault = stand.place.url();
    for (flag, code) in [("--web=0.0.0.0:0", "config.unsafe"), ("--web=somewhere", "usage.arguments")] {
        let output = stand.seawall(&["replicate", "app.db", &vault, flag]).exits(2);
        assert!(output.stderr.contains(code), "{output}");
    }
}

/// Waits for the first copy of the one database, and returns the fleet and the plan of its newest point.
fn planned(address: &str) -> (String, String) {
    let fleet = wait::until("the first copy", wait::SOON, || {
        let fleet = page(address, "/");
        fleet.contains("1 protected without an alarm").then_some(fleet)
    });
    let link = unescaped(between(&fleet, "href=\"/database?name=", "\""));
    let plan = page(address, &format!("/database?name={link}&at=latest"));
    (fleet, plan)
}

/// Runs the command of a plan in a shell.
pub(crate) fn carry_out(stand: &Stand, shell: &str, plan: &str) {
    let command = unescaped(between(plan, "<pre tabindex=\"0\"><code>", "</code></pre>"));
    let program = stand.command().get_program().to_owned();
    let mut running = Command::new(shell);
    running.current_dir("/").arg("-c").arg(command.replacen("seawall", "\"$SEAWALL\"", 1)).env("SEAWALL", program);
    run(shell, &mut running).ok();
}

#[test]
fn the_name_of_a_file_is_text_on_the_page() {
    let stand = Stand::folder(Random::from_env().seed());
    let name = "<img src=x onerror=alert(1)>\u{202e}\"' & $(x)";
    let mut app = App::start(&stand.path(&format!("{name}.db")), 1);
    app.commit(3);
    let vault = stand.path("vault").display().to_string();
    let file = format!("{name}.db");
    let mut seawall =
        Process::spawn("seawall", stand.command().args(["replicate", &file, &vault, "--web=127.0.0.1:0"]));
    let address = address(&mut seawall);
    let (fleet, plan) = planned(&address);
    for html in [&fleet, &plan] {
        assert!(!html.contains("<img") && !html.contains('\u{202e}') && html.contains("&lt;img src=x"), "{html}");
    }
    // The command makes a file of this very name.
    carry_out(&stand, "bash", &plan);
    assert_eq!(model::check(&stand.path(&format!("{name}-restored.db")), 1), 3);
    seawall.stop().ok();
}

#[test]
fn a_database_of_a_folder_is_restored_as_the_page_says() {
    let stand = Stand::folder(Random::from_env().seed());
    std::fs::create_dir(stand.path("data")).unwrap();
    let mut app = App::start(&stand.path("data/it's here.db"), 1);
    app.commit(4);
    let vault = stand.path("vault").display().to_string();
    let text = format!(
        "web: 127.0.0.1:0\nlogging: {{ type: json }}\ndatabases:\n  - dir: data\n    pattern: '*.db'\n    vault: {vault}\n"
    );
    std::fs::write(stand.path("seawall.yml"), text).unwrap();
    let mut seawall = Process::spawn("seawall", stand.command().arg("replicate"));
    let address = address(&mut seawall);
    let (_, plan) = planned(&address);
    carry_out(&stand, "sh", &plan);
    assert_eq!(model::check(&stand.path("data/it's here-restored.db"), 1), 4);
    seawall.stop().ok();
}
