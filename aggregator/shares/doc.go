// Package shares keeps the share of a protector's floor that a cell decides by itself, in the cluster of the cell. It takes the
// steps of package floorshare (keeper.go, record.go, writes.go), finds the share of a protector (find.go), watches shares (watch.go), copies the Cell by
// which they are counted (copied_cell.go), and reports whether shares can move (monitor.go, state.go).
package shares
