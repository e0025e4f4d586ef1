package quota

import "math"

// Saturate returns n clamped to 32 bits, the size of the status fields. A sum over many cells or workloads, or of numbers that a
// client chose, can exceed it.
func Saturate(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// AddSaturating returns a+b, clamped to 32 bits. A sum that wrapped around would be a floor or a count of reservations that is too low.
func AddSaturating(a, b int32) int32 { return Saturate(int(a) + int(b)) }
