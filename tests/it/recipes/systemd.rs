//! A server with systemd: the packaged unit with the recipe's drop-ins.

use std::fs;
use std::path::Path;

use seawall_tests::{peer, run, seawall};

use super::{Database, Page, comes_back, host::Host};

/// Puts the packaged unit with the page's drop-in, and a unit of an application with its own, into `/etc/systemd/system` of a host.
fn install(host: &Host, page: &Page) -> String {
    let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/systemd/seawall.service");
    let unit = fs::read_to_string(packaged).unwrap();
    assert!(unit.contains("=/usr/bin/seawall "));
    let folder = host.path("/etc/systemd/system");
    fs::create_dir_all(folder.join("seawall.service.d")).unwrap();
    fs::create_dir_all(folder.join("app.service.d")).unwrap();
    // `verify` asks for the program, and `doctor` for every path.
    let unit = unit.replace("/usr/bin/seawall", seawall().to_str().unwrap());
    host.write("/etc/systemd/system/seawall.service", &unit);
    host.write("/etc/systemd/system/seawall.service.d/override.conf", page.file("seawall.service.d/override.conf"));
    host.write("/etc/systemd/system/app.service", "[Service]\nExecStart=/bin/true\n");
    if page.text.contains("# app.service.d/override.conf") {
        host.write("/etc/systemd/system/app.service.d/override.conf", page.file("app.service.d/override.conf"));
    }
    folder.join("seawall.service").to_str().unwrap().to_owned()
}

#[test]
fn systemd_takes_the_units_and_the_host_comes_back() {
    let page = Page::read("systemd");
    let databases = [Database { path: "/srv/app/app.db", name: "app", pragmas: &[] }];
    comes_back(&page, &databases, &["/srv/app"]);

    let host = Host::with(&page);
    let unit = install(&host, &page);
    let app = host.path("/etc/systemd/system/app.service");
    for (unit, page_has) in [(unit.as_str(), "User=app"), (app.to_str().unwrap(), "After=seawall.service")] {
        assert!(page.text.contains(page_has));
        let mut command = host.command(peer("systemd-analyze").to_str().unwrap());
        let path = format!("{}:", host.path("/etc/systemd/system").display());
        command.env("SYSTEMD_UNIT_PATH", path).args(["verify", "--man=no", "--recursive-errors=no"]).arg(unit);
        let verified = run("systemd-analyze", &mut command);
        // A container's systemd can't tell everything, so the words about these units count.
        let about = |line: &&str| {
            line.contains("override.conf") || line.contains("Unknown") || line.contains("Failed to parse")
        };
        assert_eq!(verified.stderr.lines().filter(about).collect::<Vec<_>>(), Vec::<&str>::new(), "{verified}");
        verified.ok();
    }
}

#[test]
fn doctor_knows_what_the_recipes_units_let_the_service_write_to() {
    for name in ["systemd", "nas"] {
        let page = Page::read(name);
        let host = Host::with(&page);
        if name == "nas" {
            // The page's second configuration: the mounted folder.
            host.write("/etc/seawall.yml", page.files("seawall.yml")[1]);
        }
        for folder in ["/srv/app", "/mnt/nas/seawall"] {
            fs::create_dir_all(host.path(folder)).unwrap();
        }
        rusqlite::Connection::open(host.path("/srv/app/app.db")).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
        let unit = install(&host, &page);
        // This host is below /var/tmp, which the packaged unit hides.
        let text = fs::read_to_string(&unit).unwrap();
        assert!(text.contains("PrivateTmp=yes"));
        let without = text.replace("PrivateTmp=yes", "PrivateTmp=no");
        // Of a file that is named, `doctor` reads no drop-ins.
        fs::write(&unit, format!("{without}\n{}", host.relocate(page.file("seawall.service.d/override.conf"))))
            .unwrap();
        let folders = ["/srv/app", "/mnt/nas"].map(|folder| host.path(folder).display().to_string());
        let wrong = || -> Vec<String> {
            let told = run("doctor", host.command("seawall").args(["doctor", "--json", "--unit", &unit])).json();
            let findings = told.as_array().unwrap().iter();
            let bad = findings.filter(|finding| finding["check"] == "unit" && finding["verdict"] != "fine");
            let said = bad.map(|finding| finding["meaning"].to_string());
            said.filter(|meaning| folders.iter().any(|folder| meaning.contains(folder))).collect()
        };
        assert_eq!(wrong(), Vec::<String>::new(), "{name}");
        fs::write(&unit, &without).unwrap();
        assert!(!wrong().is_empty(), "{name}: without the drop-in the service may not write there");
    }
}
