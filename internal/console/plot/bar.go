package plot

// Bar is a protector's budget in 100 units: pods that stay, pods of which removals are under way, and where the floor is.
type Bar struct {
	Stay, Reserved, Floor float64
	FloorKnown            bool
}

// NewBar shares the bar out. Its whole is what is expected, or more where there is more.
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
