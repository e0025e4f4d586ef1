# Of 50 pods 35 must stay at 70 %; a tenth of 45 that may be missing is 5, rounded up, and leaves 40.
output "floors" {
  value = {
    min_available   = provider::breakwater::floor("70%", null, 50)
    max_unavailable = provider::breakwater::floor(null, "10%", 45)
  }
}
