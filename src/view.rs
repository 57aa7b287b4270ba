//! Everything that is shown: to operators by verbs, to browsers as pages, to programs as JSON.
//!
//! All of it reads one [`Handle`], and never asks the keeper, so that it is there while a region is merged.
//!
//! Parts: `report` the model of zones, regions and the server, `zones` the columns of its table, for text and pages alike
//! (`columns`), `remarks` what the last of them says; `facts` what is told of one zone, as text and on its page; `status` all of it as text, `page` as pages and for programs,
//! `judgement` what of it needs attention, `lookup` why a name answers as it does, `history` and `diff` earlier versions, `compare` a zone as another server has it, `leads` ways from regions to larger sets, `changes` what a reload has changed,
//! `cns` inventories as CNS tells of them, `datacenters` members by their first label,
//! `loading` first loads on the terminal, `rates`, `sizes`, `steering`, `secondaries` and `outward` what parts of the report are made of.

pub mod changes;
pub mod cns;
pub mod columns;
pub mod compare;
pub mod datacenters;
pub mod diff;
pub mod facts;
pub mod handle;
pub mod history;
pub mod judgement;
pub mod leads;
pub mod loading;
pub mod lookup;
pub mod outward;
pub mod page;
pub mod rates;
pub mod remarks;
pub mod report;
pub mod secondaries;
pub mod security;
pub mod sizes;
pub mod status;
pub mod steering;
pub mod text;
pub mod zones;

pub use handle::Handle;
