//! The images, run and asked: `make test-image` builds them and comes here. Everything in here is ignored otherwise, because
//! it needs root, the images, and minutes.
//!
//! Each image transfers three datacenters from an NSD outside, answers for a region from outside, follows a change, and
//! keeps its zones over a power cut, although primaries and host are away then.

#[path = "image/container.rs"]
mod container;
#[path = "image/disk.rs"]
mod disk;
#[path = "harness/mod.rs"]
mod harness;
#[path = "image/machine.rs"]
mod machine;
#[path = "image/package.rs"]
mod package;
#[path = "image/restart.rs"]
mod restart;
#[path = "image/site.rs"]
mod site;
