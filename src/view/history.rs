//! Versions of zones and changes of one name, for `aggregator history` and the status page.
//!
//! Everything comes out of the history that differences to secondaries come from, so it reaches as far as that. A
//! version has the time at which it was published here, or for a source zone that at which its source had it; both
//! outlive a restart with the steps on disk.
//!
//! Cost: O(changes of the versions that are listed), for a name O(octets of the history).

use super::diff::RecordDiff;
use super::text::{describe_version, moment, or_dash, write_table};
use crate::control::Reply;
use crate::metrics::unix_seconds;
use crate::publish::{Published, Served};
use crate::zone::{Block, Cause, HistoryStep};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::fmt::Write;
use std::sync::Arc;
use wire::name::Name;
use wire::serial::Serial;

/// Versions or changes that are listed unless an operator wants more.
const LISTED: usize = 20;
/// Largest number of causes of one version that are described.
const TOLD_CAUSES: usize = 4;

/// Version, with its difference from the one before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Version {
    pub serial: Serial,
    /// The serial of the version before it.
    pub from: Serial,
    /// Time at which it came; none where nobody noted it.
    pub at: Option<i64>,
    /// Names whose records differ.
    pub names: usize,
    pub removed: u32,
    pub added: u32,
    pub causes: Vec<Cause>,
    /// The causes in words.
    pub cause: String,
}

impl Version {
    /// Tells of a step.
    fn new(step: &HistoryStep) -> Version {
        let HistoryStep { delta, at, causes } = step;
        Version {
            serial: delta.to_serial(),
            from: delta.from_serial(),
            at: at.map(unix_seconds),
            names: delta.touched().count(),
            removed: delta.removed.records(),
            added: delta.added.records(),
            causes: causes.to_vec(),
            cause: describe_causes(causes),
        }
    }

    /// The columns of a table.
    fn cells(&self) -> [String; 6] {
        let counts = [self.names.to_string(), self.removed.to_string(), self.added.to_string()];
        let [names, removed, added] = counts;
        [self.serial.to_string(), moment(self.at), names, removed, added, self.cause.clone()]
    }
}

/// A zone's versions.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "History")]
pub struct Versions {
    pub zone: Name,
    /// The version that is served.
    pub serial: Option<Serial>,
    /// The newest first.
    pub versions: Vec<Version>,
    /// Versions that the history has beside these.
    pub more: usize,
    /// The oldest version that can be compared with.
    pub oldest: Option<Serial>,
    /// Time at which that came.
    pub oldest_at: Option<i64>,
}

/// Lists the newest versions of a zone, so many at most.
pub fn list_versions(served: &Served, limit: usize) -> Versions {
    let serial = served.zone.as_ref().map(|zone| zone.soa.serial);
    Versions {
        zone: served.origin.clone(),
        serial,
        versions: served.history.steps().rev().take(limit).map(Version::new).collect(),
        more: served.history.len().saturating_sub(limit),
        oldest: served.history.iter().next().map(|delta| delta.from_serial()).or(serial),
        oldest_at: served.history.begun().map(unix_seconds),
    }
}

impl Versions {
    /// Describes the versions as a table.
    fn describe(&self) -> String {
        let mut text = String::new();
        _ = writeln!(text, "{} serial {}", self.zone, or_dash(self.serial));
        if !self.versions.is_empty() {
            let mut rows = vec![["SERIAL", "WHEN", "NAMES", "REMOVED", "ADDED", "CAUSE"].map(str::to_owned)];
            rows.extend(self.versions.iter().map(Version::cells));
            write_table(&mut text, &rows);
        }
        if self.more > 0 {
            _ = writeln!(text, "{} older ones; --limit shows more", self.more);
        }
        if let Some(oldest) = self.oldest {
            _ = writeln!(text, "the history begins with {}", describe_version(oldest, self.oldest_at));
        }
        text
    }
}

//--- One name ---

/// Changes of a name that came with one version.
#[derive(Serialize)]
struct NameChange {
    serial: Serial,
    /// Unix time.
    at: Option<i64>,
    causes: Vec<Cause>,
    cause: String,
    removed: Vec<RecordDiff>,
    added: Vec<RecordDiff>,
}

/// Changes of a name, in all versions that the history reaches.
#[derive(Serialize)]
struct NameHistory {
    name: Name,
    zone: Name,
    /// The newest first.
    changes: Vec<NameChange>,
    /// Further versions that changed the name.
    more: usize,
    oldest: Option<Serial>,
    /// Unix time.
    oldest_at: Option<i64>,
}

