//! What operators and programs are shown of an inventory's accounts, services and instances: the first of each, made when
//! it is asked for.
//!
//! Invariant: nothing here is kept. Texts are those of the inventory, which nobody vouches for: whoever shows them
//! escapes them.
//!
//! Cost: as the roster's survey.

use super::book::{Instance, seconds};
use super::depot::Slot;
use inventory::roster;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// The first accounts, services and instances of an inventory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Survey {
    pub inventory: String,
    /// Number of accounts with the part in their UUID or login.
    pub accounts_found: u64,
    /// The first of them, those with the most instances first.
    pub accounts: Vec<SurveyedAccount>,
    /// Number of services with the part in their name or in that of their account.
    pub services_found: u64,
    /// The first of them, those with held members first, then those with members out of service.
    pub services: Vec<SurveyedService>,
    /// Number of undecided and held instances, or of all with the part in their own name or in that of their account or a
    /// service.
    pub instances_found: u64,
    /// The first of them: undecided and held ones, for longest first, before others.
    pub instances: Vec<SurveyedInstance>,
}

/// An account with the numbers of its instances.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SurveyedAccount {
    pub uuid: String,
    /// None where the account is not known.
    pub login: Option<String>,
    /// True if it is approved and wants names.
    pub enabled: bool,
    pub instances: u64,
    /// Instances that have names.
    pub listed: u64,
    pub in_service: u64,
    /// Instances that are held in a service although they report themselves down.
    pub held: u64,
    pub undecided: u64,
}

/// A service with the numbers of its members.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SurveyedService {
    pub service: String,
    /// UUID of its account.
    pub account: String,
    pub login: Option<String>,
    /// Members in service, without those that are held.
    pub in_service: u64,
    /// Members that report themselves down and stay for a while.
    pub held: u64,
    pub out: u64,
}

/// An instance of an account.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SurveyedInstance {
    #[serde(flatten)]
    pub instance: Instance,
    /// UUID of its account.
    pub account: Option<String>,
    pub login: Option<String>,
    /// Time since which it is undecided, Unix time.
    pub undecided_since: Option<i64>,
}

/// Surveys an inventory, whatever becomes of the task that follows it.
pub struct Surveyor {
    inventory: String,
    slot: Arc<Slot>,
}

impl Surveyor {
    /// Surveys what is in a slot.
    pub fn new(inventory: String, slot: Arc<Slot>) -> Surveyor {
        Surveyor { inventory, slot }
    }

    /// The accounts, services and instances with a part in their names, no more than `limit` of each; none before anything
    /// is known. Waits for the task while that looks into the book.
    pub fn survey(self, part: &str, limit: usize) -> Option<Survey> {
        let found = self.slot.book().as_ref().map(|book| book.survey(part, limit))?;
        Some(Survey::new(self.inventory, found))
    }
}

impl Survey {
    /// Tells of what was found in the inventory of a name.
    fn new(inventory: String, found: roster::Survey) -> Survey {
        let roster::Survey { accounts, services, instances } = found;
        Survey {
            inventory,
            accounts_found: accounts.found as u64,
            accounts: accounts.first.into_iter().map(SurveyedAccount::from).collect(),
            services_found: services.found as u64,
            services: services.first.into_iter().map(SurveyedService::from).collect(),
            instances_found: instances.found as u64,
            instances: instances.first.into_iter().map(SurveyedInstance::from).collect(),
        }
    }
}

impl From<roster::AccountCounts> for SurveyedAccount {
    fn from(found: roster::AccountCounts) -> SurveyedAccount {
        SurveyedAccount {
            uuid: found.uuid.to_string(),
            login: found.login.map(String::from),
            enabled: found.is_enabled,
            instances: found.instances as u64,
            listed: found.listed as u64,
            in_service: found.in_service as u64,
            held: found.held as u64,
            undecided: found.undecided as u64,
        }
    }
}

impl From<roster::ServiceCounts> for SurveyedService {
    fn from(found: roster::ServiceCounts) -> SurveyedService {
        SurveyedService {
            service: found.service.into(),
            account: found.account.to_string(),
            login: found.login.map(String::from),
            in_service: found.in_service as u64,
            held: found.held as u64,
            out: found.out as u64,
        }
    }
}

impl From<roster::Explanation> for SurveyedInstance {
    fn from(found: roster::Explanation) -> SurveyedInstance {
        SurveyedInstance {
            account: found.owner.map(|owner| owner.to_string()),
            login: found.login.clone().map(String::from),
            undecided_since: found.undecided.map(|(_, since)| seconds(since)),
            instance: Instance::from(found),
        }
    }
}
