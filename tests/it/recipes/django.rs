//! Django, the real one: a project with migrations, a process that writes through its models, and the recipe's settings.

use std::fs;
use std::process::Command;

use seawall_tests::{Output, Process, peer, run, wait};

use super::check;
use super::host::Host;
use super::page::{self, Page};

const MANAGE: &str = "import os, sys
os.environ['DJANGO_SETTINGS_MODULE'] = 'settings'
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
";

const SETTINGS: &str = "SECRET_KEY = 'a test'
INSTALLED_APPS = ['django.contrib.contenttypes', 'django.contrib.auth', 'django.contrib.sessions', 'orders']
DEFAULT_AUTO_FIELD = 'django.db.models.BigAutoField'
USE_TZ = True
";

const MODELS: &str = "from django.db import models

class Customer(models.Model):
    name = models.CharField(max_length=80, unique=True)

class Order(models.Model):
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE)
    cents = models.IntegerField(db_index=True)
    note = models.TextField()
";

/// Places orders until it is ended; each is a transaction that reads before it writes.
const WRITER: &str = "from django.core.management.base import BaseCommand
from django.db import transaction
from orders.models import Customer, Order

class Command(BaseCommand):
    def handle(self, **options):
        while True:
            with transaction.atomic():
                number = Order.objects.count() + 1
                customer, _ = Customer.objects.get_or_create(name=f'customer {number % 7}')
                Order.objects.create(customer=customer, cents=number, note='x' * (number % 500))
            print(number, flush=True)
";

/// A project on a host.
struct Project<'a> {
    host: &'a Host,
}

impl Project<'_> {
    /// Writes the project's files, with the recipe's `DATABASES`.
    fn begin(&self, page: &Page) {
        let write = |name: &str, text: &str| self.host.write(&format!("/srv/shop/code/{name}"), text);
        write("manage.py", MANAGE);
        write("settings.py", &format!("{SETTINGS}\n{}", page.block("python")));
        write("orders/models.py", MODELS);
        for package in ["orders", "orders/management", "orders/management/commands", "orders/migrations"] {
            write(&format!("{package}/__init__.py"), "");
        }
        write("orders/management/commands/place_orders.py", WRITER);
    }

    fn command(&self, args: &[&str]) -> Command {
        // pip put the program into `bin` of the folder of the packages.
        let packages = peer("django-admin").ancestors().nth(2).unwrap().to_owned();
        let mut command = self.host.command("python3");
        command.current_dir(self.host.path("/srv/shop/code")).env("PYTHONPATH", packages).arg("manage.py").args(args);
        command
    }

    fn manage(&self, args: &[&str]) -> Output {
        run("manage.py", &mut self.command(args))
    }

    /// Everything in the database, as Django itself sees it.
    fn data(&self) -> String {
        self.manage(&["dumpdata", "--all"]).ok().stdout
    }
}

#[test]
fn django_comes_back_with_every_row_and_migration() {
    let page = Page::read("django");
    check(&page);
    let mut host = Host::with(&page);
    fs::create_dir_all(host.path("/srv/shop/data")).unwrap();
    Project { host: &host }.begin(&page);
    for step in [&["makemigrations", "orders"][..], &["migrate"]] {
        Project { host: &host }.manage(step).ok();
    }
    host.carry_all_out(&page.commands("Start")[0]);
    let (earlier, moment) = write_orders(&mut host);
    wait::pass(std::time::Duration::from_millis(20));
    let (newest, _) = write_orders(&mut host);
    assert_ne!(earlier, newest);
    assert!(newest.contains("orders.order") && newest.contains("auth.permission"), "{newest}");

    host.lose(&["/srv/shop/data"]);
    let blocks = page.commands("Restore");
    carry_out(&mut host, &blocks[0]);
    assert_eq!(Project { host: &host }.data(), newest);
    host.moment = moment;
    carry_out(&mut host, &blocks[1]);
    assert_eq!(Project { host: &host }.data(), earlier);
    // The application goes on.
    let (more, _) = write_orders(&mut host);
    assert_ne!(more, earlier);
    host.stop();
}

/// Lets the application write for a while, waits until all is in the vault, and says what is there then and when that was.
fn write_orders(host: &mut Host) -> (String, String) {
    let project = Project { host };
    let mut writer = Process::spawn("place_orders", &mut project.command(&["place_orders"]));
    wait::until("forty orders", wait::SOON, || {
        assert!(writer.running(), "the writer ended");
        (writer.stdout().lines().count() >= 40).then_some(())
    });
    writer.kill_9();
    host.settle(&["shop"]);
    (Project { host }.data(), host.moment.clone())
}

fn carry_out(host: &mut Host, lines: &[String]) {
    for line in lines {
        match line.split_once(" python manage.py ") {
            Some((_, args)) => {
                Project { host }.manage(&args.split(' ').collect::<Vec<_>>()).ok();
            }
            None => host.carry_all_out(std::slice::from_ref(line)),
        }
    }
}

#[test]
fn django_waits_for_the_write_lock_as_the_page_says() {
    // The options that the page names are the ones that this Django knows.
    let page = Page::read("django");
    let host = Host::with(&page);
    fs::create_dir_all(host.path("/srv/shop/data")).unwrap();
    let project = Project { host: &host };
    project.begin(&page);
    let asked = "from django.db import connection as c; c.ensure_connection(); k = c.cursor(); \
                 print(c.transaction_mode, k.execute('PRAGMA journal_mode').fetchone()[0], k.execute('PRAGMA busy_timeout').fetchone()[0])";
    assert_eq!(project.manage(&["shell", "--no-imports", "-c", asked]).ok().stdout.trim(), "IMMEDIATE wal 20000");
    assert!(page.commands("Start").concat().iter().any(|line| page::seawall_part(line).is_some()));
}
