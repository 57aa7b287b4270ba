# One replica in one datacenter.

terraform {
  required_providers {
    triton = {
      source = "TritonDataCenter/triton"
    }
  }
}

variable "name" { type = string }
variable "image_version" { type = string }
variable "package" { type = string }
variable "network" { type = string }
variable "config" { type = string }
variable "protected" { type = bool }
variable "operators" { type = string }

data "triton_image" "aggregator" {
  name    = "cns-region-aggregator"
  version = var.image_version
}

data "triton_network" "public" {
  name = var.network
}

resource "triton_machine" "replica" {
  name                        = "cnsagg-${var.name}"
  image                       = data.triton_image.aggregator.id
  package                     = var.package
  networks                    = [data.triton_network.public.id]
  firewall_enabled            = true
  deletion_protection_enabled = var.protected

  # Another server than the other replicas of this datacenter, if there are any.
  affinity = ["role!=~cns-aggregator"]

  tags = {
    role = "cns-aggregator"
  }

  metadata = {
    "aggregator-config" = var.config
  }
}

resource "triton_firewall_rule" "dns_udp" {
  description = "DNS to region aggregators"
  rule        = "FROM any TO tag \"role\" = \"cns-aggregator\" ALLOW udp PORT 53"
  enabled     = true
}

resource "triton_firewall_rule" "dns_tcp" {
  description = "DNS to region aggregators"
  rule        = "FROM any TO tag \"role\" = \"cns-aggregator\" ALLOW tcp PORT 53"
  enabled     = true
}

# Orders to a replica are given by SSH: without this rule nobody gets in.
resource "triton_firewall_rule" "ssh" {
  description = "SSH to region aggregators, for operators"
  rule        = "FROM subnet ${var.operators} TO tag \"role\" = \"cns-aggregator\" ALLOW tcp PORT 22"
  enabled     = true
}

output "address" {
  value = triton_machine.replica.primaryip
}
