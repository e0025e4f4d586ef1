# terraform query -generate-config-out=protectors.tf writes resource and import blocks for all that it finds.
list "breakwater_pod_protector" "shop" {
  provider = breakwater

  config {
    namespace      = "shop"
    label_selector = "team=shop"
  }
}
