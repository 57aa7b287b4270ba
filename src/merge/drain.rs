//! Members, or some of their names, that an operator has taken out of regions.
//!
//! A drain says whose records are not taken: all of a member, or those at owner names that match a pattern, in one
//! region or in all that have the member. A [`Scope`] is what all drains together mean for one member of one region.
//!
//! A drain of a share keeps some of the clients from the records, which stay in the set; [`Shares`] are what all of them
//! together mean.
//!
//! Invariants: the apex keeps its SOA and NS set under any drain, because serials and name servers of the region follow
//! from those and are no service of the datacenter; a pattern never means the apex. A share is in no scope.
//!
//! Cost: O(labels × patterns) to judge a name.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::fmt;
use std::time::SystemTime;
use wire::name::{Name, NameError};

/// Owner names relative to a zone. The label `*` stands for any one label, at the front for one or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(Name);

/// Error: a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("is no domain name ({0})")]
    Name(NameError),
    #[error("means the zone itself")]
    Apex,
    #[error("has an asterisk within a label")]
    PartOfLabel,
}

impl NamePattern {
    /// Reads a pattern such as `web.svc.*`.
    pub fn parse(text: &str) -> Result<NamePattern, PatternError> {
        if matches!(text, "" | "." | "@") {
            return Err(PatternError::Apex);
        }
        let name = Name::parse(text).map_err(PatternError::Name)?;
        if labels(without_root(&name)).any(|label| label.len() > 1 && label.contains(&b'*')) {
            return Err(PatternError::PartOfLabel);
        }
        Ok(NamePattern(name))
    }

    /// Takes a name that was a pattern before.
    pub fn from_name(name: Name) -> NamePattern {
        NamePattern(name)
    }

    /// The pattern as a name.
    pub fn as_name(&self) -> &Name {
        &self.0
    }

    /// Returns true if the pattern matches an owner name without its origin.
    pub fn matches(&self, owner: &[u8]) -> bool {
        let pattern = without_root(&self.0);
        let Some(more) = labels(owner).count().checked_sub(labels(pattern).count()) else { return false };
        let is_open = labels(pattern).next().is_some_and(|first| first == b"*");
        (more == 0 || is_open)
            && labels(owner).skip(more).zip(labels(pattern)).all(|(label, wanted)| wanted == b"*" || label == wanted)
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_string().trim_end_matches('.'))
    }
}

impl Serialize for NamePattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A name's labels without the root's.
fn without_root(name: &Name) -> &[u8] {
    let wire = name.as_wire();
    &wire[..wire.len() - 1]
}

/// Iterates over labels that no root ends.
pub(super) fn labels(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, labels) = rest.split_first()?;
        let (label, others) = labels.split_at_checked(usize::from(*length))?;
        rest = others;
        Some(label)
    })
}

//--- Drain ---

/// Target of a drain: the member, region and names that it concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DrainTarget {
    pub member: Name,
    /// Region of the drain; none for all regions that have the member.
    pub region: Option<Name>,
    /// A pattern of owner names; none for all names.
    #[schemars(with = "Option<String>")]
    pub names: Option<NamePattern>,
}

/// One drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    pub target: DrainTarget,
    /// Share of the clients that it concerns, 1 to 99 percent; none for a drain that takes the records out of the set.
    pub share: Option<u8>,
    pub since: SystemTime,
    /// End of the drain; none for one that lasts until it is ended.
    pub until: Option<SystemTime>,
    pub reason: Option<String>,
    /// True for a drain of the configuration, false for one of an operator.
    pub configured: bool,
}

impl Drain {
    /// Returns true if the drain takes records out of the set, false if it keeps a share of the clients from them.
    pub fn is_whole(&self) -> bool {
        self.share.is_none()
    }

    /// Returns true if the drain is about a member in a region.
    pub fn concerns(&self, member: &Name, region: &Name) -> bool {
        self.target.member == *member && self.target.region.as_ref().is_none_or(|only| only == region)
    }

    /// Returns true if the drain is about a member's owner name without origin.
    pub fn covers(&self, owner: &[u8]) -> bool {
        self.target.names.as_ref().is_none_or(|names| names.matches(owner))
    }

    /// Returns true if the drain's time is over.
    pub fn is_over(&self, now: SystemTime) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

//--- Scope ---

/// Parts of one member that are not taken into one region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Everything but SOA and NS set of the apex.
    pub whole: bool,
    pub patterns: Vec<NamePattern>,
}

