# 70% of 50 pods is a floor of 35. If 10% of 45 pods may be unavailable, that is 5, rounded up, and the floor is 40.
output "floors" {
  value = {
    min_available   = provider::breakwater::floor("70%", null, 50)
    max_unavailable = provider::breakwater::floor(null, "10%", 45)
  }
}
