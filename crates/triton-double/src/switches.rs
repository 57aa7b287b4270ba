//! The faults that the services can be told to have.
//!
//! Cost: O(1).

use crate::datacenter::Datacenter;
use std::time::Duration;

/// The services: three that speak HTTP, and a directory that speaks LDAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Vmapi,
    Cnapi,
    Napi,
    Ufds,
}

impl Service {
    pub(crate) const ALL: [Service; 4] = [Service::Vmapi, Service::Cnapi, Service::Napi, Service::Ufds];

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// Change of the inventory that waits for its moment.
type Change = Box<dyn FnOnce(&mut Datacenter) + Send>;

/// Faults of all services.
#[derive(Default)]
pub struct Switches {
    services: [ServiceSwitches; 4],
    pub most_on_page: Option<usize>,
    pub fails_further_pages: bool,
    pub between_pages: Option<Change>,
    pub items_to_drop: u32,
    pub repeats_items: bool,
}

/// Faults of one service.
#[derive(Default)]
pub struct ServiceSwitches {
    pub is_silent: bool,
    pub refuses: bool,
    pub failures: u32,
    pub failing_path: Option<String>,
    pub delay: Duration,
}

impl Switches {
    pub fn of(&mut self, service: Service) -> &mut ServiceSwitches {
        &mut self.services[service.index()]
    }

    /// The most instances that the page of a request has, and those of the next one: they shrink down to one.
    pub fn size_of_page(&mut self, wanted: usize) -> usize {
        let Some(most) = &mut self.most_on_page else { return wanted };
        let size = wanted.min(*most);
        *most = (*most - 1).max(1);
        size
    }
}

impl ServiceSwitches {
    /// Says whether a request is to fail, and counts it.
    pub fn fails(&mut self, path: &str) -> bool {
        let counted = self.failures > 0;
        self.failures -= u32::from(counted);
        counted || self.failing_path.as_ref().is_some_and(|failing| path.starts_with(failing.as_str()))
    }
}
