//! Which declared name was probably meant.

/// The declared name within two edits of `name`, the nearest first, then by name. A name that shares nothing with
/// `name` is never near: `"7"` is two edits from `"id"` and may be somebody's secret.
pub(crate) fn nearest<'a>(declared: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    declared
        .filter_map(|it| Some((distance(it, name)?, it)))
        .filter(|(edits, it)| *edits < it.chars().count())
        .min()
        .map(|(_, it)| it)
}

/// How many characters differ (Levenshtein), if it is at most two.
fn distance(left: &str, right: &str) -> Option<usize> {
    const MAX: usize = 2;
    const LONGEST: usize = 128; // longer names are not typed by hand
    if left.len() > LONGEST || right.len() > LONGEST {
        return None;
    }
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().filter(|it| *it <= MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_within_two_edits_is_near() {
        let declared = ["dry_run", "orderId", "id"];
        let found = |name| nearest(declared.into_iter(), name);
        let names = ["dryrun", "orderld", "order_id", "orderRef", "i", "7", "zz", "canary-77", "dry-run!", "dryrum"];
        let near: Vec<_> = names.into_iter().map(|it| (it, found(it))).collect();
        insta::assert_snapshot!(format!("{near:?}"), @r#"[("dryrun", Some("dry_run")), ("orderld", Some("orderId")), ("order_id", Some("orderId")), ("orderRef", None), ("i", Some("id")), ("7", None), ("zz", None), ("canary-77", None), ("dry-run!", Some("dry_run")), ("dryrum", Some("dry_run"))]"#);
    }
}