impl Scope {
    /// Adds the target of a whole drain.
    pub fn add(&mut self, target: &DrainTarget) {
        match &target.names {
            None => self.whole = true,
            // In order, so that equal scopes are written alike.
            Some(names) => match self.patterns.binary_search_by(|other| other.0.canonical_cmp(&names.0)) {
                Ok(_) => {}
                Err(place) => self.patterns.insert(place, names.clone()),
            },
        }
    }

    /// Returns true if everything is taken.
    pub fn is_empty(&self) -> bool {
        !self.whole && self.patterns.is_empty()
    }

    /// Returns true if nothing is taken at an owner name without origin; at the apex, SOA and NS set are always taken.
    pub fn covers(&self, owner: &[u8]) -> bool {
        self.whole || self.patterns.iter().any(|names| names.matches(owner))
    }
}

//--- Shares ---

/// Shares of the clients that get nothing of one member in one region; its records stay in the set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares(Vec<(Option<NamePattern>, u8)>);

impl Shares {
    /// Adds the share of a drain, in percent, of some names or all.
    pub fn add(&mut self, names: Option<NamePattern>, percent: u8) {
        self.0.push((names, percent));
    }

    /// Returns true if all clients get the member's records.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The share of the clients of an owner name without origin, in percent: the largest of all.
    pub fn of(&self, owner: &[u8]) -> u8 {
        let meant = self.0.iter().filter(|(names, _)| names.as_ref().is_none_or(|names| names.matches(owner)));
        meant.map(|(_, percent)| *percent).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_label_by_label() {
        let matches = |pattern: &str, owner: &str| {
            let owner = Name::parse(owner).unwrap();
            NamePattern::parse(pattern).unwrap().matches(without_root(&owner))
        };
        for (pattern, owner) in [
            ("web.svc.acme", "web.svc.acme"),
            ("WEB.svc.*", "web.svc.acme"),
            ("*.svc.acme", "web.svc.acme"),
            ("*.svc.acme", "my.web.svc.acme"),
            ("web.*.acme", "web.svc.acme"),
            ("*", "a.b.c"),
            ("*.*", "a.b.c"),
        ] {
            assert!(matches(pattern, owner), "{pattern} {owner}");
        }
        for (pattern, owner) in [
            ("web.svc.acme", "x.web.svc.acme"),
            ("web.svc.*", "web.svc.acme.x"),
            ("web.svc.*", "web.svc"),
            ("*.svc.acme", "svc.acme"),
            ("web.*.acme", "web.a.b.acme"),
            ("web", "xweb"),
            ("*", "."),
            ("*.*", "a"),
        ] {
            assert!(!matches(pattern, owner), "{pattern} {owner}");
        }
        for (text, error) in [
            ("", PatternError::Apex),
            ("@", PatternError::Apex),
            (".", PatternError::Apex),
            ("web*.svc", PatternError::PartOfLabel),
        ] {
            assert_eq!(NamePattern::parse(text), Err(error), "{text}");
        }
        assert!(matches!(NamePattern::parse("a..b"), Err(PatternError::Name(_))));
        assert_eq!(NamePattern::parse("Web.svc.*").unwrap().to_string(), "web.svc.*");
    }

    #[test]
    fn a_scope_is_what_all_drains_say() {
        let target = |names: Option<&str>| DrainTarget {
            member: Name::parse("w1.x").unwrap(),
            region: None,
            names: names.map(|names| NamePattern::parse(names).unwrap()),
        };
        let mut scope = Scope::default();
        assert!(scope.is_empty() && !scope.covers(b"\x01a"));
        scope.add(&target(Some("a")));
        scope.add(&target(Some("a")));
        assert!(scope.patterns.len() == 1 && scope.covers(b"\x01a") && !scope.covers(b"\x01b"));
        scope.add(&target(None));
        assert!(scope.covers(b"\x01b"));
    }

    #[test]
    fn the_largest_share_counts() {
        let names = |text: &str| Some(NamePattern::parse(text).unwrap());
        let mut shares = Shares::default();
        assert!(shares.is_empty() && shares.of(b"\x01a") == 0);
        shares.add(names("a"), 30);
        assert_eq!((shares.of(b"\x01a"), shares.of(b"\x01b"), shares.of(b"")), (30, 0, 0));
        shares.add(None, 20);
        shares.add(names("*"), 25);
        assert_eq!((shares.of(b"\x01a"), shares.of(b"\x01b"), shares.of(b"")), (30, 25, 20));
        assert!(!shares.is_empty());
    }
}
