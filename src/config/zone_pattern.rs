//! Patterns of zone names, by which regions take members: an asterisk is any part of one label.
//!
//! Cost: O(pattern + name) for a pattern with one asterisk in a label.
//!
//! RFCs: 4343 (case of names).

use settings::asterisk::is_like;
use wire::name::Name;

/// Returns true if a zone has a name of this pattern, whatever its case and final dot.
pub fn matches(pattern: &str, zone: &Name) -> bool {
    matches_text(&pattern.to_ascii_lowercase(), &zone.to_string())
}

/// The same for many names: the text of a name, and a pattern in lowercase.
pub fn matches_text(pattern: &str, zone: &str) -> bool {
    let (mut wanted, mut labels) = (pattern.trim_end_matches('.').split('.'), zone.trim_end_matches('.').split('.'));
    loop {
        match (wanted.next(), labels.next()) {
            (None, None) => return true,
            (Some(wanted), Some(label)) if is_like(wanted, label) => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asterisk_is_any_part_of_a_label() {
        let matching = |pattern: &str, zone: &str| matches(pattern, &Name::parse(zone).unwrap());
        for (pattern, zone) in [
            ("us-west-*.cns.example.com", "us-west-12.cns.example.com"),
            ("US-west-*.cns.example.com.", "us-WEST-1.cns.example.com"),
            ("us-west-*.cns.example.com", "us-west-.cns.example.com"),
            ("*.cns.example.com", "a.cns.example.com"),
            ("*-west-*-b*.test", "us-west-x-b.test"),
            ("a*a*a.test", "aaa.test"),
            ("**.test", "a.test"),
            ("a.test", "a.test"),
        ] {
            assert!(matching(pattern, zone), "{pattern} {zone}");
        }
        for (pattern, zone) in [
            ("us-west-*.cns.example.com", "us-west-1.a.cns.example.com"),
            ("*.cns.example.com", "cns.example.com"),
            ("*.cns.example.com", "b.a.cns.example.com"),
            ("a*a.test", "a.test"),
            ("a*a*a.test", "aa.test"),
            ("*x*.test", "a.test"),
            ("a", "a.test"),
            ("", "a.test"),
        ] {
            assert!(!matching(pattern, zone), "{pattern} {zone}");
        }
    }
}
