package measure

// UpTo gives the steps below the most, and the most.
func UpTo(most int, steps ...int) []int {
	var all []int
	for _, step := range steps {
		if step < most {
			all = append(all, step)
		}
	}
	return append(all, most)
}
