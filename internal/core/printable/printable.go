// Package printable makes text safe to display. Text from a cluster can contain anything: clients choose usernames, and reasons and
// messages of events. Terminal escape sequences, bidirectional overrides, invisible characters and line breaks in it could hide or
// forge what a user reads. They are shown as escapes: \u001b, \u202e, \xff.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsShown reports whether a character can be shown unchanged: it has a glyph or is a plain space, and does not control the terminal,
// the text direction or lines.
func IsShown(r rune) bool {
	// unicode.IsPrint excludes the categories C (controls, formats such as U+202E and U+200B, surrogates, private use, unassigned) and
	// Z except U+0020.
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Line returns a text on one line: white space of any kind becomes a space, and every other character that cannot be shown becomes an
// escape.
func Line(s string) string {
	return escape(s, func(r rune) (string, bool) {
		if unicode.IsSpace(r) {
			return " ", true
		}
		return "", false
	})
}

// Text is like Line, but keeps line feeds and tabs.
func Text(s string) string {
	return escape(s, func(r rune) (string, bool) {
		switch {
		case r == '\n', r == '\t':
			return string(r), true
		case unicode.IsSpace(r):
			return " ", true
		}
		return "", false
	})
}

// escape returns s with each character that cannot be shown replaced by the result of other, or else by an escape.
func escape(s string, other func(rune) (string, bool)) string {
	var b *strings.Builder
	for i := 0; i < len(s); {
		r, width := utf8.DecodeRuneInString(s[i:])
		invalid := r == utf8.RuneError && width == 1
		switch {
		case !invalid && IsShown(r):
			if b != nil {
				b.WriteString(s[i : i+width])
			}
		default:
			if b == nil {
				b = &strings.Builder{}
				b.WriteString(s[:i])
			}
			b.WriteString(escaped(r, s[i], invalid, other))
		}
		i += width
	}
	if b == nil {
		return s
	}
	return b.String()
}

func escaped(r rune, first byte, invalid bool, other func(rune) (string, bool)) string {
	if invalid {
		return fmt.Sprintf(`\x%02x`, first)
	}
	if text, ok := other(r); ok {
		return text
	}
	return codePoint(r)
}
