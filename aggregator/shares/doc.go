// Package shares keeps the share of a protector's floor that a cell decides by itself, in the cluster of the cell. It takes the
// steps of package floorshare (keeper.go), finds the share of a protector (find.go), and reports whether shares can move (monitor.go).
package shares
