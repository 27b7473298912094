//! How many files this process may have open.

use rustix::process::{Resource, getrlimit, setrlimit};

/// How many files may be open; `None` without a limit. Raises the limit to what the system allows, if it is below `needed`.
pub fn allow_files(needed: u64) -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return limit.current;
    }
    // As much as is allowed: more may be needed later.
    limit.current = limit.maximum;
    // If that fails, the limit stays as it was.
    setrlimit(Resource::Nofile, limit).ok();
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_the_hard_one_and_not_lowered() {
        let hard = getrlimit(Resource::Nofile).maximum;
        assert_eq!(allow_files(u64::MAX), hard);
        assert_eq!(allow_files(1), hard);
    }
}
