//! The members and names that an order to drain means.
//!
//! Invariant: what is found is a member of a region, or drained already; of several that are as near, none is.
//!
//! Cost: O(members).

use crate::config::parse_pattern;
use crate::control::TargetText;
use crate::keeper::Snapshot;
use crate::merge::DrainTarget;
use crate::view::handle::read_zone;
use std::collections::BTreeSet;
use wire::name::{self, Name};

/// Finds what is meant among the regions, their members, and what is drained already.
pub fn resolve(target: &TargetText, view: &Snapshot) -> Result<DrainTarget, String> {
    let plans = || view.regions.values().map(|region| &region.plan);
    let region = target.region.as_deref().map(read_zone).transpose()?;
    if let (Some(text), Some(name)) = (&target.region, &region)
        && !plans().any(|plan| plan.origin == *name)
        && !view.drains.iter().any(|drain| drain.target.region == region)
    {
        return Err(format!("{text} is no region of the configuration"));
    }
    let drained = view.drains.iter().map(|drain| &drain.target.member);
    let members = plans().filter(|plan| region.as_ref().is_none_or(|only| *only == plan.origin));
    let members = members.flat_map(|plan| &plan.members).chain(drained);
    let member = find_member(&target.member, members)?;
    let origin = plans().find_map(|plan| plan.origin_named(&member)).unwrap_or(&member);
    let names = target.names.as_deref().map(|text| parse_pattern(text, Some(origin))).transpose()?;
    Ok(DrainTarget { member, region, names })
}

/// The member that a text means: its name, or its first labels where no other begins with them.
fn find_member<'n>(text: &str, members: impl Iterator<Item = &'n Name>) -> Result<Name, String> {
    let wanted = read_zone(text)?;
    let members: BTreeSet<String> = members.map(Name::to_string).collect();
    let members: Vec<Name> = members.iter().filter_map(|member| Name::parse(member).ok()).collect();
    if members.contains(&wanted) {
        return Ok(wanted);
    }
    let begins = |member: &&Name| {
        let mut labels = name::labels(member.as_wire());
        name::labels(wanted.as_wire()).all(|label| labels.next() == Some(label))
    };
    let found: Vec<&Name> = members.iter().filter(begins).collect();
    match found[..] {
        [member] => Ok(member.clone()),
        [] => Err(format!("{text} is no member of a region; members are {}", list(members.iter(), ", "))),
        _ => Err(format!("{text} may be {}; write more of the name", list(found.into_iter(), " or "))),
    }
}

/// Names in a row.
fn list<'n>(names: impl Iterator<Item = &'n Name>, between: &str) -> String {
    let names: Vec<String> = names.map(Name::to_string).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(between) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_their_first_labels() {
        let names = ["us-west-1.cns.x", "us-west-2.cns.x", "us-west-1.pub.x", "us-east-1.cns.x"];
        let names: Vec<Name> = names.iter().map(|text| Name::parse(text).unwrap()).collect();
        let find = |text: &str| find_member(text, names.iter().chain(&names)).map(|name| name.to_string());
        assert_eq!(find("us-east-1"), Ok("us-east-1.cns.x.".into()));
        assert_eq!(find("US-West-1.cns.x."), Ok("us-west-1.cns.x.".into()));
        assert_eq!(find("us-west-1.pub"), Ok("us-west-1.pub.x.".into()));
        let ambiguous = "us-west-1 may be us-west-1.cns.x. or us-west-1.pub.x.; write more of the name";
        assert_eq!(find("us-west-1"), Err(ambiguous.into()));
        assert!(
            find("us-west")
                .unwrap_err()
                .starts_with("us-west is no member of a region; members are us-east-1.cns.x., ")
        );
        assert!(find("a..b").unwrap_err().starts_with("no zone name"));
    }
}
