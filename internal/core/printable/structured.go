package printable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	yamlnode "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// JSON returns JSON that decodes to the same value, with an escape for each character that cannot be shown. text must be JSON.
func JSON(text []byte) []byte {
	return escapeText(text, func(r rune) string {
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// YAML returns a value in the format of sigs.k8s.io/yaml. Strings with characters that cannot be shown are in double quotes, with
// escapes for these characters. It decodes to the same value.
func YAML(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	// The JSON is parsed as YAML, which has no raw DEL. YAML has no surrogate pairs, so these escapes are code points.
	text, err := yaml.JSONToYAML(escapeText(raw, codePoint))
	if err != nil || isAllShown(text) {
		return text, err
	}
	document := yamlnode.Node{}
	if err := yamlnode.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("read YAML to escape it: %w", err)
	}
	quote(&document)
	var out bytes.Buffer
	encoder := yamlnode.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(&document); err != nil {
		return nil, fmt.Errorf("write YAML with escapes: %w", err)
	}
	return escapeText(out.Bytes(), codePoint), nil
}

func codePoint(r rune) string {
	if r > 0xffff {
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// quote puts scalars that need escapes into double quotes.
func quote(n *yamlnode.Node) {
	if n.Kind == yamlnode.ScalarNode && !isAllShown([]byte(n.Value)) {
		n.Style = yamlnode.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		quote(child)
	}
}

// isLayout reports whether a character is white space between tokens of JSON and YAML. Within strings, only YAML has such characters
// unescaped.
func isLayout(r rune) bool { return r == '\n' || r == '\t' }

// isAllShown reports whether a text consists of shown characters and layout.
func isAllShown(text []byte) bool {
	return !bytes.ContainsFunc(text, func(r rune) bool { return !IsShown(r) && !isLayout(r) })
}

// escapeText replaces each character of a text that cannot be shown by its escape.
func escapeText(text []byte, escape func(rune) string) []byte {
	if isAllShown(text) {
		return text
	}
	var b bytes.Buffer
	for len(text) > 0 {
		r, width := utf8.DecodeRune(text)
		if IsShown(r) || isLayout(r) {
			b.Write(text[:width])
		} else {
			b.WriteString(escape(r))
		}
		text = text[width:]
	}
	return b.Bytes()
}
