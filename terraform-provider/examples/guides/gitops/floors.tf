# All floors in one place. Cells are values of the chart, and policies are in Git: GitOps applies both.
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
