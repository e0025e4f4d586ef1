# All floors in one place. Clusters and policies are values of the charts, which GitOps applies.
variable "floors" {
  type    = map(string)
  default = { web = "40", search = "70%" }
}

resource "breakwater_pod_protector" "shop" {
  for_each      = var.floors
  namespace     = "shop"
  name          = each.key
  selector      = { match_labels = { app = each.key } }
  min_available = each.value
}
