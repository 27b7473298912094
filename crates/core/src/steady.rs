//! The steady clock: how much time has passed on this machine since it booted.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A reading of a clock that never goes back and keeps running while the machine sleeps. Two readings tell how much
/// time passed between them, unless the machine rebooted in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steady {
    /// Identifies the boot that the clock counts from.
    pub boot: u32,
    /// Milliseconds since that boot.
    pub millis: u64,
}

impl Steady {
    /// The time that passed since `earlier`; `None` if the machine rebooted in between, or if `earlier` is the later
    /// reading.
    pub fn since(self, earlier: Self) -> Option<Duration> {
        let millis = self.millis.checked_sub(earlier.millis).filter(|_| self.boot == earlier.boot);
        millis.map(Duration::from_millis)
    }

    /// This machine's reading.
    pub(crate) fn of_this_machine() -> Self {
        machine::now()
    }
}

#[cfg(target_os = "linux")]
mod machine {
    #![expect(clippy::disallowed_methods, reason = "this is the edge where the machine's clock enters")]

    use std::sync::OnceLock;

    use rustix::time::{ClockId, clock_gettime};

    use super::Steady;

    /// The file whose content differs between two boots of the machine.
    const BOOT: &str = "/proc/sys/kernel/random/boot_id";

    pub(super) fn now() -> Steady {
        static START: OnceLock<u32> = OnceLock::new();
        let boot = *START.get_or_init(|| {
            let id = std::fs::read_to_string(BOOT).unwrap_or_default();
            id.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(std::process::id())
        });
        let now = clock_gettime(ClockId::Boottime);
        let (seconds, nanos) = (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0));
        Steady { boot, millis: seconds * 1000 + nanos / 1_000_000 }
    }
}

#[cfg(not(target_os = "linux"))]
mod machine {
    #![expect(clippy::disallowed_methods, reason = "this is the edge where the machine's clock enters")]

    use std::sync::OnceLock;
    use std::time::Instant;

    use super::Steady;

    /// Counts from the first call in this process; the process id takes the place of the boot.
    pub(super) fn now() -> Steady {
        static START: OnceLock<Instant> = OnceLock::new();
        let millis = START.get_or_init(Instant::now).elapsed().as_millis();
        Steady { boot: std::process::id(), millis: u64::try_from(millis).unwrap_or(u64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_between_two_readings() {
        let at = |boot, millis| Steady { boot, millis };
        assert_eq!(at(1, 500).since(at(1, 200)), Some(Duration::from_millis(300)));
        assert_eq!((at(2, 500).since(at(1, 200)), at(1, 100).since(at(1, 200))), (None, None));
        let (first, second) = (Steady::of_this_machine(), Steady::of_this_machine());
        assert!(second.since(first).is_some_and(|passed| passed < Duration::from_secs(60)));
    }
}
