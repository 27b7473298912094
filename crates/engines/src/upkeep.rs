//! Settings of levels, bases and retention, for both formats.

use std::time::Duration;

use seawall_core::parse_duration;
use seawall_sqlite::{LevelPolicy, Upkeep};

use seawall_config::error::{Location, Problem};
use seawall_config::fields::{At, Fields};

/// The most levels of merged objects.
const MOST_LEVELS: usize = 8;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Reads the keys of our own format from the top level or from a database, where whatever isn't said is as in `upkeep`.
pub fn read_native(fields: &mut Fields, upkeep: &Upkeep) -> Result<Upkeep, Location> {
    let mut upkeep = upkeep.clone();
    let line = fields.line;
    read_levels(fields, &mut upkeep, true)?;
    if let Some(mut snapshot) = fields.section("snapshot")? {
        if let Some(at) = snapshot.parsed("interval", "a time above zero with its unit, or off", or_off)? {
            upkeep.base_interval = at.value;
        }
        snapshot.finish()?;
    }
    if let Some(at) = fields.parsed("l0-retention", "a time with its unit, or forever", or_forever)? {
        upkeep.retention.l0 = at.value;
    }
    if let Some(retention) = fields.section("retention")? {
        read_retention(retention, &mut upkeep)?;
    }
    if let Some(at) = fields.flag("verify-compaction")? {
        upkeep.verify_compaction = at.value;
    }
    if let Some(mut validation) = fields.section("validation")? {
        for (key, target) in [("interval", &mut upkeep.validation_interval), ("active", &mut upkeep.sight_interval)] {
            if let Some(at) = validation.parsed(key, "a time above zero with its unit, or off", or_off)? {
                *target = at.value;
            }
        }
        validation.finish()?;
    }
    check(&upkeep).map_err(|problem| problem.at(line))?;
    Ok(upkeep)
}

/// Reads the `retention` of one of several vaults; whatever isn't said is as in `upkeep`. `None` where there is none.
pub fn read_own_retention(fields: &mut Fields, upkeep: &Upkeep) -> Result<Option<Upkeep>, Location> {
    let line = fields.line;
    let Some(retention) = fields.section("retention")? else { return Ok(None) };
    let mut upkeep = upkeep.clone();
    read_retention(retention, &mut upkeep)?;
    check(&upkeep).map_err(|problem| problem.at(line))?;
    Ok(Some(upkeep))
}

fn read_retention(mut fields: Fields, upkeep: &mut Upkeep) -> Result<(), Location> {
    let retention = &mut upkeep.retention;
    let number = |fields: &mut Fields, key, target: &mut u32| -> Result<(), Location> {
        if let Some(At { value, .. }) = fields.parsed(key, "a whole number", |text| text.parse().ok())? {
            *target = value;
        }
        Ok(())
    };
    if let Some(at) = fields.flag("enabled")? {
        retention.enabled = at.value;
    }
    if let Some(at) = fields.parsed("keep", "a time with its unit, or forever", or_forever)? {
        retention.window = at.value;
    }
    if let Some(at) = fields.count("minimum")? {
        retention.minimum = at.value;
    }
    number(&mut fields, "hourly", &mut retention.hourly)?;
    number(&mut fields, "daily", &mut retention.daily)?;
    number(&mut fields, "weekly", &mut retention.weekly)?;
    number(&mut fields, "monthly", &mut retention.monthly)?;
    number(&mut fields, "yearly", &mut retention.yearly)?;
    if let Some(at) = fields.duration("grace")? {
        retention.grace = at.value;
    }
    fields.finish()
}

/// Litestream's defaults, for a `litestream.yml` that doesn't set them.
pub fn litestream_default() -> Upkeep {
    let mut upkeep = Upkeep::default();
    upkeep.retention.window = Some(DAY);
    upkeep.retention.check_interval = Duration::from_secs(15);
    upkeep
}

