package printable

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Writer makes printable what is written to To, as Text does. Each Write should have whole characters: a part of one is escaped.
type Writer struct {
	To io.Writer
	// Keep are sequences that pass as they are, such as the colors that a program has itself.
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

// next returns where in s the first sequence begins that is kept; that is at the end, and empty, if there is none.
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

// Unwrap returns what a Writer writes to, through all of them; to itself if it is none.
func Unwrap(to io.Writer) io.Writer {
	for {
		w, ok := to.(Writer)
		if !ok {
			return to
		}
		to = w.To
	}
}
