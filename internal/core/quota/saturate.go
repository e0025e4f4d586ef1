package quota

import "math"

// Saturate returns n as the fields of a status hold it: the nearest number of 32 bits. A sum over many cells or workloads, or of numbers
// that a client chose, can be greater.
func Saturate(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// Add returns a+b, or the nearest number of 32 bits. A sum that wrapped around would be a floor or a count of reservations that is too low.
func Add(a, b int32) int32 { return Saturate(int(a) + int(b)) }