/// Reads Litestream's keys at the top level.
pub fn read_litestream(fields: &mut Fields) -> Result<Upkeep, Location> {
    let mut upkeep = litestream_default();
    read_levels(fields, &mut upkeep, false)?;
    read_litestream_snapshot(fields, &mut upkeep)?;
    let zero_or_more = |text: &str| if text == "0" { Some(Duration::ZERO) } else { parse_duration(text) };
    if let Some(at) = fields.parsed("l0-retention", "a time with its unit", zero_or_more)? {
        upkeep.retention.l0 = Some(at.value).filter(|keep| !keep.is_zero());
    }
    if let Some(at) = fields.positive_duration("l0-retention-check-interval")? {
        upkeep.retention.check_interval = at.value;
    }
    if let Some(at) = fields.flag("verify-compaction")? {
        upkeep.verify_compaction = at.value;
    }
    if let Some(mut retention) = fields.section("retention")? {
        upkeep.retention.enabled = retention.flag("enabled")?.is_none_or(|at| at.value);
        retention.finish()?;
    }
    if let Some(mut validation) = fields.section("validation")? {
        if let Some(at) = validation.parsed("interval", "a time with its unit", zero_or_more)? {
            upkeep.validation_interval = Some(at.value).filter(|interval| !interval.is_zero());
        }
        validation.finish()?;
    }
    Ok(upkeep)
}

/// Reads Litestream's `snapshot`, at the top or of a database.
pub fn read_litestream_snapshot(fields: &mut Fields, upkeep: &mut Upkeep) -> Result<(), Location> {
    let Some(mut snapshot) = fields.section("snapshot")? else { return Ok(()) };
    if let Some(at) = snapshot.positive_duration("interval")? {
        upkeep.base_interval = Some(at.value);
    }
    if let Some(at) = snapshot.positive_duration("retention")? {
        upkeep.retention.window = Some(at.value);
    }
    snapshot.finish()
}

fn read_levels(fields: &mut Fields, upkeep: &mut Upkeep, strict: bool) -> Result<(), Location> {
    let Some(At { line, value }) = fields.list("levels")? else { return Ok(()) };
    if value.len() > MOST_LEVELS {
        let found = format!("{} of them", value.len());
        return Err(Problem::Value { key: "levels".into(), expected: "takes at most 8 levels".into(), found }.at(line));
    }
    upkeep.levels.clear();
    for node in value {
        let mut level = Fields::new("levels", node)?;
        let missing = level.missing("interval");
        let At { line, value: interval } = level.positive_duration("interval")?.ok_or(missing)?;
        if strict && upkeep.levels.last().is_some_and(|below| below.interval >= interval) {
            let cause = "each level has a longer interval than the one before".to_owned();
            return Err(Problem::Contradiction(cause).at(line));
        }
        let keep = if strict { level.parsed("keep", "a time with its unit, or forever", or_forever)? } else { None };
        level.finish()?;
        upkeep.levels.push(LevelPolicy { interval, keep: keep.and_then(|at| at.value) });
    }
    Ok(())
}

/// Refuses settings that contradict each other, because they would keep less than they say.
fn check(upkeep: &Upkeep) -> Result<(), Problem> {
    let Upkeep { levels, base_interval, retention, .. } = upkeep;
    let contradiction = |text: &str| Err(Problem::Contradiction(text.to_owned()));
    let every = base_interval.unwrap_or(Duration::MAX);
    if levels.is_empty() && base_interval.is_some() {
        return contradiction("snapshots are made from levels: give at least one, or set snapshot.interval to off");
    }
    if retention.hourly > 0 && every > Duration::from_secs(3600) {
        return contradiction("retention.hourly keeps one snapshot of each hour: snapshot.interval must be 1h or less");
    }
    let others = [retention.daily, retention.weekly, retention.monthly, retention.yearly];
    if others.iter().any(|count| *count > 0) && every > DAY {
        return contradiction(
            "retention.daily to retention.yearly keep one snapshot of each period: snapshot.interval must be 24h or less",
        );
    }
    Ok(())
}

fn positive(text: &str) -> Option<Duration> {
    parse_duration(text).filter(|span| !span.is_zero())
}

fn or_off(text: &str) -> Option<Option<Duration>> {
    if text == "off" { Some(None) } else { positive(text).map(Some) }
}

fn or_forever(text: &str) -> Option<Option<Duration>> {
    if text == "forever" { Some(None) } else { parse_duration(text).map(Some) }
}
