package printable

import (
	"strconv"
	"strings"
)

// Count formats a number of things, such as 1 pod or 2 policies.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, found := strings.CutSuffix(thing, "y"); found {
		return strconv.Itoa(n) + " " + stem + "ies"
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
