//! The screens: what is known becomes a frame. Pure.
//!
//! Each screen has a title, a line that says how things stand, its own part, the newest line of the journal, and its keys. The frame has
//! ASCII characters only, beside the names of others, so that it is the same on every terminal.

mod database;
mod fleet;
mod help;
mod log;
mod order;
mod style;
#[cfg(test)]
mod tests;
mod timeline;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

pub(super) use self::style::Theme;
use self::style::{cut, is_safe, safe};
use super::model::{Contact, Kind, Model, Screen, Standing};
use crate::table;
use seawall_core::Proof;

/// Draws the screen that is seen, and returns how far it can be scrolled.
pub(super) fn draw(model: &Model, theme: Theme, frame: &mut Frame<'_>) -> usize {
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ]);
    let [title, stand, body, notice, keys] = rows.areas(frame.area());
    bar(&format!(" Seawall  {}", safe(&model.place)), &clock(model), theme, title, frame);
    frame.render_widget(Paragraph::new(standing(model, theme, stand)), stand);
    let most = match model.screen() {
        Screen::Fleet => fleet::draw(model, theme, body, frame),
        Screen::Timeline => timeline::draw(model, theme, body, frame),
        Screen::Database => page(database::lines(model, theme, width(body)), model, body, frame),
        Screen::Order => page(order::lines(model, theme, width(body)), model, body, frame),
        Screen::Log => page(log::lines(model, theme, width(body)), model, body, frame),
        Screen::Help => page(help::lines(model, theme, width(body)), model, body, frame),
    };
    frame.render_widget(Paragraph::new(said(model, theme, width(notice))), notice);
    bar(&format!(" {}", help::keys(model)), "", theme, keys, frame);
    // Every text is escaped where it enters; this holds for those too that a later screen forgets.
    for cell in &mut frame.buffer_mut().content {
        if !is_safe(cell.symbol()) {
            cell.set_symbol("?");
        }
    }
    most
}

fn width(area: Rect) -> usize {
    usize::from(area.width)
}

/// A line across the screen.
fn bar(left: &str, right: &str, theme: Theme, area: Rect, frame: &mut Frame<'_>) {
    let room = width(area).saturating_sub(right.len() + 1);
    let left = cut(left, room);
    let gap = room.saturating_sub(ratatui::text::Span::raw(&*left).width());
    frame.render_widget(Paragraph::new(format!("{left}{:gap$}{right} ", "")).style(theme.bar()), area);
}

/// The time of the day.
fn clock(model: &Model) -> String {
    let now = model.now.to_string();
    format!("{} UTC", now.get(11..19).unwrap_or(&now))
}

/// How old the newest point of the database is that is furthest behind, and how many have a proof that holds: a vault can't tell more.
fn oldest(model: &Model) -> String {
    let moments = model.databases.iter().filter_map(|entry| entry.point.as_ref()).map(|point| point.moment);
    let proved = model.databases.iter().filter(|entry| entry.proof.as_ref().is_some_and(Proof::holds)).count();
    let age = moments.min().map(|oldest| table::rough(model.now.since(oldest).as_secs()));
    let proved = format!("; {proved} proved");
    age.map_or_else(|| proved.clone(), |age| format!("; newest points up to {age} old{proved}"))
}

/// How things stand, in one line, and the filter or the loss of the process in another.
fn standing(model: &Model, theme: Theme, area: Rect) -> Vec<Line<'static>> {
    let count = |wanted: Standing| model.databases.iter().filter(|entry| entry.standing() == wanted).count();
    let (critical, warning) = (count(Standing::Critical), count(Standing::Warning));
    let all = table::count(model.databases.len(), "database");
    let summary = match (&model.contact, critical, warning) {
        (Contact::Waiting, ..) => Line::raw(format!("asking {}", safe(&model.place))),
        (Contact::Lost(..), ..) if model.databases.is_empty() => Line::raw(""),
        (Contact::Lost(..), 0, 0) => Line::raw(format!("{all}, as they were before the answers ended")),
        (_, 0, 0) if model.kind == Kind::Vault => {
            Line::raw(format!("{all}, no alarm that a vault can tell{}", oldest(model)))
        }
        (_, 0, 0) => Line::raw(format!("{all}, all well")),
        (_, 0, warning) => Line::styled(format!("{all}: {warning} with warnings"), theme.warning()),
        (_, critical, 0) => Line::styled(format!("{all}: {critical} {} attention now", need(critical)), theme.bad()),
        (_, critical, warning) => {
            let text = format!("{all}: {critical} {} attention now, {warning} with warnings", need(critical));
            Line::styled(text, theme.bad())
        }
    };
    let second = match &model.contact {
        Contact::Lost(since, failure) => {
            let age = table::rough(model.now.since(*since).as_secs());
            let again = match model.kind {
                Kind::Process => "asked again every second",
                Kind::Vault => "u asks again",
            };
            let text = format!("no answer for {age}, {again}: {}", safe(&failure.cause));
            Line::styled(cut(&text, width(area)).into_owned(), theme.bad())
        }
        _ if model.is_filtering => Line::styled(format!("filter: {}_", safe(model.filter.text())), theme.label()),
        _ if !model.filter.text().is_empty() => {
            let shown = model.shown().len();
            Line::styled(format!("filter: {} ({shown} shown)", safe(model.filter.text())), theme.label())
        }
        _ if model.is_refreshing && model.contact != Contact::Waiting => Line::raw("asking the vault again"),
        _ => Line::raw(""),
    };
    vec![summary, second]
}

fn need(count: usize) -> &'static str {
    if count == 1 { "needs" } else { "need" }
}

/// What a person should know now: the newest line of the journal.
fn said(model: &Model, theme: Theme, width: usize) -> Line<'static> {
    if model.is_leaving {
        let text = "work is under way: press q or Ctrl-C again to give it up and quit, Esc to stay";
        return Line::styled(cut(text, width).into_owned(), theme.warning());
    }
    let Some(last) = model.journal.last() else { return Line::raw("") };
    let style = if last.is_bad { theme.bad() } else { Style::new() };
    Line::styled(cut(&safe(&last.text), width).into_owned(), style)
}

/// Lines that may be more than the screen has.
fn page(lines: Vec<Line<'static>>, model: &Model, area: Rect, frame: &mut Frame<'_>) -> usize {
    let most = lines.len().saturating_sub(usize::from(area.height));
    let shown = lines.into_iter().skip(model.scroll.0.min(most)).take(usize::from(area.height)).collect::<Vec<_>>();
    frame.render_widget(Paragraph::new(shown), area);
    most
}

/// The rows of the page of a list that has the chosen row, and where the page begins.
fn page_of<T>(rows: &[T], chosen: usize, height: usize) -> (usize, &[T]) {
    let height = height.max(1);
    let first = chosen / height * height;
    let end = rows.len().min(first + height);
    (first, rows.get(first..end).unwrap_or_default())
}
