package live

// paint is a text style: the parameters of an SGR escape sequence.
type paint string

const (
	plainPaint paint = ""
	abovePaint paint = "34"   // blue
	belowPaint paint = "31"   // red
	floorPaint paint = "1"    // bold
	titlePaint paint = "1"    // bold
	softPaint  paint = "2"    // faint
	goodPaint  paint = "32"   // green
	badPaint   paint = "1;31" // bold red
)

func (p paint) on(text string, colours bool) string {
	if !colours || p == plainPaint {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}
