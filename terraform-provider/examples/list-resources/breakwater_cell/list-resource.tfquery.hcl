# Includes the complete objects, for terraform query -json.
list "breakwater_cell" "all" {
  provider         = breakwater
  include_resource = true
}