/// Lists the newest changes of a name, so many at most.
fn list_changes(served: &Served, name: &Name, limit: usize) -> NameHistory {
    let at_name = |sign: char, block: &Block| -> Vec<RecordDiff> {
        let block = block.open();
        let records = block.iter().filter(|record| record.owner.eq_ignore_ascii_case(name.as_wire()));
        records.filter_map(|record| RecordDiff::new(sign, &record)).collect()
    };
    let change = |step: &HistoryStep| NameChange {
        serial: step.delta.to_serial(),
        at: step.at.map(unix_seconds),
        causes: step.causes.to_vec(),
        cause: describe_causes(&step.causes),
        removed: at_name('-', &step.delta.removed),
        added: at_name('+', &step.delta.added),
    };
    let steps = served.history.steps().rev().map(change);
    let mut changes: Vec<NameChange> =
        steps.filter(|change| !change.removed.is_empty() || !change.added.is_empty()).collect();
    let more = changes.len().saturating_sub(limit);
    changes.truncate(limit);
    let Versions { oldest, oldest_at, .. } = list_versions(served, 0);
    NameHistory { name: name.clone(), zone: served.origin.clone(), changes, more, oldest, oldest_at }
}

impl NameHistory {
    /// Describes the changes in words, with the records as lines of zone files.
    fn describe(&self) -> String {
        let mut text = format!("{} in {}\n", self.name, self.zone);
        for change in &self.changes {
            _ = writeln!(text, "version {} {} {}", change.serial, moment(change.at), change.cause);
            for record in change.removed.iter().chain(&change.added) {
                _ = writeln!(text, "{}{}", record.sign, record.line());
            }
        }
        if self.more > 0 {
            _ = writeln!(text, "{} older changes; --limit shows more", self.more);
        }
        if let Some(oldest) = self.oldest {
            let none = if self.changes.is_empty() { "no change" } else { "nothing else" };
            let oldest = describe_version(oldest, self.oldest_at);
            _ = writeln!(text, "{none} since {oldest}, with which the history begins");
        }
        text
    }
}

//--- Verb ---

/// Lists versions of all zones or of one, or the changes of a name.
pub fn tell(
    published: &Published,
    name: Option<&str>,
    zone: Option<&str>,
    limit: Option<usize>,
) -> Result<Reply, String> {
    let limit = limit.unwrap_or(LISTED);
    let parse = |text: &str| Name::parse(text).map_err(|error| format!("no domain name: {error}"));
    let (name, zone) = (name.map(parse).transpose()?, zone.map(parse).transpose()?);
    let find = |zone: &Name| published.get(zone).ok_or_else(|| format!("zone {zone} is not configured"));
    match (name, zone) {
        (None, None) => Ok(tell_all(published, limit)),
        (Some(name), Some(zone)) => {
            let served = find(&zone)?;
            if !name.is_within(&zone) {
                return Err(format!("{name} is not within {zone}"));
            }
            Ok(tell_name(served, &name, limit))
        }
        (None, Some(zone)) => Ok(tell_zone(find(&zone)?, limit)),
        (Some(name), None) => match (published.get(&name), published.find(name.as_wire())) {
            (Some(served), _) => Ok(tell_zone(served, limit)),
            (None, Some(served)) => Ok(tell_name(served, &name, limit)),
            (None, None) => Err(format!("no zone here holds {name}")),
        },
    }
}

/// The versions of a zone.
fn tell_zone(served: &Served, limit: usize) -> Reply {
    let versions = list_versions(served, limit);
    Reply { ok: true, text: versions.describe(), data: serde_json::json!(versions) }
}

/// The changes of a name.
fn tell_name(served: &Served, name: &Name, limit: usize) -> Reply {
    let changes = list_changes(served, name, limit);
    Reply { ok: true, text: changes.describe(), data: serde_json::json!(changes) }
}

/// The newest versions of all zones.
fn tell_all(published: &Published, limit: usize) -> Reply {
    let of_zone = |served: &Arc<Served>| -> Vec<(Name, HistoryStep)> {
        let steps = served.history.steps().rev().take(limit);
        steps.map(|step| (served.origin.clone(), step.clone())).collect()
    };
    let mut steps: Vec<(Name, HistoryStep)> = published.iter().flat_map(of_zone).collect();
    steps.sort_by(|(a, one), (b, other)| Reverse(one.at).cmp(&Reverse(other.at)).then_with(|| a.canonical_cmp(b)));
    let all = published.iter().map(|served| served.history.len()).sum::<usize>();
    let versions: Vec<(Name, Version)> =
        steps.into_iter().take(limit).map(|(zone, step)| (zone, Version::new(&step))).collect();
    let mut text = String::new();
    let mut rows = vec![["ZONE", "SERIAL", "WHEN", "NAMES", "REMOVED", "ADDED", "CAUSE"].map(str::to_owned)];
    for (zone, version) in &versions {
        let [serial, when, names, removed, added, cause] = version.cells();
        rows.push([zone.to_string(), serial, when, names, removed, added, cause]);
    }
    write_table(&mut text, &rows);
    let more = all - versions.len();
    if more > 0 {
        _ = writeln!(text, "{more} older ones; --limit shows more");
    }
    let describe = |(zone, version): &(Name, Version)| {
        let mut data = serde_json::json!(version);
        data["zone"] = serde_json::json!(zone);
        data
    };
    let versions: Vec<serde_json::Value> = versions.iter().map(describe).collect();
    Reply { ok: true, text, data: serde_json::json!({ "versions": versions, "more": more }) }
}

//--- Words ---

