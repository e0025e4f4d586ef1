package plot

// Bar is a protector's budget as a bar of 100 units: pods that stay, pods whose removal is under way, and the position of the floor.
type Bar struct {
	Stay, Reserved, Floor float64
	FloorKnown            bool
}

// NewBar computes a bar. The whole bar is the largest of the expected pods, the available pods and the floor.
func NewBar(available, reserved, floor int, floorKnown bool, expected *int) Bar {
	whole := max(available, floor, 1)
	if expected != nil {
		whole = max(whole, *expected)
	}
	unit := 100 / float64(whole)
	reserved = min(max(reserved, 0), max(available, 0))
	return Bar{
		Stay: round(float64(max(available, 0)-reserved) * unit), Reserved: round(float64(reserved) * unit), Floor: round(float64(floor) * unit),
		FloorKnown: floorKnown,
	}
}
