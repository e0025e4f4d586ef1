package printable

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func TestLineAndText(t *testing.T) {
	for claim, c := range map[string]struct{ in, line, text string }{
		"printable text is unchanged":          {"ann@example.org: 70% of 9 ≥ 7 … żółć 東京 é 🚀", "ann@example.org: 70% of 9 ≥ 7 … żółć 東京 é 🚀", "ann@example.org: 70% of 9 ≥ 7 … żółć 東京 é 🚀"},
		"an escape sequence is text":           {"a\x1b[2Jb\x1b]0;title\ab", `a\u001b[2Jb\u001b]0;title\u0007b`, `a\u001b[2Jb\u001b]0;title\u0007b`},
		"a C1 escape sequence is text":         {"a\u009b31mb", `a\u009b31mb`, `a\u009b31mb`},
		"a line feed is a space in a line":     {"a\nb\tc", "a b c", "a\nb\tc"},
		"a carriage return overwrites nothing": {"denied\rallowed", "denied allowed", "denied allowed"},
		"other separators separate no lines":   {"a\u2028b\u2029c\u0085d\u00a0e", "a b c d e", "a b c d e"},
		"a backspace, a DEL and a NUL":         {"a\bb\x7fc\x00", `a\u0008b\u007fc\u0000`, `a\u0008b\u007fc\u0000`},
		"direction overrides":                  {"a\u202eb\u202cc\u2066d\u2069\u200f", `a\u202eb\u202cc\u2066d\u2069\u200f`, `a\u202eb\u202cc\u2066d\u2069\u200f`},
		"zero-width characters":                {"ad\u200bmin\ufeff\u2060\u00ad", `ad\u200bmin\ufeff\u2060\u00ad`, `ad\u200bmin\ufeff\u2060\u00ad`},
		"invisible letters and marks":          {"a\u3164b\u034fc\ufe0f\u115f", `a\u3164b\u034fc\ufe0f\u115f`, `a\u3164b\u034fc\ufe0f\u115f`},
		"tags, beyond 16 bits":                 {"a\U000e0041", `a\U000e0041`, `a\U000e0041`},
		"private use":                          {"a\ue000", `a\ue000`, `a\ue000`},
		"invalid UTF-8":                        {"a\xffb\xc3", `a\xffb\xc3`, `a\xffb\xc3`},
		"the replacement character itself":     {"a\ufffd", "a\ufffd", "a\ufffd"},
		"nothing":                              {"", "", ""},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := Line(c.in); got != c.line {
				t.Errorf("Line(%q) = %q, want %q", c.in, got, c.line)
			}
			if got := Text(c.in); got != c.text {
				t.Errorf("Text(%q) = %q, want %q", c.in, got, c.text)
			}
		})
	}
}

func TestWriterKeepsSequences(t *testing.T) {
	var out bytes.Buffer
	w := Writer{To: &out, Keep: []string{"\x1b[1m", "\x1b[0m"}}
	in := "\x1b[1mNAME\x1b[0m\tż\nann\x1b[8mhidden\x1b[1m\x1b\u202e"
	if n, err := io.WriteString(w, in); n != len(in) || err != nil {
		t.Errorf("Write() = %d, %v, want %d", n, err, len(in))
	}
	if want := "\x1b[1mNAME\x1b[0m\tż\nann" + `\u001b[8mhidden` + "\x1b[1m" + `\u001b\u202e`; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if Unwrap(Writer{To: w}) != io.Writer(&out) || Unwrap(&out) != io.Writer(&out) {
		t.Error("Unwrap() did not return the buffer")
	}
}

type leaf struct {
	Name    string
	private string
}

type tree struct {
	Leaf    leaf
	Pointer *leaf
	Slice   []leaf
	Map     map[string]*string
	Any     any
	Raw     json.RawMessage
	At      metav1.Time
	Array   [1]string
	Nothing *leaf
	None    []string
}

func TestValueCopiesItsArgument(t *testing.T) {
	text := "b\n"
	at := metav1.NewTime(time.Unix(1_800_000_000, 0))
	in := tree{
		Leaf: leaf{"a\x1b", "\x1b"}, Pointer: &leaf{Name: "a\x1b"}, Slice: []leaf{{Name: "a\x1b"}}, Map: map[string]*string{"k\n": &text},
		Any: []string{"a\u202e"}, Raw: json.RawMessage(`"\u202e"`), At: at, Array: [1]string{"\a"},
	}
	b := "b "
	want := tree{
		Leaf: leaf{`a\u001b`, "\x1b"}, Pointer: &leaf{Name: `a\u001b`}, Slice: []leaf{{Name: `a\u001b`}}, Map: map[string]*string{"k ": &b},
		Any: []string{`a\u202e`}, Raw: json.RawMessage(`"\u202e"`), At: at, Array: [1]string{`\u0007`},
	}
	if diff := cmp.Diff(want, Value(in), cmp.AllowUnexported(leaf{})); diff != "" {
		t.Errorf("Value() (-want +got):\n%s", diff)
	}
	if in.Pointer.Name != "a\x1b" || in.Slice[0].Name != "a\x1b" || text != "b\n" {
		t.Errorf("Value() changed its argument to %+v, %q", in, text)
	}
}

func wantShown(t *testing.T, what, text string) {
	t.Helper()
	for i, r := range text {
		if !IsShown(r) && r != '\n' && r != '\t' || r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd") {
			t.Errorf("%s contains %U: %q", what, r, text)
			return
		}
	}
}

func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{"", "ann", "a\x1b[2J\u202e\n", "- a: b\n# c", "\U000e0041\ufeff", "a\xffb", "|\n  x\t", "\u2028 'q' \"", strings.Repeat("long words\u200b ", 30)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line := Line(s)
		wantShown(t, "Line", line)
		wantShown(t, "Text", Text(s))
		if strings.ContainsAny(line, "\n\t") {
			t.Errorf("Line(%q) = %q has several lines", s, line)
		}
		if Line(line) != line || Text(line) != line {
			t.Errorf("Line(%q) = %q, want it printable", s, line)
		}
		var out bytes.Buffer
		if _, err := io.WriteString(Writer{To: &out}, s); err != nil || out.String() != Text(s) {
			t.Errorf("Writer wrote %q of %q, want %q (%v)", out.String(), s, Text(s), err)
		}
		wantExact(t, s)
	})
}

// wantExact checks that structured output contains the exact text, as far as JSON can.
func wantExact(t *testing.T, s string) {
	t.Helper()
	s = strings.ToValidUTF8(s, "\ufffd")
	key := strings.ToValidUTF8("x"+s[:min(len(s), 100)], "\ufffd") // YAML has no simple keys of more than 1,024 characters
	value := map[string]any{"plain": s, "list": []any{s, map[string]any{"k": s}}, key: "key"}
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	asJSON := JSON(raw)
	asYAML, err := YAML(value)
	if err != nil {
		t.Fatalf("YAML(%q): %v", s, err)
	}
	wantShown(t, "JSON", string(asJSON))
	wantShown(t, "YAML", string(asYAML))
	for what, read := range map[string]func(any) error{
		"JSON": func(to any) error { return json.Unmarshal(asJSON, to) }, "YAML": func(to any) error { return yaml.UnmarshalStrict(asYAML, to) },
	} {
		var got map[string]any
		if err := read(&got); err != nil {
			t.Fatalf("cannot parse %s of %q: %v\n%s%s", what, s, err, asJSON, asYAML)
		}
		if diff := cmp.Diff(value, got); diff != "" {
			t.Errorf("%s of %q is another value (-want +got):\n%s", what, s, diff)
		}
	}
}
