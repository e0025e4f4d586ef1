package measure

// UpTo returns the steps below most, and most.
func UpTo(most int, steps ...int) []int {
	var all []int
	for _, step := range steps {
		if step < most {
			all = append(all, step)
		}
	}
	return append(all, most)
}
