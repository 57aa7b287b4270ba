//! A zone of what several zones hold together, in front of an origin of its own.
//!
//! Where nothing that the zones have needs a look, most of it is taken as it stands: shards, or nodes that are pointed
//! to. What the caller has to say is only what stands for the names that several of them have.
//!
//! Cost: O(names); O(octets) for names that several have.

use super::table::Union;
use super::{Editor, Node, RRsets, Zone};
use wire::name::Name;

impl Zone {
    /// Begins a version with what zones hold, none of which [has odd nodes](Zone::has_odd_nodes): `unite` says what
    /// stands for an owner that several have, the apex among them. Returns also what it says beside that.
    pub fn unite<T: Send + Sync>(
        origin: Name,
        zones: &[&Zone],
        unite: impl Fn(&[u8], &[Node<'_>]) -> (RRsets, T) + Sync,
    ) -> (Editor, Vec<T>) {
        let tables: Vec<_> = zones.iter().map(|zone| &zone.table).collect();
        let union = Union::new(&tables);
        let united = union.unite(unite);
        let all = zones.iter().map(|zone| zone.counts()).reduce(|all, zone| all.change(&zone, &Default::default()));
        let counts = all.unwrap_or_default().change(&united.after, &united.before);
        let table = union.finish(&united);
        (Editor::with_table(origin, table, counts), united.notes)
    }
}
