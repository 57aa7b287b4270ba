# N replicas of the image, each in the datacenter of its provider. README.md has the same steps by hand.
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

# A new version replaces the instance by a new one, with another address. So each replica has its own version:
# change one, apply with -target, verify it, and only then change the next (README.md, chapter 7).
variable "image_versions" {
  description = "Version of the image of each replica"
  type        = map(string)
  default = {
    ns1 = "0.1.0"
    ns2 = "0.1.0"
  }
}

# A protected instance cannot be replaced: remove the protection first.
variable "unprotected" {
  description = "Replicas that may be deleted"
  type        = set(string)
  default     = []
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

# No default: it is your own subnet, and without it nobody could log in.
variable "operators" {
  description = "Subnet that operators log in from by SSH, such as 198.51.100.0/24"
  type        = string
}

# One provider for each datacenter: a provider uses one CloudAPI.
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
  image_version = var.image_versions["ns1"]
  protected     = !contains(var.unprotected, "ns1")
  package       = var.package
  network       = var.network
  operators     = var.operators
  config        = templatefile("${path.module}/config.toml", { name = "ns1.example.com" })
  providers     = { triton = triton.us_west_1 }
}

module "us_west_2" {
  source        = "./replica"
  name          = "ns2"
  image_version = var.image_versions["ns2"]
  protected     = !contains(var.unprotected, "ns2")
  package       = var.package
  network       = var.network
  operators     = var.operators
  config        = templatefile("${path.module}/config.toml", { name = "ns2.example.com" })
  providers     = { triton = triton.us_west_2 }
}

# Addresses for allow_transfer of every CNS, and for the parent zone.
output "addresses" {
  value = {
    ns1 = module.us_west_1.address
    ns2 = module.us_west_2.address
  }
}
