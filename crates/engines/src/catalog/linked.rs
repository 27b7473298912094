//! Which backup sets count? A set counts once a link of the chain names it: no restore finds another one. Pure.
//!
//! A listing shows which sets are whole, and doesn't show which ones are linked. The newest two links tell that of the newest set.

use seawall_archive::SetId;

/// Takes away the whole sets that are newer than all that the newest links name (`named`, newest link first), and says what isn't as
/// it should be. `whole` is in order.
pub(super) fn unlinked(whole: &mut Vec<(SetId, u64)>, named: &[SetId]) -> Option<String> {
    let newest = whole.last()?.0;
    let Some(last) = named.iter().max() else {
        return Some("the newest two links name no set, so whether its newest backup counts isn't known".to_owned());
    };
    if named.contains(&newest) {
        return None;
    }
    if newest < *last {
        return Some(format!("its chain names a newer backup, and the index of that is missing: sets/{last}/"));
    }
    let all = whole.len();
    whole.retain(|(id, _)| id <= last);
    let more = match all - whole.len() {
        1 => String::new(),
        more => format!(" and {} more", more - 1),
    };
    Some(format!(
        "no link of the chain names sets/{newest}/{more}, so no restore finds it: its link was deleted, or isn't written yet"
    ))
}

/// What is wrong with so many whole sets, where the last link of the chain has this number, or 0 if there is none.
pub(super) fn without_chain(whole: usize, link: u64) -> Option<String> {
    let doubt =
        "its chain has no link, so no restore finds any of its backups: chain/ was deleted, or no backup was finished";
    (whole > 0 && link == 0).then(|| doubt.to_owned())
}

#[cfg(test)]
mod tests {
    use seawall_core::Moment;

    use super::*;

    #[test]
    fn sets_count_that_a_link_names() {
        let id = |number: i64| SetId::new(Moment::from_millis(number * 1000), 1);
        for (whole, named, expected, doubt) in [
            (&[][..], &[1][..], &[][..], None),
            (&[1, 2, 3], &[3], &[1, 2, 3], None),
            // The one that was begun earlier was ready later.
            (&[1, 2, 3], &[2, 3], &[1, 2, 3], None),
            (&[1, 2, 3], &[2], &[1, 2], Some("no link")),
            (&[1, 2, 3, 4], &[2, 1], &[1, 2], Some(" and 1 more")),
            (&[2, 3], &[1], &[], Some("no link")),
            // Two retirements.
            (&[1, 2], &[], &[1, 2], Some("isn't known")),
            (&[1, 2], &[3], &[1, 2], Some("is missing")),
        ] {
            let mut sets: Vec<(SetId, u64)> = whole.iter().map(|number| (id(*number), 7)).collect();
            let named: Vec<SetId> = named.iter().map(|number| id(*number)).collect();
            let told = unlinked(&mut sets, &named);
            assert_eq!(told.is_some(), doubt.is_some(), "{whole:?} {named:?}: {told:?}");
            assert!(told.unwrap_or_default().contains(doubt.unwrap_or_default()), "{whole:?} {named:?}");
            let left: Vec<SetId> = sets.into_iter().map(|(id, _)| id).collect();
            assert_eq!(left, expected.iter().map(|number| id(*number)).collect::<Vec<_>>(), "{whole:?} {named:?}");
        }
        for (whole, link, expected) in [(0, 0, false), (2, 0, true), (2, 1, false)] {
            assert_eq!(without_chain(whole, link).is_some(), expected);
        }
    }
}
