package printable

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Writer writes to To and makes the text printable, as Text does. Each Write should contain whole characters: a part of one is
// escaped.
type Writer struct {
	To io.Writer
	// Keep are sequences that Writer does not escape, such as the program's own colors.
	Keep []string
}

// Write implements io.Writer.
func (w Writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.To, w.text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w Writer) text(s string) string {
	var b strings.Builder
	for s != "" {
		at, sequence := w.next(s)
		b.WriteString(Text(s[:at]))
		b.WriteString(sequence)
		s = s[at+len(sequence):]
	}
	return b.String()
}

// next returns the position and the text of the first sequence in s to keep. If there is none, it returns len(s) and "".
func (w Writer) next(s string) (at int, sequence string) {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf || IsShown(rune(s[i])) {
			continue
		}
		for _, keep := range w.Keep {
			if strings.HasPrefix(s[i:], keep) {
				return i, keep
			}
		}
	}
	return len(s), ""
}

// Unwrap returns the destination of a Writer, through all nested ones. It returns to itself if that is not a Writer.
func Unwrap(to io.Writer) io.Writer {
	for {
		w, ok := to.(Writer)
		if !ok {
			return to
		}
		to = w.To
	}
}
