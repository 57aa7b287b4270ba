//! The names below which an account's services and instances on some networks would stand: what a user interface shows
//! before there is an instance.
//!
//! Invariant: the same zones as for an instance with these networks, each once.
//!
//! Cost: O(networks · zones).

use super::Roster;
use super::judge::known;
use crate::contribution::below;
use crate::model::{Network, Uuid};
use std::collections::HashSet;
use wire::name::Name;

/// Error: no names can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    #[error("account {0} is unknown")]
    Owner(Uuid),
    #[error("network {0} is unknown")]
    Network(Uuid),
}

impl Roster {
    /// The names below which an account's services and instances on these networks, or pools of them, would stand: with
    /// the login where that is the account's own label, else with the UUID.
    pub fn suffixes(&self, owner: Uuid, networks: &[Uuid]) -> Result<Vec<Name>, Unknown> {
        self.accounts.get(&owner).and_then(known).ok_or(Unknown::Owner(owner))?;
        let account = match self.own_login(owner) {
            Ok(Some(login)) => login,
            _ => owner.to_string().into(),
        };
        let scope = self.find_scope();
        let mut suffixes = Vec::new();
        let mut seen = HashSet::new();
        for wanted in networks {
            let (network, pool) = self.network_or_pool(*wanted)?;
            let is_named = |networks: &HashSet<Uuid>| networks.contains(&network.uuid) || networks.contains(&pool);
            let is_any = scope.iter().any(|zone| is_named(&zone.networks));
            for (zone, forward) in scope.iter().zip(&self.config.forward) {
                if !(if is_any { is_named(&zone.networks) } else { zone.has_rest }) {
                    continue;
                }
                let made = ["svc", "inst"].map(|kind| below(&forward.origin, &[kind, &account]));
                suffixes.extend(made.into_iter().flatten().filter(|name| seen.insert(name.clone())));
            }
        }
        Ok(suffixes)
    }

    /// The login of an account; none if it is unknown.
    pub fn login(&self, account: Uuid) -> Option<&str> {
        self.accounts.get(&account).and_then(known).map(|account| &*account.login)
    }

    /// A network with its own UUID, or the first network of a pool with that of the pool.
    fn network_or_pool(&self, wanted: Uuid) -> Result<(&Network, Uuid), Unknown> {
        let unknown = Unknown::Network(wanted);
        let network = |uuid: &Uuid| self.networks.get(uuid).and_then(known);
        if let Some(network) = network(&wanted) {
            return Ok((network, wanted));
        }
        let pool = self.pools.get(&wanted).and_then(known).ok_or(unknown)?;
        pool.networks.first().and_then(network).map(|network| (network, wanted)).ok_or(unknown)
    }
}