/// Describes the causes of a version.
fn describe_causes(causes: &[Cause]) -> String {
    let mut words: Vec<String> = causes.iter().take(TOLD_CAUSES).map(describe_cause).collect();
    if let Some(more) = causes.len().checked_sub(TOLD_CAUSES).filter(|more| *more > 0) {
        words.push(format!("{more} more"));
    }
    words.join(", ")
}

/// Describes one cause.
fn describe_cause(cause: &Cause) -> String {
    match cause {
        Cause::Source => "source".to_owned(),
        Cause::Member { zone, serial: Some(serial) } => format!("{zone} {serial}"),
        Cause::Member { zone, serial: None } => format!("{zone} gone"),
        Cause::Configuration => "configuration".to_owned(),
        Cause::Drain => "drain".to_owned(),
        Cause::Damping => "damping".to_owned(),
        Cause::Rollback { to } => format!("rollback to {to}"),
        Cause::Release => "release".to_owned(),
        Cause::Serial => "serial".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::{Identity, State};
    use crate::zone::tests::zone;
    use crate::zone::{Delta, HistoryLimits};
    use std::time::{Duration, UNIX_EPOCH};

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    /// A zone with two versions after the first, at second 100 and 200.
    fn served(origin: &str, offset: u64) -> Arc<Served> {
        let texts = [
            "@ 30 SOA 1\na 30 A 192.0.2.1",
            "@ 30 SOA 2\nA 30 A 192.0.2.1\nA 30 A 192.0.2.2\nb 30 A 192.0.2.3",
            "@ 30 SOA 3\nb 60 A 192.0.2.3",
        ];
        let versions = texts.map(|text| zone(&format!("{origin}."), text));
        let mut served = Served::new(name(origin), State::Ok, Some(Arc::new(versions[2].clone())));
        served.history.begin(UNIX_EPOCH);
        for (index, pair) in versions.windows(2).enumerate() {
            let names = ["a", "b"].map(|label| name(&format!("{label}.{origin}")));
            let delta = Arc::new(Delta::between(&pair[0], &pair[1], names));
            let at = UNIX_EPOCH + Duration::from_secs(offset + 100 * (index as u64 + 1));
            let causes = [Cause::Member { zone: name("w1"), serial: Some(Serial(7)) }, Cause::Drain];
            served.history.push(HistoryStep::new(delta, at, causes), &HistoryLimits::default());
        }
        Arc::new(served)
    }

    fn told(name: Option<&str>, zone: Option<&str>, limit: usize) -> String {
        let published = Published::new(Identity::default(), [served("r", 0), served("z", 50)], 1);
        tell(&published, name, zone, Some(limit)).map_or_else(|error| error, |reply| reply.text)
    }

    #[test]
    fn versions_are_told_with_time_and_cause() {
        let expected = "\
r. serial 3
SERIAL  WHEN                  NAMES  REMOVED  ADDED  CAUSE
3       1970-01-01T00:03:20Z  2      3        1      w1. 7, drain
2       1970-01-01T00:01:40Z  2      1        3      w1. 7, drain
the history begins with version 1 of 1970-01-01T00:00:00Z
";
        assert_eq!(told(Some("r"), None, 5), expected);
        assert_eq!(told(None, Some("r"), 5), expected);
        let limited = told(Some("r"), None, 1);
        assert!(limited.lines().count() == 5 && limited.contains("\n1 older ones; --limit shows more\n"), "{limited}");
        let expected = "\
ZONE  SERIAL  WHEN                  NAMES  REMOVED  ADDED  CAUSE
z.    3       1970-01-01T00:04:10Z  2      3        1      w1. 7, drain
r.    3       1970-01-01T00:03:20Z  2      3        1      w1. 7, drain
z.    2       1970-01-01T00:02:30Z  2      1        3      w1. 7, drain
1 older ones; --limit shows more
";
        assert_eq!(told(None, None, 3), expected);
    }

    #[test]
    fn the_changes_of_a_name_are_told() {
        let expected = "\
b.r. in r.
version 3 1970-01-01T00:03:20Z w1. 7, drain
-b.r. 30 IN A 192.0.2.3
+b.r. 60 IN A 192.0.2.3
version 2 1970-01-01T00:01:40Z w1. 7, drain
+b.r. 30 IN A 192.0.2.3
nothing else since version 1 of 1970-01-01T00:00:00Z, with which the history begins
";
        assert_eq!(told(Some("B.r"), None, 5), expected);
        assert!(told(Some("a.r"), Some("r"), 1).contains("\n1 older changes; --limit shows more\n"));
        let nothing = "c.r. in r.\nno change since version 1 of 1970-01-01T00:00:00Z, with which the history begins\n";
        assert_eq!(told(Some("c.r"), None, 5), nothing);
        assert_eq!(told(Some("a.y"), None, 5), "no zone here holds a.y.");
        assert_eq!(told(Some("a.y"), Some("r"), 5), "a.y. is not within r.");
        assert_eq!(told(None, Some("y"), 5), "zone y. is not configured");
    }

    #[test]
    fn many_causes_are_cut_short() {
        let causes = vec![Cause::Configuration; 6];
        assert_eq!(describe_causes(&causes), "configuration, configuration, configuration, configuration, 2 more");
    }
}
