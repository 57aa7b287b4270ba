//! Keys of documents, and those of Triton's objects that no zone depends on.
//!
//! Cost: none.

/// What a document says of itself.
pub const HEAD: [&str; 3] = ["format", "serial", "count"];

/// Arrays of a document.
pub const ARRAYS: [&str; 6] = ["vms", "accounts", "networks", "network_pools", "nics", "servers"];

/// Keys of the objects of one kind.
pub struct Keys {
    /// Name of the objects in messages.
    pub noun: &'static str,
    pub known: &'static [&'static str],
    /// Words that people write for keys which they do not resemble.
    pub meant: &'static [(&'static str, &'static str)],
    /// Keys of the same objects in Triton's answers that resemble one of those, and mean something else.
    pub ignored: &'static [&'static str],
}

pub const VM: Keys = Keys {
    noun: "vms",
    known: &[
        "uuid",
        "alias",
        "owner_uuid",
        "server_uuid",
        "state",
        "destroyed",
        "create_timestamp",
        "tags",
        "customer_metadata",
        "nics",
        "owner",
        "services",
        "status",
        "acme",
        "addresses",
    ],
    meant: &[("name", "alias"), ("hostname", "alias"), ("login", "owner"), ("account", "owner"), ("ips", "addresses")],
    ignored: &["zone_state", "image_uuid", "disks", "type", "brand", "role_tags", "uid", "init_name"],
};

pub const INTERFACE: Keys = Keys {
    noun: "nics of vms",
    known: &["mac", "nic_tag", "vlan_id", "network_uuid", "ip", "ips"],
    meant: &[],
    ignored: &["mtu", "model", "network", "resolvers", "vnic_tag"],
};

pub const ACCOUNT: Keys = Keys {
    noun: "accounts",
    known: &["uuid", "login", "triton_cns_enabled", "approved_for_provisioning"],
    meant: &[],
    ignored: &["userid", "registered_developer"],
};

pub const NETWORK: Keys = Keys {
    noun: "networks",
    known: &["uuid", "name", "owner_uuids", "nic_tag", "vlan_id"],
    meant: &[],
    ignored: &["owner_uuid", "vnet_id", "vnic_id", "fabric", "mtu", "subnet"],
};

pub const POOL: Keys = Keys {
    noun: "network_pools",
    known: &["uuid", "networks", "name", "owner_uuids", "nic_tag"],
    meant: &[],
    ignored: &["nic_tags", "nic_tags_present", "networks_type", "owner_uuid"],
};

pub const NIC: Keys = Keys {
    noun: "nics",
    known: &["mac", "belongs_to_uuid", "network_uuid", "ip", "ips", "nic_tag", "vlan_id"],
    meant: &[],
    ignored: &["mtu", "belongs_to_type", "owner_uuid", "cn_uuid", "state", "model", "nic_tags_provided"],
};

pub const SERVER: Keys = Keys {
    noun: "servers",
    known: &["uuid", "hostname", "setup", "status", "last_boot", "last_heartbeat", "sysinfo"],
    meant: &[],
    ignored: &["setting_up", "created", "traits", "datacenter", "host", "boot_params", "setup_state"],
};
