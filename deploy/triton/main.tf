# N replicas of the image, each in the datacenter that its provider talks to. README.md has the same by hand.
#
#     terraform init && terraform apply
#
# Credentials come from the environment (TRITON_ACCOUNT, TRITON_KEY_ID, an SSH agent), as for the triton command.

terraform {
  required_providers {
    triton = {
      source = "TritonDataCenter/triton"
    }
  }
}

variable "image_version" {
  description = "Version of the image; another one replaces the replicas, one datacenter after the other (see README.md)"
  type        = string
  default     = "0.1.0"
}

variable "package" {
  description = "Size of a replica; docs/performance.md tells what is needed"
  type        = string
  default     = "g1.small"
}

variable "network" {
  description = "Network that clients and every CNS can reach"
  type        = string
  default     = "MyPublic"
}

# One provider for each datacenter: a provider talks to one CloudAPI.
provider "triton" {
  alias = "us_west_1"
  url   = "https://us-west-1.api.example.com"
}

provider "triton" {
  alias = "us_west_2"
  url   = "https://us-west-2.api.example.com"
}

module "us_west_1" {
  source        = "./replica"
  name          = "ns1"
  image_version = var.image_version
  package       = var.package
  network       = var.network
  config        = templatefile("${path.module}/config.toml", { name = "ns1.example.com" })
  providers     = { triton = triton.us_west_1 }
}

module "us_west_2" {
  source        = "./replica"
  name          = "ns2"
  image_version = var.image_version
  package       = var.package
  network       = var.network
  config        = templatefile("${path.module}/config.toml", { name = "ns2.example.com" })
  providers     = { triton = triton.us_west_2 }
}

# What goes into allow_transfer of every CNS, and into the parent zone.
output "addresses" {
  value = {
    ns1 = module.us_west_1.address
    ns2 = module.us_west_2.address
  }
}
